"""The store and the cache. What they promise stands in the package's own text.

The labels of a namespace have `1` before them in keys, and the key of an item has `0`, so that
those of `("a",)` lie together, and with them, behind them, those of `("a", "b")`:

    key_of("1a", "0x")            namespace ("a",), key "x"
    key_of("1a", "1b", "0x")      namespace ("a", "b"), key "x"
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from itertools import islice
from typing import Any

import ormsgpack
from langgraph.cache.base import BaseCache, FullKey, Namespace, ValueT
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

import evendb
from evendb._json import exact_text
from evendb._texts import key_of, parts_of
from evendb.langgraph._records import RETRIES, DataSerializer


def _under(namespace: Iterable[str]) -> bytes:
    return key_of(*("1" + label for label in namespace))


def _item_key(namespace: Iterable[str], key: str) -> bytes:
    return _under(namespace) + key_of("0" + key)


def _names(key: bytes) -> tuple[tuple[str, ...], str]:
    *labels, name = parts_of(key)
    return tuple(label[1:] for label in labels), name[1:]


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, operand: bool(value == operand),
    "$ne": lambda value, operand: bool(value != operand),
    "$gt": lambda value, operand: bool(value > operand),
    "$gte": lambda value, operand: bool(value >= operand),
    "$lt": lambda value, operand: bool(value < operand),
    "$lte": lambda value, operand: bool(value <= operand),
}


def _meets(value: Any, wanted: Any) -> bool:
    """Whether a field is what a filter wants: a value, a dict of fields, or a dict of operators."""
    if not isinstance(wanted, Mapping):
        return bool(value == wanted)
    if not any(str(name).startswith("$") for name in wanted):
        return isinstance(value, Mapping) and all(
            _meets(value.get(name), operand) for name, operand in wanted.items())
    return all([_operator(str(name), value, operand) for name, operand in wanted.items()])


def _operator(name: str, value: Any, operand: Any) -> bool:
    if name not in _OPERATORS:
        raise ValueError(f"no operator is named {name!r}; there are {', '.join(_OPERATORS)}")
    try:
        return _OPERATORS[name](value, operand)
    except TypeError:  # There is no order between the two, or the field is not there.
        return False


def _check_filter(wanted: Any) -> None:
    """Raises what `_meets` would raise, also if no item is there to be compared."""
    if isinstance(wanted, Mapping):
        _meets({}, wanted)
        for operand in wanted.values():
            _check_filter(operand)


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"no match is named {condition.match_type!r}")
    if len(path) > len(namespace):
        return False
    part = namespace[:len(path)] if condition.match_type == "prefix" else \
        namespace[len(namespace) - len(path):]
    return all(wanted in ("*", label) for wanted, label in zip(path, part))


class EvenDBStore(BaseStore):
    """A store of items. Values are JSON: what JSON does not have, or would change (a tuple, a key
    that is no text), is a ``TypeError`` at the put.

    An item's ``ttl`` is in minutes, and begins anew at each read, unless the read or ``ttl`` says
    otherwise. An item whose time is over is not seen any more.
    """

    supports_ttl = True
    __slots__ = ("_db", "_items", "ttl_config")

    def __init__(self, database: evendb.Database, *, ttl: TTLConfig | None = None) -> None:
        super().__init__()
        self._db = database
        self._items = "langgraph.store"
        self.ttl_config = ttl
        database.keyspace(self._items)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """All of it or nothing. Reads see what was there before the batch; of two puts of one item
        the last one counts."""
        operations = list(ops)
        return self._db.transact(lambda tx: self._run(tx.keyspace(self._items), operations),
                                 retries=RETRIES)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        operations = list(ops)
        return await asyncio.to_thread(self.batch, operations)

    def _run(self, items: Any, operations: Sequence[Op]) -> list[Result]:
        results: list[Result] = []
        puts: dict[bytes, PutOp] = {}
        renewed: dict[bytes, bytes] = {}
        for op in operations:
            result: Result = None
            if isinstance(op, GetOp):
                result = self._get(items, op, renewed)
            elif isinstance(op, SearchOp):
                result = self._search(items, op, renewed)
            elif isinstance(op, ListNamespacesOp):
                result = self._list_namespaces(items, op)
            elif isinstance(op, PutOp):
                puts[_item_key(op.namespace, op.key)] = op
            else:
                raise ValueError(f"no operation is of the type {type(op).__name__}")
            results.append(result)
        for key, record in renewed.items():
            items.put(key, record, ttl=ormsgpack.unpackb(record)[2] * 60)
        for key, put in puts.items():
            self._put(items, key, put)
        return results

    def _put(self, items: Any, key: bytes, op: PutOp) -> None:
        if op.value is None:
            items.pop(key, None)
            return
        now = datetime.now(timezone.utc).timestamp()
        before = items.get(key)
        created = now if before is None else ormsgpack.unpackb(before)[0]
        value = exact_text(dict(op.value))
        ttl = op.ttl if op.ttl is not None else (self.ttl_config or {}).get("default_ttl")
        items.put(key, ormsgpack.packb([created, now, ttl, value]),
                  ttl=None if ttl is None else ttl * 60)

    def _fields(self, key: bytes, record: bytes, renews: bool,
                renewed: dict[bytes, bytes]) -> dict[str, Any]:
        created, updated, ttl, value = ormsgpack.unpackb(record)
        if ttl is not None and renews and (self.ttl_config or {}).get("refresh_on_read", True):
            renewed[key] = record
        namespace, name = _names(key)
        return {"namespace": namespace, "key": name, "value": json.loads(value),
                "created_at": datetime.fromtimestamp(created, timezone.utc),
                "updated_at": datetime.fromtimestamp(updated, timezone.utc)}

    def _get(self, items: Any, op: GetOp, renewed: dict[bytes, bytes]) -> Item | None:
        key = _item_key(op.namespace, op.key)
        record = items.get(key)
        if record is None:
            return None
        return Item(**self._fields(key, record, op.refresh_ttl, renewed))

    def _search(self, items: Any, op: SearchOp, renewed: dict[bytes, bytes]) -> list[SearchItem]:
        wanted = op.filter or {}
        _check_filter(wanted)
        for operand in wanted.values():
            _check_filter(operand)

        def found() -> Iterator[tuple[bytes, bytes]]:
            for key, record in items.items(prefix=_under(op.namespace_prefix)):
                value = json.loads(ormsgpack.unpackb(record)[3])
                if all(_meets(value.get(name), operand) for name, operand in wanted.items()):
                    yield key, record

        return [SearchItem(**self._fields(key, record, op.refresh_ttl, renewed))
                for key, record in islice(found(), op.offset, op.offset + op.limit)]

    def _list_namespaces(self, items: Any, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        start: bytes | None = b""
        while start is not None:  # One seek for each namespace: from its first key to behind all.
            key = next(iter(items.keys(start=start, limit=1)), None)
            start = None
            if key is not None:
                namespace, _ = _names(key)
                start = _under(namespace) + b"1"  # Behind all that begin with "0".
                if all(_matches(condition, namespace) for condition in op.match_conditions or ()):
                    found.add(namespace if op.max_depth is None else namespace[:op.max_depth])
        return sorted(found)[op.offset:op.offset + op.limit]


class EvenDBCache(BaseCache[ValueT]):
    """A cache of results of nodes, with a time in seconds for each."""

    def __init__(self, database: evendb.Database, *,
                 serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde or DataSerializer())
        self._db = database
        self._results = database.keyspace("langgraph.cache")

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        found = self._results.multi_get([_item_key(namespace, key) for namespace, key in keys])
        return {(tuple(full[0]), full[1]): self.serde.loads_typed(tuple(ormsgpack.unpackb(record)))
                for full, record in zip(keys, found) if record is not None}

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        with self._db.batch() as batch:
            results = batch.keyspace("langgraph.cache")
            for (namespace, key), (value, ttl) in pairs.items():
                results.put(_item_key(namespace, key),
                            ormsgpack.packb(list(self.serde.dumps_typed(value))), ttl=ttl)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        if namespaces is None:
            self._results.clear()
            return
        for namespace in namespaces:
            under = _under(namespace)
            self._results.delete_range(under + b"0", under + b"1")

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return await asyncio.to_thread(self.get, keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        await asyncio.to_thread(self.set, pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        await asyncio.to_thread(self.clear, namespaces)
