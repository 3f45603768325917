"""What `evendb.shelve` promises beyond CPython's own tests, which judges/judge_cpython.py runs.

EVENDB_PYTHON_KILLS (default 5) is how often a writer is killed in the middle, EVENDB_PYTHON_FORKS
(default 20) how often a process forks while its threads write; 500 in the campaign.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading

import evendb
import evendb.dbm
import evendb.shelve
import pytest
from test_dbm import run

FORKS = int(os.environ.get("EVENDB_PYTHON_FORKS", "20"))
KILLS = int(os.environ.get("EVENDB_PYTHON_KILLS", "5"))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "shelf"


def threads(count, work):
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    all_of_them = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    [thread.start() for thread in all_of_them]
    [thread.join() for thread in all_of_them]
    assert not failures


def test_objects(file):
    value = {"list": [1, 2.5, None], "set": {1, 2}, "when": (1, b"x")}
    with evendb.shelve.open(file) as shelf:
        shelf["\u00e9"] = value
        shelf["a"] = None
        assert shelf["\u00e9"] == value and shelf["\u00e9"] is not value
        assert (shelf.get("a", 5), shelf.get("b", 5)) == (None, 5)
        assert list(shelf.items()) == [("a", None), ("\u00e9", value)]
        assert list(shelf.values()) == [None, value]
        with pytest.raises(TypeError, match="must be str, not bytes"):
            shelf[b"a"] = 1
    with evendb.dbm.open(file) as raw:
        assert pickle.loads(raw["\u00e9"]) == value


def test_serializers(file):
    with evendb.shelve.open(file, serializer="json") as shelf:
        shelf["a"] = {"b": [1, None, "\u00e9"]}
        assert shelf["a"] == {"b": [1, None, "\u00e9"]}
        with pytest.raises(TypeError):
            shelf["b"] = object()
        assert list(shelf) == ["a"]
    with evendb.dbm.open(file) as raw:
        assert json.loads(raw["a"]) == {"b": [1, None, "\u00e9"]}
    mine = {"serializer": lambda value, protocol: f"{protocol}{value}".encode(),
            "deserializer": bytes.decode}
    with evendb.shelve.open(file, "n", 3, **mine) as shelf:
        shelf["a"] = "x"
        assert shelf["a"] == "3x"
    for wrong in ({"serializer": repr}, {"deserializer": repr}, {"serializer": "yaml"},
                  {"serializer": "json", "deserializer": repr}):
        with pytest.raises(evendb.shelve.ShelveError):
            evendb.shelve.open(file, **wrong)
    evendb.shelve.open(file, "n").close()


def test_no_pickle_is_read_by_another_serializer(file):
    class Bomb:
        def __reduce__(self):
            return os._exit, (9,)

    with evendb.dbm.open(file, "c") as raw:
        raw["a"] = pickle.dumps(Bomb())
    with evendb.shelve.open(file, serializer="json") as shelf, pytest.raises(ValueError):
        shelf["a"]


def test_writeback(file):
    with evendb.shelve.open(file, writeback=True) as shelf:
        shelf["a"] = [1]
        shelf["a"].append(2)
        shelf.setdefault("b", []).append(3)
        shelf.setdefault("b", []).append(4)
        for _, value in shelf.items():
            value.append(5)
        del shelf["a"]
        shelf.sync()
        shelf["b"].append(6)
        assert dict(shelf) == {"b": [3, 4, 5, 6]}
    with evendb.shelve.open(file) as shelf:
        assert dict(shelf) == {"b": [3, 4, 5, 6]}


def test_61_entries_in_memory_are_written_at_exit_and_lost_by_a_kill(file):
    program = """
        import os, signal, sys, evendb.shelve
        shelf = evendb.shelve.open(sys.argv[1], writeback=True)
        shelf["a"] = []
        shelf["a"].append(1)
        keep = [shelf]
        keep.append(keep)
        if sys.argv[2] == "exit":
            sys.exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    run(program, file, "kill", status=-signal.SIGKILL)
    with evendb.shelve.open(file) as shelf:
        assert shelf["a"] == []
    run(program, file, "exit", status=3)
    with evendb.shelve.open(file) as shelf:
        assert shelf["a"] == [1]


def test_61_failed_openings_are_silent(file):
    assert run("""
        import gc, sys, evendb.dbm, evendb.shelve
        for flag in ("r", "w", "x"):
            try:
                evendb.shelve.open(sys.argv[1], flag)
            except (evendb.dbm.error, ValueError) as error:
                print(type(error).__name__)
        gc.collect()
        """, file).split() == ["error", "error", "ValueError"]
    assert not file.exists()


def test_moves(file):
    with evendb.shelve.open(file) as shelf:
        with pytest.raises(KeyError):
            shelf.first()
        shelf.update({"b": 1, "d": [2], "f": 3})
        assert (shelf.first(), shelf.next(), shelf.next()) == (("b", 1), ("d", [2]), ("f", 3))
        assert (shelf.previous(), shelf.last()) == (("d", [2]), ("f", 3))
        assert shelf.set_location("c") == ("d", [2])


def test_a_shelf_over_a_keyspace(file):
    with evendb.open(file) as db:
        users = evendb.shelve.Shelf(db.keyspace("users"))
        users["ann"] = {"age": 42}
        users.sync()
        assert dict(users) == {"ann": {"age": 42}} and not db
        users.clear()
        assert not users


def test_closed(file):
    shelf = evendb.shelve.open(file)
    shelf["a"] = 1
    shelf.close()
    shelf.close()
    for act in (lambda: shelf["a"], lambda: len(shelf), lambda: "a" in shelf, lambda: list(shelf),
                lambda: list(shelf.items()), lambda: shelf.get("a"), lambda: bool(shelf),
                lambda: shelf.setdefault("a", 1)):
        with pytest.raises(ValueError, match="closed"):
            act()


@pytest.mark.parametrize("writeback", [False, True])
def test_4_threads(file, writeback):
    with evendb.shelve.open(file, writeback=writeback) as shelf:
        got = [dict() for _ in range(16)]

        def work(number):
            for key in map(str, range(60)):
                got[number][key] = shelf.setdefault(key, [number])
                shelf[f"{number}/{key}"] = key
                assert shelf[f"{number}/{key}"] == key
                if number == 0 and key.endswith("5"):
                    shelf.sync()
                if number == 1 and key.endswith("5"):
                    assert all(value is not None for value in shelf.values())
                assert shelf.pop(f"{number}/{key}") == key

        threads(16, work)
        assert all(one == got[0] for one in got)
        assert dict(shelf) == got[0]


def test_23_a_child_that_is_forked_while_a_thread_writes_does_not_hang(file):
    other = file.parent / "other"
    run("""
        import os, sys, threading, evendb.dbm, evendb.shelve
        shelf = evendb.shelve.open(sys.argv[1], writeback=True)
        stop = threading.Event()
        def write():
            while not stop.is_set():
                shelf["a"] = list(range(50))
                shelf.sync()
        threads = [threading.Thread(target=write) for _ in range(2)]
        [thread.start() for thread in threads]
        for turn in range(int(sys.argv[3])):
            child = os.fork()
            if child == 0:
                try:
                    shelf["a"] = 1
                    os._exit(1)
                except evendb.dbm.error:
                    pass
                try:
                    evendb.shelve.open(sys.argv[2], "n")
                    os._exit(2)
                except evendb.dbm.error:
                    pass
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        [thread.join() for thread in threads]
        """, file, other, FORKS)
    with evendb.shelve.open(file) as shelf:
        assert shelf["a"] == list(range(50))


WRITER = """
import sys, evendb.dbm, evendb.shelve
if sys.argv[2] == "shelve":
    store = evendb.shelve.open(sys.argv[1])
    value = lambda number: [number] * 20
else:
    store = evendb.dbm.open(sys.argv[1], "c")
    value = lambda number: b"%d" % number * 20
number = len(store)
while True:
    store[f"{number:09}"] = value(number)
    number += 1
    if number % 10 == 0:
        store.sync()
    print(number, flush=True)
"""


@pytest.mark.parametrize("module", ["shelve", "dbm"])
def test_56_a_writer_is_killed_in_the_middle(file, module):
    """Each record of which the writer has said that it is written is there, and is whole. A store
    is killed twenty times, and another one is begun, so that reading all of it stays short."""
    folder = file.parent
    for turn in range(KILLS):
        file = folder / f"store-{turn // 20}"
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(file), module],
                                  stdout=subprocess.PIPE, text=True)
        for _ in range(1 + turn * 7 % 60):
            said = int(writer.stdout.readline())
        writer.kill()
        rest = writer.stdout.read().split("\n")[:-1]  # The last line may be a part of one.
        writer.wait()
        writer.stdout.close()
        said = int(rest[-1]) if rest else said
        if module == "shelve":
            with evendb.shelve.open(file) as shelf:
                records = dict(shelf)
            expected = {f"{number:09}": [number] * 20 for number in range(len(records))}
        else:
            with evendb.dbm.open(file, "w") as db:
                records = dict(db)
            expected = {b"%09d" % number: b"%d" % number * 20 for number in range(len(records))}
        assert len(records) >= said
        assert records == expected


class TouchesTheShelf:
    """Its pickling runs what is in `touch`, as code of a value may."""

    touch = staticmethod(lambda value: None)

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return isinstance(other, TouchesTheShelf) and self.name == other.name

    def __getstate__(self):
        TouchesTheShelf.touch(self)
        return {"name": self.name}


@pytest.mark.parametrize("serializer", [None, "functions"])
@pytest.mark.parametrize("touch, left", [
    (lambda shelf: shelf.__setitem__("new", [1]), {"new": [1], "z": [9, 9]}),
    (lambda shelf: shelf.__setitem__("z", ["set"]), {"z": ["set"]}),
    (lambda shelf: shelf["old"].append(2), {"old": [1, 2], "z": [9, 9]}),
    (lambda shelf: shelf["z"].append(2), {"z": [9, 9, 2]}),
    (lambda shelf: shelf.pop("z", None), {}),
    (lambda shelf: shelf.sync(), {"z": [9, 9]}),
    (lambda shelf: list(shelf.items()), {"z": [9, 9]}),
])
def test_39_a_value_that_touches_the_shelf_while_it_is_pickled(
        file, monkeypatch, touch, left, serializer):
    how = {} if serializer is None else {
        "serializer": lambda value, protocol: pickle.dumps(value, protocol),
        "deserializer": pickle.loads}
    with evendb.shelve.open(file, writeback=True, **how) as shelf:
        shelf["a"] = TouchesTheShelf("a")
        shelf["old"] = [1]
        shelf["z"] = [9]
        shelf.sync()
        shelf["a"], shelf["z"].append(9)
        touched = []

        def once(value):
            if not touched:
                touched.append(value)
                touch(shelf)

        monkeypatch.setattr(TouchesTheShelf, "touch", staticmethod(once))
    assert touched
    with evendb.shelve.open(file) as shelf:
        assert dict(shelf) == {"a": TouchesTheShelf("a"), "old": [1], **left}


def test_one_value_that_cannot_be_pickled_keeps_no_other_from_being_written(file):
    shelf = evendb.shelve.open(file, writeback=True)
    shelf.update({"a": [], "b": [], "c": []})
    shelf["a"].append(1)
    shelf["b"].append(threading.Lock())
    shelf["c"].append(3)
    with pytest.raises(TypeError, match="pickle"):
        shelf.sync()
    assert evendb.shelve.open(file, "r")["c"] == [3]
    shelf["b"][0] = 2
    shelf.sync()
    shelf["a"].append(4)
    shelf["b"].append(threading.Lock())
    shelf["c"].append(4)
    with pytest.raises(TypeError, match="pickle"):
        shelf.close()
    with evendb.shelve.open(file, "w") as shelf:
        assert dict(shelf) == {"a": [1, 4], "b": [2], "c": [3, 4]}


def test_json_keeps_a_value_as_it_is_or_refuses_it(file):
    with evendb.shelve.open(file, serializer="json") as shelf:
        for value in ((1, 2), {1: "a", "1": "b"}, [{"a": [(), 1]}], {None: 1}, b"", {1}):
            with pytest.raises(TypeError):
                shelf["k"] = value
        assert "k" not in shelf
        shelf["k"] = value = {"a": [1, 2.0, None, True, "\u00e9", {}]}
        assert repr(shelf["k"]) == repr(value)
