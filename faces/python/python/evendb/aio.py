"""EvenDB for asyncio: the same database, with calls that hold up no event loop.

>>> import asyncio
>>> import evendb.aio
>>> async def main():
...     async with await evendb.aio.open(path) as db:
...         await db.put(b"user/1", b"Ada")
...         async for key, value in db.items(prefix=b"user/"):
...             print(key, value)
...         return await db.get(b"user/2", b"nobody")
>>> asyncio.run(main())
b'user/1' b'Ada'
b'nobody'

What memory knows is answered at once, without a turn of the loop. What has to be read, synced or
waited for is done by threads of the database, whatever the number of calls, and the task is woken
through ``loop.call_soon_threadsafe``. No loop is remembered: a handle may be used from several
loops, and from plain threads through ``db.sync``.

Some calls run in the loop's default executor, because they wait for a lock or for the whole
database: ``open``, ``close``, ``keyspace``, ``transact``, ``add``, ``setdefault`` and ``pop``.
"""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from . import Batch, Change, Changes, Reader, Transaction, _evendb
from . import open as _open

if TYPE_CHECKING:
    import os

    from typing_extensions import Buffer, Self

_T = TypeVar("_T")

__all__ = [
    "AsyncBatch",
    "AsyncChanges",
    "AsyncDatabase",
    "AsyncKeyspace",
    "AsyncReader",
    "AsyncRecords",
    "AsyncSnapshot",
    "open",
]

_futures: Any = getattr(_evendb, "_futures")
_Pending: Any = _futures.Pending


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _finish(pending: Any) -> Any:
    """The outcome of a call that is under way."""
    try:
        while not pending.poll():
            loop = asyncio.get_running_loop()
            woken = loop.create_future()
            if pending.wake_by(functools.partial(loop.call_soon_threadsafe, _wake, woken)):
                await woken
    except asyncio.CancelledError:
        pending.cancel()
        raise
    return pending.take()


async def _next(stream: Any) -> Any:
    """The next item of a stream. Cancelling loses none."""
    while not stream.poll():
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        if stream.wake_by(functools.partial(loop.call_soon_threadsafe, _wake, woken)):
            try:
                await woken
            except asyncio.CancelledError:
                stream.forget()
                raise
    return stream.take()


class AsyncRecords(Generic[_T]):
    """Records of one moment, for ``async for``: each iteration begins anew. A loop that is left
    holds nothing."""

    def __init__(
        self, reader: AsyncReader, which: int | None, begin: Callable[[], tuple[Any, int | None]]
    ):
        self._reader, self._which, self._begin = reader, which, begin

    def __aiter__(self) -> AsyncIterator[_T]:
        return _RecordIterator(self._begin(), self._which, self._reader)

    async def list(self) -> list[_T]:
        """All records, as a list."""
        return [record async for record in self]


class _RecordIterator(AsyncIterator[Any]):
    def __init__(self, begun: tuple[Any, int | None], which: int | None, reader: AsyncReader):
        self._stream, self._left = begun
        self._which, self._reader = which, reader
        self._chunk: list[tuple[bytes, bytes]] = []
        self._at = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        self._reader._check()
        if self._at == len(self._chunk):
            chunk = None if self._left == 0 else await _next(self._stream)
            if chunk is None:
                self._left = 0
                raise StopAsyncIteration
            if self._left is not None:
                chunk = chunk[: self._left]
                self._left -= len(chunk)
            self._chunk, self._at = chunk, 0
        record = self._chunk[self._at]
        self._at += 1
        return record if self._which is None else record[self._which]


class AsyncReader:
    """A mapping of bytes to bytes that is read: of a keyspace or a snapshot."""

    def __init__(self, sync: Reader):
        self._sync: Any = sync

    @property
    def sync(self) -> Any:
        """The handle for calls that block, of ``evendb`` itself."""
        return self._sync

    @property
    def name(self) -> str:
        """The name of the keyspace."""
        name: str = self._sync.name
        return name

    def __repr__(self) -> str:
        return f"<evendb.aio {self._sync!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a handle of a database is not pickled: pass the path")

    @overload
    async def get(self, key: Buffer, default: None = None) -> bytes | None: ...
    @overload
    async def get(self, key: Buffer, default: _T) -> bytes | _T: ...
    async def get(self, key: Buffer, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        found = _futures.begin_get(self._sync, key)
        if type(found) is _Pending:
            found = await _finish(found)
        return default if found is None else found

    async def contains(self, key: Buffer) -> bool:
        """Whether ``key`` has a value."""
        return await self.get(key) is not None

    async def multi_get(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The values of many keys, in their order, all of one moment; None for a missing one."""
        found: Any = _futures.begin_multi_get(self._sync, keys)
        if type(found) is _Pending:
            found = await _finish(found)
        values: list[bytes | None] = found
        return values

    def keys(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncRecords[bytes]:
        """The keys, in order: see ``evendb.Reader.keys``."""
        return self._records(0, prefix, start, stop, reverse, limit)

    def values(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncRecords[bytes]:
        """The values, in the order of their keys."""
        return self._records(1, prefix, start, stop, reverse, limit)

    def items(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> AsyncRecords[tuple[bytes, bytes]]:
        """Pairs of key and value, in the order of the keys. Writes go on meanwhile."""
        return self._records(None, prefix, start, stop, reverse, limit)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.keys().__aiter__()

    def _records(self, which: int | None, *bounds: Any) -> AsyncRecords[Any]:
        limit: int | None = bounds[-1]

        def begin() -> tuple[Any, int | None]:
            return _futures.begin_range(self._sync, *bounds), limit

        return AsyncRecords(self, which, begin)

    def _check(self) -> None:
        if self._sync.closed:
            raise _evendb.Closed("the database is closed; open it again")


class AsyncKeyspace(AsyncReader):
    """A keyspace, for a task. Calls return when the write has taken effect at the level of
    durability that was asked for."""

    async def put(
        self, key: Buffer, value: Buffer, *, ttl: float | None = None, durability: Any = None
    ) -> None:
        """Sets the value of ``key``; for ``ttl`` seconds if that is given."""
        done = _futures.begin_write(self._sync, key, value, ttl, durability)
        if type(done) is _Pending:
            await _finish(done)

    async def delete(self, key: Buffer, *, durability: Any = None) -> None:
        """Removes ``key``, if it is there."""
        done = _futures.begin_write(self._sync, key, None, None, durability)
        if type(done) is _Pending:
            await _finish(done)

    async def update(
        self,
        other: Mapping[bytes, Buffer] | Iterable[tuple[Buffer, Buffer]],
        *,
        durability: Any = None,
    ) -> None:
        """Sets many values, of a mapping or of pairs, as one batch."""
        batch = self._sync.batch(durability=durability)
        pairs: Any = other.items() if isinstance(other, Mapping) else other
        for key, value in pairs:
            batch[key] = value
        await _commit(batch)

    async def add(self, key: Buffer, value: Buffer) -> bool:
        """Sets the value of ``key`` if it has none; returns whether it did."""
        added: bool = await asyncio.to_thread(self._sync.add, key, value)
        return added

    async def setdefault(self, key: Buffer, default: Buffer) -> bytes:
        """The value of ``key``, which is set to ``default`` if there is none."""
        found = await self.get(key)
        if found is not None:
            return found
        value: bytes = await asyncio.to_thread(self._sync.setdefault, key, default)
        return value

    async def pop(self, key: Buffer, *default: Any) -> Any:
        """The value of ``key``, which is removed; ``default``, or KeyError, if there is none."""
        return await asyncio.to_thread(self._sync.pop, key, *default)

    def batch(self, *, durability: Any = None) -> AsyncBatch:
        """Writes that take effect together when the ``async with`` block ends."""
        return AsyncBatch(self._sync.batch(durability=durability))

    async def transact(
        self, function: Callable[[Transaction], _T], *, retries: int = 64, durability: Any = None
    ) -> _T:
        """Runs ``function`` with a transaction in a thread of the executor, and commits it; after
        a conflict again. It is a plain function: reads of a transaction block."""
        transact = functools.partial(self._sync.transact, retries=retries, durability=durability)
        answer: _T = await asyncio.to_thread(transact, function)
        return answer

    def snapshot(self) -> AsyncSnapshot:
        """The database as it is now."""
        return AsyncSnapshot(self._sync.snapshot())

    def watch(
        self,
        prefix: Buffer | None = None,
        *,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        since: Buffer | None = None,
    ) -> AsyncChanges:
        """The writes to this keyspace, or to a range of it, for ``async for``."""
        return AsyncChanges(self._sync.watch(prefix, start=start, stop=stop, since=since))

    def changes(
        self, since: Buffer | None = None, prefix: Buffer | None = None
    ) -> AsyncChanges:
        """A feed of changes, from now on or since a position, for ``async for``."""
        return AsyncChanges(self._sync.changes(since, prefix))


class AsyncDatabase(AsyncKeyspace):
    """An open database, for tasks; made by ``evendb.aio.open``, or of a ``Database``."""

    async def keyspace(self, name: str, **options: Any) -> AsyncKeyspace:
        """A keyspace, made if it is missing: see ``evendb.Database.keyspace``."""
        call = functools.partial(self._sync.keyspace, name, **options)
        return AsyncKeyspace(await asyncio.to_thread(call))

    async def persist(self) -> None:
        """Everything acknowledged so far survives power loss when this returns."""
        done = _futures.begin_persist(self._sync)
        if type(done) is _Pending:
            await _finish(done)

    async def close(self) -> None:
        """Closes the database for all its handles. Again, it does nothing."""
        if not self._sync.closed:
            await asyncio.to_thread(self._sync.close)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        closed: bool = self._sync.closed
        return closed

    @property
    def path(self) -> str:
        """The directory, as it was given to ``open``."""
        path: str = self._sync.path
        return path

    async def __aenter__(self) -> Self:
        self._check()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        sync = getattr(self, "_sync", None)
        if sync is not None and not sync.closed:
            _warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)


class AsyncSnapshot(AsyncReader):
    """One moment of the whole database."""

    def keyspace(self, which: str | AsyncReader | Reader) -> AsyncSnapshot:
        """Another keyspace at the same moment, by name or as a handle."""
        handle: Any = which.sync if isinstance(which, AsyncReader) else which
        return AsyncSnapshot(self._sync.keyspace(handle))

    def close(self) -> None:
        """Lets the moment go."""
        self._sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()


class AsyncBatch:
    """Writes that take effect together when the ``async with`` block ends, or not at all."""

    def __init__(self, sync: Batch):
        self._sync = sync
        self.put, self.delete, self.merge = sync.put, sync.delete, sync.merge
        self.delete_range, self.delete_prefix = sync.delete_range, sync.delete_prefix
        self.clear = sync.clear

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self._sync[key] = value

    def __delitem__(self, key: Buffer) -> None:
        del self._sync[key]

    def __len__(self) -> int:
        return len(self._sync)

    def __bool__(self) -> bool:
        return True

    def keyspace(self, which: str | AsyncReader | Reader) -> AsyncBatch:
        """The same batch, for writes into another keyspace, by name or as a handle."""
        handle: Any = which.sync if isinstance(which, AsyncReader) else which
        return AsyncBatch(self._sync.keyspace(handle))

    async def commit(self) -> None:
        """Writes everything as one."""
        await _commit(self._sync)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            await self.commit()
        else:
            self._sync.__exit__(kind, error, traceback)


async def _commit(batch: Batch) -> None:
    done = _futures.begin_commit(batch)
    if type(done) is _Pending:
        await _finish(done)


class AsyncChanges:
    """A feed of changes, for ``async for``; each gives an ``evendb.Change``."""

    def __init__(self, sync: Changes):
        self._sync = sync
        self._stream = _futures.begin_changes(sync)

    @property
    def position(self) -> bytes:
        """The position behind the last change that was given or passed over."""
        return self._sync.position

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        change: Change | None = await _next(self._stream)
        if change is None:
            raise StopAsyncIteration
        return change


async def open(path: str | os.PathLike[str], mode: Any = "c", **options: Any) -> AsyncDatabase:
    """Opens the database in the directory ``path``: see ``evendb.open``."""
    return AsyncDatabase(await asyncio.to_thread(functools.partial(_open, path, mode, **options)))
