"""Feeds, loading, copies, figures, typed keys, data frames."""

import threading
import time

import pytest

import evendb


def test_a_feed_gives_every_write(db):
    feed = db.changes(timeout=0)
    other = db.keyspace("other", merge="add-u64")
    db[b"a"] = b"1"
    with db.batch() as batch:
        batch.put(b"b", b"2", ttl=1000)
        batch.delete(b"a")
        batch.keyspace(other).merge(b"n", (7).to_bytes(8, "little"))
    db.delete_range(b"b", b"c")
    changes = list(feed)
    assert [len(change) for change in changes] == [1, 3, 1]
    writes = [write for change in changes for write in change]
    kinds = [(write.kind, write.keyspace, write.key) for write in writes]
    assert kinds[0] == ("put", "default", b"a")
    assert sorted(kinds[1:4]) == [
        ("delete", "default", b"a"),
        ("merge", "other", b"n"),
        ("put", "default", b"b"),
    ]
    assert kinds[4] == ("delete_range", "default", b"b") and writes[4].stop == b"c"
    put = next(write for write in writes if write.key == b"b" and write.kind == "put")
    assert put.value == b"2" and put.expires > time.time()
    merge = next(write for write in writes if write.kind == "merge")
    assert merge.operands == [(7).to_bytes(8, "little")] and merge.value is None
    again = db.changes(since=changes[0].position, timeout=0)
    assert [change.position for change in again] == [change.position for change in changes[1:]]
    assert feed.position == changes[-1].position and feed.lag == 0
    with pytest.raises(evendb.InvalidArgument):
        db.changes(since=b"no position")


def test_a_watch_waits_and_resumes(db):
    watch = db.watch(b"user/")
    assert watch.next(timeout=0.01) is None

    def write():
        time.sleep(0.1)
        db[b"other"] = b""
        db[b"user/1"] = b"Ada"

    writer = threading.Thread(target=write)
    writer.start()
    change = next(watch)
    writer.join()
    assert [write.key for write in change] == [b"user/1"]
    db[b"user/2"] = b""
    resumed = db.changes(change.position, b"user/", timeout=0)
    assert [write.key for change in resumed for write in change] == [b"user/2"]
    then = db.snapshot()
    db[b"user/3"] = b""
    since = db.watch(b"user/", since=then.position(), timeout=0)
    assert [write.key for change in since for write in change] == [b"user/3"]


def test_a_close_ends_a_waiting_feed(path):
    db = evendb.open(path)
    feed, ended = db.changes(), []

    def follow():
        try:
            next(feed)
        except evendb.Closed as error:
            ended.append(error)

    follower = threading.Thread(target=follow)
    follower.start()
    time.sleep(0.05)
    db.close()
    follower.join(10)
    assert len(ended) == 1


def test_ingest(db):
    db[b"a"] = b"old"
    figures = db.ingest((b"%06d" % number, b"v" * 30) for number in range(5_000))
    assert figures["records"] == 5_000 and len(db) == 5_001
    with pytest.raises(evendb.Unsorted):
        db.ingest([(b"y", b""), (b"x", b"")])
    assert b"y" not in db

    def broken():
        yield b"y", b""
        raise LookupError

    with pytest.raises(LookupError):
        db.ingest(broken())
    with pytest.raises(TypeError):
        db.ingest([(b"y", "text")])
    assert b"y" not in db
    # trouble-python 73: from itself, while it is read
    db.keyspace("copy").ingest(db.items())
    assert db.keyspace("copy") == db
    db.ingest(db.items())
    assert len(db) == 5_001


def test_backups_forks_and_copies(db, tmp_path):
    db.update({b"%d" % number: b"v" for number in range(1_000)})
    db.put(b"session", b"s", ttl=3600)
    db.backup(tmp_path / "backups")
    db[b"later"] = b""
    assert db.fork(tmp_path / "fork")["seconds"] >= 0
    db.backup(tmp_path / "backups")
    db.copy_to(tmp_path / "copy")
    listed = evendb.backups(tmp_path / "backups")
    assert [info["number"] for info in listed] == sorted(info["number"] for info in listed)
    assert evendb.restore(tmp_path / "backups", tmp_path / "new") == listed[1]["number"]
    first = listed[0]["number"]
    evendb.restore(tmp_path / "backups", tmp_path / "old", number=first)
    for name, count in [("new", 1_002), ("old", 1_001), ("fork", 1_002), ("copy", 1_002)]:
        with evendb.open(tmp_path / name) as other:
            assert len(other) == count, name
            # trouble-python 53
            assert 3_500 < other.ttl(b"session") < 3_601
            other[b"apart"] = b""
        assert evendb.verify(tmp_path / name)["sound"]
    assert b"apart" not in db
    with pytest.raises(evendb.AlreadyExists):
        db.fork(tmp_path / "fork")
    with pytest.raises(evendb.Locked):
        evendb.verify(db.path)


def test_figures(db):
    before = db.stats()["puts"]
    db.update({b"%d" % number: b"v" * 10 for number in range(2_000)})
    assert db.stats()["puts"] == before + 2_000 and "puts" in db.stats_text()
    assert 1_000 < db.approximate_len() < 4_000
    assert db.approximate_size(prefix=b"1") > 0
    assert db.ttl(b"1") is None and db.ttl(b"none") is None
    db.put(b"t", b"", ttl=50)
    assert 49 < db.ttl(b"t") < 50.01


def test_typed_keys_sort_as_tuples():
    columns = [
        (None,), (False,), (True,), (-(2**100),), (-5,), (0,), (7,), (10,), (2**100,),
        (-1.5,), (0.0,), (2.5,), (b"",), (b"\x00",), (b"a",), (b"ab",), ("",), ("\x00",), ("a",),
        ("a", -1), ("a", 3), ("a", 10, "x"), ("ab",), ("é", None, b"\xff\x00", 1.0, True),
    ]
    keys = [evendb.key(column) for column in columns]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
    for column, key in zip(columns, keys, strict=True):
        assert evendb.unkey(key) == column
        assert [type(each) for each in evendb.unkey(key)] == [type(each) for each in column]
    assert evendb.key(()) == b"" and evendb.unkey(b"") == ()
    types = ("str", "desc:u64", "opt:bool", "fixed:2", "f64", "i8")
    column = ("ann", 7, None, b"xy", -2.5, -3)
    assert evendb.unkey(evendb.key(column, types=types), types=types) == column
    newer, older = [evendb.key(("a", n), types=("str", "desc:u64")) for n in (9, 8)]
    assert newer < older
    prefix = evendb.key(("ann",), types=("str", "u64"))
    assert evendb.key(("ann", 1), types=("str", "u64")).startswith(prefix)
    assert not evendb.key(("anna", 1), types=("str", "u64")).startswith(prefix)


@pytest.mark.parametrize("wrong", [{}, [1], (1, object()), ([],), (2**200,), ("\ud800",)])
def test_keys_that_cannot_be_made(wrong):
    with pytest.raises((TypeError, OverflowError, UnicodeEncodeError)):
        evendb.key(wrong)


@pytest.mark.parametrize("wrong", [b"text", b"\x10\x00", b"\xff", b"\x32\xff\x00", b"\x04\x07"])
def test_bytes_that_are_no_key(wrong):
    with pytest.raises(ValueError):
        evendb.unkey(wrong)
    with pytest.raises(ValueError):
        evendb.unkey(b"\x00", types=("u64",))
    with pytest.raises(ValueError, match="u65"):
        evendb.key((1,), types=("u65",))
    with pytest.raises(OverflowError):
        evendb.key((256,), types=("u8",))


@pytest.fixture
def framed(db):
    db.ingest((b"%06d" % number, b"v" * (number % 50)) for number in range(100_000))
    return db


def test_polars_reads_a_keyspace(framed):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(framed.arrow())
    assert frame.columns == ["key", "value"] and frame.height == 100_000
    assert frame["key"][-1] == b"099999" and frame["value"][49] == b"v" * 49
    assert polars.DataFrame(framed.arrow(prefix=b"00000", reverse=True)).height == 10
    assert polars.DataFrame(framed.arrow(limit=70_000)).height == 70_000
    framed.keyspace("copy").ingest(frame.iter_rows())
    assert framed.keyspace("copy") == framed


def test_pyarrow_reads_a_keyspace_and_finds_it_valid(framed):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(framed.arrow())
    table.validate(full=True)
    assert table.num_rows == 100_000 and table.column("key").num_chunks >= 2
    assert dict(zip(*(column.to_pylist() for column in table.columns))) == dict(framed)
    empty = pyarrow.table(framed.keyspace("empty").arrow())
    assert empty.num_rows == 0 and str(empty.schema.field("key").type) == "large_binary"
    with framed.transaction() as tx:
        tx[b"a"] = b"own"
        own = pyarrow.table(tx.arrow(start=b"a"))
        assert own.to_pylist() == [{"key": b"a", "value": b"own"}]
    reader = pyarrow.RecordBatchReader.from_stream(framed.arrow())
    reader.read_next_batch()
    framed.close()
    with pytest.raises(Exception, match="closed"):
        while True:
            reader.read_next_batch()


# trouble-python 73: offsets of 64 bits, and batches far below 2 GiB
def test_batches_of_large_values_are_bounded(path):
    pyarrow = pytest.importorskip("pyarrow")
    with evendb.open(path, memory_budget="64MiB") as db:
        db.ingest((b"%03d" % number, b"v" * (1 << 20)) for number in range(150))
        reader = pyarrow.RecordBatchReader.from_stream(db.arrow())
        sizes = [batch.nbytes for batch in reader]
        assert sum(sizes) > 150 << 20 and max(sizes) < 70 << 20 and len(sizes) >= 3


def test_duckdb_reads_a_keyspace(framed):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    records = framed.arrow()
    answer = duckdb.sql("select count(*), max(octet_length(value)) from records").fetchall()[0]
    assert answer == (100_000, 49)


def test_a_stream_that_nobody_reads_is_freed(framed):
    for _ in range(1_000):
        framed.arrow().__arrow_c_stream__()
