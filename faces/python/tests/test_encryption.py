"""Databases that are encrypted by a key of the program's."""

import asyncio
import os
import pathlib

import pytest

import evendb
import evendb.aio
import evendb.dbm
from evendb import shelve
from evendb.cache import Cache

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))


def contents(path):
    return b"".join(file.read_bytes() for file in pathlib.Path(path).rglob("*") if file.is_file())


def test_nothing_is_in_the_open(path, tmp_path):
    for place, key in [(path, KEY), (tmp_path / "plain", None)]:
        with evendb.open(place, encryption_key=key) as db:
            db[b"secret name"] = b"secret value"
            db.keyspace("secret room")[b"a"] = b"1"
            db.flush()
        found = contents(place)
        assert (b"secret" in found) is (key is None)
    with evendb.open(path, "r", encryption_key=bytearray(KEY)) as db:
        assert db[b"secret name"] == b"secret value"
    with evendb.open(path, "n", encryption_key=memoryview(KEY)) as db:
        assert len(db) == 0


def test_wrong_keys(path, tmp_path):
    evendb.open(path, encryption_key=KEY).close()
    before = contents(path)
    for wrong in (None, OTHER, [OTHER]):
        for mode in ("c", "w", "r", "beside"):
            with pytest.raises(evendb.WrongKey):
                evendb.open(path, mode, encryption_key=wrong)
        with pytest.raises(evendb.WrongKey):
            evendb.verify(path, encryption_key=wrong)
    assert contents(path) == before
    evendb.open(tmp_path / "plain").close()
    with pytest.raises(evendb.WrongKey):
        evendb.open(tmp_path / "plain", encryption_key=KEY)
    assert evendb.verify(path, encryption_key=KEY)["sound"]


def test_what_is_no_key(path):
    for wrong in (b"", b"short", KEY + b"x", [], [KEY, b""], ()):
        with pytest.raises(ValueError, match="encryption_key"):
            evendb.open(path, encryption_key=wrong)
    for wrong in ("text", 5, [None], {KEY: 1}, [KEY, "x" * 32]):
        with pytest.raises(TypeError, match="encryption_key"):
            evendb.open(path, encryption_key=wrong)
    assert not path.exists()
    with pytest.raises(TypeError) as told:
        evendb.open(path, encryption_key=KEY.hex())
    assert KEY.hex() not in str(told.value)


def test_another_key(path, tmp_path):
    with evendb.open(path, encryption_key=KEY) as db:
        db[b"a"] = b"1"
        db.backup(tmp_path / "backups")
    with evendb.open(path, encryption_key=[OTHER, KEY]) as db:
        db.rotate_key()
        assert db[b"a"] == b"1"
        db.fork(tmp_path / "fork", copy_if_needed=True)
    evendb.restore(tmp_path / "backups", tmp_path / "old")
    for place, key, wrong in [(path, OTHER, KEY), (tmp_path / "fork", OTHER, KEY),
                              (tmp_path / "old", KEY, OTHER)]:
        with pytest.raises(evendb.WrongKey):
            evendb.open(place, encryption_key=wrong)
        with evendb.open(place, encryption_key=key) as db:
            assert db[b"a"] == b"1"
    with evendb.open(tmp_path / "plain") as db, pytest.raises(evendb.WrongKey):
        db.rotate_key()


def test_the_other_modules_pass_it_on(tmp_path):
    with evendb.dbm.open(str(tmp_path / "dbm"), "c", encryption_key=KEY) as store:
        store["secret"] = "x"
    assert b"secret" not in contents(tmp_path / "dbm")
    with pytest.raises(evendb.dbm.error):
        evendb.dbm.open(str(tmp_path / "dbm"), "w")
    with shelve.open(str(tmp_path / "shelf"), encryption_key=KEY) as shelf:
        shelf["secret"] = ["secret"]
    with shelve.open(str(tmp_path / "shelf"), encryption_key=KEY) as shelf:
        assert shelf["secret"] == ["secret"]
    assert b"secret" not in contents(tmp_path / "shelf")

    async def main():
        async with await evendb.aio.open(tmp_path / "aio", encryption_key=KEY) as db:
            await db.put(b"secret", b"secret", durability="sync")
            return await db.get(b"secret")

    assert asyncio.run(main()) == b"secret"
    assert b"secret" not in contents(tmp_path / "aio")
    # Large values of a cache are files of their own, in the open: so it has no key at all.
    with pytest.raises(TypeError, match="cannot be encrypted"):
        Cache(tmp_path / "cache", store_encryption_key=KEY)
    assert not os.path.exists(tmp_path / "cache")
