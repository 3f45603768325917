"""Recipes over a cache: averages, locks, throttles, and memoizing without a stampede.

Locks are entries: use a cache with the policy "none", so that none is culled. They hold between the
threads of the process that writes to the cache; other processes cannot take them, because they
cannot write. An entry that outlives its process (no `expire`, kill -9) has the process's number in
it: who waits for such a lock gets `Timeout` that says who held it. With `expire` it is free when
that is over, and who waits for it waits so long. Each time that a lock is taken its entry has
another name: a release that is too late, of an entry that has expired, frees nobody else's lock.
Who waits for more than a minute is warned once, with the holder's name.
"""

import functools
import itertools
import math
import os
import random
import threading
import time
import warnings

from ._disk import ENOVAL
from ._memo import (
    args_to_key,
    base_of,
    full_name,
    refuse_awaitables,
    refuse_generators,
    refuse_result,
)
from ._store import Timeout

PAUSE = 0.001
WARN_AFTER = 60.0


def _me():
    return f"{os.getpid()}-{threading.get_ident()}"


def _is_mine(holder):
    """Whether this thread has made the name of a holder."""
    return type(holder) is str and f"{holder}-".startswith(f"{_me()}-")


def _is_gone(holder):
    """Whether the process of a holder has ended."""
    try:
        os.kill(int(holder.split("-")[0]), 0)
    except (ProcessLookupError, ValueError):
        return True
    except OSError:
        return False
    return False


def _wait(attempt, holders, expires, key, timeout):
    """Calls `attempt` until it gives True. `Timeout` names the holders."""
    start, warned = time.monotonic(), False
    while not attempt():
        waited = time.monotonic() - start
        held = ["-".join(holder.split("-")[:2]) for holder in holders()]
        names = ", ".join(held) or "a holder that left no name"
        if held and all(map(_is_gone, held)) and not expires():
            raise Timeout(
                0, f"{key!r} is held by process-thread {names}, which has ended; delete the key, "
                "or give the lock an `expire`"
            )
        if timeout is not None and waited >= timeout:
            raise Timeout(0, f"{key!r} was held by process-thread {names} for {waited:.1f} s")
        if waited >= WARN_AFTER and not warned:
            warned = True
            warnings.warn(f"waiting for {key!r}, held by process-thread {names}", stacklevel=3)
        time.sleep(PAUSE)


class Averager:
    """A running average: the sum and the count are one entry."""

    def __init__(self, cache, key, expire=None, tag=None):
        self._cache = cache
        self._key = key
        self._expire = expire
        self._tag = tag

    def add(self, value):
        """Adds a value."""
        with self._cache.transact(retry=True):
            total, count = self._cache.get(self._key, default=(0.0, 0))
            self._cache.set(
                self._key, (total + value, count + 1), expire=self._expire, tag=self._tag
            )

    def get(self):
        """The average, or None before the first value."""
        total, count = self._cache.get(self._key, default=(0.0, 0), retry=True)
        return total / count if count else None

    def pop(self):
        """The average; the next one begins anew."""
        total, count = self._cache.pop(self._key, default=(0.0, 0), retry=True)
        return total / count if count else None


class _Held:
    """What the locks have in common. `timeout`: seconds that `acquire` waits; None: for ever."""

    def __init__(self, cache, key, expire=None, tag=None, timeout=None):
        self._cache = cache
        self._key = key
        self._expire = expire
        self._tag = tag
        self._timeout = timeout
        self._names = []
        self._count = itertools.count()

    def _name(self):
        """A holder's name that no other has: process, thread, object, number."""
        return f"{_me()}-{id(self):x}-{next(self._count)}"

    def _taken(self, name):
        self._names.append(name)
        return True

    def _to_free(self):
        """The name by which this object has the lock: this thread's newest, or else the newest.

        None if it was not taken by this object.
        """
        mine = [name for name in self._names if _is_mine(name)] or self._names
        if not mine:
            return None
        name = mine[-1]
        self._names.remove(name)
        return name

    def _expires(self):
        """Whether the entry is there for a time only, or is gone."""
        value, expires = self._cache.get(self._key, ENOVAL, expire_time=True, retry=True)
        return value is ENOVAL or expires is not None

    def _set(self, value):
        self._cache.set(self._key, value, expire=self._expire, tag=self._tag, retry=True)

    def acquire(self):
        """Waits for the lock and takes it. `Timeout` says who holds it."""
        _wait(self._attempt, self._holders, self._expires, self._key, self._timeout)

    def __enter__(self):
        self.acquire()

    def __exit__(self, *exception):
        self.release()


class Lock(_Held):
    """A lock that is the entry `key`."""

    def _attempt(self):
        name = self._name()
        return self._cache.add(
            self._key, name, expire=self._expire, tag=self._tag, retry=True
        ) and self._taken(name)

    def _holders(self):
        holder = self._cache.get(self._key, retry=True)
        return [holder] if type(holder) is str else []

    def release(self):
        """Frees the lock, if it is this object's still, or else this thread's."""
        with self._cache.transact(retry=True):
            name, holder = self._to_free(), self._cache.get(self._key)
            if holder == name or name is None and _is_mine(holder):
                self._cache.delete(self._key)

    def locked(self):
        """Whether somebody has the lock."""
        return self._key in self._cache


class RLock(_Held):
    """A lock that its holder, a thread, may take again."""

    def _attempt(self):
        with self._cache.transact(retry=True):
            holder, count = self._cache.get(self._key, default=(None, 0))
            if count and holder != _me():
                return False
            self._set((_me(), count + 1))
            return True

    def _holders(self):
        holder, count = self._cache.get(self._key, default=(None, 0), retry=True)
        return [holder] if count else []

    def release(self):
        """Frees the lock once."""
        with self._cache.transact(retry=True):
            holder, count = self._cache.get(self._key, default=(None, 0))
            if holder != _me() or not count:
                raise AssertionError("cannot release un-acquired lock")
            self._set((holder, count - 1))


class BoundedSemaphore(_Held):
    """A lock that `value` holders may have at once. The entry is the list of holders."""

    def __init__(self, cache, key, value=1, expire=None, tag=None, timeout=None):
        super().__init__(cache, key, expire, tag, timeout)
        self._value = value

    def _holders(self):
        return self._cache.get(self._key, default=[], retry=True)

    def _attempt(self):
        with self._cache.transact(retry=True):
            holders = self._holders()
            if len(holders) >= self._value:
                return False
            name = self._name()
            self._set([*holders, name])
        return self._taken(name)

    def release(self):
        """Frees the place that this object has; if it has none, this thread's or the last one."""
        with self._cache.transact(retry=True):
            holders = self._holders()
            if not holders:
                raise AssertionError("cannot release un-acquired semaphore")
            name = self._to_free()
            if name is None:
                name = ([holder for holder in holders if _is_mine(holder)] or holders)[-1]
            if name in holders:
                holders.remove(name)
                self._set(holders)


def throttle(cache, count, seconds, name=None, expire=None, tag=None, time_func=time.time,
             sleep_func=time.sleep):
    """A decorator: at most `count` calls in `seconds`; a call that is too early waits."""

    def decorator(func):
        rate = count / float(seconds)
        key = full_name(func) if name is None else name
        cache.set(key, (time_func(), count), expire=expire, tag=tag, retry=True)

        def delay():
            with cache.transact(retry=True):
                now = time_func()
                last, tally = cache.get(key, default=(now, count))
                tally = min(tally + (now - last) * rate, count)
                if tally < 1:
                    return (1 - tally) / rate
                cache.set(key, (now, tally - 1), expire=expire, tag=tag)
                return 0

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            while wait := delay():
                sleep_func(wait)
            return func(*args, **kwargs)

        return wrapper

    return decorator


def barrier(cache, lock_factory, name=None, expire=None, tag=None):
    """A decorator: one call at a time, by a Lock, RLock or BoundedSemaphore."""

    def decorator(func):
        # The lock would be free again before the coroutine runs.
        refuse_awaitables(func, "barrier")
        key = full_name(func) if name is None else name
        lock = lock_factory(cache, key, expire=expire, tag=tag)

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            with lock:
                return func(*args, **kwargs)

        return wrapper

    return decorator


class _OnePerKey:
    """Locks by key that exist while somebody holds them or waits for them."""

    def __init__(self):
        self._guard = threading.Lock()
        self._locks = {}

    def take(self, key):
        """Waits for the lock of `key`."""
        with self._guard:
            entry = self._locks.setdefault(key, [threading.Lock(), 0])
            entry[1] += 1
        entry[0].acquire()

    def free(self, key):
        """Frees the lock of `key`."""
        with self._guard:
            entry = self._locks[key]
            entry[1] -= 1
            if not entry[1]:
                del self._locks[key]
        entry[0].release()


def memoize_stampede(cache, expire, name=None, typed=False, tag=None, beta=1, ignore=()):
    """A decorator: memoizes, and callers that miss at once make one call.

    A result is computed again in the background shortly before it expires, the sooner the longer
    the call takes (Vattani, Chierichetti, Lowenstein: Optimal Probabilistic Cache Stampede
    Prevention, VLDB 2015); `beta` above 1 makes that earlier. If the call fails, its caller gets
    the exception, and the next one of those who wait tries.
    """

    def decorator(func):
        refuse_generators(func)
        refuse_awaitables(func, "memoize_stampede")
        base = base_of(cache, func, name)
        locks = _OnePerKey()

        def compute(key, args, kwargs):
            start = time.time()
            pair = func(*args, **kwargs), time.time() - start
            refuse_result(func, pair[0])
            cache.set(key, pair, expire=expire, tag=tag, retry=True)
            return pair[0]

        def lookup(key):
            return cache.get(key, default=ENOVAL, expire_time=True, retry=True)

        def renew(key, delta, args, kwargs):
            """Starts a thread that computes again, unless one has been started."""
            if cache.add(key + ("renewal",), None, expire=delta, retry=True):
                threading.Thread(target=compute, args=(key, args, kwargs), daemon=True).start()

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            key = key_of(*args, **kwargs)
            pair, expires = lookup(key)
            if pair is not ENOVAL:
                result, delta = pair
                left = math.inf if expires is None else expires - time.time()
                if -delta * beta * math.log(1.0 - random.random()) >= left:
                    renew(key, delta, args, kwargs)
                return result
            place = cache._place(key)
            locks.take(place)
            try:
                pair, _ = lookup(key)
                return compute(key, args, kwargs) if pair is ENOVAL else pair[0]
            finally:
                locks.free(place)

        def key_of(*args, **kwargs):
            return args_to_key(base, args, kwargs, typed, ignore)

        wrapper.__cache_key__ = key_of
        return wrapper

    return decorator
