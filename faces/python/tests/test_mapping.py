"""The mapping itself, as a dictionary's user knows it."""

import collections.abc
import copy
import pickle

import pytest

import evendb


def test_a_database_is_a_dictionary_of_bytes(db):
    db[b"b"] = b"2"
    db[b"a"] = b"1"
    assert db[b"a"] == b"1"
    assert b"a" in db and b"c" not in db
    assert len(db) == 2 and list(db) == [b"a", b"b"]
    assert list(reversed(db)) == [b"b", b"a"]
    del db[b"a"]
    with pytest.raises(KeyError) as missing:
        db[b"a"]
    assert missing.value.args == (b"a",)
    with pytest.raises(KeyError):
        del db[b"a"]
    assert db.get(b"a") is None and db.get(b"a", 7) == 7
    assert db == {b"b": b"2"} and db != {b"b": b"3"} and db != {} and db == dict(db)


def test_reopening_finds_what_was_written(path):
    with evendb.open(path) as db:
        db[b"k"] = b"v"
        db.keyspace("other")[b"k"] = b"w"
    with evendb.open(path, mode="r") as db:
        assert db[b"k"] == b"v" and db.keyspace("other", create=False)[b"k"] == b"w"
        with pytest.raises(evendb.ReadOnly):
            db[b"k"] = b""


# trouble-python 2
@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.__setitem__("é1", b""),
        lambda db: db.__setitem__(b"k", "text"),
        lambda db: "a" in db,
        lambda db: db.get("a"),
        lambda db: db.items(prefix="a"),
        lambda db: db.items(start="a"),
        lambda db: db.keys(stop="a"),
        lambda db: db.delete_prefix("a"),
        lambda db: db.delete_range("a", b"b"),
        lambda db: db.pop("a"),
        lambda db: db.multi_get(["a"]),
        lambda db: db.update({"a": b""}),
        lambda db: db.add("a", b""),
        lambda db: db.setdefault(b"a", None),
        lambda db: db.keyspace("other").put("a", b""),
        lambda db: db.batch().put("a", b""),
        lambda db: db.transaction().put("a", b""),
        lambda db: db.put(1, b""),
        lambda db: db.put(b"k", None),
    ],
)
def test_text_is_refused_by_name_and_nothing_is_written(db, call):
    with pytest.raises(TypeError, match="must be bytes-like, not (str|int|NoneType)"):
        call(db)
    assert len(db) == 0 and len(db.keyspace("other")) == 0


# trouble-python 5
def test_it_passes_as_a_mapping_and_not_as_a_sequence(db):
    assert isinstance(db, collections.abc.MutableMapping)
    assert isinstance(db.keyspace("k"), collections.abc.MutableMapping)
    assert isinstance(db.snapshot(), collections.abc.Mapping)
    assert not isinstance(db.snapshot(), collections.abc.MutableMapping)
    assert not isinstance(db, collections.abc.Sequence)
    match db:
        case []:
            raise AssertionError("it is no sequence")
        case {}:
            pass
    db[b"k"] = b"v"
    match db:
        case {b"k": value}:
            assert value == b"v"
    with pytest.raises(TypeError):
        db[0]
    with pytest.raises(TypeError):
        hash(db)
    for name in dir(dict):
        if name not in {"copy", "fromkeys", "__class_getitem__", "__ior__", "__or__", "__ror__"}:
            assert hasattr(db, name), name


# trouble-python 5, 8: counted in look-ups of the store
def test_in_is_one_look_up_and_bool_one_seek(db):
    db.update({b"%06d" % number: b"" for number in range(20_000)})

    def lookups():
        return sum(count for name, count in db.stats().items() if name.startswith("gets."))

    before = lookups()
    assert b"015000" in db
    assert b"x" not in db
    assert lookups() - before == 2
    scanned = db.stats()["scanned_records"]
    assert bool(db) and db
    assert db.stats()["scanned_records"] - scanned <= 2
    db.clear()
    assert not db and len(db) == 0


# trouble-python 7
def test_an_iteration_is_of_one_moment(db):
    db.update({b"a": b"1", b"b": b"2"})
    view = db.keys()
    for key in db:
        db[key + b"x"] = b""
    assert list(view) == [b"a", b"ax", b"b", b"bx"]
    for key in view:
        del db[key]
    assert list(view) == [] and not view


def test_bounds_of_views(db):
    keys = [b"a", b"b1", b"b2", b"b3", b"c", b"\xff", b"\xff\xff"]
    db.update((key, key.upper()) for key in keys)
    assert list(db.keys(prefix=b"b")) == [b"b1", b"b2", b"b3"]
    assert list(db.keys(prefix=b"\xff")) == [b"\xff", b"\xff\xff"]
    assert list(db.keys(prefix=b"")) == keys
    assert list(db.keys(start=b"b2", stop=b"c")) == [b"b2", b"b3"]
    assert list(db.keys(start=b"c", stop=b"b")) == []
    assert list(db.keys(prefix=b"b", start=b"b2")) == [b"b2", b"b3"]
    assert list(db.keys(prefix=b"b", stop=b"b2")) == [b"b1"]
    assert list(db.keys(prefix=b"b", start=b"a", stop=b"x")) == [b"b1", b"b2", b"b3"]
    assert list(db.values(prefix=b"b", reverse=True, limit=2)) == [b"B3", b"B2"]
    assert list(db.items(limit=1)) == [(b"a", b"A")]
    assert list(db.items(limit=0)) == []
    assert len(db.keys(prefix=b"b")) == 3 and len(db.keys(limit=2)) == 2
    assert list(reversed(db.keys(prefix=b"b"))) == [b"b3", b"b2", b"b1"]
    assert (b"a", b"A") in db.items() and (b"a", b"B") not in db.items()
    assert b"b1" in db.keys(prefix=b"b") and b"a" not in db.keys(prefix=b"b")
    assert b"A" in db.values() and b"a" not in db.values()
    assert db.keys() & {b"a", b"z"} == {b"a"} and db.keys() == set(keys)
    assert {b"a", b"z"} & db.keys() == {b"a"} and {b"a", b"z"} - db.keys() == {b"z"}
    assert db.keys() - {b"a"} == set(keys[1:]) == {b"a"} ^ db.keys()
    assert {b"z"} | db.keys(limit=1) == {b"a", b"z"} and db.keys().isdisjoint([b"z"])
    with pytest.raises(ValueError):
        db.keys(limit=-1)


def test_long_iterations_of_all_kinds(db):
    records = {b"%05d" % number: b"v" * (number % 700) for number in range(5_000)}
    db.update(records)
    for at in [db, db.snapshot(), db.transaction()]:
        assert dict(at.items()) == records
        assert list(at) == sorted(records)
        assert list(at.items(reverse=True)) == sorted(records.items(), reverse=True)
        assert list(at.values(limit=3_000)) == [records[key] for key in sorted(records)[:3_000]]
        assert len(at) == 5_000


def test_a_record_that_is_larger_than_a_chunk(db):
    large = bytes(range(256)) * 8_000
    db.update({b"a": b"1", b"b": large, b"c": b"3"})
    assert list(db.values()) == [b"1", large, b"3"]
    assert list(db.values(reverse=True)) == [b"3", large, b"1"]


def test_changes_of_one_key_are_atomic(db):
    assert db.setdefault(b"k", b"1") == b"1" and db.setdefault(b"k", b"2") == b"1"
    assert db.add(b"k", b"3") is False and db.add(b"l", b"3") is True
    assert db.pop(b"l") == b"3" and db.pop(b"l", None) is None
    with pytest.raises(KeyError):
        db.pop(b"l")
    assert db.compare_and_swap(b"k", b"1", b"5") and not db.compare_and_swap(b"k", b"1", b"6")
    assert db.compare_and_swap(b"k", b"5", None) and b"k" not in db
    db.update([(b"a", b"1"), (b"b", b"2")])
    assert db.popitem() == (b"a", b"1") and db.popitem(last=True) == (b"b", b"2")
    with pytest.raises(KeyError):
        db.popitem()


def test_update_takes_what_dict_takes(db):
    db.update({b"a": b"1"})
    db.update([(b"b", b"2"), [b"c", b"3"]])
    db.update(db.snapshot())
    db.update()
    assert dict(db) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    with pytest.raises(ValueError):
        db.update([(b"x", b"1"), (b"y",)])
    with pytest.raises(TypeError):
        db.update([(b"x", b"1"), 7])
    with pytest.raises(TypeError):
        db.update([(b"x", b"1"), (b"y", "text")])
    assert b"x" not in db
    db |= {b"d": b"4"}
    assert db[b"d"] == b"4"


def test_deletions_of_ranges(db):
    db.update({key: b"" for key in [b"a", b"b", b"c", b"d"]})
    db.delete_range(b"b", b"d")
    assert list(db) == [b"a", b"d"]
    db.delete_range(stop=b"b")
    assert list(db) == [b"d"]
    db.delete_prefix(b"d")
    assert not db
    db.delete(b"not there")


def test_limits_are_typed(db):
    with pytest.raises(evendb.LimitExceeded):
        db[b"k" * 65_536] = b""
    with pytest.raises(ValueError):
        db[b"k"] = b"v" * (17 << 20)
    assert not db


def test_a_value_with_a_time_to_live(db):
    db.put(b"gone", b"v", ttl=0)
    db.put(b"there", b"v", ttl=3600)
    assert b"gone" not in db and b"there" in db
    for ttl in [-1, float("nan"), float("inf")]:
        with pytest.raises(ValueError):
            db.put(b"k", b"", ttl=ttl)
    short = db.keyspace("short", ttl=0.001)
    short[b"k"] = b"v"
    import time

    time.sleep(0.01)
    assert b"k" not in short and len(short) == 0


@pytest.mark.parametrize("make", [pickle.dumps, copy.copy, copy.deepcopy])
def test_nothing_is_pickled(db, make):
    db[b"k"] = b"v"
    for handle in [
        db,
        db.keyspace("k"),
        db.snapshot(),
        db.transaction(),
        db.batch(),
        db.items(),
        iter(db),
    ]:
        with pytest.raises(TypeError, match="pass the path"):
            make(handle)


def test_parts_and_many_at_once(db):
    db[b"k"] = b"0123456789"
    assert db.part(b"k", 2, 5) == b"234" and db.part(b"k", 8, 99) == b"89"
    assert db.part(b"k", 5, 2) == b"" and db.part(b"k", 50, 60) == b""
    assert db.multi_get([b"x", bytearray(b"k")]) == [None, b"0123456789"]
    assert db.multi_get(iter([])) == []
    with pytest.raises(KeyError):
        db.part(b"x", 0, 1)
    with db.transaction() as tx:
        tx[b"k"] = b"abcdef"
        assert tx.part(b"k", 1, 3) == b"bc" and tx.multi_get([b"k", b"x"]) == [b"abcdef", None]
