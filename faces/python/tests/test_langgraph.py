"""LangGraph's memory over EvenDB, beyond the conformance suite of judges/judge_langgraph.py.

The numbers are those of the list of other people's trouble that the tests are about.
"""

import asyncio
import os
import threading
from dataclasses import dataclass
from typing import TypedDict

import evendb
import pytest
from test_dbm import run

pytest.importorskip("langgraph.checkpoint.base", reason="langgraph-checkpoint is not installed")
import ormsgpack
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from evendb.langgraph import Deleted, EvenDBCache, EvenDBSaver, EvenDBStore


@pytest.fixture
def db(tmp_path):
    with evendb.open(tmp_path / "agents.db") as db:
        yield db


@pytest.fixture
def saver(db):
    return EvenDBSaver(db)


@pytest.fixture
def store(db):
    return EvenDBStore(db)


def config(thread, ns="", checkpoint_id=None):
    configurable = {"thread_id": thread, "checkpoint_ns": ns}
    if checkpoint_id:
        configurable["checkpoint_id"] = checkpoint_id
    return {"configurable": configurable}


def put(saver, where, values=None, **metadata):
    values = values or {}
    versions = {channel: 1 for channel in values}
    checkpoint = empty_checkpoint() | {"channel_values": values, "channel_versions": versions}
    return saver.put(where, checkpoint, {"source": "loop", "step": 1, **metadata}, versions)


def ids(saver, where=None, **options):
    return [found.config["configurable"]["checkpoint_id"] for found in saver.list(where, **options)]


def id_of(where):
    return where["configurable"]["checkpoint_id"]


def test_state_comes_back_after_reopening(tmp_path):
    with evendb.open(tmp_path / "db") as db:
        saver = EvenDBSaver(db)
        where = put(saver, config("t"), {"messages": ["a", {"b": 1}], "when": (1, 2)}, user="ann")
        saver.put_writes(where, [("messages", "later")], "task", "path")
    with evendb.open(tmp_path / "db") as db:
        found = EvenDBSaver(db).get_tuple(config("t"))
        assert found.checkpoint["channel_values"]["messages"] == ["a", {"b": 1}]
        assert found.metadata["user"] == "ann"
        assert found.pending_writes == [("task", "messages", "later")]


@pytest.mark.parametrize("one, other", [(("a/b", ""), ("a", "b")), (("a", "b/c"), ("a/b", "c")),
                                        (("a\0", "b"), ("a", "\0b")), (("a", ""), ("aa", "")),
                                        (("a\0\x01b", ""), ("a", "b")), (("", "a"), ("a", ""))])
def test_74_tenants_never_mix(saver, one, other):
    first, second = put(saver, config(*one), {"x": 1}), put(saver, config(*other), {"x": 2})
    for where, value in ((one, 1), (other, 2)):
        assert saver.get_tuple(config(*where)).checkpoint["channel_values"]["x"] == value
        assert len(list(saver.list(config(*where)))) == 1
    saver.delete_thread(one[0])
    if one[0] != other[0]:
        assert ids(saver, config(*other)) == [id_of(second)]
    assert ids(saver, config(*one)) == []
    assert id_of(first) != id_of(second)


@pytest.mark.parametrize("filter", [
    {"a": {"$x": 1}}, {"' OR 1=1 --": 1}, {"user": "' OR ''='"}, {"user": {"$ne": "x"}},
    {"a') OR ('1'='1": "x"}])
def test_74_filters_of_checkpoints_are_data(saver, filter):
    put(saver, config("t"), user="ann")
    assert ids(saver, config("t"), filter=filter) == []


def test_74_a_filter_finds_what_is_stored_as_such(saver):
    where = put(saver, config("t"), odd={"$x": 1})
    assert ids(saver, config("t"), filter={"odd": {"$x": 1}}) == [id_of(where)]


def test_76_only_what_matches(saver):
    wheres = [put(saver, config("t", "", previous and id_of(previous)), tenant_id=tenant)
              for previous in [None] for tenant in ("a", "b", "a")]
    child = put(saver, config("t", "child"), tenant_id="a")
    other = put(saver, config("u"))
    newest_first = [id_of(where) for where in reversed(wheres)]
    assert ids(saver, config("t", ""), filter={"tenant_id": "a"}) == newest_first[::2]
    assert ids(saver, config("t", "")) == newest_first
    assert ids(saver, {"configurable": {"thread_id": "t"}}) == [id_of(child), *newest_first]
    assert ids(saver) == [id_of(other), id_of(child), *newest_first]
    assert ids(saver, filter={"no such key": "a"}) == []
    assert ids(saver, config("t"), limit=0) == []
    assert ids(saver, config("t"), limit=1) == newest_first[:1]
    assert ids(saver, config("t"), before=wheres[2]) == newest_first[1:]
    assert ids(saver, config("t"), before=None) == newest_first


@dataclass
class Unlisted:
    value: int = 0


def test_75_only_data_and_listed_types_are_made_of_records(saver, db):
    record = {"lc": 2, "type": "constructor", "id": ["builtins", "print"], "kwargs": {}}
    older = {"lc": 1, "type": "constructor", "kwargs": {"content": "x"},
             "id": ["langchain_core", "messages", "HumanMessage"]}
    put(saver, config("t"), {"a": record, "b": older, "c": {1, 2}, "d": Unlisted(3)})
    values = saver.get_tuple(config("t")).checkpoint["channel_values"]
    assert (values["a"], values["b"], values["c"]) == (record, older, {1, 2})
    assert not isinstance(values["d"], Unlisted)
    put(saver, config("s"), {"a": "\ud800", "b": record})  # LangGraph's encoder writes "?" for it.
    values = saver.get_tuple(config("s")).checkpoint["channel_values"]
    assert (type(values["a"]), values["b"]) == (str, record)
    with pytest.raises(TypeError):
        put(saver, config("u"), {"a": lambda: 1})
    assert saver.get_tuple(config("u")) is None


@pytest.mark.parametrize("kind, data", [
    ("pickle", b"cos\nsystem\n(S'touch /tmp/planted'\ntR."), ("json", b'{"lc": 1}'), ("x", b"")])
def test_75_a_planted_record_is_refused(saver, db, kind, data):
    put(saver, config("t"), {"a": 1})
    blobs = db.keyspace("langgraph.blobs")
    for key in blobs.keys():
        blobs[key] = ormsgpack.packb([kind, data])
    with pytest.raises(ValueError, match=f"{kind!r} is not read"):
        saver.get_tuple(config("t"))


def test_75_a_surrogate_in_an_id_is_refused(saver):
    with pytest.raises(UnicodeEncodeError):
        put(saver, config("\ud800"))


def test_77_many_at_once_and_a_second_process(saver, db):
    async def many():
        await asyncio.gather(*(
            asyncio.to_thread(put, saver, config(f"t{number % 20}"), {"x": number})
            for number in range(200)))
        where = put(saver, config("one"))
        await asyncio.gather(*(saver.aput_writes(where, [("x", number)], f"task{number:03}")
                               for number in range(200)))
        assert len((await saver.aget_tuple(where)).pending_writes) == 200

    asyncio.run(many())
    assert len(ids(saver)) == 201
    told = run("""
        import sys, evendb
        try:
            evendb.open(sys.argv[1])
        except evendb.Locked as error:
            print("Locked", sys.argv[2] in str(error))
        """, db.path, os.getpid())
    assert told == "Locked True"


@pytest.mark.parametrize("delete", ["thread", "run", "prune"])
def test_79_a_late_write_brings_nothing_back(saver, delete):
    old = put(saver, config("t"), {"x": 1}, run_id="r")
    saver.put_writes(old, [("x", 1)], "task")
    if delete == "prune":
        put(saver, config("t", "", id_of(old)), {"x": 2})
    {"thread": lambda: saver.delete_thread("t"), "run": lambda: saver.delete_for_runs(["r"]),
     "prune": lambda: saver.prune(["t"])}[delete]()
    before = ids(saver)
    with pytest.raises(Deleted):
        put(saver, old, {"x": 2})
    with pytest.raises(Deleted):
        saver.put_writes(old, [("x", 2)], "task")
    assert saver.get_tuple(old) is None
    assert ids(saver) == before
    new = put(saver, config("t"), {"x": 3})
    saver.put_writes(new, [("x", 4)], "task")
    put(saver, new, {"x": 5})
    assert len(ids(saver, config("t"))) == len(before) + 2


def test_79_a_write_that_came_before_the_deletion_is_deleted(saver, db):
    where = put(saver, config("t"), {"x": 1}, run_id="r")
    saver.put_writes(where, [("x", 1)], "task")
    saver.delete_thread("t")
    for name in ("checkpoints", "blobs", "writes"):
        assert not db.keyspace(f"langgraph.{name}")


def test_79_deletions_race_with_writes(saver, db):
    """Whatever the order, no blob and no writes are there without their checkpoint."""
    for turn in range(10):
        root = put(saver, config("t"), {"x": 0})

        def write():
            where = root
            try:
                for number in range(20):
                    where = put(saver, where, {"x": number})
                    saver.put_writes(where, [("x", number)], "task")
            except Deleted:
                pass

        worker = threading.Thread(target=write)
        worker.start()
        saver.delete_thread("t")
        worker.join()
        saver.delete_thread("t")
        for name in ("checkpoints", "blobs", "writes"):
            assert not db.keyspace(f"langgraph.{name}"), turn


def test_prune_keeps_what_delta_channels_need(saver):
    where = put(saver, config("t"), {"x": 1, "d": [0]})
    chain = [where]
    for step in range(3):
        checkpoint = empty_checkpoint() | {"channel_values": {"x": step},
                                           "channel_versions": {"x": 2 + step, "d": 2 + step}}
        where = saver.put(where, checkpoint,
                          {"step": step, "counters_since_delta_snapshot": {"d": (step, step)}},
                          {"x": 2 + step, "d": 2 + step})
        chain.append(where)
    put(saver, config("u"), {"x": 1})
    saver.prune(["t", "u"])
    assert ids(saver, config("t")) == [id_of(where) for where in reversed(chain)]
    last = put(saver, chain[-1], {"x": 9, "d": [1]})
    saver.prune(["t"])
    assert ids(saver, config("t")) == [id_of(last)]
    assert saver.get_tuple(config("t")).checkpoint["channel_values"] == {"x": 9, "d": [1]}
    with pytest.raises(ValueError):
        saver.prune(["t"], strategy="some")


def test_64_a_paused_listing_holds_nothing_up(saver):
    async def program():
        for _ in range(40):
            put(saver, config("t"))
        listing = saver.alist(config("t"))
        await anext(listing)
        await asyncio.gather(*(asyncio.to_thread(put, saver, config("t")) for _ in range(5)))
        rest = [found async for found in listing]
        assert len(rest) == 39
        unfinished = saver.alist(config("t"))
        await anext(unfinished)
        saver.delete_thread("t")
        await unfinished.aclose()
        assert [found async for found in saver.alist(config("t"))] == []

    asyncio.run(program())


def test_65_sync_calls_in_a_loop_and_two_loops(saver):
    async def program(thread):
        where = put(saver, config(thread))
        assert saver.get_tuple(where) == await saver.aget_tuple(where)

    asyncio.run(program("a"))
    loops = [threading.Thread(target=asyncio.run, args=(program(name),)) for name in "bc"]
    [loop.start() for loop in loops]
    [loop.join() for loop in loops]
    assert len(ids(saver)) == 3


def test_a_graph_is_interrupted_and_goes_on_in_another_life(tmp_path):
    graph = pytest.importorskip("langgraph.graph", reason="langgraph is not installed")
    from langgraph.types import CachePolicy, Command, interrupt
    runs = []

    def count(state):
        runs.append(1)
        return {"numbers": [*state["numbers"], len(state["numbers"])]}

    def ask(state):
        return {"numbers": [*state["numbers"], interrupt("which?")]}

    builder = graph.StateGraph(State)
    builder.add_node("count", count, cache_policy=CachePolicy(ttl=60))
    builder.add_node("ask", ask)
    builder.add_edge(graph.START, "count")
    builder.add_edge("count", "ask")
    thread = {"configurable": {"thread_id": "t"}}
    for life, given in enumerate([{"numbers": [7]}, Command(resume=42)]):
        with evendb.open(tmp_path / "db") as db:
            agent = builder.compile(checkpointer=EvenDBSaver(db), store=EvenDBStore(db),
                                    cache=EvenDBCache(db))
            numbers = agent.invoke(given, thread)["numbers"]
            assert numbers == ([7, 1] if life == 0 else [7, 1, 42])
            if life == 1:
                assert len(list(agent.get_state_history(thread))) == 4
                agent.invoke({"numbers": [7]}, {"configurable": {"thread_id": "u"}})
                agent.checkpointer.delete_thread("u")
                assert agent.get_state({"configurable": {"thread_id": "u"}}).values == {}
    assert len(runs) == 1  # The second thread's run was in the cache.


class State(TypedDict):
    numbers: list


# The store.

def test_74_operators_of_the_store(store):
    for name, score in (("a", 1), ("b", 5), ("c", None)):
        store.put(("x",), name, {"score": score, "in": {"deep": name}})

    def names(filter):
        return [item.key for item in store.search(("x",), filter=filter)]

    assert names({"score": {"$gt": 1}}) == ["b"]
    assert names({"score": {"$gte": 1, "$lt": 5}}) == ["a"]
    assert names({"score": {"$ne": 1}}) == ["b", "c"]
    assert names({"score": {"$lte": 5}}) == ["a", "b"]
    assert names({"score": {"$eq": None}}) == ["c"]
    assert names({"in": {"deep": "b"}}) == ["b"]
    assert names({"score' OR '1": 1}) == []
    for wrong in ({"score": {"$x": 1}}, {"score": {"$where": "1"}}, {"none": {"$x": 1}}):
        with pytest.raises(ValueError, match="no operator"):
            names(wrong)
        with pytest.raises(ValueError, match="no operator"):
            store.search(("empty",), filter=wrong)


@pytest.mark.parametrize("one, other", [
    ((("a", "b"), "c"), (("a",), "b")), ((("a/b",), "c"), (("a", "b"), "c")),
    ((("a\0",), "b"), (("a",), "\0b")), ((("ab",), "c"), (("a",), "bc"))])
def test_74_namespaces_never_mix(store, one, other):
    store.batch([PutOp(*one, {"v": 1}), PutOp(*other, {"v": 2})])
    assert [item.value["v"] for item in store.batch([GetOp(*one), GetOp(*other)])] == [1, 2]
    assert (one[0], one[1]) in [(item.namespace, item.key) for item in
                                store.batch([SearchOp(one[0])])[0]]
    store.batch([PutOp(*one, None)])
    assert store.batch([GetOp(*one)])[0] is None and store.batch([GetOp(*other)])[0] is not None


def test_76_ranges_of_the_store(store):
    for number in range(15):
        store.put(("a", str(number % 3)), f"{number:02}", {"n": number})
    assert len(store.search(())) == 10
    assert store.search((), limit=0) == []
    assert [item.key for item in store.search(("a", "1"))] == ["01", "04", "07", "10", "13"]
    assert [item.key for item in store.search(("a", "1"), offset=3, limit=9)] == ["10", "13"]
    assert store.search(("b",)) == []
    assert store.list_namespaces() == [("a", "0"), ("a", "1"), ("a", "2")]
    assert store.list_namespaces(max_depth=1) == [("a",)]
    assert store.list_namespaces(suffix=("1",)) == [("a", "1")]
    assert store.list_namespaces(prefix=("*", "2")) == [("a", "2")]
    assert store.list_namespaces(limit=1, offset=1) == [("a", "1")]


def test_79_a_batch_is_all_or_nothing(store):
    with pytest.raises(TypeError):
        store.batch([PutOp(("a",), "1", {"n": 1}), PutOp(("a",), "2", {"n": 2}),
                     PutOp(("a",), "3", {"n": object()})])
    with pytest.raises(ValueError):
        store.batch([PutOp(("a",), "1", {"n": 1}), PutOp(("a",), "2", {"n": 2}), object()])
    assert store.batch([SearchOp(()), ListNamespacesOp()]) == [[], []]


def test_puts_of_the_store(store):
    first = store.batch([PutOp(("a",), "k", {"n": 1}), GetOp(("a",), "k"),
                         PutOp(("a",), "k", {"n": 2})])
    assert first == [None, None, None]
    before = store.get(("a",), "k")
    assert before.value == {"n": 2}
    store.put(("a",), "k", {"n": 3, "odd": "\ud800"})
    after = store.get(("a",), "k")
    assert after.value == {"n": 3, "odd": "\ud800"}
    assert after.created_at == before.created_at and after.updated_at >= before.updated_at
    store.delete(("a",), "k")
    assert store.get(("a",), "k") is None
    store.delete(("a",), "k")


def test_80_an_expired_item_is_gone_everywhere(store):
    store.put(("a",), "gone", {"n": 1}, ttl=0)
    store.put(("a",), "kept", {"n": 1}, ttl=60)
    assert store.get(("a",), "gone") is None
    assert [item.key for item in store.search(("a",))] == ["kept"]
    assert store.get(("a",), "kept", refresh_ttl=True) is not None
    store.put(("b",), "gone", {"n": 1}, ttl=0)
    assert store.list_namespaces() == [("a",)]


def test_77_many_of_the_store_at_once(store):
    async def many():
        await asyncio.gather(*(store.aput(("a",), "one", {"n": number}) for number in range(100)))
        await asyncio.gather(*(store.aput(("b",), str(number), {"n": number})
                               for number in range(100)))
        assert len(await store.asearch(("b",), limit=1000)) == 100

    asyncio.run(many())


# The cache.

def test_cache(db):
    cache = EvenDBCache(db)
    pairs = {(("a",), "k"): ([1, "x"], None), (("a", "b"), "k"): (2, 60), (("ab",), "k"): (3, 0)}
    cache.set(pairs)
    assert cache.get(list(pairs)) == {(("a",), "k"): [1, "x"], (("a", "b"), "k"): 2}
    cache.clear([("a",)])
    assert cache.get(list(pairs)) == {(("a", "b"), "k"): 2}
    cache.clear()
    assert asyncio.run(cache.aget(list(pairs))) == {}
    asyncio.run(cache.aset({(("a",), "k"): (1, None)}))
    assert cache.get([(("a",), "k"), (("b",), "k")]) == {(("a",), "k"): 1}
    with pytest.raises(TypeError):
        cache.set({(("a",), "k"): (lambda: 1, None)})


@pytest.mark.parametrize("value", [{"a": (1, 2)}, {1: 2}, {"a": [{1: "a", "1": "b"}]},
                                   {"a": {True: 1}}, {"a": {None: 1}}, {"a": {2.5: 1}},
                                   {"a": b"bytes"}, {"a": {1, 2}}])
def test_what_json_would_change_is_refused_by_the_store(store, value):
    store.put(("ns",), "k", {"before": 1})
    with pytest.raises(TypeError):
        store.put(("ns",), "k", value)
    with pytest.raises(TypeError):
        store.batch([PutOp(("ns",), "other", {"a": 1}), PutOp(("ns",), "k", value)])
    assert store.get(("ns",), "k").value == {"before": 1}
    assert store.get(("ns",), "other") is None


def test_what_json_has_comes_back_as_it_was(store):
    value = {"": [1, 1.0, True, None, -0.0, 1e300, float("inf"), 10**30, "\ud800", "\0", [], {}]}
    store.put(("ns",), "k", value)
    back = store.get(("ns",), "k").value
    assert repr(back) == repr(value)
    store.put(("ns",), "k", {"nan": [float("nan")]})
    assert repr(store.get(("ns",), "k").value) == "{'nan': [nan]}"


def test_the_cache_and_the_checkpoints_keep_keys_that_are_numbers(db, saver):
    value = {"a": [b"1", [2.0]], 4: {5: "x", "5": "y"}, "s": {6}}
    cache = EvenDBCache(db)
    cache.set({(("ns",), "k"): (value, None)})
    assert cache.get([(("ns",), "k")]) == {(("ns",), "k"): value}
    where = put(saver, config("t"), {"channel": value})
    assert saver.get_tuple(where).checkpoint["channel_values"] == {"channel": value}
