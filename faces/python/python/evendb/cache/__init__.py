"""A cache on the disk, with diskcache's names and meaning, over EvenDB.

    from evendb.cache import Cache

    with Cache("files.cache") as cache:             # at most 1 GB, unless size_limit=... says more
        cache.set("page", "<html>", expire=60, tag="web")
        cache.get("page")

        @cache.memoize(expire=3600)
        def slow(number): ...

LIMITS. One process writes to a cache; others read it with `mode="beside"`. The default limit is
1 GB: older entries are culled then (`cache.culled` counts them). Values are None, bool, int, float,
str, bytes, list, tuple and dict, and come back with their types; `codec="pickle"` takes what pickle
takes, and is needed again to read it. Nothing is unpickled without it.

`migrate(diskcache_directory, target)` copies a cache of diskcache. docs/python-cache.md says more.
"""

from ._check import EmptyDirWarning, UnknownFileWarning
from ._codec import CodecError
from ._core import Cache, ForeignDirectory
from ._disk import ENOVAL, UNKNOWN, Disk, JSONDisk
from ._fanout import FanoutCache
from ._memo import args_to_key, full_name
from ._migrate import Migration, migrate
from ._persistent import Deque, Index
from ._recipes import (
    Averager,
    BoundedSemaphore,
    Lock,
    RLock,
    barrier,
    memoize_stampede,
    throttle,
)
from ._settings import DEFAULT_SETTINGS, EVICTION_POLICY
from ._store import Timeout

__all__ = [
    "DEFAULT_SETTINGS",
    "ENOVAL",
    "EVICTION_POLICY",
    "UNKNOWN",
    "Averager",
    "BoundedSemaphore",
    "Cache",
    "CodecError",
    "Deque",
    "Disk",
    "EmptyDirWarning",
    "FanoutCache",
    "ForeignDirectory",
    "Index",
    "JSONDisk",
    "Lock",
    "Migration",
    "RLock",
    "Timeout",
    "UnknownFileWarning",
    "args_to_key",
    "barrier",
    "full_name",
    "memoize_stampede",
    "migrate",
    "throttle",
]
