"""The store of py-key-value-aio over EvenDB. That package's tests are in no package, so the
contract that its base class writes down is tried here."""

import asyncio
import threading

import evendb
import pytest

pytest.importorskip("key_value.aio", reason="py-key-value-aio is not installed")
from evendb.keyvalue import EvenDBKeyValueStore
from key_value.aio.errors import SerializationError


def test_contract(tmp_path):
    async def program():
        async with EvenDBKeyValueStore(path=tmp_path / "db") as store:
            assert await store.get("a") is None
            assert await store.ttl("a") == (None, None)
            await store.put("a", {"n": [1, {"b": None}]})
            await store.put("a", {"n": 2}, collection="users", ttl=60)
            assert await store.get("a") == {"n": [1, {"b": None}]}
            value, ttl = await store.ttl("a", collection="users")
            assert value == {"n": 2} and 50 < ttl <= 60
            await store.put_many(["x", "y", "z"], [{"n": n} for n in range(3)], collection="many")
            assert await store.get_many(["z", "no", "x"], collection="many") == [
                {"n": 2}, None, {"n": 0}]
            assert await store.keys(collection="many") == ["x", "y", "z"]
            assert await store.keys(collection="many", limit=2) == ["x", "y"]
            assert await store.collections() == ["default_collection", "many", "users"]
            assert await store.collections(limit=1) == ["default_collection"]
            assert await store.delete_many(["x", "no", "y"], collection="many") == 2
            assert await store.delete("z", collection="many") is True
            assert await store.delete("z", collection="many") is False
            assert await store.destroy_collection("users") is True
            assert await store.destroy_collection("users") is False
            assert await store.destroy() is True
            assert await store.collections() == []
            await store.put("kept", {"n": 1})
        async with EvenDBKeyValueStore(path=tmp_path / "db") as store:
            assert await store.get("kept") == {"n": 1}

    asyncio.run(program())


@pytest.mark.parametrize("one, other", [(("a::b", "c"), ("a", "b::c")),
                                        (("a\0", "b"), ("a", "\0b")),
                                        (("a", "bc"), ("ab", "c"))])
def test_collections_never_mix(tmp_path, one, other):
    async def program():
        async with EvenDBKeyValueStore(path=tmp_path / "db") as store:
            await store.put(one[1], {"n": 1}, collection=one[0])
            await store.put(other[1], {"n": 2}, collection=other[0])
            assert await store.get(one[1], collection=one[0]) == {"n": 1}
            assert await store.get(other[1], collection=other[0]) == {"n": 2}
            assert await store.keys(collection=one[0]) == [one[1]]
            await store.destroy_collection(one[0])
            assert await store.keys(collection=other[0]) == [other[1]]

    asyncio.run(program())


def test_what_json_does_not_have_is_refused(tmp_path):
    async def program():
        async with EvenDBKeyValueStore(path=tmp_path / "db") as store:
            with pytest.raises(Exception, match="JSON"):
                await store.put_many(["a", "b"], [{"n": 1}, {"n": object()}])
            assert await store.get_many(["a", "b"]) == [None, None]

    asyncio.run(program())


def test_a_database_that_is_shared_stays_open(tmp_path):
    with evendb.open(tmp_path / "db") as db:
        async def program():
            async with EvenDBKeyValueStore(database=db) as store:
                await store.put("a", {"n": 1})

        asyncio.run(program())
        assert len(db.keyspace("keyvalue")) == 1
    for wrong in ({}, {"path": tmp_path, "database": db}):
        with pytest.raises(ValueError):
            EvenDBKeyValueStore(**wrong)


def test_67_two_loops_and_many_tasks(tmp_path):
    with evendb.open(tmp_path / "db") as db:
        store = EvenDBKeyValueStore(database=db)

        async def program(name):
            await asyncio.gather(*(store.put(f"{name}{n}", {"n": n}) for n in range(50)))

        asyncio.run(program("a"))
        loops = [threading.Thread(target=asyncio.run, args=(program(name),)) for name in "bc"]
        [loop.start() for loop in loops]
        [loop.join() for loop in loops]
        assert len(asyncio.run(store.keys())) == 150


def test_what_json_would_change_is_refused(tmp_path):
    async def program():
        async with EvenDBKeyValueStore(path=tmp_path / "db") as store:
            for value in ({"n": (1, 2)}, {"n": [{1: "a", "1": "b"}]}, {"n": {None: 1}}):
                with pytest.raises(SerializationError, match="JSON"):
                    await store.put("a", value)
                with pytest.raises(SerializationError, match="JSON"):
                    await store.put_many(["b", "a"], [{"n": 1}, value])
            assert await store.get_many(["a", "b"]) == [None, None]
            await store.put("a", {"n": [float("inf"), 1.0, True, None, "\ud800", {}]})
            assert await store.get("a") == {"n": [float("inf"), 1.0, True, None, "\ud800", {}]}

    asyncio.run(program())


def test_a_time_that_is_over_at_once(tmp_path):
    async def program():
        async with EvenDBKeyValueStore(path=tmp_path / "db") as store:
            for ttl in (1e-9, 1e-6, 1e-3):
                await store.put("a", {"n": 1}, ttl=60)
                await store.put("a", {"n": 2}, ttl=ttl)
                await store.put_many(["b"], [{"n": 2}], ttl=ttl)
                await asyncio.sleep(0.002)
                assert await store.get_many(["a", "b"]) == [None, None]
                assert await store.ttl("a") == (None, None)

    asyncio.run(program())


def test_closed_before_the_first_call(tmp_path):
    store = EvenDBKeyValueStore(path=tmp_path / "db")
    asyncio.run(store.close())
    with evendb.open(tmp_path / "db", "w"):
        asyncio.run(store.close())
        with pytest.raises(evendb.Closed):
            asyncio.run(store.get("a"))


@pytest.mark.parametrize("options", [{"keyspace": ""}, {"no_such": 1}])
def test_a_store_that_cannot_be_made_leaves_nothing_open(tmp_path, options):
    with pytest.raises((evendb.Error, TypeError)) as failure:
        EvenDBKeyValueStore(path=tmp_path / "db", **options)
    with evendb.open(tmp_path / "db"):
        assert failure  # Its traceback holds the half made store.
