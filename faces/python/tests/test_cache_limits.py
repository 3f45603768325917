"""Limits, culling, expiry and timeouts of `evendb.cache`. Time is the tests' own."""

import random
import threading
import time

import pytest

import evendb
from evendb.cache import EVICTION_POLICY, Cache, Deque, FanoutCache, Timeout
from evendb.cache import _store

KILO = b"x" * 1000


class Clock:
    """`time.time` of a test."""

    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    return clock


@pytest.fixture
def cache(tmp_path):
    with Cache(tmp_path / "cache") as cache:
        yield cache


def test_the_default_limit_is_told(cache):
    """A default limit of 1 GB dropped records silently: it is in repr, and culled ones count."""
    assert cache.size_limit == 2**30 and "size_limit=1073741824" in repr(cache)
    assert "least-recently-stored" in repr(cache) and "'json'" in repr(cache)
    with FanoutCache(cache.directory + "-fanout") as fanout:
        assert "size_limit=1073741824 in all" in repr(fanout)


def test_culled_records_are_counted(cache):
    """A default limit dropped records silently: the count lasts."""
    cache.reset("size_limit", 50_000)
    for number in range(200):
        assert cache.set(number, KILO)
        assert cache[number] == KILO
    assert cache.culled == cache.reset("culled") == 200 - len(cache) > 100
    assert cache.volume() <= 50_000 and cache.check() == []
    culled = cache.culled
    cache.close()
    with Cache(cache.directory) as again:
        assert again.culled == culled and again.size_limit == 50_000
        assert list(again) == list(range(200 - len(again), 200))


@pytest.mark.parametrize("size", [1_500_000, 5_000_000])
def test_a_value_above_a_share_of_the_limit_is_stored(tmp_path, size):
    """A value above a shard's share was dropped at once, and memoize ran each time."""
    runs = []
    with FanoutCache(tmp_path / "cache", shards=4, size_limit=4_000_000) as cache:
        cache["small"] = b"x"
        assert cache.set("large", b"x" * size) is True
        assert len(cache["large"]) == size
        assert ("small" in cache) == (size < 4_000_000)

        @cache.memoize()
        def large():
            runs.append(1)
            return b"y" * size

        assert len(large()) == len(large()) == size
        assert runs == [1] and cache.check() == []


def test_what_a_set_stores_is_not_culled_by_it(tmp_path):
    """With a limit of nothing at all, True is still not followed by a miss."""
    for policy in EVICTION_POLICY:
        with Cache(tmp_path / policy, size_limit=0, eviction_policy=policy) as cache:
            for key in (1, 2, 1, 3, 1):
                assert cache.set(key, KILO) and cache[key] == KILO
                assert cache.add(key, 1) is False
            assert cache.incr("n") == 1 and cache["n"] == 1
            key = cache.push(KILO)
            assert cache[key] == KILO and cache.check() == []


def test_a_deque_is_not_culled(tmp_path):
    """A Deque or an Index has the policy "none": no limit holds."""
    deque = Deque(directory=str(tmp_path / "deque"))
    deque.cache.reset("size_limit", 1000)
    deque.extend([KILO] * 30)
    assert len(deque) == 30 and deque.cache.cull() == 0 and deque.cache.culled == 0


def test_a_key_that_is_set_again_outlives_its_expiry(cache, clock):
    """A sweep of expired records deleted a key refreshed in the same flush."""
    cache.set("key", 1, expire=0.2)
    cache.set("other", 1, expire=0.2)
    cache.set("third", 1, expire=0.2)
    clock.now += 1
    cache.reset("cull_limit", 0)
    with cache.transact():
        cache.set("key", 2, expire=60)
        assert cache.expire() == 2
        assert cache["key"] == 2
    cache.reset("cull_limit", 10)
    assert list(cache) == ["key"] and cache["key"] == 2
    cache.set("key", 3, expire=0.2)
    clock.now += 1
    cache.set("key", 4, expire=60)
    assert cache.expire() == 0 and cache["key"] == 4 and cache.check() == []
    clock.now += 61
    assert cache.expire() == 1 and len(cache) == cache.volume() == 0


def test_one_stamp_of_expiry_for_many(cache, clock):
    """A sweep of expired records: two with the same stamp, and one stamp twice for a key."""
    for key in "abc":
        cache.set(key, key, expire=5)
    cache.set("a", "again", expire=5)
    assert cache.get("a", expire_time=True) == ("again", clock.now + 5)
    assert len(cache) == 3 and cache.check() == []
    clock.now += 5.5
    assert [cache.get(key) for key in "abc"] == [None] * 3 and len(cache) == 3
    cache["d"] = 1
    assert list(cache) == ["d"] and cache.check() == []


@pytest.mark.parametrize("policy", EVICTION_POLICY)
def test_a_model_of_entries_and_their_index(tmp_path, clock, policy):
    """Another order of expiry left an entry without index: random steps against a dictionary."""
    draw = random.Random(policy)
    model = {}
    with Cache(tmp_path / "cache", eviction_policy=policy) as cache:
        for step in range(1500):
            key = draw.randrange(12)
            value, expiry = model.get(key, (None, None))
            live = key in model and (expiry is None or expiry > clock.now)
            expire = draw.choice([None, 1, 3, 10])
            choice = draw.randrange(8)
            if choice < 3:
                cache.set(key, step, expire=expire, tag=draw.choice([None, "red", 5]))
                model[key] = step, None if expire is None else clock.now + expire
            elif choice == 3:
                assert cache.add(key, step, expire=expire) is not live
                if not live:
                    model[key] = step, None if expire is None else clock.now + expire
            elif choice == 4:
                assert cache.touch(key, expire) is live
                if live:
                    model[key] = value, None if expire is None else clock.now + expire
            elif choice == 5:
                assert cache.pop(key, "none") == (value if live else "none")
                if live:
                    del model[key]
            elif choice == 6:
                assert cache.incr(key) == (value + 1 if live else 1)
                model[key] = (value + 1, expiry) if live else (1, None)
            else:
                clock.now += draw.choice([0.25, 1.5])
            now = clock.now
            for key, (value, expiry) in model.items():
                expected = value if expiry is None or expiry > now else None
                assert cache.get(key) == expected
            if step % 100 == 0:
                assert cache.check() == []
        clock.now += 100
        cache.expire()
        assert {key: cache[key] for key in cache} == {
            key: value for key, (value, expiry) in model.items() if expiry is None
        }
        for key in list(cache):
            cache.touch(key, 1)
        clock.now += 2
        cache.expire()
        assert len(cache) == cache.volume() == 0 and cache.check() == []


def test_policies_cull_what_they_say(tmp_path):
    """The one that was used least goes first, and a change of the policy keeps all entries."""
    with Cache(tmp_path / "cache", cull_limit=0) as cache:
        for key in "abcdef":
            cache[key] = KILO
        cache.reset("eviction_policy", "least-recently-used")
        for key in "ab":
            cache[key]
        cache["c"] = KILO
        cache.reset("size_limit", cache.volume() - 1)
        cache.reset("eviction_policy", "least-recently-used")
        with cache._transact() as unit:
            assert unit.remove_by_policy(3) == 3
        assert sorted(cache) == ["a", "b", "c"] and cache.check() == []
        cache.reset("eviction_policy", "least-frequently-used")
        for key in "aacbcc":
            cache[key]
        cache["new"] = KILO
        for left in (["a", "b", "c"], ["a", "c"], ["c"]):
            with cache._transact() as unit:
                assert unit.remove_by_policy(1) == 1
            assert sorted(cache) == left and cache.check() == []
        cache.reset("eviction_policy", "none")
        assert cache.cull() == 0 and cache.check() == []
        with pytest.raises(ValueError, match="least-recently-used"):
            cache.reset("eviction_policy", "random")


def test_an_object_that_opens_again_follows_the_policy(tmp_path):
    """Another object changed the policy while this one was closed: its gets count from then on."""
    first = Cache(tmp_path / "cache")
    first["key"] = KILO
    first.close()
    with Cache(tmp_path / "cache") as second:
        second.reset("eviction_policy", "least-recently-used")
    assert first["key"] == KILO and first["key"] == KILO
    assert len(first._room.notes) == 1
    first.close()


def test_a_change_of_policy_that_was_cut_off(tmp_path):
    """The next opening makes the index anew."""
    with Cache(tmp_path / "cache") as cache:
        for key in "abc":
            cache[key] = KILO
        cache._room.write_settings({"indexed_policy": ""}, b"p")
        assert len(cache.check()) == 3
    with Cache(tmp_path / "cache") as cache:
        assert cache.check() == []


def test_many_notes_of_gets_reach_the_index(tmp_path):
    """Gets under "least-recently-used" are noted in memory, and written when there are many."""
    with Cache(tmp_path / "cache", eviction_policy="least-recently-used") as cache:
        keys = list(range(_store.NOTES_MAX + 10))
        for key in keys:
            cache[key] = key
        for key in reversed(keys):
            cache[key]
        assert 0 < len(cache._room.notes) < 20
    with Cache(tmp_path / "cache") as cache:
        with cache._transact() as unit:
            assert unit.remove_by_policy(2) == 2
        assert keys[-1] not in cache and keys[-2] not in cache and cache.check() == []


def test_after_a_timeout_answers_have_their_shape(tmp_path):
    """On a timeout the bare default came where a tuple was asked for."""
    inside, leave = threading.Event(), threading.Event()
    with FanoutCache(tmp_path / "cache", timeout=0.01) as cache:
        cache.set("there", 1, tag="red")

        def hold():
            with cache.transact():
                cache.set("held", 1)
                inside.set()
                leave.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait()
        assert cache.get("there", expire_time=True, tag=True) == (1, None, "red")
        assert cache.get("held", expire_time=True) == (None, None)
        assert cache.set("a", 1) is False and "a" not in cache
        assert cache.add("a", 1) is False and cache.touch("there") is False
        assert cache.incr("n") is None and cache.decr("n") is None
        assert cache.delete("there") is False and "there" in cache
        assert cache.pop("there", 5) == 5
        assert cache.pop("there", 5, tag=True) == (5, None)
        assert cache.pop("there", 5, expire_time=True, tag=True) == (5, None, None)
        with pytest.raises(Timeout):
            with cache.transact(retry=False):
                pass
        with Cache(tmp_path / "cache", timeout=0) as other:
            for call in (other.clear, other.expire, other.cull, other.check, other.pull):
                with pytest.raises(Timeout):
                    call()
        leave.set()
        thread.join()
        assert cache.set("a", 1) is True and cache["a"] == cache["held"] == 1


def test_retry_waits(tmp_path):
    """With retry=True a write waits for the holder of the lock, and is then there."""
    inside, leave = threading.Event(), threading.Event()
    with Cache(tmp_path / "cache", timeout=0.001) as cache:

        def hold():
            with cache.transact():
                inside.set()
                leave.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait()
        threading.Timer(0.05, leave.set).start()
        assert cache.set("key", 1, retry=True) and cache["key"] == 1
        thread.join()


def test_a_transaction_leaves_nothing_after_an_exception(cache):
    """Entries, counts and indexes are undone together."""
    cache.set("a", 1, expire=60, tag="red")
    volume = cache.volume()
    with pytest.raises(ZeroDivisionError):
        with cache.transact():
            cache["a"] = 2
            cache.set("b", 3, expire=9, tag="red")
            with cache.transact():
                assert cache.incr("a") == 3 and len(cache) == 2
            assert list(cache) == ["a", "b"]
            assert cache.evict("red") == 1
            cache.clear()
            assert len(cache) == 0 and list(cache) == []
            1 / 0
    assert cache.get("a", tag=True) == (1, "red")
    assert len(cache) == 1 and cache.volume() == volume and cache.check() == []


def test_statistics(cache):
    """Hits and misses are counted while that is on, and last."""
    cache[0] = 0
    cache.stats(enable=True)
    for key in (0, 0, 1):
        cache.get(key)
    cache.set(1, 1)
    cache.get(1)
    assert cache.stats() == (3, 1)
    cache.close()
    with Cache(cache.directory) as again:
        assert again.stats(reset=True) == (3, 1) and again.stats() == (0, 0)


@pytest.mark.parametrize("again", [False, True])
def test_settings_are_undone_with_their_transaction(tmp_path, again):
    """A setting of a transaction that was undone stayed in memory, and was stored later."""
    usual = {"size_limit": 2**30, "statistics": 0, "disk_min_file_size": 2**15, "cull_limit": 10}
    with Cache(tmp_path / "cache") as cache:
        if again:
            cache.reset("size_limit", 2**30)
        with pytest.raises(ZeroDivisionError):
            with cache.transact():
                cache["key"] = 1
                cache.reset("size_limit", 776)
                cache.reset("size_limit", 777)
                cache.stats(enable=True)
                cache.reset("disk_min_file_size", 1)
                cache.reset("disk_files", True)
                cache.reset("own", 5)
                assert cache.reset("size_limit") == cache.size_limit == 777
                assert cache.disk.min_file_size == 1 and cache.disk.files is True
                with pytest.raises(evendb.Error, match="inside of transact"):
                    cache.reset("eviction_policy", "none")
                raise ZeroDivisionError
        with Cache(tmp_path / "cache") as other:
            for one in (cache, other):
                for name, value in usual.items():
                    assert getattr(one, name) == one.reset(name, update=False) == value
                assert (one.disk.min_file_size, one.disk.files) == (2**15, 2**20)
                assert not hasattr(one, "own") and len(one) == 0
    with Cache(tmp_path / "cache") as cache:
        assert {name: getattr(cache, name) for name in usual} == usual
        with cache.transact():
            cache.reset("size_limit", 778)
        assert cache.size_limit == 778
        with Cache(tmp_path / "cache") as other:
            assert other.size_limit == 778
    with Cache(tmp_path / "cache") as cache:
        assert cache.size_limit == cache.reset("size_limit") == 778


def test_settings_of_an_opening_inside_of_a_transaction(tmp_path):
    """An object that is opened inside of a transaction has its settings, whatever becomes of it."""
    with Cache(tmp_path / "cache") as cache:
        with pytest.raises(ZeroDivisionError):
            with cache.transact():
                cache.reset("cull_limit", 3)
                other = Cache(tmp_path / "cache", size_limit=5_000)
                raise ZeroDivisionError
        assert other.size_limit == 5_000 and cache.cull_limit == 10
        other.close()
    with Cache(tmp_path / "cache") as cache:
        assert cache.size_limit == 5_000 and cache.cull_limit == 10
