"""`Deque` and `Index`: a sequence with two ends and an ordered mapping, on the disk.

Both are a Cache with the policy "none": nothing is culled, whatever the limit. A Deque's values
have the int keys that `Cache.push` gives, in order. An Index has its keys in the order in which
they came in.

Each method is one transaction; many threads may use one object. `codec` is an attribute of the
class: `class Objects(Index): codec = "pickle"` for values that JSON does not take.

Not here: fast access to the middle of a Deque, which walks over keys, as diskcache's does.
"""

import operator
import os
from collections import OrderedDict
from collections.abc import MutableMapping, Sequence
from contextlib import contextmanager

from ._core import Cache
from ._disk import ENOVAL

NOTHING = (None, ENOVAL)


def _comparison(compare):
    def method(self, other):
        if not isinstance(other, Sequence):
            return NotImplemented
        lengths = len(self), len(other)
        if lengths[0] != lengths[1] and compare in (operator.eq, operator.ne):
            return compare is operator.ne
        for mine, theirs in zip(self, other):
            if mine != theirs:
                return compare(mine, theirs)
        return compare(*lengths)

    method.__name__ = f"__{compare.__name__}__"
    return method


class _OverCache:
    """What Deque and Index have in common: the Cache below, and how they come to it.

    `_begin` takes what the constructor is given besides the directory.
    """

    codec = "json"

    @classmethod
    def fromcache(cls, cache, *args, **kwargs):
        """One over a cache that is open; its policy should be "none"."""
        self = cls.__new__(cls)
        self._cache = cache
        self._begin(*args, **kwargs)
        return self

    def _open(self, directory, /, *args, **kwargs):
        self._cache = Cache(directory, eviction_policy="none", codec=self.codec)
        self._begin(*args, **kwargs)

    @property
    def cache(self):
        """The Cache below."""
        return self._cache

    @property
    def directory(self):
        """The directory."""
        return self._cache.directory

    def __len__(self):
        return len(self._cache)

    def clear(self):
        """Removes all that is in it."""
        self._cache.clear(retry=True)

    @contextmanager
    def transact(self):
        """All reads and writes of this thread in the block are one transaction."""
        with self._cache.transact(retry=True):
            yield


class Deque(_OverCache, Sequence):
    """A sequence that grows and shrinks at both ends, as `collections.deque`, on the disk."""

    def __init__(self, iterable=(), directory=None, maxlen=None):
        self._open(directory, iterable, maxlen)

    def _begin(self, iterable=(), maxlen=None):
        self._maxlen = float("inf") if maxlen is None else maxlen
        self.extend(iterable)

    @property
    def maxlen(self):
        """The greatest length; infinity if there is none."""
        return self._maxlen

    @maxlen.setter
    def maxlen(self, value):
        self._maxlen = value
        with self._cache.transact(retry=True):
            while len(self._cache) > value:
                self.popleft()

    def _at(self, index, action):
        length = len(self)
        if not -length <= index < length:
            raise IndexError("deque index out of range")
        skip = index if index >= 0 else -index - 1
        for key in self._cache.iterkeys(reverse=index < 0):
            if skip > 0:
                skip -= 1
                continue
            try:
                return action(key)
            except KeyError:
                continue  # Another thread has removed it; the next one has its place.
        raise IndexError("deque index out of range")

    def __getitem__(self, index):
        return self._at(index, self._cache.__getitem__)

    def __setitem__(self, index, value):
        with self._cache.transact(retry=True):
            self._at(index, lambda key: self._cache.__setitem__(key, value))

    def __delitem__(self, index):
        with self._cache.transact(retry=True):
            self._at(index, self._cache.__delitem__)

    def __repr__(self):
        return f"{type(self).__name__}(directory={self.directory!r})"

    __eq__ = _comparison(operator.eq)
    __ne__ = _comparison(operator.ne)
    __lt__ = _comparison(operator.lt)
    __gt__ = _comparison(operator.gt)
    __le__ = _comparison(operator.le)
    __ge__ = _comparison(operator.ge)

    def __iadd__(self, iterable):
        self.extend(iterable)
        return self

    def _values(self, reverse):
        for key in self._cache.iterkeys(reverse=True) if reverse else self._cache.iterkeys():
            try:
                yield self._cache[key]
            except KeyError:
                pass

    def __iter__(self):
        return self._values(False)

    def __reversed__(self):
        return self._values(True)

    def __getstate__(self):
        return self._cache, self._maxlen

    def __setstate__(self, state):
        self._cache, self._maxlen = state

    def append(self, value):
        """Adds `value` at the back; with `maxlen` the front may go."""
        with self._cache.transact(retry=True):
            self._cache.push(value, retry=True)
            if len(self._cache) > self._maxlen:
                self.popleft()

    def appendleft(self, value):
        """Adds `value` at the front; with `maxlen` the back may go."""
        with self._cache.transact(retry=True):
            self._cache.push(value, side="front", retry=True)
            if len(self._cache) > self._maxlen:
                self.pop()

    def copy(self):
        """Another Deque over the same values, not a copy of them."""
        return type(self).fromcache(self._cache, maxlen=self._maxlen)

    def count(self, value):
        """How many values are equal to `value`."""
        return sum(1 for item in self if value == item)

    def extend(self, iterable):
        """Adds each value at the back."""
        for value in iterable:
            self.append(value)

    def extendleft(self, iterable):
        """Adds each value at the front."""
        for value in iterable:
            self.appendleft(value)

    def _take(self, method, side, what):
        _, value = method(default=NOTHING, side=side, retry=True)
        if value is ENOVAL:
            raise IndexError(f"{what} an empty deque")
        return value

    def peek(self):
        """The value at the back. IndexError if there is none."""
        return self._take(self._cache.peek, "back", "peek from")

    def peekleft(self):
        """The value at the front. IndexError if there is none."""
        return self._take(self._cache.peek, "front", "peek from")

    def pop(self):
        """Removes and gives the value at the back. IndexError if there is none."""
        return self._take(self._cache.pull, "back", "pop from")

    def popleft(self):
        """Removes and gives the value at the front. IndexError if there is none."""
        return self._take(self._cache.pull, "front", "pop from")

    def remove(self, value):
        """Removes the first value that is equal to `value`. ValueError if there is none."""
        cache = self._cache
        for key in cache.iterkeys():
            try:
                if cache[key] == value:
                    del cache[key]
                    return
            except KeyError:
                continue
        raise ValueError("deque.remove(value): value not in deque")

    def reverse(self):
        """Turns the order around."""
        cache = self._cache
        with cache.transact(retry=True):
            keys = list(cache.iterkeys())
            for first, last in zip(keys[: len(keys) // 2], reversed(keys)):
                cache[first], cache[last] = cache[last], cache[first]

    def rotate(self, steps=1):
        """Moves `steps` values from the back to the front; from the front if it is negative."""
        if not isinstance(steps, int):
            raise TypeError(f"integer argument expected, got {type(steps).__name__}")
        with self._cache.transact(retry=True):
            length = len(self)
            if not length:
                return
            try:
                for _ in range(abs(steps) % length):
                    if steps > 0:
                        self.appendleft(self.pop())
                    else:
                        self.append(self.popleft())
            except IndexError:
                return  # Values whose files are gone were skipped.


class Index(_OverCache, MutableMapping):
    """An ordered mapping on the disk. Keys are compared by type and value."""

    def __init__(self, *args, **kwargs):
        """`Index(directory, mapping_or_pairs, **items)`; all may be left out."""
        directory = None
        if args and (args[0] is None or isinstance(args[0], (str, bytes, os.PathLike))):
            directory, *args = args
        self._open(directory, *args, **kwargs)

    _begin = MutableMapping.update

    def __getitem__(self, key):
        return self._cache[key]

    def __setitem__(self, key, value):
        self._cache[key] = value

    def __delitem__(self, key):
        del self._cache[key]

    def __contains__(self, key):
        return key in self._cache

    def setdefault(self, key, default=None):
        """The value of `key`, which is `default` if it was absent. All callers get one value."""
        while True:
            value = self._cache.get(key, ENOVAL)
            if value is not ENOVAL:
                return value
            self._cache.add(key, default, retry=True)

    def peekitem(self, last=True):
        """(key, value) of the key that came in last, or first. KeyError if there is none."""
        return self._cache.peekitem(last, retry=True)

    def pop(self, key, default=ENOVAL):
        """Removes `key`; its value, or `default`, or KeyError."""
        value = self._cache.pop(key, default, retry=True)
        if value is ENOVAL:
            raise KeyError(key)
        return value

    def popitem(self, last=True):
        """Removes the key that came in last, or first; (key, value). KeyError if there is none."""
        with self._cache.transact(retry=True):
            key, value = self._cache.peekitem(last)
            del self._cache[key]
        return key, value

    def push(self, value, prefix=None, side="back"):
        """As `Cache.push`."""
        return self._cache.push(value, prefix, side, retry=True)

    def pull(self, prefix=None, default=(None, None), side="front"):
        """As `Cache.pull`."""
        return self._cache.pull(prefix, default, side, retry=True)

    def __iter__(self):
        return iter(self._cache)

    def __reversed__(self):
        return reversed(self._cache)

    def __repr__(self):
        return f"{type(self).__name__}({self.directory!r})"

    def __getstate__(self):
        return self._cache

    def __setstate__(self, state):
        self._cache = state

    def __eq__(self, other):
        """Equal items; in the same order if `other` has an order of its own."""
        if not hasattr(other, "keys"):
            return NotImplemented
        if len(self) != len(other):
            return False
        if isinstance(other, (Index, OrderedDict)):
            return all(mine == theirs for mine, theirs in zip(self.items(), other.items()))
        return all(other.get(key, ENOVAL) == value for key, value in self.items())

    def memoize(self, name=None, typed=False, ignore=()):
        """As `Cache.memoize`."""
        return self._cache.memoize(name, typed, ignore=ignore)
