"""Faults that were found by attack, and stay mended."""

import asyncio
import ctypes
import datetime
import os
import signal
import threading

import pytest

import evendb
import evendb.aio


def test_errors_of_the_system_keep_their_text(tmp_path):
    with pytest.raises(evendb.NotFound) as missing:
        evendb.open(tmp_path / "none", "r")
    assert "none" in str(missing.value) and "None" not in str(missing.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(evendb.Error) as refused:
        evendb.open(tmp_path / "file" / "x")
    assert "file" in str(refused.value) and not str(refused.value).startswith("[Errno")


def test_a_dictionary_that_another_thread_changes(db):
    changing, stop = {b"%08d" % number: b"" for number in range(50_000)}, threading.Event()

    def change():
        number = 0
        while not stop.is_set():
            changing[b"z%d" % number] = b""
            changing.pop(b"z%d" % number)
            number += 1

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(3):
            try:
                db.ingest(changing)
            except evendb.Unsorted:
                pass
            db.update(dict(list(changing.items())[:1_000]))
    finally:
        stop.set()
        thread.join()


def test_two_tasks_on_one_feed(path):
    async def main():
        async with await evendb.aio.open(path) as db:
            feed = db.changes()
            first = asyncio.create_task(anext(feed))
            await asyncio.sleep(0.02)
            with pytest.raises(RuntimeError, match="another task"):
                await anext(feed)
            await db.put(b"a", b"")
            assert [write.key for write in await asyncio.wait_for(first, 10)] == [b"a"]
            await db.put(b"b", b"")
            assert [write.key for write in await anext(feed)] == [b"b"]

    asyncio.run(main())


def test_paths_of_any_bytes(tmp_path):
    name = os.fsencode(tmp_path) + b"/x\xff"
    with evendb.open(name) as db:
        assert os.fsencode(db.path) == name
    with evendb.open(os.fsdecode(name), "w"):
        pass
    evendb.destroy(name)
    assert not os.path.exists(name)
    with pytest.raises(TypeError, match="bytes or os.PathLike"):
        evendb.open(5)


def test_a_stream_of_arrow_holds_nothing_after_a_close(path):
    db = evendb.open(path)
    db.update({b"%d" % number: b"v" for number in range(1_000)})
    db.flush()
    capsule = db.arrow().__arrow_c_stream__()
    db.close()
    places = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    files = [os.readlink(place) for place in places if os.path.lexists(place)]
    assert not any(str(path) in line for line in files)
    assert str(path) not in open("/proc/self/maps").read()
    del capsule


def test_errors_of_streams_come_again(path):
    pyarrow = pytest.importorskip("pyarrow")
    with evendb.open(path, munks=False, row_cache=False) as db:
        db.ingest((b"%06d" % number, os.urandom(100)) for number in range(20_000))
    for table in path.rglob("*.sst"):
        with open(table, "r+b") as file:
            file.seek(table.stat().st_size // 2)
            file.write(b"\xa5" * 5_000)

    async def tasks(db):
        it = evendb.aio.AsyncDatabase(db).items().__aiter__()
        with pytest.raises(evendb.Corruption):
            while True:
                await anext(it)
        with pytest.raises(evendb.Corruption):
            await anext(it)

    with evendb.open(path, munks=False) as db:
        asyncio.run(tasks(db))
        reader = pyarrow.RecordBatchReader.from_stream(db.arrow())
        for _ in range(2):
            with pytest.raises(OSError):
                while True:
                    reader.read_next_batch()


def test_an_interrupt_in_a_merge_function_is_an_interrupt(db):
    def merged(key, value, operands):
        raise KeyboardInterrupt

    words = db.keyspace("words", merge=merged)
    words.merge(b"k", b"v")
    with pytest.raises(KeyboardInterrupt):
        words[b"k"]
    with pytest.raises(KeyboardInterrupt):
        list(words.items())


def test_a_close_within_a_merge_function_is_refused_and_the_database_goes_on(path):
    refused = []
    db = evendb.open(path)

    def merged(key, value, operands):
        try:
            db.close()
        except evendb.Error as error:
            refused.append(error)
        return operands[-1]

    words = db.keyspace("words", merge=merged)
    words.merge(b"k", b"v")
    assert words[b"k"] == b"v" and refused
    assert not db.closed and len(db) == 0
    db.close()
    evendb.open(path).close()


def test_a_daemon_thread_with_a_loop_ends_with_the_program(script, path):
    text = """
        import asyncio, evendb.aio, sys, threading, time
        async def main():
            db = await evendb.aio.open(sys.argv[1])
            while True:
                puts = [db.put(b"z%d" % i, b"y", durability="sync") for i in range(20)]
                await asyncio.gather(*puts)
        threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
        time.sleep(0.3)
        """
    for _ in range(5):
        outcome = script(text, path)
        assert outcome.returncode == 0, outcome.stderr


def test_a_new_database_beside_foreign_files(path):
    with evendb.open(path) as db:
        db[b"k"] = b"v"
        db.keyspace("other")[b"k"] = b"v"
    (path / "my.txt").write_text("mine")
    with evendb.open(path, "n") as db:
        assert not db and db.keyspaces() == ["default"]
        db[b"new"] = b""
    assert (path / "my.txt").read_text() == "mine"


def test_of_threads_that_delete_one_key_one_succeeds(db):
    db.update({b"%d" % number: b"" for number in range(300)})
    deleted = []

    def work():
        for number in range(300):
            try:
                del db[b"%d" % number]
                deleted.append(number)
            except KeyError:
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(deleted) == list(range(300))


def test_times_on_both_sides_of_1970():
    utc = datetime.timezone.utc
    for year in (1, 1900, 1969, 1970, 2026, 9999):
        moment = datetime.datetime(year, 12, 30, 1, 2, 3, 456_789, utc)
        key = evendb.key((moment,), types=("time",))
        assert evendb.unkey(key, types=("time",)) == (moment,)
    keys = [
        evendb.key((datetime.datetime(year, 1, 1, tzinfo=utc),), types=("time",))
        for year in (1, 1969, 1970, 1971)
    ]
    assert keys == sorted(keys)
    for seed in range(2_000):
        try:
            evendb.unkey(os.urandom(12), types=("time",))
        except (ValueError, OverflowError):
            pass
    with pytest.raises(TypeError):
        evendb.key((datetime.datetime(2026, 1, 1),), types=("time",))
    with pytest.raises(OverflowError):
        evendb.key((1e300,), types=("f32",))


def test_a_wait_for_a_lock_hears_signals(db):
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    one, other = db.transaction(), db.transaction()
    one.get_for_update(b"k")
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Alarm):
            other.get_for_update(b"k", timeout=600)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_misuse_of_functions_is_told(db):
    db[b"k"] = b"v"
    told = []

    def compacts(key, value):
        try:
            db.compact()
        except evendb.InvalidArgument as error:
            told.append(error)

    db.set_compaction_filter(compacts)
    db.compact()
    assert told

    async def coroutine(tx):
        tx[b"x"] = b""

    with pytest.raises(TypeError, match="plain function"):
        db.transact(coroutine)
    assert b"x" not in db


def test_an_array_of_objects_is_no_key(db):
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="array of objects"):
        db.put(numpy.array([object()]), b"")


def test_a_snapshot_that_was_closed_is_closed(db):
    db[b"a"] = b"1"
    snapshot = db.snapshot()
    assert snapshot.get(b"a") == snapshot[b"a"] == b"1" and b"a" in snapshot
    db[b"a"], db[b"b"] = b"2", b"3"
    assert snapshot.get(b"a") == b"1" and snapshot.get(b"b", b"-") == b"-"
    snapshot.close()
    for use in (lambda: snapshot.get(b"a"), lambda: snapshot[b"a"], lambda: b"a" in snapshot,
                lambda: len(snapshot), lambda: list(snapshot.items())):
        with pytest.raises(evendb.Closed, match="snapshot"):
            use()
    assert db[b"a"] == b"2"


class Stream(ctypes.Structure):
    """The C stream of Arrow, called as by a consumer that keeps the interpreter's lock."""

    _fields_ = [("get_schema", ctypes.c_void_p),
                ("get_next", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
                ("rest", ctypes.c_void_p * 3)]


def test_a_stream_of_a_transaction_waits_for_no_other_thread_of_it(db):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    merged = db.keyspace("merged", merge=lambda key, before, operands: b"".join(operands))
    merged.merge(b"k", b"1")
    merged.merge(b"k", b"2")
    done = threading.Event()
    with db.transaction() as tx:
        mine = tx.keyspace("merged")
        assert mine.get(b"k") == b"12"

        def reads():
            while not done.is_set():
                mine.get(b"k")

        def streams():
            for _ in range(200):
                capsule = mine.arrow().__arrow_c_stream__()
                stream = pointer(capsule, b"arrow_array_stream")
                array = ctypes.create_string_buffer(80)  # An ArrowArray.
                assert Stream.from_address(stream).get_next(stream, ctypes.addressof(array)) == 0
                release = ctypes.c_void_p.from_buffer(array, 64).value
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)(ctypes.addressof(array))
            done.set()

        threads = [threading.Thread(target=work, daemon=True) for work in (reads, streams)]
        [thread.start() for thread in threads]
        assert done.wait(60)
        [thread.join() for thread in threads]
