"""Forks, ends of programs, and other processes (trouble-python 1, 16 to 34)."""

import os
import signal
import sys
import threading
import time

import pytest

import evendb

OPEN = """
    import evendb, gc, os, signal, sys, threading, time
    path = sys.argv[1]
"""


# trouble-python 1
@pytest.mark.parametrize("end", ["", "sys.exit(3)", "1 / 0", "os._exit(4)",
                                 "os.kill(os.getpid(), signal.SIGKILL)"])
def test_puts_outlive_their_process_without_a_close(script, path, end):
    outcome = script(OPEN + f"""
    db = evendb.open(path)
    for number in range(100):
        db[b"%d" % number] = b"v"
    {end}
    """, path)
    expected = {"": 0, "sys.exit(3)": 3, "1 / 0": 1, "os._exit(4)": 4}
    assert outcome.returncode == expected.get(end, -signal.SIGKILL), outcome.stderr
    with evendb.open(path) as db:
        assert len(db) == 100


# trouble-python 10
def test_a_program_may_end_in_the_middle_of_everything(script, path):
    outcome = script(OPEN + """
    db = evendb.open(path)
    db.update({b"%d" % n: b"v" for n in range(5000)})
    def merged(key, value, operands):
        time.sleep(0.001)
        return operands[-1]
    words = db.keyspace("words", merge=merged)
    def work():
        while True:
            words.merge(b"k", b"v")
            words.get(b"k")
            list(db.items(limit=300))
            db.flush()
    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    feed, tx, batch, then = db.changes(), db.transaction(), db.batch(), db.snapshot()
    view = db.view(b"1")
    threading.Thread(target=lambda: next(db.watch(b"none")), daemon=True).start()
    time.sleep(0.2)
    for key, value in db.items():
        sys.exit(7)
    """, path)
    assert outcome.returncode == 7, outcome.stderr
    assert "Traceback" not in outcome.stderr and "panicked" not in outcome.stderr


CHILD = """
    db = evendb.open(path)
    db[b"k"] = b"v"
    other, then, tx, batch = db.keyspace("other"), db.snapshot(), db.transaction(), db.batch()
    it, feed, view = iter(db.items()), db.changes(), db.view(b"k")
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        uses = [lambda: db[b"k"], lambda: db.put(b"k", b""), lambda: len(db), lambda: list(db),
                lambda: other[b"k"], lambda: then[b"k"], lambda: tx[b"k"], lambda: tx.commit(),
                lambda: batch.put(b"k", b""), lambda: batch.commit(), lambda: next(it),
                lambda: next(feed), lambda: evendb.open(path), lambda: evendb.open(path + "2"),
                lambda: db.stats(), lambda: db.keyspaces(), lambda: db.snapshot(),
                lambda: db.transact(lambda tx: None), lambda: db.flush(),
                lambda: db.arrow().__arrow_c_stream__(),
                lambda: db.multi_get([b"k"]), lambda: db.pop(b"k"), lambda: db.update({b"k": b""})]
        for number, use in enumerate(uses):
            try:
                use()
            except evendb.ForkError:
                continue
            print("no ForkError of", number, flush=True)
            os._exit(1)
        assert bytes(view) == b"v"
        db.close(); then.close(); tx.rollback()
        del it, feed, tx, batch, then, other, view, db, use, uses
        gc.collect()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, status
    db[b"after"] = b"v"
    assert next(it) == (b"k", b"v") and len(db) == 2
    db.close()
    assert evendb.verify(path)["sound"]
    print("parent done")
"""


# trouble-python 16, 19
def test_a_forked_child_gets_fork_errors_and_ends(script, path):
    outcome = script(OPEN + CHILD, path)
    assert outcome.returncode == 0 and "parent done" in outcome.stdout, outcome.stderr


# trouble-python 23
def test_forks_beside_busy_threads_do_not_hang(script, path):
    outcome = script(OPEN + """
    db = evendb.open(path)
    done = threading.Event()
    it = iter(db.items())
    tx, batch = db.transaction(), db.batch()
    def work():
        number = 0
        while not done.is_set():
            db[b"%d" % (number % 5000)] = b"v" * 100
            tx.get(b"1"); batch.put(b"b", b""); batch.clear()
            list(db.items(limit=100)); number += 1
    threads = [threading.Thread(target=work) for _ in range(3)]
    [thread.start() for thread in threads]
    for _ in range(100):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            for use in [lambda: db.put(b"k", b""), lambda: tx.get(b"k"),
                        lambda: batch.put(b"k", b""),
                        lambda: next(it), lambda: evendb.open(path + "2")]:
                try:
                    use()
                except evendb.ForkError:
                    pass
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
    done.set()
    [thread.join() for thread in threads]
    db.close()
    """, path)
    assert outcome.returncode == 0, outcome.stderr


def test_a_child_may_open_if_nothing_was_open(script, path):
    outcome = script(OPEN + """
    child = os.fork()
    if child == 0:
        with evendb.open(path) as db:
            db[b"k"] = b"v"
        os._exit(0)
    os.waitpid(child, 0)
    with evendb.open(path) as db:
        assert db[b"k"] == b"v"
    """, path)
    assert outcome.returncode == 0, outcome.stderr


# trouble-python 16: multiprocessing's default on Linux
def test_multiprocessing_says_what_to_do(script, path):
    outcome = script(OPEN + """
    import multiprocessing
    def work(key):
        try:
            return db[key]
        except evendb.ForkError as error:
            return str(error)
    with evendb.open(path) as db:
        db[b"k"] = b"v"
        with multiprocessing.get_context("fork").Pool(2) as pool:
            answers = pool.map(work, [b"k"] * 4)
        assert all("fork before opening it" in answer for answer in answers), answers
        try:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                pool.map(len, [db])
        except TypeError as error:
            assert "pass the path" in str(error)
            print("typed")
    """, path)
    assert outcome.returncode == 0 and "typed" in outcome.stdout, outcome.stderr


# trouble-python 25, 32
def test_a_second_process_is_told_who_has_it(script, path):
    with evendb.open(path) as db:
        db[b"k"] = b"v"
        outcome = script(OPEN + """
    try:
        evendb.open(path)
    except evendb.Locked as error:
        print(error)
    assert evendb.open(path, "beside").get(b"k") is None
    """, path)
        assert outcome.returncode == 0, outcome.stderr
        assert str(os.getpid()) in outcome.stdout and str(path) in outcome.stdout


# trouble-python 25, 32
def test_after_a_kill_the_next_one_opens(script, path):
    outcome = script(OPEN + """
    db = evendb.open(path)
    db[b"k"] = b"v"
    os.kill(os.getpid(), signal.SIGKILL)
    """, path)
    assert outcome.returncode == -signal.SIGKILL
    with evendb.open(path) as db:
        assert db[b"k"] == b"v"


# trouble-python 32
def test_many_threads_open_one_new_path(path):
    opened, wrong, go = [], [], threading.Barrier(16)

    def work():
        go.wait()
        try:
            opened.append(evendb.open(path, wait_for_lock=0))
        except evendb.Locked:
            pass
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(opened) == 1 and wrong == []
    opened[0].close()


# trouble-python 22
def test_a_failure_comes_from_the_call_that_failed(script, path, tmp_path):
    outcome = script(OPEN + """
    import resource
    signal.alarm(20)
    db = evendb.open(path, memory_budget="8MiB", durability="sync")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    try:
        for number in range(100_000):
            db[b"%d" % number] = os.urandom(10_000)
    except evendb.Error as error:
        # If a job of the database met the limit first, that is the cause of the call's error.
        first = error.__cause__ if isinstance(error, evendb.Latched) else error
        print("File too large" in str(error), isinstance(first, OSError) and first.errno == 27)
    else:
        sys.exit("no error")
    assert db[b"0"]
    """, path)
    assert outcome.returncode == 0, outcome.stderr + outcome.stdout
    assert outcome.stdout == "True True\n"


# trouble-python 22
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_right(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(OSError) as refused:
        evendb.open(tmp_path / "new")
    assert isinstance(refused.value, evendb.Error)


def test_a_path_that_cannot_be_a_database(tmp_path):
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(evendb.Error):
        evendb.open(file)
    assert file.read_text() == "text"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "other").write_text("text")
    with pytest.raises(evendb.Error):
        evendb.open(folder)
    assert (folder / "other").read_text() == "text"


@pytest.mark.parametrize(
    "wait",
    [
        "next(db.changes())",
        "db.watch(b'k').next()",
        "[list(db.items()) for _ in range(10**6)]",
        "[len(db) for _ in range(10**6)]",
        "db.ingest((b'%09d' % n, b'v' * 100) for n in range(10**9))",
        "db.transact(lambda tx: db.put(b'k', tx.get(b'k', b'')) or tx.put(b'k', b''),"
        " retries=10**6)",
    ],
)
def test_ctrl_c_ends_a_long_call(script, path, wait):
    outcome = script(OPEN + f"""
    db = evendb.open(path)
    db.update({{b"%d" % n: b"v" for n in range(20_000)}})
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        {wait}
    except KeyboardInterrupt:
        assert len(db) in (20_000, 20_001)
        db.close()
        print("interrupted")
    """, path)
    assert "interrupted" in outcome.stdout, outcome.stderr


# trouble-python 34
def test_a_second_interpreter_and_a_second_import(script, path):
    outcome = script(OPEN + """
    with evendb.open(path) as db:
        for name in [name for name in sys.modules if name.startswith("evendb")]:
            del sys.modules[name]
        import evendb as again
        assert again.Error is evendb.Error
        db[b"k"] = b"v"
    import _xxsubinterpreters as interpreters
    for _ in range(2):
        try:
            code = "import sys; sys.path[:] = " + repr(sys.path) + "; import evendb"
            interpreters.run_string(interpreters.create(), code)
        except interpreters.RunFailedError as error:
            assert "ImportError" in str(error), error
            print("refused")
    """, path)
    assert outcome.returncode == 0, outcome.stderr
