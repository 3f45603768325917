"""The settings of a cache: names, defaults, and which of diskcache's mean nothing here.

Settings are stored with the cache and come back when it is opened again; what the constructor is
given replaces them. `codec` is not among them: a cache on the disk cannot ask to be unpickled. Of
what is stored only settings that are known here, and parameters of the Disk, are taken.
"""

import inspect
import pickle
import warnings

from ._disk import LARGE_BYTES

DEFAULT_SETTINGS = {
    "statistics": 0,
    "tag_index": 0,
    "eviction_policy": "least-recently-stored",
    "size_limit": 2**30,
    "cull_limit": 10,
    "disk_min_file_size": 2**15,
    "disk_files": LARGE_BYTES,
    "disk_pickle_protocol": pickle.HIGHEST_PROTOCOL,
}

EVICTION_POLICY = {
    "none": "nothing is culled",
    "least-recently-stored": "culls what was stored first; a get costs nothing (the default)",
    "least-recently-used": "culls what was read or stored first",
    "least-frequently-used": "culls what was read the fewest times",
}


def check_setting(name, value):
    """ValueError if a setting does not take the value."""
    if name in ("codec", "disk_codec"):
        raise ValueError("the codec is given when a cache is opened, and is no setting")
    if name == "eviction_policy" and value not in EVICTION_POLICY:
        known = ", ".join(repr(policy) for policy in EVICTION_POLICY)
        raise ValueError(f"eviction_policy {value!r}; known are {known}")
    if name == "disk_files" and not (isinstance(value, int) and value >= 0):
        raise ValueError(f"disk_files {value!r}; it is True, False or a number of bytes")


def split_settings(given):
    """(settings, options of the store) of a constructor's keywords."""
    settings, options = {}, {}
    for name, value in given.items():
        if name.startswith("sqlite_"):
            warnings.warn(f"{name} has no meaning here: there is no SQLite", stacklevel=4)
        elif name == "store_encryption_key":
            raise TypeError("a cache cannot be encrypted: its large values are files of their own")
        elif name.startswith("store_"):
            options[name[len("store_") :]] = value
        elif name in DEFAULT_SETTINGS or name.startswith("disk_") and name != "disk_codec":
            check_setting(name, value)
            settings[name] = value
        else:
            known = ", ".join(DEFAULT_SETTINGS)
            raise TypeError(
                f"unknown setting {name!r}; known are {known}, disk_... (for the Disk) and "
                "store_... (options of EvenDB, such as store_memory_budget)"
            )
    return settings, options


def _parameters(disk):
    """Names of the settings that the constructors of a Disk take."""
    names = set()
    for cls in disk.__mro__:
        if "__init__" in vars(cls) and cls is not object:
            names.update(inspect.signature(cls.__init__).parameters)
    return {f"disk_{name}" for name in names - {"self", "directory", "codec"}}


def stored_settings(settings, disk):
    """Those of a cache's stored settings that mean something here."""
    known = DEFAULT_SETTINGS.keys() | _parameters(disk)
    kept = {name: value for name, value in settings.items() if name in known}
    if kept.get("eviction_policy") not in EVICTION_POLICY:
        kept.pop("eviction_policy", None)
    return kept
