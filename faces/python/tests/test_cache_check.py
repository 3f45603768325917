"""`check(fix=True)` mends entries, index, counts and files, and tells what it mends."""

import os

import pytest

from evendb.cache import Cache, CodecError, _record as rec

POLICIES = ("none", "least-recently-stored", "least-recently-used", "least-frequently-used")


def texts(cache, fix=False):
    return [str(found.message) for found in cache.check(fix=fix)]


def filled(tmp_path, policy="least-recently-stored"):
    cache = Cache(tmp_path / "cache", eviction_policy=policy)
    for number in range(40):
        cache.set(f"key-{number}", number, expire=1000 + number % 3, tag="even" * (number % 2 == 0))
    for number in range(10):
        cache.get(f"key-{number}")
    cache._room.save_counts()  # The notes of these gets.
    return cache


def raw(cache):
    """All records of the two keyspaces."""
    room = cache._room
    return dict(room.values.items()), dict(room.index.items())


def damage(cache, change):
    """Writes into the keyspaces beside the cache."""
    room = cache._room
    with room.store.db.batch() as batch:
        change(*(batch.keyspace(name) for name in room.names))


@pytest.mark.parametrize("policy", POLICIES)
def test_rows_that_the_index_lacks_are_written_again(tmp_path, policy):
    """Entries without their rows were told, and never iterated, expired, evicted or culled."""
    with filled(tmp_path, policy) as cache:
        before = raw(cache)
        for prefix in rec.INDEXES:
            lost = [key for key in before[1] if key.startswith(prefix)]
            damage(cache, lambda _values, index: [index.delete(key) for key in lost])
            told = texts(cache, fix=True)
            assert len(told) >= len(lost) and texts(cache) == []
            after = raw(cache)
            assert after[0] == before[0]
            if prefix != rec.STAMP:
                assert after[1] == before[1]
            before = after  # Without its stamp an entry counts as never read.
        assert set(cache) == {f"key-{number}" for number in range(40)} and len(cache) == 40
        assert cache.evict("even") == 20 and texts(cache) == []
        if policy != "none":
            cache.reset("size_limit", 0)
            cache.reset("cull_limit", 0)
            assert cache.cull() == 20
        else:
            assert cache.expire(now=1e11) == 20
        assert len(cache) == cache.volume() == 0 and raw(cache)[0] == {} and texts(cache) == []


@pytest.mark.parametrize("policy", POLICIES)
def test_two_entries_with_one_row(tmp_path, policy):
    """The next numbers were lost, and new entries got the rows of old ones."""
    with filled(tmp_path, policy) as cache:
        meta = list(cache._room.meta)
        meta[rec.NEXT_ROW] = meta[rec.NEXT_SEQ] = 5
        damage(cache, lambda _values, index: index.put(rec.META_KEY, rec.META.pack(*meta)))
    with Cache(tmp_path / "cache", cull_limit=0) as cache:
        for number in range(10):
            cache.set(f"new-{number}", number, expire=1000, tag="new")
        told = texts(cache, fix=True)
        assert any("the row of another" in text for text in told)
        assert any("the next row is" in text for text in told)
        assert texts(cache) == []
        wanted = {**{f"key-{n}": n for n in range(40)}, **{f"new-{n}": n for n in range(10)}}
        assert {key: cache[key] for key in cache} == wanted
        assert len(list(cache)) == len(cache) == 50
        cache["another"] = 1
        assert texts(cache) == [] and cache.evict("new") == 10 and cache.evict("even") == 20
        assert len(list(cache)) == 21


def test_a_mend_inside_of_a_transaction(tmp_path):
    """It is a part of the transaction: undone with it, and done with it."""
    with filled(tmp_path) as cache:
        order = [key for key in raw(cache)[1] if key.startswith(rec.ORDER)]
        damage(cache, lambda _values, index: [index.delete(key) for key in order[:7]])
        with pytest.raises(KeyError):
            with cache.transact():
                assert len(texts(cache, fix=True)) == 7 and texts(cache) == []
                raise KeyError
        assert len(texts(cache)) == 7 and len(list(cache)) == 33
        with cache.transact():
            cache["more"] = 1
            assert len(texts(cache, fix=True)) == 7
        assert texts(cache) == [] and len(list(cache)) == len(cache) == 41


@pytest.mark.parametrize(
    "key",
    [b"\x20\xff", b"\x10\x01", b"\x11", b"\x99", b"\x40T(1,", b"\x40J{", b"\x40?",
     b"\x60" + b"h" * 32],
)
def test_a_damaged_key(tmp_path, key):
    """UnicodeDecodeError out of an iteration, and struct.error out of `check`."""
    with filled(tmp_path) as cache:
        record = rec.Fields(2, b"value").record(900, 900)
        damage(cache, lambda values, _index: values.put(key, record))
        with pytest.raises(CodecError):
            list(cache.iterkeys())
        assert len(list(cache)) == 40
        assert any("cannot be read" in text for text in texts(cache, fix=True))
        assert texts(cache) == [] and len(list(cache.iterkeys())) == 40


@pytest.mark.parametrize(
    "record", [b"", b"\x02", b"\x12" + bytes(16), b"\x22" + bytes(16) + b"\xff\xff",
               b"\x42" + bytes(24) + b"\xff", b"\x82" + bytes(16) + b"\0\0\0\x09"]
)
def test_a_damaged_record(tmp_path, record):
    """A record that is cut off: each call says so, others go on, and `check` removes it."""
    with filled(tmp_path) as cache:
        damage(cache, lambda values, _index: values.put(b"\x20key-0", record))
        calls = [lambda: cache["key-0"], lambda: cache.get("key-0", tag=True),
                 lambda: cache.set("key-0", 1), lambda: cache.delete("key-0")]
        for call in calls:
            with pytest.raises(CodecError, match="key-0"):
                call()
        assert cache["key-1"] == 1
        # What goes by the index passes over it.
        assert cache.evict("even") == 19
        cache.reset("size_limit", 0)
        cache["new"] = 1
        told = texts(cache, fix=True)
        assert any("key-0' cannot be read" in text for text in told) and texts(cache) == []
        cache.reset("size_limit", 2**30)
        cache["key-0"] = 5
        assert cache["key-0"] == 5 and texts(cache) == []
        left = list(cache)
        assert "key-0" in left and cache.clear() == len(left) and raw(cache)[0] == {}


def test_clear_passes_over_a_damaged_record(tmp_path):
    """Files of others go, and all records."""
    with Cache(tmp_path / "cache") as cache:
        cache["large"] = b"x" * 2**20
        cache["other"] = 1
        damage(cache, lambda values, _index: values.put(b"\x20other", b"\x02"))
        assert cache.clear() == 2 and texts(cache) == []
        assert os.listdir(cache.directory) == ["cache.evendb"]


def test_a_tag_that_is_too_long_is_named(tmp_path):
    """struct.error, or LimitExceeded about a key that the caller did not know."""
    with Cache(tmp_path / "cache") as cache:
        for length in (59_999, 60_000, 65_500, 70_000):
            tag = "t" * length
            if length < 60_000:
                cache.set("key", 1, tag=tag)
                assert cache.get("key", tag=True) == (1, tag) and cache.evict(tag) == 1
                continue
            for call in (lambda: cache.set("key", 1, tag=tag), lambda: cache.add("key", 1, tag=tag),
                         lambda: cache.push(1, tag=tag), lambda: cache.evict(tag)):
                with pytest.raises(ValueError, match="the tag 'ttt"):
                    call()
        with pytest.raises(TypeError, match="^tag: a builtins.frozenset"):
            cache.set("key", 1, tag=frozenset())
        assert len(cache) == 0 and texts(cache) == []


@pytest.mark.parametrize("mode", ["c", "n"])
def test_the_database_is_its_owners(tmp_path, mode):
    """In a directory that others may read the database was readable by others, too."""
    os.chmod(tmp_path, 0o755)
    before = os.umask(0o022)
    try:
        for _ in range(2):
            with Cache(tmp_path, mode=mode) as cache:
                cache["key"] = 1
            assert os.stat(tmp_path / "cache.evendb").st_mode & 0o777 == 0o700
        # Who opens it for others does not find it closed again.
        os.chmod(tmp_path / "cache.evendb", 0o755)
        with Cache(tmp_path):
            assert os.stat(tmp_path / "cache.evendb").st_mode & 0o777 == 0o755
    finally:
        os.umask(before)


def test_an_opening_that_fails_leaves_no_folder(tmp_path):
    """A folder without a database would be taken for a cache."""
    with pytest.raises((TypeError, ValueError)):
        Cache(tmp_path / "cache", store_no_such_option=1)
    assert os.listdir(tmp_path / "cache") == []
