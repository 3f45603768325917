"""A program that mypy --strict and pyright (strict) must find nothing in; it is also run.

`assert_type` is what `reveal_type` shows, as a demand.
"""

from collections.abc import Mapping, MutableMapping
from typing import Any, assert_type

import evendb
import evendb.dbm
import evendb.shelve


def count(mapping: Mapping[bytes, bytes]) -> int:
    return sum(len(value) for value in mapping.values())


def fill(mapping: MutableMapping[bytes, bytes]) -> None:
    mapping[b"filled"] = b"1"


def reads(db: evendb.Database) -> None:
    assert_type(db[b"k"], bytes)
    assert_type(db.get(b"k"), bytes | None)
    assert_type(db.get(b"k", b""), bytes)
    assert_type(db.get(b"k", 1), bytes | int)
    assert_type(db.multi_get([b"k", bytearray(b"l")]), list[bytes | None])
    assert_type(bytes(db.view(b"k")), bytes)
    assert_type(b"k" in db, bool)
    assert_type(len(db), int)
    for key in db:
        assert_type(key, bytes)
    for key in reversed(db):
        assert_type(key, bytes)
    for key, value in db.items(prefix=b"k", start=b"k", stop=b"l", reverse=True, limit=10):
        assert_type((key, value), tuple[bytes, bytes])
    assert_type(list(db.keys(limit=1)), list[bytes])
    assert_type(list(db.values()), list[bytes])
    assert count(db) > 0


def writes(db: evendb.Database) -> None:
    db[b"k"] = bytearray(b"v")
    db.put(memoryview(b"k"), b"v", ttl=60.0, durability="sync")
    db.update({b"k": b"v"})
    db.update([(b"l", b"w")])
    assert_type(db.setdefault(b"k", b"x"), bytes)
    assert_type(db.pop(b"none", None), bytes | None)
    assert_type(db.pop(b"l"), bytes)
    assert_type(db.add(b"m", b"v"), bool)
    assert_type(db.popitem(), tuple[bytes, bytes])
    db.delete(b"none")
    db.delete_prefix(b"none")
    db.delete_range(b"y", b"z")
    fill(db)


def several(db: evendb.Database) -> None:
    users = db.keyspace("users", ttl=3600, compression="lz4")
    assert_type(users, evendb.Keyspace)
    with db.batch(durability="process") as batch:
        batch[b"a"] = b"1"
        batch.keyspace("users")[b"ann"] = b"2"
        del batch[b"b"]
    with db.transaction() as tx:
        assert_type(tx.get(b"a"), bytes | None)
        tx[b"a"] = b"2"
        tx.keyspace("users")[b"ben"] = b"3"

    def one_more(tx: evendb.Transaction) -> int:
        number = int(tx.get(b"a", b"0")) + 1
        tx[b"a"] = b"%d" % number
        return number

    assert_type(db.transact(one_more), int)
    with db.snapshot() as then:
        assert_type(then[b"a"], bytes)
        assert_type(then.get(b"none"), bytes | None)
        assert count(then.keyspace("users")) == 2
    assert_type(db.keyspaces(), list[str])
    key = evendb.key(("ann", 1_700_000_000))
    assert_type(key, bytes)
    assert_type(evendb.unkey(key), tuple[Any, ...])


def others(folder: str) -> None:
    with evendb.dbm.open(folder + "/dbm", "c") as db:
        db["a"] = b"1"
        assert_type(db.keys(), list[bytes])
        assert_type(evendb.dbm.whichdb(folder), str | None)
    with evendb.shelve.open(folder + "/shelf", serializer="json") as shelf:
        shelf["a"] = {"b": [1]}
        for key in shelf:
            assert_type(key, str)
        shelf.sync()


def main(folder: str) -> None:
    with evendb.open(folder + "/db", "n", memory_budget="16MiB") as db:
        assert_type(db, evendb.Database)
        db[b"k"] = b"v"
        reads(db)
        writes(db)
        several(db)
    try:
        db.get(b"k")
    except evendb.Closed as error:
        assert isinstance(error, evendb.Error)
    others(folder)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
    print("all of it")
