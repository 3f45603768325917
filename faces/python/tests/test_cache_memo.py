"""Memoized functions: no call gets another call's value; async functions are awaited."""

import asyncio
import functools
import threading
import time
import warnings

import pytest

from evendb.cache import Cache, FanoutCache, Index, Lock, barrier, memoize_stampede, throttle
from evendb.cache._recipes import RLock


@pytest.fixture
def cache(tmp_path):
    with Cache(tmp_path / "cache") as cache:
        yield cache


def counted(function):
    """`function`, and the list of its calls."""
    calls = []

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        calls.append((args, kwargs))
        return function(*args, **kwargs)

    return wrapper, calls


class Hashless:
    """All have one hash."""

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return 1

    def __eq__(self, other):
        return True


def test_whole_arguments_are_the_key(cache):
    """Only a hash of the arguments was looked up: a collision gave another call's result."""

    def kind(*args, **kwargs):
        return ascii((args, sorted(kwargs.items())))

    function, calls = counted(kind)
    memoized = cache.memoize()(function)
    arguments = [
        ((1,), {}), ((1.0,), {}), ((True,), {}), (("1",), {}), ((b"1",), {}), ((None,), {}),
        ((), {}), ((-1,), {}), ((-2,), {}), ((2**61 - 1,), {}), ((0,), {}), ((0.0,), {}),
        ((-0.0,), {}), (((1, 2),), {}), (([1, 2],), {}), ((1, 2), {}), ((1,), {"b": 2}),
        ((), {"a": 1, "b": 2}), ((None, "a", 1), {}), (({1: 2},), {}), (({"1": 2},), {}),
        ((float("inf"),), {}), ((2**70,), {}),
    ]
    for _ in range(2):
        for args, kwargs in arguments:
            assert memoized(*args, **kwargs) == kind(*args, **kwargs)
    assert len(calls) == len(arguments) == len(cache)
    assert memoized(b=2, a=1) == kind(a=1, b=2) and len(calls) == len(arguments)


def test_equal_hashes_are_different_calls(tmp_path):
    """Only a hash of the arguments was looked up: objects that call themselves equal."""
    with Cache(tmp_path / "cache", codec="pickle") as cache:
        function, calls = counted(lambda thing: thing.value)
        memoized = cache.memoize("name")(function)
        things = [Hashless(1), Hashless(2)]
        assert [memoized(thing) for thing in things + things] == [1, 2, 1, 2]
        assert len(calls) == 2


def test_names_that_are_not_one_functions(cache):
    """The same name in two modules, and in one."""

    def make(module, result):
        def function():
            return result

        function.__module__ = module
        function.__qualname__ = "function"
        return function

    first, second = make("one", 1), make("two", 2)
    assert cache.memoize()(first)() == 1 and cache.memoize()(second)() == 2
    with pytest.raises(ValueError, match="lambda"):
        cache.memoize()(lambda: 3)
    assert cache.memoize(name="three")(lambda: 3)() == 3

    def other(number):
        return number + 1

    other.__module__, other.__qualname__ = "one", "function"
    with pytest.warns(UserWarning, match="one.function"):
        cache.memoize()(other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.memoize()(make("one", 1))


def test_methods_of_two_objects(tmp_path):
    """The object is an argument: with JSON it is refused, with pickle all of it is the key."""

    with Cache(tmp_path / "json") as cache:
        with pytest.raises(TypeError, match="key.*Tool"):
            cache.memoize()(Tool.scale)(Tool(2), 10)
    with Cache(tmp_path / "pickle", codec="pickle") as cache:
        scale = cache.memoize()(Tool.scale)
        assert [scale(Tool(factor), 10) for factor in (2, 3, 2)] == [20, 30, 20]
        assert len(cache) == 2


class LooksAlike:
    """Its `repr` does not show what it holds."""

    def __init__(self, token):
        self.token = token

    def __repr__(self):
        return "LooksAlike()"


class Tool:
    """Something with a method."""

    def __init__(self, factor):
        self.factor = factor

    def scale(self, number):
        """Multiplies."""
        return self.factor * number

    async def later(self, number):
        """Multiplies, later."""
        return self.factor * number


def test_a_default_that_is_given(cache):
    """A default against a given argument: two keys, each with the right value."""

    def add(a, b=2):
        return a + b

    function, calls = counted(add)
    memoized = cache.memoize()(function)
    assert memoized(1) == memoized(1, 2) == memoized(1, b=2) == memoized(a=1) == 3
    assert memoized(1, 3) == 4 and len(calls) == 5


@pytest.mark.parametrize("typed", [False, True])
def test_keys_of_calls_find_their_values(cache, typed):
    """Keys made by memoize with keyword arguments, read by iteration, did not find their values."""

    @cache.memoize(typed=typed, ignore={"quiet"}, tag="calls")
    def total(*args, quiet=False, **kwargs):
        return [args, kwargs]

    total(), total(1, 2.5), total(1, b=2, a=(3, [4])), total("x", quiet=True, k=None)
    assert len(cache) == 4
    for key in cache:
        args, kwargs = cache[key]
        assert total.__cache_key__(*args, **kwargs) == key
        assert cache.get(key, tag=True)[1] == "calls"
    assert total.__wrapped__(5) == [(5,), {}]
    key = total.__cache_key__(1, 2.5)
    del cache[key]
    assert key not in cache and cache.check() == []


def test_none_is_a_result_and_expire_zero_stores_nothing(cache):
    """What was computed is not computed again, None neither."""
    function, calls = counted(lambda: None)
    nothing = cache.memoize("nothing")(function)
    assert nothing() is nothing() is None and len(calls) == 1
    function, calls = counted(lambda: 1)
    never = cache.memoize("never", expire=0)(function)
    assert never() == never() == 1 and len(calls) == 2
    with pytest.raises(TypeError, match="callable"):
        cache.memoize(len)


def run_threads(function, count=16):
    """The results of `count` threads that call at once; exceptions are results."""
    start, results = threading.Barrier(count), []

    def call():
        start.wait()
        try:
            results.append(function())
        except Exception as error:
            results.append(error)

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_one_call_for_all_who_wait(cache):
    """Many callers at once all computed: stampede makes one call."""
    calls = []

    @memoize_stampede(cache, expire=1000, name="slow")
    def slow(number):
        calls.append(number)
        time.sleep(0.2)
        return number

    assert run_threads(lambda: slow(1)) == [1] * 16
    assert calls == [1] and slow.__cache_key__(1) in cache


def test_one_call_behind_a_barrier(cache):
    """Many callers at once all computed: barrier, with a memoize on each side, makes one call."""
    calls = []

    @cache.memoize(name="outer")
    @barrier(cache, Lock, name="lock")
    @cache.memoize(name="inner")
    def slow(number):
        calls.append(number)
        time.sleep(0.2)
        return number

    assert run_threads(lambda: slow(1)) == [1] * 16
    assert calls == [1]


@pytest.mark.parametrize("kind", ["stampede", "barrier"])
def test_an_exception_releases_the_others(cache, kind):
    """Many callers at once, and the call fails: the next one tries."""
    calls = []

    def fails_twice():
        calls.append(1)
        if len(calls) < 3:
            raise OSError(f"call {len(calls)}")
        return "good"

    if kind == "stampede":
        function = memoize_stampede(cache, expire=1000)(fails_twice)
    else:
        function = barrier(cache, RLock)(cache.memoize()(fails_twice))
    results = run_threads(function, 8)
    assert sorted(map(str, results)) == ["call 1", "call 2"] + ["good"] * 6
    assert len(calls) == 3


def test_a_plain_memoize_lets_all_compute(cache):
    """Many callers at once all compute under memoize alone, as its documentation says."""
    inside = threading.Barrier(4)

    @cache.memoize()
    def slow():
        inside.wait()
        return 1

    assert run_threads(slow, 4) == [1] * 4


def test_a_stampede_renews_before_the_end(cache, monkeypatch):
    """A call near the end of its time starts one renewal in the background."""
    done, calls = threading.Event(), []

    @memoize_stampede(cache, expire=1000, name="slow")
    def slow():
        calls.append(1)
        if len(calls) == 2:
            done.set()
        return len(calls)

    assert slow() == 1
    key = slow.__cache_key__()
    cache.set(key, (1, 500.0), expire=10)
    monkeypatch.setattr("random.random", lambda: 1 - 1e-9)
    assert slow() == 1
    assert done.wait(20)
    while cache[key][0] != 2:
        time.sleep(0.01)
    assert len(calls) == 2


def test_a_throttle_waits(cache):
    """Two calls in ten seconds, the third one waits."""
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    @throttle(cache, 2, 10, name="x", time_func=lambda: now[0], sleep_func=sleep)
    def call():
        return now[0]

    assert [call(), call()] == [0, 0] and slept == []
    assert call() == pytest.approx(5) and sum(slept) == pytest.approx(5)


# ---- async ----


def test_an_async_function_is_awaited_and_stored(cache):
    """memoize on `async def` stored the coroutine: "already awaited"."""
    calls = []

    @cache.memoize(expire=1000)
    async def fetch(number):
        calls.append(number)
        await asyncio.sleep(0)
        return {"number": number}

    async def main():
        assert await fetch(1) == await fetch(1) == {"number": 1}
        results = await asyncio.gather(*(fetch(2) for _ in range(20)))
        assert results == [{"number": 2}] * 20

    asyncio.run(main())
    asyncio.run(main())
    assert calls == [1, 2] and cache[fetch.__cache_key__(1)] == {"number": 1}


def test_one_of_many_awaiters_is_cancelled(cache):
    """memoize on `async def`: a cancelled caller does not take the result from the others."""
    calls, go = [], []

    @cache.memoize()
    async def fetch():
        calls.append(1)
        await go[0].wait()
        return 7

    async def main():
        go.append(asyncio.Event())
        tasks = [asyncio.create_task(fetch()) for _ in range(20)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
        go[0].set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError) and results[1:] == [7] * 19
        assert await fetch() == 7

    asyncio.run(main())
    assert calls == [1]


def test_calls_of_objects_that_look_alike_are_not_joined(tmp_path):
    """Awaits at one time were joined by `repr`: a guest got the rights of an admin."""

    async def rights(user):
        await asyncio.sleep(0)
        return user.token

    async def main(memoized):
        return await asyncio.gather(*(memoized(LooksAlike(token)) for token in "abab"))

    with Cache(tmp_path / "cache", codec="pickle") as cache:
        memoized = cache.memoize(name="rights")(rights)
        assert repr(LooksAlike("a")) == repr(LooksAlike("b"))
        assert asyncio.run(main(memoized)) == asyncio.run(main(memoized)) == list("abab")
        assert len(cache) == 2


def test_an_async_function_that_fails(cache):
    """memoize on `async def`: an exception is not stored, and the next call tries."""
    calls = []

    @cache.memoize()
    async def fetch():
        calls.append(1)
        if len(calls) == 1:
            raise OSError("first")
        return 1

    async def main():
        results = await asyncio.gather(fetch(), fetch(), return_exceptions=True)
        assert [str(error) for error in results] == ["first", "first"]
        return await fetch()

    assert asyncio.run(main()) == 1 and len(calls) == 2


def test_partials_bound_methods_and_generators(tmp_path):
    """memoize on a partial, a bound method, an async generator."""
    with FanoutCache(tmp_path / "cache") as cache:

        async def add(a, b):
            return a + b

        partial = cache.memoize("partial")(functools.partial(add, 1))
        bound = cache.memoize()(Tool(3).later)
        assert asyncio.run(partial(2)) == 3 and asyncio.run(bound(5)) == 15
        assert len(cache) == 2 and cache.memoize("sum")(functools.partial(max, 1))(2) == 2

        async def numbers():
            yield 1

        def plain():
            yield 1

        for function in (numbers, plain, functools.partial(numbers)):
            with pytest.raises(TypeError, match="generator"):
                cache.memoize()(function)

        def hidden():
            return add(1, 2)

        with pytest.raises(TypeError, match="awaitable"):
            cache.memoize()(hidden)()


def test_an_index_memoizes(tmp_path):
    """Index.memoize is without an end."""
    index = Index(str(tmp_path / "index"))
    function, calls = counted(lambda number: number + 1)
    memoized = index.memoize("add")(function)
    assert memoized(1) == memoized(1) == 2 and len(calls) == 1
    assert list(index.values()) == [2]


def test_a_cache_in_a_running_loop(cache):
    """A sync method called in the running loop deadlocked: here, in a thread, in a second loop."""

    async def main(number):
        cache[number] = number
        assert cache.incr("count") == number
        with cache.transact():
            cache[number] += 1
        return await asyncio.to_thread(cache.get, number)

    assert [asyncio.run(main(number)) for number in (1, 2)] == [2, 3]
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(asyncio.run(other()))) for _ in range(2)
    ]

    async def other():
        return await asyncio.to_thread(cache.incr, "other", retry=True)

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [1, 2]


@pytest.mark.parametrize("typed", [False, True])
def test_no_argument_is_taken_for_the_mark_of_keywords(cache, typed):
    """None stood between positional and keyword arguments: f(None, "a") was f(a=None)."""

    def kind(x=0, a=1, b=2):
        return [x, a, b]

    stampede = memoize_stampede(cache, 100, name="stampede", typed=typed)(kind)
    for memoized in (cache.memoize(typed=typed)(kind), stampede):
        for values in (None, 0, 1, "a", "b"):
            for args, kwargs in (
                ((values, "a"), {}), ((), {"a": values}), ((None, "a", values), {}),
                ((None,), {"a": values}), ((1, "a", values), {}), ((1,), {"a": values}),
                ((values,), {"a": "b"}), ((values, "a", "b"), {}), ((), {"a": "b", "b": values}),
                ((0, "a"), {"b": values}), ((2, "a", values), {}), ((0,), {}), ((), {}),
            ):
                assert memoized(*args, **kwargs) == kind(*args, **kwargs), (args, kwargs)


def test_an_async_function_is_refused_where_it_has_no_place(cache):
    """An async def under memoize_stampede or barrier: TypeError where it is decorated."""

    async def later(x):
        return x

    for func in (later, functools.partial(later, 1)):
        with pytest.raises(TypeError, match="later is an async def: memoize_stampede"):
            memoize_stampede(cache, 10, name="later")(func)
        with pytest.raises(TypeError, match="later is an async def: barrier"):
            barrier(cache, Lock, name="later")(func)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match="awaitable"):
            memoize_stampede(cache, 10, name="lambda")(lambda x: later(x))(1)
    assert len(cache) == 0
