"""The interface of the standard library's ``dbm`` modules, over an EvenDB database.

``open(file, flag, mode)``, ``error`` and ``whichdb`` mean what they mean in ``dbm.gnu``,
``dbm.ndbm`` and ``dbm.sqlite3``:

>>> import evendb.dbm, os, tempfile
>>> file = os.path.join(tempfile.mkdtemp(), "visits")
>>> with evendb.dbm.open(file, "c") as db:
...     db["ann"] = "7"
...     db[b"bob"] = b"9"
...     print(db["ann"], db.keys(), evendb.dbm.whichdb(file))
b'7' [b'ann', b'bob'] evendb.dbm

What differs from the standard modules:

* ``file`` becomes a directory, of exactly this name. ``mode`` is the mode of that directory, to
  which the right to search is added wherever there is the right to read.
* Keys are in the order of their bytes, and an iteration sees one moment of the database: keys that
  are added or deleted meanwhile change nothing in it, and no error is raised.
* A handle may be used by all threads. Two handles on one file in one process share a database.
* A write that has returned outlives its process. No write waits for the disk; ``sync()`` does.
  ``open(..., durability="sync")`` makes each write wait.
* One process at a time has the database open, also for reading; the others get ``error``. The
  flag ``"beside"`` reads while another process writes, and sees the last checkpoint of that
  process. A child that is forked while a database is open gets ``error`` from every handle, and can
  open none; it begins a program anew (``exec``, multiprocessing's "spawn").
* A file of another kind is never changed. Only an empty file is replaced, by the flag ``"n"``.

Keys and values may be bytes-like, ``str`` (encoded as UTF-8), ``int`` or ``float`` (their text, as
``dbm.sqlite3`` stores them). What comes back is ``bytes``.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator, MutableMapping
from collections.abc import ItemsView as _ItemsView
from collections.abc import ValuesView as _ValuesView
from dbm import whichdb as _whichdb_of_standard_library
from typing import Any, Union

import evendb

__all__ = ["error", "library", "open", "whichdb"]

library = "EvenDB"
_KIND = "evendb.dbm"
_FLAGS: dict[str, Any] = {"r": "r", "w": "w", "c": "c", "n": "n", "beside": "beside"}

_Text = Union[bytes, bytearray, memoryview, str, int, float]


class error(OSError):
    """What every failure is, except for a missing key, which is ``KeyError``.

    Its ``__cause__`` is the exception of ``evendb``, where there is one.
    """


class _WrongType(error, TypeError):
    """A key or value of a type that is not stored."""


class _Errors:
    """A block in which the failures of a database are `error`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, failure: BaseException | None, traceback: object) -> None:
        if isinstance(failure, (evendb.Error, OSError)) and not isinstance(failure, error):
            raise error(str(failure)) from failure


_errors = _Errors()


def _bytes(value: _Text, what: str) -> bytes | bytearray | memoryview:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, bool):
        return b"1" if value else b"0"
    if isinstance(value, (int, float)):
        return repr(value).encode("ascii")
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise _WrongType(f"a {what} must be bytes-like, str, int or float, "
                         f"not {type(value).__name__}") from None


class _Shared:
    """One open database of this process, and how many handles use it.

    It holds its directory, so that no other one gets the same number while it is open: by that
    it is known whether the path still leads to the directory that was opened."""

    def __init__(self, path: str, database: evendb.Database, flag: str) -> None:
        self.database = database
        self.read_only = flag in ("r", "beside")
        self.handles = 1
        self.directory = os.open(path, getattr(os, "O_PATH", os.O_RDONLY))

    def is_at(self, path: str) -> bool:
        """Whether this is the database that an opening of `path` would find: neither the directory
        nor the files in it were deleted, moved or replaced."""
        try:
            os.stat("CURRENT", dir_fd=self.directory)
            return os.path.samestat(os.stat(path), os.fstat(self.directory))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        try:
            self.database.close()
        finally:
            os.close(self.directory)


class _Registry:
    """The databases that this process has open through this module, by their real path."""

    def __init__(self) -> None:
        # The collector may run in an opening, and end a handle in the thread that has the lock.
        self.lock = threading.RLock()
        self.shared: dict[str, _Shared] = {}
        self.process = os.getpid()

    def take(self, path: str, flag: str, opening: Callable[[], evendb.Database]) -> _Shared:
        with self.lock:
            found = self.shared.get(path)
            if found is None or not found.is_at(path):
                # Handles of a directory that is gone keep it to themselves.
                found = self.shared[path] = self.opened(path, opening, flag)
                return found
            if flag == "n":
                raise error(f"{path} is open in this process; "
                            "close it before you make it new")
            if found.read_only and flag not in ("r", "beside"):
                raise error(f"{path} is open in this process for reading only; "
                            "close it before you write to it")
            found.handles += 1
            return found

    @staticmethod
    def opened(path: str, opening: Callable[[], evendb.Database], flag: str) -> _Shared:
        database = opening()
        try:
            return _Shared(path, database, flag)
        except BaseException:
            database.close()
            raise

    def give_back(self, path: str, shared: _Shared) -> None:
        if os.getpid() != self.process:
            return
        with self.lock:
            shared.handles -= 1
            if shared.handles:
                return
            if self.shared.get(path) is shared:
                del self.shared[path]
            shared.close()


_registry = _Registry()


def _forget_in_child() -> None:
    # The lock may have been held by another thread at the fork, so the child takes a fresh one.
    # The handles that the child inherited keep the databases that they cannot use alive.
    global _registry
    _registry = _Registry()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)


class _Items(_ItemsView[bytes, bytes]):
    _mapping: _Database

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return _each(self._mapping._use().items())


class _Values(_ValuesView[bytes]):
    _mapping: _Database

    def __iter__(self) -> Iterator[bytes]:
        return _each(self._mapping._use().values())


def _each(view: Any) -> Iterator[Any]:
    with _errors:
        yield from view


class _Database(MutableMapping[Any, Any]):
    """An open database; ``open`` makes it. All methods may be called from all threads.

    ``first``, ``last``, ``next``, ``previous`` and ``set_location`` move one position, which
    belongs to the handle; threads that use them need a handle or a lock of their own.
    """

    def __init__(self, path: Any, /, *, flag: str = "r", mode: int = 0o666,
                 **options: Any) -> None:
        if hasattr(self, "_shared"):
            raise error("an open database cannot be initialised again")
        self._shared: _Shared | None = None
        self._at: bytes | None = None
        if flag not in _FLAGS:
            raise ValueError("the flag must be 'beside' or one of 'r', 'w', 'c' or 'n', "
                             f"not {flag!r}")
        name = os.fsdecode(path)
        if not name:
            raise error("the name of the database is empty")
        self._flag = flag
        self._path = os.path.realpath(name)
        with _errors:
            self._registry = _registry
            self._shared = self._registry.take(
                self._path, flag, lambda: _open(self._path, flag, mode, options))

    def _use(self) -> evendb.Database:
        shared = self._shared
        if shared is None:
            raise error("the database is closed")
        return shared.database

    def _write(self) -> evendb.Database:
        database = self._use()
        if self._flag in ("r", "beside"):
            raise error("the database is open for reading only")
        return database

    def __getitem__(self, key: _Text) -> bytes:
        raw = _bytes(key, "key")
        with _errors:
            value = self._use().get(raw)
        if value is None:
            raise KeyError(key)
        return value

    def get(self, key: _Text, default: Any = None) -> Any:
        raw = _bytes(key, "key")
        with _errors:
            value = self._use().get(raw)
        return default if value is None else value

    def __contains__(self, key: object) -> bool:
        raw = _bytes(key, "key")  # type: ignore[arg-type]
        with _errors:
            return raw in self._use()

    def __setitem__(self, key: _Text, value: _Text) -> None:
        raw, data = _bytes(key, "key"), _bytes(value, "value")
        with _errors:
            self._write()[raw] = data

    def __delitem__(self, key: _Text) -> None:
        raw = _bytes(key, "key")
        with _errors:
            self._write().pop(raw)

    def setdefault(  # type: ignore[override]
            self, key: _Text, default: _Text = b"") -> bytes:
        """Stores the value if the key is missing, and returns what is stored, in one step."""
        raw, data = _bytes(key, "key"), _bytes(default, "value")
        with _errors:
            return self._write().setdefault(raw, data)

    def __len__(self) -> int:
        with _errors:
            return len(self._use())

    def __bool__(self) -> bool:
        with _errors:
            return bool(self._use())

    def __iter__(self) -> Iterator[bytes]:
        return _each(self._use().keys())

    def __reversed__(self) -> Iterator[bytes]:
        return _each(self._use().keys(reverse=True))

    def keys(self) -> list[bytes]:  # type: ignore[override]
        """All keys, in order, as a list. ``iter(db)`` gives them without a list."""
        return list(self)

    def values(self) -> _Values:
        return _Values(self)

    def items(self) -> _Items:
        return _Items(self)

    def clear(self) -> None:
        """Deletes all records at once."""
        with _errors:
            self._write().clear()

    def sync(self) -> None:
        """Returns when all that was written is on the disk. Reading handles have nothing to do.
        It is an error if the directory was deleted, moved or replaced while it was open."""
        if self._flag not in ("r", "beside"):
            with _errors:
                self._use().persist()
            shared = self._shared
            if shared is not None and not shared.is_at(self._path):
                raise error(f"{self._path} was deleted, moved or replaced while it was open: "
                            "what was written is not there")

    def firstkey(self) -> bytes | None:
        """The first key, or None, as ``dbm.gnu`` has it."""
        first: bytes | None = self._one(self._use().keys(limit=1))
        return first

    def nextkey(self, key: _Text) -> bytes | None:
        """The first key behind this one, which need not exist, or None."""
        behind = bytes(_bytes(key, "key")) + b"\0"
        following: bytes | None = self._one(self._use().keys(start=behind, limit=1))
        return following

    def _one(self, view: Any) -> Any:
        with _errors:
            return next(iter(view), None)

    def _move(self, view: Any) -> tuple[bytes, bytes]:
        found: tuple[bytes, bytes] | None = self._one(view)
        if found is None:
            raise KeyError("there is no record there")
        self._at = found[0]
        return found

    def first(self) -> tuple[bytes, bytes]:
        """Goes to the first record, and returns it. Without one, ``KeyError``, as in each move."""
        return self._move(self._use().items(limit=1))

    def last(self) -> tuple[bytes, bytes]:
        """Goes to the last record, and returns it."""
        return self._move(self._use().items(reverse=True, limit=1))

    def set_location(self, key: _Text) -> tuple[bytes, bytes]:
        """Goes to the record of this key, or to the first one behind it, and returns it."""
        return self._move(self._use().items(start=_bytes(key, "key"), limit=1))

    def next(self) -> tuple[bytes, bytes]:
        """Goes to the record behind the position, from the start to the first, and returns it."""
        if self._at is None:
            return self.first()
        return self._move(self._use().items(start=self._at + b"\0", limit=1))

    def previous(self) -> tuple[bytes, bytes]:
        """Goes to the record before the position, from the start to the last, and returns it."""
        if self._at is None:
            return self.last()
        return self._move(self._use().items(stop=self._at, reverse=True, limit=1))

    def close(self) -> None:
        """Closes the handle; the last handle closes the database. Closing twice does nothing."""
        shared, self._shared = self._shared, None
        if shared is not None:
            with _errors:
                self._registry.give_back(self._path, shared)

    def __enter__(self) -> _Database:
        self._use()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Nothing is raised here, also where the interpreter is ending and modules are gone.
        try:
            self.close()
        except Exception:
            pass

    def __repr__(self) -> str:
        state = "closed " if self._shared is None else ""
        return f"<{state}evendb.dbm database {self._path!r}, flag {self._flag!r}>"


def _open(path: str, flag: str, mode: int, options: dict[str, Any]) -> evendb.Database:
    kind = whichdb(path)
    if kind == _KIND:
        return evendb.open(path, _FLAGS[flag], **options)
    if kind == "" and flag == "n" and os.path.isfile(path) and os.path.getsize(path) == 0:
        os.unlink(path)
        kind = None
    if kind is not None:
        raise error(f"{path} is of the kind {kind}, not of evendb.dbm; open it as before, and carry "
                    "it over to another path by new.update(old)" if kind else
                    f"{path} is of a kind that is not known")
    if flag not in ("c", "n"):
        raise error(f"there is no database {path}; the flags 'c' and 'n' make one")
    if not os.path.isdir(path):
        os.mkdir(path, mode | (mode & 0o444) >> 2)
    return evendb.open(path, "c", **options)


def whichdb(filename: Any) -> str | None:
    """The name of the module that made the database, as the standard ``dbm.whichdb`` tells it:
    ``"evendb.dbm"`` for a database of EvenDB, None where nothing is, and ``""`` for a file of an
    unknown kind.
    """
    try:
        with io.open(os.path.join(os.fsdecode(filename), "CURRENT"), "rb") as current:
            return _KIND if current.read(7) == b"EVENCUR" else ""
    except OSError:
        return _whichdb_of_standard_library(filename)


def open(file: Any, /, flag: str = "r", mode: int = 0o666, **options: Any) -> _Database:
    """Opens the database of this name.

    ``flag`` is ``"r"`` for reading (the default), ``"w"`` for reading and writing, ``"c"`` to make
    it if it is missing, ``"n"`` for a new and empty one, or ``"beside"``. ``options`` are those of
    ``evendb.open``, such as ``durability="sync"`` or ``memory_budget="64MiB"``.
    """
    return _Database(file, flag=flag, mode=mode, **options)


