"""The store of `py-key-value-aio` over an EvenDB database.

Needs that package (``pip install evendb[keyvalue]``).

    async with EvenDBKeyValueStore(path="values.db") as store:
        await store.put("ann", {"age": 42}, collection="users", ttl=3600)
        await store.get("ann", collection="users")

Values are dictionaries of what JSON has, as that package asks; a tuple or a key that is no text,
which JSON would change, is a ``SerializationError``; nothing is pickled. Collections and
keys are any texts, and never mix. The database removes what has expired by itself. ``put_many`` and
``delete_many`` are whole or not at all. A database that is given as ``database=`` is shared, and
stays open; one that is opened from ``path=`` is closed with the store. Methods run in threads, so
that an event loop never waits for the disk; one store serves any number of loops.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from os import PathLike
from typing import Any

from key_value.aio.errors import SerializationError
from key_value.aio.stores.base import (
    BaseContextManagerStore,
    BaseDestroyCollectionStore,
    BaseDestroyStore,
    BaseEnumerateCollectionsStore,
    BaseEnumerateKeysStore,
    ManagedEntry,
)

import evendb
from evendb._json import check_exact
from evendb._texts import key_of, parts_of

__all__ = ["EvenDBKeyValueStore"]


class EvenDBKeyValueStore(BaseEnumerateKeysStore, BaseEnumerateCollectionsStore,
                          BaseDestroyCollectionStore, BaseDestroyStore, BaseContextManagerStore):
    """A store of collections of dictionaries, in one keyspace: (collection, key)."""

    def __init__(self, *, path: str | PathLike[str] | None = None,
                 database: evendb.Database | None = None, keyspace: str = "keyvalue",
                 default_collection: str | None = None, **options: Any) -> None:
        if (path is None) == (database is None):
            raise ValueError("give either a path or a database")
        super().__init__(client_provided_by_user=path is None, stable_api=True,
                         default_collection=default_collection, **options)
        self._owned = evendb.open(path) if path is not None else None
        self._database = self._owned if self._owned is not None else database
        assert self._database is not None
        try:
            self._entries = self._database.keyspace(keyspace)
        except BaseException:
            if self._owned is not None:
                self._owned.close()
            raise

    async def _setup(self) -> None:
        if self._owned is not None:
            self._exit_stack.callback(self._owned.close)

    async def close(self) -> None:
        """Closes the database, if the store opened it. It may come before the first call."""
        try:
            await super().close()
        finally:
            if self._owned is not None:
                self._owned.close()

    def _dump(self, entry: ManagedEntry, collection: str, key: str) -> bytes:
        text = self._serialization_adapter.dump_json(
            entry=entry, key=key, collection=collection)
        try:
            check_exact(dict(entry.value), json.loads(text)["value"])
        except TypeError as changed:
            raise SerializationError(f"Failed to serialize object to JSON: {changed}") from changed
        return text.encode()

    def _load(self, record: bytes | None) -> ManagedEntry | None:
        if record is None:
            return None
        return self._serialization_adapter.load_json(json_str=record.decode())

    async def _get_managed_entry(self, *, collection: str, key: str) -> ManagedEntry | None:
        return self._load(await asyncio.to_thread(self._entries.get, key_of(collection, key)))

    async def _get_managed_entries(self, *, collection: str,
                                   keys: Sequence[str]) -> list[ManagedEntry | None]:
        records = await asyncio.to_thread(
            self._entries.multi_get, [key_of(collection, key) for key in keys])
        return [self._load(record) for record in records]

    async def _put_managed_entry(self, *, collection: str, key: str,
                                 managed_entry: ManagedEntry) -> None:
        record, left = self._dump(managed_entry, collection, key), managed_entry.ttl
        # What is left of a short time may be less than nothing by now.
        ttl = None if left is None else max(0.0, left)
        await asyncio.to_thread(
            lambda: self._entries.put(key_of(collection, key), record, ttl=ttl))

    async def _put_managed_entries(self, *, collection: str, keys: Sequence[str],
                                   managed_entries: Sequence[ManagedEntry], ttl: float | None,
                                   created_at: datetime, expires_at: datetime | None) -> None:
        records = [(key_of(collection, key), self._dump(entry, collection, key))
                   for key, entry in zip(keys, managed_entries, strict=True)]

        def write() -> None:
            with self._entries.batch() as batch:
                for key, record in records:
                    batch.put(key, record, ttl=ttl)

        await asyncio.to_thread(write)

    async def _delete_managed_entry(self, *, key: str, collection: str) -> bool:
        return await self._delete_managed_entries(keys=[key], collection=collection) == 1

    async def _delete_managed_entries(self, *, keys: Sequence[str], collection: str) -> int:
        def delete(tx: Any) -> int:
            return sum(tx.pop(key_of(collection, key), None) is not None for key in keys)

        return await asyncio.to_thread(lambda: self._entries.transact(delete, retries=1000))

    async def _get_collection_keys(self, *, collection: str,
                                   limit: int | None = None) -> list[str]:
        found = await asyncio.to_thread(
            lambda: list(self._entries.keys(prefix=key_of(collection), limit=limit)))
        return [parts_of(key)[1] for key in found]

    async def _get_collection_names(self, *, limit: int | None = None) -> list[str]:
        return await asyncio.to_thread(lambda: list(islice(self._collections(), limit)))

    def _collections(self) -> Iterator[str]:
        """One seek for each collection: to the first key behind all that begin with its name."""
        start = b""
        while (key := next(iter(self._entries.keys(start=start, limit=1)), None)) is not None:
            collection = parts_of(key)[0]
            yield collection
            start = key_of(collection)[:-1] + b"\x02"

    async def _delete_collection(self, *, collection: str) -> bool:
        def delete() -> bool:
            found = bool(list(self._entries.keys(prefix=key_of(collection), limit=1)))
            self._entries.delete_prefix(key_of(collection))
            return found

        return await asyncio.to_thread(delete)

    async def _delete_store(self) -> bool:
        await asyncio.to_thread(self._entries.clear)
        return True
