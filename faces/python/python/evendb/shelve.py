"""The standard library's ``shelve``, over an EvenDB database: a dictionary of Python objects.

>>> import evendb.shelve, os, tempfile
>>> file = os.path.join(tempfile.mkdtemp(), "shelf")
>>> with evendb.shelve.open(file) as shelf:
...     shelf["ann"] = {"age": 42, "tags": ["a", "b"]}
...     print(shelf["ann"]["tags"], list(shelf))
['a', 'b'] ['ann']

**Values are pickled, because that is what a shelf is.** Who can write the files can therefore run
code in the process that reads them. Open only what you trust, or take JSON, by one argument:
``open(file, serializer="json")``. ``serializer(value, protocol)`` and ``deserializer(data)`` may
also be functions of your own.

What differs from the standard module:

* A shelf may be used by all threads, also with ``writeback=True``; ``setdefault`` is one step.
* Keys are in the order of their encoded bytes. An iteration sees one moment of the shelf, and is
  not disturbed by writes.
* A write that has returned outlives its process, without waiting for the disk. ``sync()`` waits.
* Entries that ``writeback=True`` holds in memory are written by ``sync()`` and ``close()``, and
  when the interpreter ends in good order. A process that is killed loses what was changed in them.
* All shelves that ``open`` makes have ``first``, ``last``, ``next``, ``previous`` and
  ``set_location``, which the standard module has for its ``BsdDbShelf`` alone.

``Shelf`` and ``BsdDbShelf`` take any mapping of bytes to bytes, as the standard ones do: a keyspace
of a database, too. The rest (one process, forks) is that of ``evendb.dbm``.
"""

from __future__ import annotations

import atexit
import collections.abc
import json
import os
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NoReturn, Self, Union

from evendb import dbm
from evendb._json import exact_text

__all__ = ["BsdDbShelf", "DbfilenameShelf", "Shelf", "ShelveError", "open"]

Serializer = Callable[[Any, int], Union[bytes, bytearray, memoryview]]
Deserializer = Callable[[bytes], Any]


class ShelveError(Exception):
    """One of ``serializer`` and ``deserializer`` was given without the other."""


class _ClosedDict(MutableMapping[Any, Any]):
    """What a closed shelf has in place of its mapping: all that is asked of it is an error."""

    def _closed(self, *_: Any) -> NoReturn:
        raise ValueError("the shelf is closed")

    __iter__ = __len__ = __getitem__ = __setitem__ = __delitem__ = _closed
    __contains__ = __bool__ = keys = values = items = _closed

    def __repr__(self) -> str:
        return "<Closed Dictionary>"


def _json_text(value: Any, _protocol: int) -> bytes:
    return exact_text(value, ensure_ascii=False).encode("utf-8")


def _codec(serializer: Serializer | str | None,
           deserializer: Deserializer | None) -> tuple[Serializer, Deserializer]:
    if isinstance(serializer, str):
        if deserializer is not None:
            raise ShelveError("a serializer that is named has its own deserializer")
        if serializer == "json":
            return _json_text, json.loads
        if serializer == "pickle":
            return pickle.dumps, pickle.loads
        raise ShelveError(f"no serializer is named {serializer!r}; there are 'json' and 'pickle'")
    if (serializer is None) != (deserializer is None):
        raise ShelveError("serializer and deserializer are given both, or none of them")
    if serializer is None or deserializer is None:
        return pickle.dumps, pickle.loads
    return serializer, deserializer


class _Items(collections.abc.ItemsView[str, Any]):
    _mapping: Shelf

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        return self._mapping._each()


class _Values(collections.abc.ValuesView[Any]):
    _mapping: Shelf

    def __iter__(self) -> Iterator[Any]:
        return (value for _, value in self._mapping._each())


class Shelf(MutableMapping[str, Any]):
    """A mapping of text to objects, over a mapping of bytes to bytes.

    Invariants: ``_lock`` is held wherever ``cache`` is read or changed, and over each change of
    ``dict``; so an entry of the cache is never written over a newer value of another thread.
    """

    def __init__(self, dict: MutableMapping[Any, Any], protocol: int | None = None,
                 writeback: bool = False, keyencoding: str = "utf-8", *,
                 serializer: Serializer | str | None = None,
                 deserializer: Deserializer | None = None) -> None:
        self._serialize, self._deserialize = _codec(serializer, deserializer)
        self._lock = threading.RLock()
        self._process = os.getpid()
        self.dict = dict
        self._protocol = pickle.DEFAULT_PROTOCOL if protocol is None else protocol
        self.cache: Any = {}
        self._writing_back = False
        self.keyencoding = keyencoding
        self.writeback = writeback
        _shelves[id(self)] = self

    def _key(self, key: Any) -> bytes:
        if not isinstance(key, str):
            raise TypeError(f"a key of a shelf must be str, not {type(key).__name__}")
        return key.encode(self.keyencoding)

    def _load(self, key: str, data: Any) -> Any:
        """The object of a record that was read without the lock. With writeback, it is that of the
        cache, in which it is kept unless the record is gone meanwhile."""
        if not self.writeback:
            return self._deserialize(data)
        with self._lock:
            if key in self.cache:
                return self.cache[key]
            value = self._deserialize(data)
            if key in self.cache:  # The object's own code has put it there.
                return self.cache[key]
            if self._key(key) in self.dict:
                self.cache[key] = value
            return value

    def _each(self) -> Iterator[tuple[str, Any]]:
        for raw, data in self.dict.items():
            key = bytes(raw).decode(self.keyencoding)
            yield key, self._load(key, data)

    def __iter__(self) -> Iterator[str]:
        for key in self.dict:
            yield key.decode(self.keyencoding)

    def __len__(self) -> int:
        return len(self.dict)

    def __bool__(self) -> bool:
        return bool(self.dict)

    def __contains__(self, key: object) -> bool:
        return self._key(key) in self.dict

    def items(self) -> _Items:
        return _Items(self)

    def values(self) -> _Values:
        return _Values(self)

    def __getitem__(self, key: str) -> Any:
        raw = self._key(key)
        if self.writeback:
            with self._lock:
                if key in self.cache:
                    return self.cache[key]
                return self._load(key, self.dict[raw])
        return self._deserialize(self.dict[raw])

    def get(self, key: str, default: Any = None) -> Any:
        raw = self._key(key)
        with self._lock:
            if key in self.cache:
                return self.cache[key]
        try:
            data = self.dict[raw]
        except KeyError:
            return default
        return self._load(key, data)

    def __setitem__(self, key: str, value: Any) -> None:
        raw, data = self._key(key), self._serialize(value, self._protocol)
        with self._lock:
            self.dict[raw] = data
            if self.writeback:
                self.cache[key] = value

    def __delitem__(self, key: str) -> None:
        with self._lock:
            del self.dict[self._key(key)]
            self.cache.pop(key, None)

    def setdefault(self, key: str, default: Any = None) -> Any:
        with self._lock:
            if key in self:
                return self[key]
            self[key] = default
            return default if self.writeback else self[key]

    def pop(self, key: str, *default: Any) -> Any:
        with self._lock:
            return super().pop(key, *default)

    def popitem(self) -> tuple[str, Any]:
        with self._lock:
            return super().popitem()

    def clear(self) -> None:
        """Deletes all records, by the mapping's own way."""
        with self._lock:
            self.cache.clear()
            self.dict.clear()

    def _write_back(self) -> None:
        """Writes the entries of the cache and empties it. Values run code of their own when they
        are pickled, which may use the shelf: entries that come by it are written, too. A value
        that cannot be pickled keeps no other from being written; it stays in the cache, and its
        exception is raised at the end."""
        with self._lock:
            if self._writing_back:
                return
            self._writing_back = True
            try:
                failed: dict[str, Exception] = {}
                done: set[str] = set()
                while waiting := [key for key in self.cache if key not in done]:
                    for key in waiting:
                        done.add(key)
                        self._write_back_one(key, failed)
                self.cache = {key: self.cache[key] for key in failed if key in self.cache}
            finally:
                self._writing_back = False
            for failure in failed.values():
                raise failure

    def _write_back_one(self, key: str, failed: dict[str, Exception]) -> None:
        value = self.cache.get(key, self)
        if value is self:  # It was deleted meanwhile.
            return
        try:
            data = self._serialize(value, self._protocol)
        except Exception as failure:
            failed[key] = failure
            return
        # What the value's own code has put in its place is written, and stands.
        if self.cache.get(key, self) is value:
            self.dict[self._key(key)] = data

    def sync(self) -> None:
        """Writes the entries that are held in memory. Returns when all is on the disk, if the
        mapping has ``sync`` or ``persist``."""
        try:
            self._write_back()
        finally:
            persist = getattr(self.dict, "sync", None) or getattr(self.dict, "persist", None)
            if persist is not None:
                persist()

    def close(self) -> None:
        """Writes the entries that are held in memory, makes all durable, and closes the mapping.
        Closing twice does nothing."""
        if isinstance(self.dict, _ClosedDict):
            return
        try:
            self.sync()
        finally:
            mapping, self.dict = self.dict, _ClosedDict()
            close = getattr(mapping, "close", None)
            if close is not None:
                close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        # A shelf that was not made whole has nothing to close. Nothing is raised here, also where
        # the interpreter is ending, or where a forked child drops the shelf of its parent.
        try:
            if hasattr(self, "writeback"):
                self.close()
        except Exception:
            pass


class BsdDbShelf(Shelf):
    """A shelf with a position, over a mapping that has ``first``, ``last``, ``next``,
    ``previous`` and ``set_location``, as the databases of ``evendb.dbm`` have. A move to where
    nothing is raises ``KeyError``, and leaves the position."""

    def _record(self, record: tuple[bytes, bytes]) -> tuple[str, Any]:
        key = record[0].decode(self.keyencoding)
        return key, self._load(key, record[1])

    def set_location(self, key: str) -> tuple[str, Any]:
        """Goes to this key, or to the first one behind it."""
        mapping: Any = self.dict
        return self._record(mapping.set_location(self._key(key)))

    def next(self) -> tuple[str, Any]:
        mapping: Any = self.dict
        return self._record(mapping.next() if hasattr(mapping, "next") else next(mapping))

    def previous(self) -> tuple[str, Any]:
        mapping: Any = self.dict
        return self._record(mapping.previous())

    def first(self) -> tuple[str, Any]:
        mapping: Any = self.dict
        return self._record(mapping.first())

    def last(self) -> tuple[str, Any]:
        mapping: Any = self.dict
        return self._record(mapping.last())


class DbfilenameShelf(BsdDbShelf):
    """A shelf over the database of a file; ``open`` makes it."""

    def __init__(self, filename: Any, flag: str = "c", protocol: int | None = None,
                 writeback: bool = False, *, serializer: Serializer | str | None = None,
                 deserializer: Deserializer | None = None, **options: Any) -> None:
        _codec(serializer, deserializer)
        super().__init__(dbm.open(filename, flag, **options), protocol, writeback,
                         serializer=serializer, deserializer=deserializer)


def open(filename: Any, flag: str = "c", protocol: int | None = None, writeback: bool = False, *,
         serializer: Serializer | str | None = None, deserializer: Deserializer | None = None,
         **options: Any) -> DbfilenameShelf:
    """Opens the shelf of this name, by the flags of ``evendb.dbm.open``; ``"c"`` is the default.

    ``serializer`` is ``"pickle"`` (the default), ``"json"``, or a function ``(value, protocol)``
    that returns bytes; with a function, ``deserializer`` makes the value of the bytes again.
    ``options`` are those of ``evendb.open``.
    """
    return DbfilenameShelf(filename, flag, protocol, writeback, serializer=serializer,
                           deserializer=deserializer, **options)


_shelves: weakref.WeakValueDictionary[int, Shelf] = weakref.WeakValueDictionary()


def _write_back_at_exit() -> None:
    for shelf in list(_shelves.values()):
        if shelf._process != os.getpid():
            continue
        try:
            shelf._write_back()
        except Exception:  # The shelf is closed, or its database.
            pass


def _unlock_in_child() -> None:
    # A thread that is not in the child may have held the lock at the fork. The child can do nothing
    # with the database; it gets the error of the database, and does not wait for that thread.
    for shelf in list(_shelves.values()):
        shelf._lock = threading.RLock()


atexit.register(_write_back_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock_in_child)
