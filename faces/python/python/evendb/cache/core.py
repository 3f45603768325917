"""diskcache's module of this name: what programs with a Disk of their own import from it.

    from evendb.cache.core import MODE_PICKLE, Disk
"""

from . import (
    DEFAULT_SETTINGS,
    ENOVAL,
    EVICTION_POLICY,
    UNKNOWN,
    Cache,
    Disk,
    EmptyDirWarning,
    JSONDisk,
    Timeout,
    UnknownFileWarning,
    args_to_key,
    full_name,
)
from ._disk import MODE_BINARY, MODE_NONE, MODE_PICKLE, MODE_RAW, MODE_TEXT, Constant

__all__ = [
    "DEFAULT_SETTINGS",
    "ENOVAL",
    "EVICTION_POLICY",
    "MODE_BINARY",
    "MODE_NONE",
    "MODE_PICKLE",
    "MODE_RAW",
    "MODE_TEXT",
    "UNKNOWN",
    "Cache",
    "Constant",
    "Disk",
    "EmptyDirWarning",
    "JSONDisk",
    "Timeout",
    "UnknownFileWarning",
    "args_to_key",
    "full_name",
]
