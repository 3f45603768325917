"""Data frames on their way in: what has Arrow's C stream, of any layout of its columns."""

import importlib.util

import pytest

import evendb

ROWS = 30_000
PAIRS = [(b"%08d" % number, b"v" * (number % 40) + b"%d" % number) for number in range(ROWS)]


def have(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{missing} is not installed")


def test_a_stream_of_our_own(db):
    """From one keyspace into another one, without an object of Python for each record."""
    db.update(PAIRS)
    other = db.keyspace("other")
    assert other.ingest(db.arrow())["records"] == ROWS
    assert other == db
    part = db.keyspace("part")
    assert part.ingest(db.arrow(prefix=b"0000000", limit=7))["records"] == 7
    assert list(part.items()) == PAIRS[:7]
    assert db.keyspace("empty").ingest(db.arrow(prefix=b"none"))["records"] == 0
    db.ingest(db.arrow())
    assert len(db) == ROWS


class Given:
    """An object whose stream is what a function returns."""

    def __init__(self, capsule):
        self.__arrow_c_stream__ = capsule


def test_what_is_no_stream(db):
    with pytest.raises(TypeError, match="did not return a stream"):
        db.ingest(Given(lambda: 5))
    with pytest.raises(ZeroDivisionError):
        db.ingest(Given(lambda: 1 / 0))
    capsule = db.arrow().__arrow_c_stream__()
    db.ingest(Given(lambda: capsule))
    with pytest.raises(ValueError, match="read already"):
        db.ingest(Given(lambda: capsule))


def test_an_error_of_the_producer_is_told(path, tmp_path):
    """A stream that breaks in the middle leaves nothing."""
    with evendb.open(path) as db, evendb.open(tmp_path / "source") as source:
        source.update(PAIRS)
        broken = source.arrow()
        capsule = broken.__arrow_c_stream__()
        source.close()
        with pytest.raises(OSError, match="closed") as told:
            db.ingest(Given(lambda: capsule))
        assert told.value.errno == 5 and len(db) == 0
        db.ingest([(b"a", b"1")])


@have("pyarrow")
@pytest.mark.parametrize("kind", ["binary", "large_binary", "string", "large_string",
                                  "binary_view", "string_view", "fixed"])
def test_layouts_of_columns(db, kind):
    import pyarrow

    pairs = [(key, (value * 5)[:20].ljust(20, b".")) for key, value in PAIRS[:5_000]]
    made = pyarrow.binary(20) if kind == "fixed" else getattr(pyarrow, kind)()
    # Long and short ones: a view holds up to 12 bytes within itself.
    values = [value if kind == "fixed" else value[:number % 21]
              for number, (_, value) in enumerate(pairs)]
    keys = pyarrow.array([key for key, _ in pairs], pyarrow.binary())
    column = pyarrow.array(values, pyarrow.binary()).cast(made) if kind == "fixed" else (
        pyarrow.array([value.decode() if "string" in kind else value for value in values], made))
    table = pyarrow.table({"other": [0] * 5_000, "value": column, "key": keys})
    assert db.ingest(table)["records"] == 5_000
    assert list(db.values()) == values and list(db) == [key for key, _ in pairs]
    # A slice begins in the middle of its buffers.
    part = db.keyspace("part")
    part.ingest(table.slice(777, 1_000))
    assert list(part.items()) == list(db.items())[777:1_777]
    batches = table.to_batches(max_chunksize=300)
    joined = db.keyspace("joined")
    joined.ingest(pyarrow.RecordBatchReader.from_batches(table.schema, iter(batches)))
    assert joined == db


@have("pyarrow")
def test_structs_that_are_slices(db):
    """A struct's own offset comes before those of its columns."""
    import pyarrow

    whole = pyarrow.StructArray.from_arrays(
        [pyarrow.array([b"x%d" % n for n in range(9)][2:]), pyarrow.array([b"%d" % n
                                                                          for n in range(7)])],
        names=["key", "value"])
    chunked = pyarrow.chunked_array([whole.slice(3, 2), whole.slice(5, 0), whole.slice(5, 2)])
    assert db.ingest(chunked)["records"] == 4
    assert list(db.items()) == [(b"x5", b"3"), (b"x6", b"4"), (b"x7", b"5"), (b"x8", b"6")]


@have("pyarrow")
def test_frames_that_are_refused(db):
    import pyarrow

    keys = pyarrow.array([b"a", b"b", b"c"])
    with pytest.raises(ValueError, match="a value is null .row 1"):
        db.ingest(pyarrow.table({"key": keys, "value": [b"", None, b""]}))
    with pytest.raises(ValueError, match="a key is null .row 0"):
        db.ingest(pyarrow.table([[None, b"x"], [b"", b""]], names=["key", "value"]))
    with pytest.raises(ValueError, match="values .column 'n'|values .column \"n\".*cast"):
        db.ingest(pyarrow.table({"k": keys, "n": [1, 2, 3]}))
    with pytest.raises(ValueError, match="dictionary"):
        db.ingest(pyarrow.table({"k": keys.dictionary_encode(), "n": keys}))
    with pytest.raises(ValueError, match='"key" and "value".*"c"'):
        db.ingest(pyarrow.table({"a": keys, "b": keys, "c": keys}))
    with pytest.raises(ValueError, match="not one column"):
        db.ingest(pyarrow.chunked_array([keys]))
    with pytest.raises(evendb.Unsorted):
        db.ingest(pyarrow.table({"key": keys.take(pyarrow.array([0, 2, 1])), "value": keys}))
    null = pyarrow.StructArray.from_arrays([keys, keys], names=["key", "value"],
                                           mask=pyarrow.array([False, True, False]))
    with pytest.raises(ValueError, match="null"):
        db.ingest(pyarrow.chunked_array([null]))
    assert len(db) == 0


@have("polars")
def test_a_frame_of_polars_there_and_back(db):
    import polars

    frame = polars.DataFrame({"value": [value for _, value in PAIRS],
                              "key": [key for key, _ in PAIRS], "row": range(ROWS)})
    assert db.ingest(frame)["records"] == ROWS
    assert dict(db) == dict(PAIRS)
    back = polars.DataFrame(db.arrow())
    assert back.equals(frame.select("key", "value").cast(back.schema))
    texts = db.keyspace("texts")
    names = polars.DataFrame({"name": ["b", "ä", "a"], "size": [1, 2, 3]}).sort("name")
    texts.ingest(names.select("name", polars.col("size").cast(polars.String)))
    assert dict(texts) == {b"a": b"3", b"b": b"1", "ä".encode(): b"2"}
    with pytest.raises(evendb.Unsorted):
        db.ingest(frame.reverse())


@have("pandas", "pyarrow")
def test_a_frame_of_pandas(db):
    import pandas

    frame = pandas.DataFrame({"key": [key for key, _ in PAIRS], "value": [v for _, v in PAIRS]})
    assert db.ingest(frame)["records"] == ROWS
    assert dict(db) == dict(PAIRS)


@have("duckdb", "pyarrow")
def test_a_query_of_duckdb(db):
    import duckdb

    asked = duckdb.sql("select printf('%04d', range) as key, 'v' || range as value from range(500)")
    if not hasattr(asked, "__arrow_c_stream__"):
        asked = asked.to_arrow_table()
    assert db.ingest(asked)["records"] == 500
    assert db[b"0123"] == b"v123"


def test_an_interrupt_of_a_long_one(script, path):
    """Ctrl-C between two batches: nothing is left."""
    done = script(
        """
        import signal, sys, evendb
        db = evendb.open(sys.argv[1], memory_budget="16MiB")
        db.update((b"%08d" % n, b"v" * 50) for n in range(200_000))
        other = db.keyspace("other")
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            for _ in range(10_000):
                other.ingest(db.arrow())
                other.clear()
        except KeyboardInterrupt:
            print(len(other) in (0, 200_000), db.keyspace("third").ingest(db.arrow())["records"])
        """,
        path,
    )
    assert (done.returncode, done.stdout) == (0, "True 200000\n"), done.stderr
