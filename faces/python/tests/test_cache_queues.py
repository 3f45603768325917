"""Deques, queues, locks and crashes of `evendb.cache`."""

import gc
import os
import pathlib
import pickle
import random
import shutil
import signal
import subprocess
import sys
import threading

import pytest

import evendb
from evendb.cache import (
    Averager,
    BoundedSemaphore,
    Cache,
    CodecError,
    Deque,
    EmptyDirWarning,
    FanoutCache,
    Index,
    Lock,
    RLock,
    Timeout,
    UnknownFileWarning,
)
from evendb.cache import _codec as codec
from evendb.cache import _queue, _recipes, _store
from test_cache_memo import run_threads


@pytest.fixture
def cache(tmp_path):
    with Cache(tmp_path / "cache") as cache:
        yield cache


@pytest.fixture
def killed(tmp_path):
    """Runs a program, kills it with -9 once it has written some lines, and gives all its lines.

    The program goes on until the signal reaches it, so it writes more lines than it was waited for.
    """

    def run(text, directory, lines):
        command = [sys.executable, "-c", text, str(directory)]
        package = os.path.dirname(os.path.dirname(evendb.__file__))
        environment = {"PYTHONPATH": package, "PATH": "/usr/bin:/bin"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        written = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        # A last line without its end was not written whole.
        return written + rest.splitlines(keepends=True)[: rest.count(b"\n")]

    return run


PRODUCER = """
import sys
from evendb.cache import Deque
deque = Deque(directory=sys.argv[1], maxlen=20)
number = 0
while True:
    deque.append(b"%d " % number + bytes(33_000))
    print(number, flush=True)
    number += 1
"""


def test_a_deque_after_its_producer_was_killed(tmp_path, killed):
    """Records were dropped from a Deque, then peekleft blocked for ever."""
    last = -1
    for turn in range(4):
        lines = killed(PRODUCER, tmp_path / "deque", 3 + 7 * turn)
        deque = Deque(directory=str(tmp_path / "deque"), maxlen=20)
        assert deque.cache.check() == []
        numbers = [int(value.split()[0]) for value in deque]
        # The append that was not printed yet may have pushed out the oldest, never the newest.
        assert int(lines[-1]) in numbers and len(numbers) <= 20
        assert len(lines) >= 3 + 7 * turn and numbers[-1] - int(lines[-1]) in (0, 1)
        assert numbers[-1] == int(deque.peek().split()[0]) and numbers[-1] >= last or turn
        deque.rotate(3)
        assert int(deque.peekleft().split()[0]) == int(deque.popleft().split()[0])
        deque.clear()
        with pytest.raises(IndexError):
            deque.peekleft()
        deque.cache.close()


def test_a_deque_with_a_broken_value(tmp_path):
    """A broken value in a Deque: peekleft, pop and rotate end."""
    deque = Deque("abc", str(tmp_path / "deque"))
    key = codec.encode_key(500_000_000_000_000)
    with deque.cache._transact() as unit:
        unit.write_values.put(key, b"\x0b" + unit.values.get(key)[1:] + b"{")
    for call in (deque.peekleft, deque.popleft, lambda: deque.rotate(-1), lambda: list(deque)):
        with pytest.raises(CodecError, match="500000000000000"):
            call()
    assert deque.pop() == "c" and deque.peek() == "b"
    deque[0] = "mended"
    assert list(deque) == ["mended", "b"]


def test_a_deque_whose_files_are_gone(tmp_path):
    """A missing file in a Deque: what is there comes, and nothing waits."""
    cache = Cache(tmp_path / "cache", disk_files=True, eviction_policy="none")
    deque = Deque.fromcache(cache, [b"%d" % number * 40_000 for number in range(4)])
    for place in (0, 3):
        with cache.read(500_000_000_000_000 + place) as file:
            os.remove(file.name)
    assert [value[:1] for value in deque] == [b"1", b"2"]
    with pytest.raises(OSError, match="check"):
        deque.peekleft()
    assert deque.popleft()[:1] == b"1" and deque.pop()[:1] == b"2"
    with pytest.raises(IndexError):
        deque.pop()
    cache.close()


def test_sixteen_threads_set_one_default(tmp_path):
    """Index.setdefault was not atomic."""
    index = Index(str(tmp_path / "index"))
    results = []

    def work():
        mine = threading.get_ident()
        results.append([index.setdefault(key, mine) for key in range(60)])

    run_threads(work)
    assert len(results) == 16
    for key in range(60):
        assert {result[key] for result in results} == {index[key]}


def test_a_deque_is_a_deque(tmp_path):
    """Ends, middle, order, comparison, and the greatest length."""
    deque = Deque(range(5), str(tmp_path / "deque"), maxlen=5)
    deque.append(5)
    deque.appendleft(0)
    assert list(deque) == [0, 1, 2, 3, 4] and deque == [0, 1, 2, 3, 4]
    deque[-1] = "end"
    del deque[1]
    assert deque[2] == 3 and deque.count("end") == 1 and len(deque) == 4
    deque.reverse()
    assert list(deque) == ["end", 3, 2, 0] and list(reversed(deque)) == [0, 2, 3, "end"]
    deque.rotate(-1)
    deque.remove("end")
    assert list(deque) == [3, 2, 0] and deque < [4] and deque != [3, 2]
    deque.maxlen = 1
    assert list(deque) == [0]
    for index in (1, -2):
        with pytest.raises(IndexError):
            deque[index]


def test_queues_of_threads(cache):
    """Each value that 8 threads push is pulled once."""
    taken = []

    def work():
        for number in range(20):
            cache.push((threading.get_ident(), number), prefix="jobs")
        for _ in range(20):
            taken.append(cache.pull(prefix="jobs")[1])

    run_threads(work, 8)
    assert len(taken) == len(set(taken)) == 160 and cache.pull(prefix="jobs") == (None, None)
    assert len(cache) == 0 and cache.check() == []
    assert cache.push("a") == 500_000_000_000_000
    assert cache.push("b", side="front") == 499_999_999_999_999
    assert cache.peek(side="back")[1] == "a" and cache.peekitem() == (499999999999999, "b")
    with pytest.raises(ValueError, match="front"):
        cache.push(1, side="left")


HOLDER = """
import sys
from evendb.cache import Cache, Lock, RLock, BoundedSemaphore
cache = Cache(sys.argv[1], eviction_policy="none")
for expire in (None, 1000):
    Lock(cache, ("lock", expire), expire=expire).acquire()
    RLock(cache, ("rlock", expire), expire=expire).acquire()
    BoundedSemaphore(cache, ("semaphore", expire), expire=expire).acquire()
import os
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def test_locks_of_a_process_that_was_killed(tmp_path, killed, monkeypatch):
    """A stale lock of a stopped run: waited for ever without a word."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "cache")]
    package = os.path.dirname(os.path.dirname(evendb.__file__))
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": package}
    )
    pid = process.stdout.readline().decode().strip()
    process.kill()
    process.communicate()
    with Cache(tmp_path / "cache") as cache:
        for kind in (Lock, RLock, BoundedSemaphore):
            name = {"Lock": "lock", "RLock": "rlock"}.get(kind.__name__, "semaphore")
            with pytest.raises(Timeout, match=f"{pid}-.*has ended"):
                kind(cache, (name, None)).acquire()
            cache.delete((name, None))
            with kind(cache, (name, None), timeout=0):
                pass
            # The clock passes the expiry of the other one.
            cache.touch((name, 1000), expire=-1)
            with kind(cache, (name, 1000), timeout=0):
                pass


def test_who_waits_is_told_who_holds(cache, monkeypatch):
    """A lock that is held: a timeout, or a warning after a minute, says by whom."""
    for kind in (Lock, RLock, BoundedSemaphore):
        holder = kind(cache, kind.__name__)
        holder.acquire()
        (result,) = run_threads(kind(cache, kind.__name__, timeout=0.01).acquire, 1)
        assert isinstance(result, Timeout) and f"{os.getpid()}-" in str(result)
        holder.release()
    monkeypatch.setattr(_recipes, "WARN_AFTER", 0.0)
    lock = Lock(cache, "lock")
    lock.acquire()
    threading.Timer(0.05, lock.release).start()
    with pytest.warns(UserWarning, match=f"{os.getpid()}-"):
        Lock(cache, "lock").acquire()
    assert Lock(cache, "lock").locked()
    with pytest.raises(AssertionError, match="un-acquired"):
        RLock(cache, "never").release()
    with pytest.raises(AssertionError, match="un-acquired"):
        BoundedSemaphore(cache, "never").release()


def test_a_semaphore_and_an_average(cache):
    """Two may have the semaphore; an average is one entry."""
    semaphore = BoundedSemaphore(cache, "two", value=2, timeout=0)
    with semaphore, semaphore, pytest.raises(Timeout):
        semaphore.acquire()
    average = Averager(cache, "average")
    assert average.get() is None
    run_threads(lambda: average.add(4), 8)
    average.add(13)
    assert average.get() == average.pop() == 5 and average.get() is None


WRITER = """
import sys, random
from evendb.cache import Cache
cache = Cache(sys.argv[1], size_limit=20_000, eviction_policy="least-recently-used",
              disk_files=True, disk_min_file_size=500)
number = 0
while True:
    key = random.randrange(50)
    cache.set(key, b"x" * random.randrange(1000), expire=random.choice([None, 0.01]), tag="t")
    cache.get(random.randrange(50))
    if number % 7 == 0:
        cache.delete(key)
        cache.evict("t") if number % 91 == 0 else None
    number += 1
    print(number, flush=True)
"""


def test_a_crash_leaves_no_entry_without_its_index(tmp_path, killed):
    """Entries, indexes, counts and files agree after kill -9; at most a file is left over."""
    for turn in range(3):
        killed(WRITER, tmp_path / "cache", 40 + 60 * turn)
        with Cache(tmp_path / "cache") as cache:
            found = [warning for warning in cache.check(fix=True)]
            assert {w.category for w in found} <= {UnknownFileWarning, EmptyDirWarning}
            assert cache.check() == []


def test_threads_on_one_cache_while_others_close_it(tmp_path):
    """Threads on one object, and close() against all: no call fails."""
    with FanoutCache(tmp_path / "cache") as cache:

        def work():
            for number in range(15):
                assert cache.set((threading.get_ident(), number), number, retry=True)
                assert cache.get((threading.get_ident(), number)) == number
                cache.incr("all", retry=True)
                if number % 5 == 0:
                    cache.close()

        results = run_threads(work, 8)
        assert results == [None] * 8 and cache["all"] == 8 * 15
        assert len(cache) == 8 * 15 + 1 and cache.check() == []


def test_many_openings_of_one_directory(tmp_path):
    """Threads that make the same fresh cache at once share it."""
    made = run_threads(lambda: Cache(tmp_path / "cache"), 16)
    for number, cache in enumerate(made):
        cache[number] = number
    assert len(made[0]) == 16 and len({id(cache._store) for cache in made}) == 1
    for cache in made:
        cache.close()
    assert made[0]._store is not None and not os.path.exists(tmp_path / "cache/cache.db")
    os.rename(tmp_path / "cache", tmp_path / "moved")
    with Cache(tmp_path / "moved") as cache:
        assert sorted(cache) == list(range(16))


def test_a_copy_keeps_deadlines(tmp_path):
    """Records with expiry were missing from backups, or lost their expiry."""
    with Cache(tmp_path / "cache") as cache:
        cache.set("later", 1, expire=1000)
        cache.set("touched", 1)
        cache.set("soon", 1, expire=-1)
        cache.touch("touched", 2000)
        expected = [cache.get(key, expire_time=True)[1] for key in ("later", "touched")]
    shutil.copytree(tmp_path / "cache", tmp_path / "copy")
    with Cache(tmp_path / "copy") as cache:
        assert [cache.get(key, expire_time=True)[1] for key in ("later", "touched")] == expected
        assert cache.get("soon") is None and cache.expire() == 1 and cache.check() == []


def test_values_as_files(tmp_path):
    """disk_files: another program reads a value by its path; folders go with their files."""
    with Cache(tmp_path / "cache", disk_files=True) as cache:
        cache["key"] = b"x" * 40_000
        with cache.read("key") as file:
            assert pathlib.Path(file.name).read_bytes() == b"x" * 40_000
        assert cache.volume() > 40_000
        with pytest.raises(KeyError):
            with cache.transact():
                cache["key"] = b"y" * 40_000
                raise KeyError
        assert cache["key"] == b"x" * 40_000 and cache.check() == []
        cache["key"] = "y" * 40_000
        assert cache["key"] == "y" * 40_000 and cache.check() == []
        (tmp_path / "cache/aa").mkdir()
        (tmp_path / "cache/stray").write_text("x")
        kinds = {warning.category for warning in cache.check(fix=True)}
        assert kinds == {UnknownFileWarning, EmptyDirWarning} and cache.check() == []
    with Cache(tmp_path / "cache") as cache:
        assert cache["key"] == "y" * 40_000 and cache.clear() == 1
    assert os.listdir(tmp_path / "cache") == ["cache.evendb"]


def test_rooms_of_one_directory(tmp_path):
    """Caches, deques and indexes of a FanoutCache share a database, and keep apart."""
    with FanoutCache(tmp_path / "cache", disk_files=True) as fanout:
        fanout["key"] = b"x" * 40_000
        inner = fanout.cache("inner/most", size_limit=1000, disk_files=True)
        inner["key"] = b"y" * 40_000
        index, deque = fanout.index("names"), fanout.deque("jobs", maxlen=2)
        index.update(a=1, b=2)
        deque.extend("abc")
        assert fanout.index("names") is index and list(deque) == ["b", "c"]
        for cache in (fanout, inner):
            assert cache.check(fix=True) == []
        assert (fanout["key"][:1], inner["key"][:1]) == (b"x", b"y")
        assert (inner.size_limit, index.cache.eviction_policy) == (1000, "none")
        with pytest.raises(KeyError):
            with fanout.transact():
                index["c"], fanout["other"] = 3, 4
                raise KeyError
        assert list(index) == ["a", "b"] and "other" not in fanout
        again = pickle.loads(pickle.dumps((fanout, inner, index, deque)))
        assert again[0]["key"] == fanout["key"] and again[1]["key"] == inner["key"]
        assert again[2] == {"a": 1, "b": 2} and again[3].maxlen == 2
        assert fanout.clear() == 1 and len(index) == 2
        with pytest.raises(ValueError, match="names"):
            fanout.cache("../../up")


def test_a_value_that_the_store_does_not_take(tmp_path):
    """A value above a quarter of the store's memory: LimitExceeded, and nothing has changed."""
    how = {"store_memory_budget": "1MiB", "disk_files": False}
    with Cache(tmp_path / "cache", **how) as cache:
        cache["key"] = "old"
        volume = cache.volume()
        with pytest.raises(evendb.LimitExceeded):
            cache["key"] = b"x" * 2_000_000
        assert cache["key"] == "old" and cache.volume() == volume and cache.check() == []
    with pytest.raises(TypeError, match="store_"):
        Cache(tmp_path / "cache", size=5)
    with pytest.warns(UserWarning, match="no SQLite"):
        Cache(tmp_path / "cache", sqlite_mmap_size=5).close()


def test_a_backup_keeps_deadlines(tmp_path):
    """Records with expiry were missing from backups: a backup of the database below."""
    with Cache(tmp_path / "cache") as cache:
        cache.set("later", 1, expire=1000)
        cache.set("soon", 1, expire=-1)
        expected = cache.get("later", expire_time=True)
    (tmp_path / "restored").mkdir()
    with evendb.open(tmp_path / "cache/cache.evendb") as db:
        db.backup(tmp_path / "backup")
    evendb.restore(tmp_path / "backup", tmp_path / "restored/cache.evendb")
    with Cache(tmp_path / "restored") as cache:
        assert cache.get("later", expire_time=True) == expected
        assert cache.get("soon") is None and cache.expire() == 1 and cache.check() == []


def test_a_cache_that_is_collected_inside_of_a_transaction(tmp_path):
    """Collection never waits, and the database closes when the last object is gone."""
    cache, other = Cache(tmp_path / "cache"), Cache(tmp_path / "other")
    ring = [Cache(tmp_path / "cache"), Cache(tmp_path / "other")]
    ring.append(ring)
    with cache.transact():
        cache["key"] = 1
        del ring
        del other
        gc.collect()
        assert cache["key"] == 1
        locks = _store.locks
        with locks.registry:
            lone = Cache.__new__(Cache)
            lone.__dict__.update(cache.__dict__)
            cache._store.users += 1
            del lone
            gc.collect()
    assert len(_store._orphans) == 1 and cache._store.users == 2
    Cache(tmp_path / "other").close()
    assert cache._store.users == 1 and not _store._orphans
    cache.close()
    for name in ("cache", "other"):
        with evendb.open(tmp_path / name / "cache.evendb"):
            pass


def test_a_folder_that_another_thread_removes(tmp_path, monkeypatch):
    """Files were not found while others trimmed: a folder that goes meanwhile is made again."""
    make, gone = os.makedirs, []

    def makedirs(path, *args, **kwargs):
        gone.append(path)
        if len(gone) == 1:
            raise FileNotFoundError(path)
        make(path, *args, **kwargs)
        if len(gone) == 2:
            os.rmdir(path)

    with Cache(tmp_path / "cache", disk_files=True) as cache:
        monkeypatch.setattr(os, "makedirs", makedirs)
        cache["key"] = b"x" * 40_000
        assert len(gone) == 3 and cache["key"] == b"x" * 40_000
        cache.delete("key")
        assert os.listdir(tmp_path / "cache") == ["cache.evendb"]


def test_a_room_that_is_made_inside_of_a_transaction(tmp_path):
    """Settings are no part of a transaction: a new room has its policy, whatever becomes of it."""
    with FanoutCache(tmp_path / "cache") as fanout:
        with pytest.raises(KeyError):
            with fanout.transact():
                fanout.index("names")["a"] = 1
                fanout.deque("jobs").append(1)
                assert fanout.index("names")["a"] == 1
                raise KeyError
        index = fanout.index("names")
        assert len(index) == 0 and index.cache.eviction_policy == "none"
        with fanout.transact():
            fanout.index("names")["a"] = 1
            fanout.deque("more").append(fanout.index("names")["a"])
            with pytest.raises(evendb.Error, match="inside of transact"):
                index.cache.reset("eviction_policy", "least-recently-used")
        assert index == {"a": 1} and list(fanout.deque("more")) == [1]
        assert index.cache.check() == fanout.deque("more").cache.check() == []
    with FanoutCache(tmp_path / "cache") as fanout:
        assert fanout.index("names") == {"a": 1} and list(fanout.deque("jobs")) == []


def test_check_of_a_key_that_cannot_be_read(tmp_path):
    """The file of a pickled key is missing: `check` says so without the codec, and mends it."""
    with Cache(tmp_path / "cache", codec="pickle", disk_files=True) as cache:
        cache[frozenset([1])] = b"x" * 40_000
        with cache.read(frozenset([1])) as file:
            os.remove(file.name)
    with Cache(tmp_path / "cache") as cache:
        texts = [str(warning.message) for warning in cache.check(fix=True)]
        assert any("of the entry b'@P" in text and "missing" in text for text in texts)
        assert cache.check() == [] and len(cache) == cache.volume() == 0


def test_queues_whose_prefixes_begin_alike(cache):
    """The keys of "user-1" are between those of "user": a pull took another queue's value."""
    prefixes = ["user", "user-1", "user-1-2", "user-9", "user-500000000000000", "user-", "us", "",
                "user-50000000000000x", "user-5000000000000001", None]
    places = [cache.push(turn, prefix=prefix) for turn in range(2) for prefix in prefixes]
    more = ["user-1", "user-5:", "user-5", "user-99", "user-9999999999999990", "user-\u00e9",
            "user-5000000000000000", "user-4999999999999999", "user-499999999999999:"]
    for key in more:
        cache[key] = "not in a queue"
    assert len(set(places)) == len(places) and len(cache) == len(places) + len(more)
    for prefix in prefixes:
        for value, side in enumerate(("front", "back")):
            key, found = cache.peek(prefix=prefix, side=side)
            assert key in places and found == value, prefix
            new = cache.push("new", prefix=prefix, side=side)
            assert cache.pull(prefix=prefix, side=side) == (new, "new")
    for prefix in prefixes:
        assert [cache.pull(prefix=prefix)[1] for _ in range(3)] == [0, 1, None], prefix
    assert len(cache) == len(more) and cache.check() == []


def test_the_jump_over_other_keys_is_the_shortest():
    """The next number after a text in the order of texts, and the one before, by comparison."""
    draw = random.Random(5)
    numbers = sorted(b"%015d" % draw.choice([draw.randrange(10**15), 5 * 10**14 + draw.randrange(99)])
                     for _ in range(500))
    for number in numbers:
        text = number[: draw.randrange(1, 16)] + draw.choice([b"", b"-", b"5", b":", b"\xff"])
        text += b"%d" % draw.randrange(10**6) * draw.randrange(2)
        if len(text) == 15 and text.isdigit():
            continue
        after, before = (b"%015d" % _queue._jump(text, back) for back in (False, True))
        if len(before) == len(after) == 15 and b"-" not in before:
            assert before < text < after and int(after) - int(before) == 1


def test_tags_have_the_types_of_keys(tmp_path):
    """A tag that only a pickle can hold was stored, and no get with it could read it again."""
    tag = frozenset([1])
    with Cache(tmp_path / "cache", codec="pickle") as cache:
        cache.set("key", 1, tag=tag)
        assert cache.get("key", tag=True) == (1, tag)
        assert cache.peekitem(tag=True) == (("key", 1), tag)
        assert cache.touch("key", 100) and cache.incr("key") == 2
        assert cache.pop("key", expire_time=True, tag=True)[::2] == (2, tag)
        cache.set("key", 1, tag=tag)
        assert cache.evict(frozenset([2])) == 0 and cache.evict(tag) == 1
    with Cache(tmp_path / "cache") as cache, pytest.raises(TypeError, match="frozenset"):
        cache.set("key", 1, tag=tag)


def test_a_lock_that_expires_is_waited_for(tmp_path):
    """A lock with `expire` of a process that was killed: its waiter got Timeout at once."""
    with Cache(tmp_path / "cache") as cache:
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        values = {Lock: f"{gone.pid}-1", RLock: (f"{gone.pid}-1", 1),
                  BoundedSemaphore: [f"{gone.pid}-1"]}
        for kind, value in values.items():
            cache.set(kind.__name__, value, expire=0.2)
            with kind(cache, kind.__name__, timeout=30):
                pass
            cache.set(kind.__name__, value, expire=1000)
            with pytest.raises(Timeout, match=f"was held by process-thread {gone.pid}-1 "):
                kind(cache, kind.__name__, timeout=0.01).acquire()
            cache.touch(kind.__name__)
            with pytest.raises(Timeout, match="has ended"):
                kind(cache, kind.__name__, timeout=0.01).acquire()


def test_a_late_release_frees_nobody_elses_lock(cache):
    """The lock expired, and another one has it: the release of the first one freed it."""
    for kind in (Lock, BoundedSemaphore):
        first, second = kind(cache, "key", expire=1000), kind(cache, "key", timeout=0)
        first.acquire()
        cache.touch("key", expire=-1)  # The clock passes the expiry.
        second.acquire()
        first.release()
        with pytest.raises(Timeout):
            kind(cache, "key", timeout=0).acquire()
        assert run_threads(second.release, 1) == [None]
        with kind(cache, "key", timeout=0):
            pass
        # A lock of the same thread may be freed by another object; another thread's may not.
        first.acquire()
        kind(cache, "key").release()
        second.acquire()
        first.release()
        with pytest.raises(Timeout):
            kind(cache, "key", timeout=0).acquire()
        second.release()
    holder = Lock(cache, "another")
    run_threads(holder.acquire, 1)
    Lock(cache, "another").release()
    assert holder.locked()
    holder.release()
    assert not holder.locked()


def test_a_file_that_fails_in_the_middle_leaves_nothing(tmp_path):
    """The half of a file whose `read()` raised stayed for ever."""

    class File:
        def __init__(self):
            self.chunks = [b"one"]

        def read(self, _size):
            return self.chunks.pop()

    with Cache(tmp_path / "cache", disk_files=True) as cache:
        with pytest.raises(IndexError):
            cache.set("key", File(), read=True)
        assert os.listdir(tmp_path / "cache") == ["cache.evendb"] and cache.check() == []
