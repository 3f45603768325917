"""What type checkers know of the package; checked, and run by no test."""

from collections.abc import Mapping, MutableMapping

from typing_extensions import assert_type

import evendb
import evendb.aio


def sample(db: evendb.Database) -> None:
    assert_type(db.get(b"k"), bytes | None)
    assert_type(db.get(b"k", b""), bytes)
    assert_type(db.get(b"k", 7), bytes | int)
    assert_type(db[b"k"], bytes)
    assert_type(list(db.keys(prefix=b"a")), list[bytes])
    assert_type(list(db.items()), list[tuple[bytes, bytes]])
    assert_type(db.pop(b"k", None), bytes | None)
    assert_type(db.multi_get([b"k", bytearray(b"l")]), list[bytes | None])
    assert_type(db.view(b"k"), memoryview)
    assert_type(db.transact(lambda tx: tx.get(b"n")), bytes | None)
    with db.batch(durability="sync") as batch:
        batch[b"k"] = memoryview(b"v")
        batch.keyspace("other").put(b"k", b"v", ttl=1.5)
    with db.transaction() as tx, db.snapshot() as then:
        tx[b"k"] = then[b"k"]
    for change in db.changes(timeout=0):
        for write in change:
            assert_type(write.value, bytes | None)
    mapping: Mapping[bytes, bytes] = db
    mutable: MutableMapping[bytes, bytes] = db.keyspace("k", merge="add-u64", ttl=1)
    print(mapping, mutable, evendb.unkey(evendb.key(("a", 1))))


async def tasks(db: evendb.aio.AsyncDatabase) -> None:
    assert_type(await db.get(b"k"), bytes | None)
    assert_type(await db.get(b"k", 7), bytes | int)
    assert_type(await db.items().list(), list[tuple[bytes, bytes]])
    async for key in db:
        assert_type(key, bytes)
    async for change in db.watch(b"a"):
        assert_type(change.position, bytes)
    async with db.batch() as batch:
        batch[b"k"] = b"v"
