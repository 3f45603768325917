"""`FanoutCache`: diskcache's cache of many shards, here one Cache with its manners.

diskcache shards because each of its databases takes one writer at a time, and waits. An EvenDB
cache is one database with one lock in one process, so shards would only divide the limit, which
drops values that are larger than a share. `shards` is a number here that divides nothing but what
`size_limit` reads as: the share of one, as in diskcache. The limit holds for the whole.

The manners: a timeout is no exception. `set`, `add`, `touch`, `delete` give False, `incr` and
`decr` None, `get` and `pop` the default, in the shape that was asked for.

`cache(name)`, `deque(name)`, `index(name)` are rooms of the same database: they share its memory,
and have a limit and a lock order of their own.
"""

import contextlib
import os
import os.path as op
import tempfile
import time

from ._core import Cache, shape
from ._disk import ENOVAL, Disk
from ._memo import MemoMethods
from ._persistent import Deque, Index
from ._store import Timeout


class FanoutCache(MemoMethods):
    """See the head of the module."""

    def __init__(self, directory=None, shards=8, timeout=0.010, disk=Disk, *, codec="json",
                 mode="c", **settings):
        if directory is None:
            directory = tempfile.mkdtemp(prefix="evendb-cache-")
        self._directory = op.expandvars(op.expanduser(os.fsdecode(directory)))
        self._count = shards
        self._how = {"codec": codec, "mode": mode}
        self._disk_class = disk
        self._shards = (Cache(self._directory, timeout, disk, **self._how, **settings),)
        self._named = {}

    @property
    def directory(self):
        """The directory, as it was given."""
        return self._directory

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self._shards[0], name)
        return value // self._count if name == "size_limit" else value

    def __repr__(self):
        cache = self._shards[0]
        return (
            f"FanoutCache({self._directory!r}, shards={self._count}, "
            f"size_limit={cache.size_limit} in all, eviction_policy={cache.eviction_policy!r}, "
            f"codec={self._how['codec']!r})"
        )

    # ---- one entry ----

    def set(self, key, value, expire=None, read=False, tag=None, retry=False):
        """As `Cache.set`; False after a timeout."""
        try:
            return self._shards[0].set(key, value, expire, read, tag, retry)
        except Timeout:
            return False

    def __setitem__(self, key, value):
        self._shards[0][key] = value

    def touch(self, key, expire=None, retry=False):
        """As `Cache.touch`; False after a timeout."""
        try:
            return self._shards[0].touch(key, expire, retry)
        except Timeout:
            return False

    def add(self, key, value, expire=None, read=False, tag=None, retry=False):
        """As `Cache.add`; False after a timeout."""
        try:
            return self._shards[0].add(key, value, expire, read, tag, retry)
        except Timeout:
            return False

    def incr(self, key, delta=1, default=0, retry=False):
        """As `Cache.incr`; None after a timeout."""
        try:
            return self._shards[0].incr(key, delta, default, retry)
        except Timeout:
            return None

    def decr(self, key, delta=1, default=0, retry=False):
        """As `Cache.decr`; None after a timeout."""
        try:
            return self._shards[0].decr(key, delta, default, retry)
        except Timeout:
            return None

    def _place(self, key):
        return self._shards[0]._place(key)

    def get(self, key, default=None, read=False, expire_time=False, tag=False, retry=False):
        """As `Cache.get`; what a miss gives after a timeout."""
        try:
            return self._shards[0].get(key, default, read, expire_time, tag, retry)
        except Timeout:
            return shape(default, None, None, (expire_time, tag))

    def pop(self, key, default=None, expire_time=False, tag=False, retry=False):
        """As `Cache.pop`; what a miss gives after a timeout, and nothing is removed then."""
        try:
            return self._shards[0].pop(key, default, expire_time, tag, retry)
        except Timeout:
            return shape(default, None, None, (expire_time, tag))

    def delete(self, key, retry=False):
        """As `Cache.delete`; False after a timeout."""
        try:
            return self._shards[0].delete(key, retry)
        except Timeout:
            return False

    def read(self, key):
        """As `Cache.read`."""
        handle = self.get(key, default=ENOVAL, read=True, retry=True)
        if handle is ENOVAL:
            raise KeyError(key)
        return handle

    def __getitem__(self, key):
        return self._shards[0][key]

    def __contains__(self, key):
        return key in self._shards[0]

    def __delitem__(self, key):
        del self._shards[0][key]

    # ---- many entries ----

    def check(self, fix=False, retry=False):
        """As `Cache.check`."""
        return [found for shard in self._shards for found in shard.check(fix, retry)]

    def expire(self, retry=False):
        """As `Cache.expire`, for this moment."""
        return self._remove("expire", (time.time(),), retry)

    def create_tag_index(self):
        """As `Cache.create_tag_index`."""
        self._shards[0].create_tag_index()

    def drop_tag_index(self):
        """As `Cache.drop_tag_index`."""
        self._shards[0].drop_tag_index()

    def evict(self, tag, retry=False):
        """As `Cache.evict`."""
        return self._remove("evict", (tag,), retry)

    def cull(self, retry=False):
        """As `Cache.cull`."""
        return self._remove("cull", (), retry)

    def clear(self, retry=False):
        """As `Cache.clear`."""
        return self._remove("clear", (), retry)

    def _remove(self, name, args, retry):
        total = 0
        for shard in self._shards:
            while True:
                try:
                    total += getattr(shard, name)(*args, retry=retry)
                    break
                except Timeout as timeout:
                    total += timeout.args[0]
        return total

    def stats(self, enable=True, reset=False):
        """As `Cache.stats`."""
        return self._shards[0].stats(enable, reset)

    def volume(self):
        """As `Cache.volume`."""
        return sum(shard.volume() for shard in self._shards)

    def __iter__(self):
        return iter(self._shards[0])

    def __reversed__(self):
        return reversed(self._shards[0])

    def __len__(self):
        return len(self._shards[0])

    def reset(self, name, value=ENOVAL):
        """As `Cache.reset`, and again after a timeout. `size_limit` is the share of one shard."""
        share = self._count if name == "size_limit" else 1
        if value is not ENOVAL and share != 1:
            value *= share
        for shard in self._shards:
            while True:
                try:
                    result = shard.reset(name, value)
                    break
                except Timeout:
                    pass
        return result if share == 1 else result // share

    @contextlib.contextmanager
    def transact(self, retry=True):
        """As `Cache.transact`."""
        with self._shards[0].transact(retry=retry):
            yield

    # ---- rooms ----

    def _room(self, kind, name, make):
        found = self._named.get((kind, name))
        if found is None:
            found = self._named[kind, name] = make(f"{kind}/{name}")
        return found

    def cache(self, name, timeout=60, disk=None, **settings):
        """The Cache `name` in this database."""
        how = {**self._how, **settings}
        disk = self._disk_class if disk is None else disk
        return self._room(
            "cache", name, lambda room: Cache(self._directory, timeout, disk, room=room, **how)
        )

    def _forever(self, room):
        return Cache(
            self._directory, 60, self._disk_class, room=room, eviction_policy="none", **self._how
        )

    def deque(self, name, maxlen=None):
        """The Deque `name` in this database."""
        return self._room(
            "deque", name, lambda room: Deque.fromcache(self._forever(room), maxlen=maxlen)
        )

    def index(self, name):
        """The Index `name` in this database."""
        return self._room("index", name, lambda room: Index.fromcache(self._forever(room)))

    # ---- opening and closing ----

    def close(self):
        """As `Cache.close`, also for the caches, deques and indexes that were made here."""
        for shard in self._shards:
            shard.close()
        for named in self._named.values():
            (named if isinstance(named, Cache) else named.cache).close()
        self._named.clear()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __getstate__(self):
        cache = self._shards[0]
        return self._directory, self._count, cache.timeout, self._disk_class, self._how

    def __setstate__(self, state):
        directory, shards, timeout, disk, how = state
        self.__init__(directory, shards, timeout, disk, **how)


