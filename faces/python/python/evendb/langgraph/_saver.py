"""The checkpointer. What it promises stands in the package's own text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice
from typing import Any, cast

import ormsgpack
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    writes_sort_key,
)
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.serde.base import SerializerProtocol

import evendb
from evendb._texts import key_of, parts_of
from evendb.langgraph._records import RETRIES, DataSerializer, Deleted, config_of, delete_all

_DELETIONS_ARE_KEPT = 86_400.0
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class EvenDBSaver(BaseCheckpointSaver[Any]):
    """A checkpointer. Keys: checkpoints (thread, ns, id); blobs (thread, ns, channel, version);
    writes (thread, ns, id, task, index); runs (run, thread, ns, id), which only tell where to look;
    deleted (thread), with the time of the last deletion as an id."""

    def __init__(self, database: evendb.Database, *,
                 serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or DataSerializer())
        self._db = database
        for name in ("checkpoints", "blobs", "writes", "runs", "deleted"):
            database.keyspace(f"langgraph.{name}")

    def _pack(self, *values: Any) -> bytes:
        return ormsgpack.packb([part for value in values for part in self.serde.dumps_typed(value)])

    def _load(self, kind: str, data: Any) -> Any:
        return self.serde.loads_typed((kind, data))

    @staticmethod
    def _place(config: RunnableConfig) -> tuple[str, str]:
        configurable = config.get("configurable", {})
        return str(configurable["thread_id"]), configurable.get("checkpoint_ns") or ""

    def _refuse_stale(self, tx: Any, thread: str, ns: str, checkpoint_id: str | None) -> None:
        """A checkpoint that is older than the last deletion and not there was deleted."""
        deleted = tx.keyspace("langgraph.deleted").get(key_of(thread))
        if deleted is None or checkpoint_id is None or not _UUID.fullmatch(checkpoint_id):
            return
        if checkpoint_id < deleted.decode() and \
                key_of(thread, ns, checkpoint_id) not in tx.keyspace("langgraph.checkpoints"):
            raise Deleted(f"checkpoint {checkpoint_id} of thread {thread!r} was deleted")

    def put(self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata,
            new_versions: ChannelVersions) -> RunnableConfig:
        thread, ns = self._place(config)
        parent = get_checkpoint_id(config)
        stored = dict(checkpoint)
        values = cast(dict[str, Any], stored.pop("channel_values"))
        all_metadata = get_checkpoint_metadata(config, metadata)
        head = self._pack(stored, all_metadata, parent)
        blobs = {key_of(thread, ns, channel, repr(version)): self._pack(values[channel])
                 for channel, version in new_versions.items() if channel in values}
        key = key_of(thread, ns, checkpoint["id"])

        def write(tx: Any) -> None:
            self._refuse_stale(tx, thread, ns, parent)
            tx.keyspace("langgraph.checkpoints")[key] = head
            for blob, data in blobs.items():
                tx.keyspace("langgraph.blobs")[blob] = data
            if run := all_metadata.get("run_id"):
                tx.keyspace("langgraph.runs")[key_of(run) + key] = b""

        self._db.transact(write, retries=RETRIES)
        return config_of(thread, ns, checkpoint["id"])

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str,
                   task_path: str = "") -> None:
        thread, ns = self._place(config)
        checkpoint_id = config.get("configurable", {})["checkpoint_id"]
        packed = []
        for place, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, place)
            packed.append((key_of(thread, ns, checkpoint_id, task_id, index), index < 0,
                           self._pack([task_id, channel, task_path, index], value)))

        def write(tx: Any) -> None:
            self._refuse_stale(tx, thread, ns, checkpoint_id)
            stored = tx.keyspace("langgraph.writes")
            for key, replaces, data in packed:
                if replaces or key not in stored:
                    stored[key] = data

        self._db.transact(write, retries=RETRIES)

    def _tuple(self, now: Any, key: bytes, head: bytes) -> CheckpointTuple:
        thread, ns, checkpoint_id = parts_of(key)
        kind, data, metadata_kind, metadata, parent_kind, parent = ormsgpack.unpackb(head)
        stored = self._load(kind, data)
        values = {}
        for channel, version in stored["channel_versions"].items():
            blob = now.keyspace("langgraph.blobs").get(key_of(thread, ns, channel, repr(version)))
            if blob is not None:
                values[channel] = self._load(*ormsgpack.unpackb(blob))
        pending = []
        for packed in now.keyspace("langgraph.writes").values(prefix=key):
            about_kind, about, value_kind, value = ormsgpack.unpackb(packed)
            task, channel, path, index = self._load(about_kind, about)
            pending.append((writes_sort_key(path, task, index), (task, channel,
                                                                 self._load(value_kind, value))))
        pending.sort(key=lambda write: write[0])
        before = self._load(parent_kind, parent)
        return CheckpointTuple(
            config=config_of(thread, ns, checkpoint_id),
            checkpoint=cast(Checkpoint, {**stored, "channel_values": values}),
            metadata=self._load(metadata_kind, metadata),
            parent_config=config_of(thread, ns, before) if before else None,
            pending_writes=[write for _, write in pending])

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, ns = self._place(config)
        checkpoint_id = get_checkpoint_id(config)
        prefix = key_of(thread, ns) if checkpoint_id is None else key_of(thread, ns, checkpoint_id)
        with self._db.snapshot() as now:
            newest = now.keyspace("langgraph.checkpoints").items(
                prefix=prefix, reverse=True, limit=1)
            for key, head in newest:
                return self._tuple(now, key, head)
        return None

    def list(self, config: RunnableConfig | None, *, filter: dict[str, Any] | None = None,
             before: RunnableConfig | None = None,
             limit: int | None = None) -> Iterator[CheckpointTuple]:
        configurable = config.get("configurable", {}) if config else {}
        ns, only = configurable.get("checkpoint_ns"), configurable.get("checkpoint_id")
        limit_id = get_checkpoint_id(before) if before else None
        prefix = b""
        if "thread_id" in configurable:
            prefix = key_of(configurable["thread_id"], *([] if ns is None else [ns]))
        with self._db.snapshot() as now:
            heads = now.keyspace("langgraph.checkpoints")
            places = [(parts_of(key), key) for key in heads.keys(prefix=prefix)]
            keys = [(parts[2], key) for parts, key in places
                    if (ns is None or parts[1] == ns) and (only is None or parts[2] == only)
                    and (limit_id is None or parts[2] < limit_id)]
            found = 0
            for _, key in sorted(keys, reverse=True):
                if limit is not None and found >= limit:
                    return
                head = heads[key]
                kind, data = ormsgpack.unpackb(head)[2:4]
                metadata = self._load(kind, data)
                if all(metadata.get(name) == value for name, value in (filter or {}).items()):
                    found += 1
                    yield self._tuple(now, key, head)

    def delete_thread(self, thread_id: str) -> None:
        prefix = key_of(thread_id)

        def write(tx: Any) -> None:
            for name in ("checkpoints", "blobs", "writes"):
                delete_all(tx.keyspace(f"langgraph.{name}"), prefix)
            self._mark_deleted(tx, str(thread_id))

        self._db.transact(write, retries=RETRIES)

    @staticmethod
    def _mark_deleted(tx: Any, thread: str) -> None:
        tx.keyspace("langgraph.deleted").put(
            key_of(thread), str(uuid6()).encode(), ttl=_DELETIONS_ARE_KEPT)

    def _remove(self, tx: Any, thread: str, ns: str, doomed: set[str]) -> None:
        """Removes checkpoints, their writes, and the blobs that no other checkpoint names."""
        heads, blobs = tx.keyspace("langgraph.checkpoints"), tx.keyspace("langgraph.blobs")
        named = set()
        for key, head in list(heads.items(prefix=key_of(thread, ns))):
            if parts_of(key)[2] in doomed:
                del heads[key]
                delete_all(tx.keyspace("langgraph.writes"), key)
            else:
                versions = self._load(*ormsgpack.unpackb(head)[:2])["channel_versions"]
                named |= {key_of(thread, ns, *pair) for pair in
                          ((channel, repr(version)) for channel, version in versions.items())}
        for key in list(blobs.keys(prefix=key_of(thread, ns))):
            if key not in named:
                del blobs[key]
        self._mark_deleted(tx, thread)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        def write(tx: Any) -> None:
            doomed: dict[tuple[str, str], set[str]] = {}
            runs, heads = tx.keyspace("langgraph.runs"), tx.keyspace("langgraph.checkpoints")
            for run in run_ids:
                for key in list(runs.keys(prefix=key_of(run))):
                    del runs[key]
                    thread, ns, checkpoint_id = parts_of(key)[1:]
                    head = heads.get(key_of(thread, ns, checkpoint_id))
                    if head is not None and \
                            self._load(*ormsgpack.unpackb(head)[2:4]).get("run_id") == run:
                        doomed.setdefault((thread, ns), set()).add(checkpoint_id)
            for place, ids in doomed.items():
                self._remove(tx, *place, ids)

        self._db.transact(write, retries=RETRIES)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        prefix, target = key_of(source_thread_id), key_of(target_thread_id)

        def write(tx: Any) -> None:
            for name in ("checkpoints", "blobs", "writes"):
                records = tx.keyspace(f"langgraph.{name}")
                for key, value in list(records.items(prefix=prefix)):
                    records[target + key[len(prefix):]] = value
            for key, head in list(tx.keyspace("langgraph.checkpoints").items(prefix=target)):
                if run := self._load(*ormsgpack.unpackb(head)[2:4]).get("run_id"):
                    tx.keyspace("langgraph.runs")[key_of(run) + key] = b""

        self._db.transact(write, retries=RETRIES)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """``"keep_latest"`` keeps the newest checkpoint of each namespace, and the ancestors from
        which its delta channels are rebuilt; ``"delete"`` deletes the threads."""
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"the strategy is 'keep_latest' or 'delete', not {strategy!r}")

        def write(tx: Any) -> None:
            for thread in map(str, thread_ids):
                heads = dict(tx.keyspace("langgraph.checkpoints").items(prefix=key_of(thread)))
                places: dict[str, list[str]] = {}
                for key in heads:
                    places.setdefault(parts_of(key)[1], []).append(parts_of(key)[2])
                for ns, ids in places.items():
                    kept = self._needed(tx, thread, ns, max(ids), heads)
                    self._remove(tx, thread, ns, set(ids) - kept)

        if strategy == "keep_latest":
            self._db.transact(write, retries=RETRIES)
        else:
            for thread in thread_ids:
                self.delete_thread(thread)

    def _needed(self, tx: Any, thread: str, ns: str, newest: str,
                heads: dict[bytes, bytes]) -> set[str]:
        needed: set[str] = set()
        at: str | None = newest
        deltas: set[str] | None = None
        while at is not None and (head := heads.get(key_of(thread, ns, at))) is not None:
            parts = ormsgpack.unpackb(head)
            needed.add(at)
            if deltas is None:
                metadata = self._load(*parts[2:4])
                deltas = set(metadata.get("counters_since_delta_snapshot") or ())
            versions = self._load(*parts[:2])["channel_versions"]
            deltas = {channel for channel in deltas
                      if key_of(thread, ns, channel, repr(versions.get(channel)))
                      not in tx.keyspace("langgraph.blobs")}
            at = self._load(*parts[4:6]) if deltas else None
        return needed

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config: RunnableConfig | None, *, filter: dict[str, Any] | None = None,
                    before: RunnableConfig | None = None,
                    limit: int | None = None) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, filter=filter, before=before, limit=limit)
        while chunk := await asyncio.to_thread(lambda: [*islice(found, 16)]):
            for one in chunk:
                yield one

    async def aput(self, config: RunnableConfig, checkpoint: Checkpoint,
                   metadata: CheckpointMetadata, new_versions: ChannelVersions) -> RunnableConfig:
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]],
                          task_id: str, task_path: str = "") -> None:
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await asyncio.to_thread(lambda: self.prune(thread_ids, strategy=strategy))
