"""An exception at any step of an operation, as the handler of a signal raises it (Ctrl-C).

A profile function raises at each call of a function of the cache, and after each call of C, one
point in each turn. Those are the places where Python runs the handlers of signals.
"""

import re
import sys
import threading

import pytest

import evendb
from evendb.cache import Cache

LEFT = re.compile("^the file .* belongs to no entry$|^the folder .* is empty$")
BIG = b"x" * 2000


class Cut(BaseException):
    """What a handler raises."""


def cut(operation, point):
    """Calls `operation`, with a `Cut` at its point of that number; whether it came so far."""
    left, fired = point, False

    def profile(frame, event, _argument):
        nonlocal left, fired
        name = frame.f_code.co_filename
        if event not in ("call", "c_return") or not ("evendb" in name or "contextlib" in name):
            return
        left -= 1
        if left == 0:
            fired = True
            sys.setprofile(None)
            raise Cut

    sys.setprofile(profile)
    try:
        operation()
    except Cut:
        pass
    finally:
        sys.setprofile(None)
    return fired


def state(cache):
    """All entries."""
    return {key: cache.get(key) for key in cache.iterkeys()}


def in_a_thread(function):
    """What `function` gives in another thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results


def operations(cache):
    """(name, operation, the states that it may leave besides the one before)."""

    def transact():
        with cache.transact():
            cache.set("a", 7)
            cache.delete("b")
            cache.set("new", BIG)
            cache.push("first")

    start = {"a": 1, "b": BIG, "c": 3}
    yield "set", lambda: cache.set("a", 2), {**start, "a": 2}
    yield "set new", lambda: cache.set("d", 2, expire=100, tag="t"), {**start, "d": 2}
    yield "set file", lambda: cache.set("b", BIG + b"y"), {**start, "b": BIG + b"y"}
    yield "add file", lambda: cache.add("d", BIG), {**start, "d": BIG}
    yield "add", lambda: cache.add("b", BIG + b"z"), start
    yield "incr", lambda: cache.incr("a", 5), {**start, "a": 6}
    yield "pop", lambda: cache.pop("b"), {"a": 1, "c": 3}
    yield "delete", lambda: cache.delete("c"), {"a": 1, "b": BIG}
    yield "clear", cache.clear, {}
    yield "evict", lambda: cache.evict("c"), {"a": 1, "b": BIG}
    yield "push", lambda: cache.push(5, prefix="q"), {**start, "q-500000000000000": 5}
    done = {"a": 7, "c": 3, "new": BIG, 500_000_000_000_000: "first"}
    yield "transact", transact, done


def start(cache):
    """Where each turn begins."""
    cache.clear()
    cache["a"] = 1
    cache["b"] = BIG
    cache.set("c", 3, expire=1000, tag="c")


NAMES = [name for name, _, _ in operations(type("None", (), {"clear": None}))]


@pytest.mark.parametrize("name", NAMES)
def test_an_exception_at_any_step(tmp_path, name):
    """The operation is done, or nothing is; counts, index and files agree; locks are free."""
    with Cache(tmp_path / "cache", timeout=0.05, disk_files=True, disk_min_file_size=1000) as cache:
        ((operation, after),) = [rest for first, *rest in operations(cache) if first == name]
        start(cache)
        before, point, seen, leaked = state(cache), 0, set(), 0
        while True:
            point += 1
            fired = cut(operation, point)
            assert in_a_thread(lambda: cache.touch("none")) == [False], point
            now = state(cache)
            assert now in (before, after), point
            seen.add(now == after)
            # A file that was written before the operation had its lock may be left, and a folder.
            told = [str(found.message) for found in cache.check()]
            assert not [text for text in told if not LEFT.search(text)], (point, told)
            if told:
                leaked += 1
                cache.check(fix=True)
            assert len(cache) == len(now) == len(list(cache)), point
            if not fired:
                break
            if now != before or told:
                start(cache)
        assert now == after and seen >= {True} and point > 20
        assert before == after or seen == {True, False}
        assert leaked < point / 2
    with Cache(tmp_path / "cache", disk_files=True) as cache:
        assert state(cache) == after and cache.check() == []


def test_a_lock_is_free_after_an_exception_in_close(tmp_path):
    """The last object closes the database, whatever cuts it off."""
    point, fired = 0, True
    while fired:
        point += 1
        cache = Cache(tmp_path / "cache", timeout=0.05)
        cache["key"] = point
        fired = cut(cache.close, point)
        assert in_a_thread(lambda: cache.set("key", 0)) == [True], point
        cache.close()
        with Cache(tmp_path / "cache") as again:
            assert again["key"] == 0 and again.check() == []


def test_an_operation_that_is_cut_off_inside_of_a_transaction(tmp_path):
    """The program catches the exception inside of `transact()`: no half entry is committed."""
    with Cache(tmp_path / "cache") as cache:
        cache["key"], point, fired, undone = 0, 0, True, 0
        while fired:
            point += 1
            before = cache["key"]
            try:
                with cache.transact():
                    fired = cut(lambda: cache.set("new", 1, expire=100), point)
                    cache["key"] = point
                assert cache["key"] == point
            except evendb.Error as error:
                assert "cut off" in str(error)
                assert cache["key"] == before and "new" not in cache
                undone += 1
            assert [str(found.message) for found in cache.check()] == [], point
            cache.delete("new")
        assert undone
