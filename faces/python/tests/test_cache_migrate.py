"""`migrate` copies what diskcache has written: a table of SQLite, and files."""

import json
import os
import pathlib
import pickle
import pickletools
import random
import sqlite3
import time
import zlib

import pytest

import evendb
from evendb.cache import (
    Cache,
    Deque,
    EmptyDirWarning,
    FanoutCache,
    ForeignDirectory,
    Index,
    JSONDisk,
    UnknownFileWarning,
    migrate,
)
from evendb.cache._plain import NotPlain, plain_data

SETTINGS = {"size_limit": 2**30, "eviction_policy": "least-recently-stored", "cull_limit": 10,
            "statistics": 0, "count": 0, "size": 0, "hits": 5, "misses": 6}


def make_diskcache(folder, rows, **settings):
    """A folder as diskcache 5.6.3 writes it. A row: key, raw, expiry, tag, mode, file, value."""
    os.makedirs(folder)
    connection = sqlite3.connect(folder / "cache.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE Settings (key TEXT NOT NULL UNIQUE, value)")
    for pair in {**SETTINGS, **settings}.items():
        connection.execute("INSERT INTO Settings VALUES (?, ?)", pair)
    connection.execute(
        "CREATE TABLE Cache (rowid INTEGER PRIMARY KEY, key BLOB, raw INTEGER, store_time REAL,"
        " expire_time REAL, access_time REAL, access_count INTEGER DEFAULT 0, tag BLOB,"
        " size INTEGER DEFAULT 0, mode INTEGER DEFAULT 0, filename TEXT, value BLOB)"
    )
    connection.execute("BEGIN")
    for key, raw, expire, tag, mode, name, value in rows:
        if name is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(value)
            value = None
        connection.execute(
            "INSERT INTO Cache (key, raw, store_time, expire_time, access_time, tag, mode,"
            " filename, value) VALUES (?, ?, 1.0, ?, 1.0, ?, ?, ?, ?)",
            (key, raw, expire, tag, mode, name, value),
        )
    connection.execute("COMMIT")
    connection.close()


def plain(key, value, expire=None, tag=None):
    return key, 1, expire, tag, 1, None, value


def test_keys_values_expiry_and_tags_go_over(tmp_path):
    """An existing folder moves by one call, and the report says what was left."""
    later = time.time() + 1000.5
    rows = [
        plain("text", "\u00e9"), plain(b"bytes", b"\0"), plain(7, 8), plain(1.5, 2.5),
        plain("tagged", 1, tag="red"), plain("tagged2", 1, tag=9), plain("expires", 1, later),
        plain("expired", 1, 5.0), ("file", 1, None, None, 2, "aa/bb/c.val", b"x" * 50_000),
        ("filetext", 1, None, None, 3, "aa/bb/d.val", "\u00e9".encode() * 20_000),
        ("pickled", 1, None, None, 4, None, pickle.dumps({1, 2})),
        ("gone", 1, None, None, 2, "aa/bb/gone.val", b"y"),
        ("none", 1, None, None, 2, "../x", b"y"),
    ]
    make_diskcache(tmp_path / "old", rows, size_limit=5_000_000, cull_limit=3)
    os.remove(tmp_path / "old/aa/bb/gone.val")
    before = sorted(os.listdir(tmp_path / "old"))
    report = migrate(tmp_path / "old", tmp_path / "new")
    assert (report.copied, report.pickled, report.expired, report.unreadable) == (9, 1, 1, 2)
    assert "size_limit 5000000" in str(report)
    assert '1 pickled objects (codec="pickle" would copy them)' in str(report)
    assert before == [name for name in sorted(os.listdir(tmp_path / "old")) if "-" not in name]
    with Cache(tmp_path / "new") as cache:
        assert list(cache) == ["text", b"bytes", 7, 1.5, "tagged", "tagged2", "expires", "file",
                               "filetext"]
        assert [cache["text"], cache[b"bytes"], cache[7], cache[1.5]] == ["\u00e9", b"\0", 8, 2.5]
        assert cache.get("tagged", tag=True) == (1, "red")
        assert cache.get("expires", expire_time=True) == (1, later)
        assert cache["file"] == b"x" * 50_000 and cache["filetext"] == "\u00e9" * 20_000
        assert (cache.size_limit, cache.cull_limit) == (5_000_000, 3)
        assert cache.evict(9) == 1 and cache.check() == []


def test_the_call_of_the_page_migrates(tmp_path, monkeypatch, capsys):
    """The second example of docs/python-cache.md."""
    make_diskcache(tmp_path / "old.directory", [plain("key", "value")])
    places = [folder / "docs/python-cache.md" for folder in pathlib.Path(__file__).parents]
    page = next(place for place in places if place.exists()).read_text()
    code = page.split("```python\n")[2].split("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "python-cache.md", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.startswith("1 rows copied; skipped: 0 pickled")
    with Cache("new.directory") as cache:
        assert cache["key"] == "value"


def test_pickled_rows_when_they_are_asked_for(tmp_path):
    """What JSON takes is JSON in the new cache, so that later readers need no pickle."""
    key = pickle.dumps(("f", 1, None))
    rows = [(key, 0, None, None, 4, None, pickle.dumps({"a": (1, 2)})),
            ("set", 1, None, None, 4, None, pickle.dumps({1, 2})),
            ("file", 1, None, None, 4, "a.val", pickle.dumps([0] * 50_000)),
            ("broken", 1, None, None, 4, None, b"no pickle")]
    make_diskcache(tmp_path / "old", rows)
    report = migrate(tmp_path / "old", tmp_path / "new", codec="pickle")
    assert (report.copied, report.pickled, report.unreadable) == (3, 0, 1)
    with Cache(tmp_path / "new", codec="pickle") as cache:
        assert cache["set"] == {1, 2}
    with Cache(tmp_path / "new") as cache:
        assert cache[("f", 1, None)] == {"a": (1, 2)} and cache["file"] == [0] * 50_000


def test_a_fanout_with_rooms(tmp_path):
    """Shards, and the caches, deques and indexes in them."""
    old = tmp_path / "old"
    for shard in range(3):
        make_diskcache(old / f"00{shard}", [plain(shard, f"shard {shard}")], size_limit=1000.0)
    make_diskcache(old / "cache/inner/most", [plain("a", 1)])
    start = 500_000_000_000_000
    rows = [plain(start + place, value) for place, value in enumerate("cab")]
    make_diskcache(old / "deque/jobs", rows, eviction_policy="none")
    make_diskcache(old / "index/names", [plain("z", 1), plain("a", 2)], eviction_policy="none")
    with pytest.raises(ForeignDirectory, match="migrate"):
        FanoutCache(old)
    report = migrate(old, tmp_path / "new")
    assert report.copied == 9 and report.settings["size_limit"] == 3000
    assert report.rooms == ["", "cache/inner/most", "deque/jobs", "index/names"]
    with FanoutCache(tmp_path / "new", shards=3) as cache:
        assert cache.size_limit == 1000 and sorted(cache) == [0, 1, 2] and cache[2] == "shard 2"
        assert cache.cache("inner/most")["a"] == 1
        assert list(cache.deque("jobs")) == ["c", "a", "b"]
        assert list(cache.index("names").items()) == [("z", 1), ("a", 2)]


def test_deque_and_index_in_their_own_folders(tmp_path):
    """A Deque and an Index of diskcache are a cache each, with the policy "none"."""
    start = 500_000_000_000_000
    rows = [plain(start - 1, "first"), plain(start, "second")]
    make_diskcache(tmp_path / "deque", rows, eviction_policy="none")
    make_diskcache(tmp_path / "index", [plain("b", 1), plain("a", 2)], eviction_policy="none")
    migrate(tmp_path / "deque", tmp_path / "deque")
    migrate(tmp_path / "index", tmp_path / "index")
    deque = Deque(directory=str(tmp_path / "deque"))
    assert list(deque) == ["first", "second"]
    deque.append("third")
    assert deque.peek() == "third"
    assert Index(str(tmp_path / "index")) == {"b": 1, "a": 2}


def test_a_folder_of_a_json_disk(tmp_path):
    """diskcache's JSONDisk has JSON, compressed, for keys and values."""
    def packed(value):
        return zlib.compress(json.dumps(value).encode())

    rows = [plain(packed(["a", 1]), packed({"b": 2})),
            (packed("file"), 1, None, None, 2, "a.val", packed("x" * 9))]
    make_diskcache(tmp_path / "old", rows)
    report = migrate(tmp_path / "old", tmp_path / "new", disk=JSONDisk)
    assert (report.copied, report.unreadable) == (2, 0)
    with Cache(tmp_path / "new", disk=JSONDisk) as cache:
        assert cache[["a", 1]] == {"b": 2} and cache["file"] == "x" * 9


def test_an_old_folder_is_not_taken_for_an_empty_one(tmp_path):
    """After a change of the library an old folder could not be used: it is refused by its name."""
    rows = [plain("a", 1), ("b", 1, None, None, 2, "aa/bb/c.val", b"x" * 50_000)]
    make_diskcache(tmp_path / "old", rows)
    with pytest.raises(ForeignDirectory, match="migrate"):
        Cache(tmp_path / "old")
    with pytest.raises(ForeignDirectory, match="migrate"):
        Index(str(tmp_path / "old"))
    assert sorted(os.listdir(tmp_path / "old")) == ["aa", "cache.db"]
    migrate(tmp_path / "old", tmp_path / "old")
    with Cache(tmp_path / "old") as cache:
        assert cache["a"] == 1 and cache["b"] == b"x" * 50_000
        assert cache.check(fix=True) == []
    assert (tmp_path / "old/cache.db").exists() and (tmp_path / "old/aa/bb/c.val").exists()


def test_a_migration_can_be_done_again(tmp_path):
    """Rows have the same keys the second time, and counts and sizes agree."""
    make_diskcache(tmp_path / "old", [plain(number, number) for number in range(1200)])
    migrate(tmp_path / "old", tmp_path / "new")
    migrate(tmp_path / "old", tmp_path / "new")
    with Cache(tmp_path / "new") as cache:
        assert list(cache) == list(range(1200)) and cache.check() == []


def test_what_is_no_cache_is_refused(tmp_path):
    """A folder without a cache, and a damaged one."""
    with pytest.raises(FileNotFoundError, match="holds no cache"):
        migrate(tmp_path, tmp_path / "new")
    (tmp_path / "cache.db").write_bytes(b"no database" * 1000)
    with pytest.raises(evendb.Error, match="no readable cache"):
        migrate(tmp_path, tmp_path / "new")


PLAIN = [None, True, False, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1], {}, {"a": 1},
         [1.5, -1, 2**31, -(2**40), 2**70, -(2**9000), "\u00e9", "\ud800", "x" * 300],
         [b"y" * 300, b""],
         {"a": ["a", "a", ("a", None)], ("t", 2): {b"k": True}}, [[[[]]]], list(range(3000)),
         {str(number): number for number in range(2000)}]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("optimize", [False, True])
def test_plain_pickles_are_read_without_unpickling(tmp_path, monkeypatch, protocol, optimize):
    """None, True, lists, tuples and dicts are pickles in diskcache: most rows were skipped."""
    # Bytes are a call of a function in protocol 2.
    values = [value for value in PLAIN if protocol > 2 or "b'" not in ascii(value)]
    rows = []
    for number, value in enumerate(values):
        data = pickle.dumps(value, protocol)
        data = pickletools.optimize(data) if optimize else data
        rows.append((number, 1, None, None, 4, None, data))
    rows.append((pickle.dumps(("f", 1, None), protocol), 0, None, None, 1, None, "value"))
    make_diskcache(tmp_path / "old", rows)
    monkeypatch.setattr(pickle, "loads", None)
    report = migrate(tmp_path / "old", tmp_path / "new")
    assert (report.copied, report.pickled) == (len(rows), 0) and len(values) >= 15
    with Cache(tmp_path / "new") as cache:
        assert cache[("f", 1, None)] == "value"
        for number, value in enumerate(values):
            assert cache[number] == value and type(cache[number]) is type(value)


def test_pickles_of_more_than_plain_data():
    """No name is looked up, nothing is called, and no pickle takes more than its length."""
    shared = [0]
    for _ in range(40):
        shared = [shared, shared]
    looped = []
    looped.append(looped)
    refused = [{1}, frozenset(), bytearray(b"x"), len, 1j, shared, looped, Cache, ValueError()]
    for protocol in (0, 2, 4, 5):
        for value in refused:
            with pytest.raises(NotPlain):
                plain_data(pickle.dumps(value, protocol))
    damaged = [b"", b".", b"N", b"NN.", b"(.", b"N)u.", b"]N", b"](Nu.", b"}(Ne.", b"}N.s.",
               b"h\x05.", b"\x85.", b"(]e.", b"}(]Nu.", b"r\xff\xff\xff\x7f.",
               b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", b"cos\nsystem\n(S'true'\ntR.",
               b"Pid\n.", b"\x82\x01.", b"}(NNNu.", None]
    for data in damaged:
        with pytest.raises(NotPlain):
            plain_data(data)
    # A text of 1 MB that is used again 1,000 times by two bytes each.
    text = b"X" + (10**6).to_bytes(4, "little") + b"x" * 10**6 + b"q\x00"
    assert len(plain_data(b"](" + text + b"h\x00" * 50 + b"e.")) == 51
    with pytest.raises(NotPlain, match="very often"):
        plain_data(b"](" + text + b"h\x00" * 1000 + b"e.")
    # A huge place in the memo takes no memory; deep nesting takes no stack.
    assert plain_data(b"Nr\xff\xff\xff\x7f.") is None
    assert plain_data(b"]" * 100_000 + b"a" * 99_999 + b".") != []


def test_random_bytes_are_no_plain_data():
    """Whatever the bytes are: a value, or NotPlain."""
    draw = random.Random(7)
    opcodes = [opcode.code.encode("latin-1") for opcode in pickletools.opcodes]
    read = 0
    for _ in range(5000):
        parts = draw.choices(opcodes + [b"\x01", b"\x00"], k=draw.randrange(1, 12))
        data = b"".join(parts) + b"." * draw.randrange(2)
        try:
            plain_data(data)
            read += 1
        except NotPlain:
            pass
    assert read > 0


@pytest.mark.parametrize("how", [{}, {"codec": "pickle"}])
def test_large_values_are_files_after_a_migration_too(tmp_path, how):
    """`read` gave bytes in the place of a file, under codec="pickle"; and diskcache's files go."""
    rows = [("file", 1, None, None, 2, "aa/bb/c.val", b"x" * 2**20),
            ("text", 1, None, None, 3, "aa/bb/d.val", b"y" * 2**20),
            ("list", 1, None, None, 4, "aa/bb/e.val", pickle.dumps(["z" * 2**20])),
            ("less", 1, None, None, 2, "aa/bb/f.val", b"x" * 40_000)]
    make_diskcache(tmp_path / "old", rows)
    report = migrate(tmp_path / "old", tmp_path / "old", **how)
    assert report.copied == 4
    for name in os.listdir(tmp_path / "old"):
        if name.startswith("cache.db"):
            os.remove(tmp_path / "old" / name)
    with Cache(tmp_path / "old", **how) as cache:
        kinds = {found.category for found in cache.check(fix=True)}
        assert kinds == {UnknownFileWarning, EmptyDirWarning}
        assert cache.check() == [] and not (tmp_path / "old/aa/bb").exists()
        with cache.read("file") as file:
            assert os.path.getsize(file.name) == 2**20
        assert cache.read("less").read() == b"x" * 40_000
        assert cache["text"] == "y" * 2**20 and cache["list"] == ["z" * 2**20]
        assert len(list((tmp_path / "old").rglob("*.val"))) == 3
