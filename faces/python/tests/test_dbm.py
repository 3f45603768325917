"""What `evendb.dbm` promises beyond CPython's own tests, which judges/judge_cpython.py runs.

The numbers are those of the list of other people's trouble that the tests are about.
"""

import os
import shutil
import subprocess
import sys
import textwrap
import threading

import evendb
import evendb.dbm
import pytest


def run(script, *arguments, status=0):
    """Runs a program in a process of its own, and returns what it prints."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    assert "Exception ignored" not in done.stderr
    return done.stdout.strip()


@pytest.fixture
def file(tmp_path):
    return tmp_path / "data"


@pytest.mark.parametrize("flag", ["r", "w"])
def test_61_flags_that_need_a_database(file, flag):
    with pytest.raises(evendb.dbm.error, match="there is no database"):
        evendb.dbm.open(file, flag)
    assert not file.exists()


@pytest.mark.parametrize("flag", ["c", "n"])
def test_61_flags_that_make_a_database(file, flag):
    with evendb.dbm.open(file, flag) as db:
        db["a"] = "1"
    with evendb.dbm.open(file, flag) as db:
        assert db.keys() == ([b"a"] if flag == "c" else [])


def test_61_a_failed_opening_leaves_nothing_behind(file):
    for _ in range(3):
        with pytest.raises(ValueError):
            evendb.dbm.open(file, "x")
        with pytest.raises(evendb.dbm.error):
            evendb.dbm.open(file, "w")
    evendb.dbm.open(file, "c").close()


def test_61_an_open_handle_at_exit_is_silent(file):
    run("""
        import sys, evendb.dbm
        db = evendb.dbm.open(sys.argv[1], "c")
        db["a"] = "1"
        sys.exit(7)
        """, file, status=7)
    with evendb.dbm.open(file) as db:
        assert db["a"] == b"1"


def test_1_puts_outlive_an_uncaught_exception(file):
    run("""
        import sys, os, evendb.dbm
        db = evendb.dbm.open(sys.argv[1], "c")
        for number in range(100):
            db[number] = "x"
        os._exit(3)
        """, file, status=3)
    with evendb.dbm.open(file) as db:
        assert len(db) == 100


def test_59_files_of_other_kinds_are_named_and_left_alone(tmp_path):
    import dbm.dumb
    import sqlite3
    sqlite = tmp_path / "sqlite"
    sqlite3.connect(sqlite).execute("CREATE TABLE t (a)").connection.close()
    with dbm.dumb.open(str(tmp_path / "dumb"), "c") as other:
        other["a"] = "b"
    gnu = tmp_path / "gnu"
    gnu.write_bytes((0x13579ace).to_bytes(4, sys.byteorder) + bytes(60))
    unknown = tmp_path / "unknown"
    unknown.write_bytes(b"some other file, and a longer one")
    (tmp_path / "level").mkdir()
    (tmp_path / "level" / "CURRENT").write_bytes(b"MANIFEST-000002\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kinds = {"dumb": "dbm.dumb", "gnu": "dbm.gnu", "unknown": "not known",
             "level": "not known"}
    if sys.version_info >= (3, 13):
        kinds["sqlite"] = "dbm.sqlite3"
    for name, kind in kinds.items():
        for flag in "rwcn":
            with pytest.raises(evendb.dbm.error, match=kind):
                evendb.dbm.open(tmp_path / name, flag)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_whichdb(file):
    assert evendb.dbm.whichdb(file) is None
    evendb.dbm.open(file, "c").close()
    assert evendb.dbm.whichdb(file) == "evendb.dbm"
    assert evendb.dbm.whichdb(os.fsencode(file)) == "evendb.dbm"
    empty = file.parent / "empty"
    empty.mkdir()
    assert evendb.dbm.whichdb(empty) is None


def test_an_empty_file_becomes_a_database_by_the_flag_n_alone(file):
    file.touch()
    for flag in "rwc":
        with pytest.raises(evendb.dbm.error):
            evendb.dbm.open(file, flag)
        assert file.is_file()
    with evendb.dbm.open(file, "n") as db:
        assert len(db) == 0
    assert file.is_dir()


def test_the_mode_is_that_of_the_folder(file):
    before = os.umask(0)
    try:
        evendb.dbm.open(file, "c", 0o640).close()
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o750


def test_26_two_handles_of_one_process_share_a_database(file):
    first = evendb.dbm.open(file, "c")
    second = evendb.dbm.open(file, "w")
    link = file.parent / "link"
    link.symlink_to(file)
    reader = evendb.dbm.open(link, "r")
    first["a"] = "1"
    assert second["a"] == reader["a"] == b"1"
    with pytest.raises(evendb.dbm.error, match="reading only"):
        reader["a"] = "2"
    with pytest.raises(evendb.dbm.error, match="close it before"):
        evendb.dbm.open(file, "n")
    first.close()
    first.close()
    second["b"] = "2"
    second.close()
    assert reader["b"] == b"2"
    reader.close()
    with evendb.dbm.open(file, "n") as new:
        assert len(new) == 0


def test_25_another_process_is_told_that_it_is_locked(file):
    with evendb.dbm.open(file, "c") as db:
        db["a"] = "1"
        told = run("""
            import sys, evendb.dbm
            for flag in "rwcn":
                try:
                    evendb.dbm.open(sys.argv[1], flag)
                except evendb.dbm.error as error:
                    print(type(error.__cause__).__name__, sys.argv[2] in str(error))
            """, file, os.getpid())
        assert told.splitlines() == ["Locked True"] * 4
        assert db["a"] == b"1"


def test_a_reader_beside_a_writer(file):
    with evendb.dbm.open(file, "c") as db:
        db["a"] = "1"
    with evendb.dbm.open(file, "w"):
        told = run("""
            import sys, evendb.dbm
            with evendb.dbm.open(sys.argv[1], "beside") as db:
                print(db["a"])
                try:
                    db["a"] = "2"
                except evendb.dbm.error as error:
                    print(error)
            """, file)
        assert told.splitlines() == ["b'1'", "the database is open for reading only"]


def test_58_reading_in_a_folder_that_must_not_be_written(file):
    with evendb.dbm.open(file, "c") as db:
        db["a"] = "1"
    before = {path.name: path.read_bytes() for path in file.iterdir()}
    for path in [*file.iterdir(), file]:
        path.chmod(path.stat().st_mode & ~0o222)
    with evendb.dbm.open(file, "beside") as db:
        assert (db.keys(), len(db), b"a" in db, db.firstkey()) == ([b"a"], 1, True, b"a")
        assert list(db.items()) == [(b"a", b"1")]
    assert {path.name: path.read_bytes() for path in file.iterdir()} == before
    file.chmod(0o755)


def test_types_of_keys_and_values(file):
    with evendb.dbm.open(file, "c") as db:
        for key in (b"k", bytearray(b"k"), memoryview(b"k"), "k"):
            db[key] = key
            assert db[key] == b"k"
        db["\u00e9"] = 1
        db[2.5] = True
        assert dict(db) == {b"k": b"k", "\u00e9".encode(): b"1", b"2.5": b"1"}
        for wrong in (None, (1,), object()):
            with pytest.raises(evendb.dbm.error):
                db[wrong] = "value"
            with pytest.raises(TypeError):
                db["key"] = wrong
        with pytest.raises(UnicodeEncodeError):
            db["\ud800"] = "value"
        assert len(db) == 3


def test_7_an_iteration_is_of_one_moment(file):
    with evendb.dbm.open(file, "c") as db:
        db.update({str(number): "v" for number in range(10)})
        for key in db:
            db[key + b"x"] = "w"
        assert len(db) == 20
        assert len([db.pop(key) for key in db]) == 20
        assert not db


def test_4_setdefault_is_one_step(file):
    with evendb.dbm.open(file, "c") as db:
        got = [dict() for _ in range(16)]
        barrier = threading.Barrier(16)

        def work(number):
            barrier.wait()
            for key in range(100):
                got[number][key] = db.setdefault(key, number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert all(one == got[0] for one in got)
        assert got[0] == {key: db[key] for key in range(100)}


def test_moves(file):
    with evendb.dbm.open(file, "c") as db:
        for move in (db.first, db.last, db.next, db.previous):
            with pytest.raises(KeyError):
                move()
        assert db.firstkey() is None
        db.update({"b": "1", "d": "2", "f": "3"})
        assert (db.next(), db.next(), db.next()) == ((b"b", b"1"), (b"d", b"2"), (b"f", b"3"))
        with pytest.raises(KeyError):
            db.next()
        assert (db.previous(), db.previous()) == ((b"d", b"2"), (b"b", b"1"))
        assert db.set_location("c") == (b"d", b"2")
        assert (db.last(), db.first()) == ((b"f", b"3"), (b"b", b"1"))
        keys = []
        key = db.firstkey()
        while key is not None:
            keys.append(key)
            key = db.nextkey(key)
        assert keys == list(db) == [*reversed(db)][::-1]


def test_16_a_forked_child_gets_errors(file):
    other = file.parent / "other"
    told = run("""
        import os, sys, evendb, evendb.dbm
        db = evendb.dbm.open(sys.argv[1], "c")
        db["a"] = "1"
        child = os.fork()
        if child == 0:
            for act in (lambda: db["a"], lambda: db.keys(), lambda: db.__setitem__("a", "2"),
                        lambda: evendb.dbm.open(sys.argv[1], "w"),
                        lambda: evendb.dbm.open(sys.argv[2], "c")):
                try:
                    print(act())
                except evendb.dbm.error as error:
                    print(type(error.__cause__).__name__)
            db.close()
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        db["a"] = "4"
        """, file, other)
    assert told.splitlines() == ["ForkError"] * 5
    with evendb.dbm.open(file) as db:
        assert db["a"] == b"4"


def test_after_close(file):
    db = evendb.dbm.open(file, "c")
    db["a"] = "1"
    db["b"] = "2"
    iteration = iter(db)
    next(iteration)
    db.close()
    for act in (lambda: db["a"], lambda: db.get("a"), lambda: "a" in db, lambda: len(db), db.keys,
                lambda: list(db.items()), db.sync, db.clear, lambda: bool(db), lambda: iter(db),
                lambda: next(iteration), db.__enter__, lambda: db.setdefault("a", "b")):
        with pytest.raises(evendb.dbm.error):
            act()
    assert "closed" in repr(db)


def test_sync_and_options(file):
    with evendb.dbm.open(file, "c", durability="sync", memory_budget="16MiB") as db:
        db["a"] = "1"
        db.sync()
    with evendb.dbm.open(file, "r") as db:
        db.sync()
    with pytest.raises((TypeError, ValueError)):
        evendb.dbm.open(file, "c", no_such_option=1)


def test_a_handle_ends_while_its_thread_opens_another(tmp_path):
    handles = [evendb.dbm.open(str(tmp_path / "one"), "c")]
    path = str(tmp_path / "two")

    def opening():
        handles.pop().close()
        return evendb.open(path)

    def work():
        registry = evendb.dbm._registry
        registry.give_back(path, registry.take(path, "c", opening))
        handles.append(None)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert handles == [None]


def remove(file):
    while file.exists():  # The database makes files meanwhile.
        shutil.rmtree(file, ignore_errors=True)


def test_a_directory_that_was_made_anew_is_another_database(file):
    old = evendb.dbm.open(file, "c")
    old["old"] = "1"
    remove(file)
    new = evendb.dbm.open(file, "c")
    assert new.keys() == []
    new["new"] = "2"
    new.sync()
    with pytest.raises(evendb.dbm.error, match="deleted, moved or replaced"):
        old.sync()
    assert old["old"] == b"1"
    # The old handle's end takes nothing from the new one.
    with pytest.raises(evendb.dbm.error):
        old.close()
    with evendb.dbm.open(file, "w") as shared:
        assert shared.keys() == new.keys() == [b"new"]
    new.close()
    with evendb.dbm.open(file, "r") as again:
        assert again.keys() == [b"new"]


def test_a_sync_tells_that_the_directory_is_gone(file):
    with pytest.raises(evendb.dbm.error, match="deleted, moved or replaced"):
        with evendb.dbm.open(file, "c") as db:
            db["a"] = "1"
            remove(file)
            db.sync()
    with pytest.raises(evendb.dbm.error, match="there is no database"):
        evendb.dbm.open(file, "w")


def test_a_directory_that_was_renamed_is_not_there_any_more(file):
    moved = evendb.dbm.open(file, "c")
    moved["a"] = "1"
    moved.sync()
    file.rename(file.parent / "other")
    with evendb.dbm.open(file, "c") as new:
        new["b"] = "2"
        with pytest.raises(evendb.dbm.error, match="deleted, moved or replaced"):
            moved.sync()
        with pytest.raises(evendb.dbm.error):
            moved.close()
    with evendb.dbm.open(file) as new, evendb.dbm.open(file.parent / "other") as moved:
        assert (dict(new), dict(moved)) == ({b"b": b"2"}, {b"a": b"1"})


def test_handles_leave_no_file_open(file):
    evendb.dbm.open(file, "c").close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with evendb.dbm.open(file, "c"), evendb.dbm.open(file, "r"):
            pass
    assert len(os.listdir("/proc/self/fd")) == before
