"""A database against a model of sorted dictionaries, by random steps (hypothesis).

EVENDB_PYTHON_STEPS (default 1,000) is how many steps hypothesis makes. A difference fails the test,
and hypothesis prints the shortest steps to it that it finds. EVENDB_PYTHON_QUICK_STEPS (default
10,000; a million in the campaign) is how many of the same steps are made by a plain generator of
random numbers, which is a hundred times faster, and shortens nothing; EVENDB_PYTHON_SEED makes others.

The model knows the records of each keyspace; of a record that was put with a time to live it knows
whether that time is over (0 seconds) or far away: no test waits. Snapshots and iterators have a
copy of the records at their moment, and must give those however much is written after it, also if
their keyspace is dropped.

Of one counter keyspace the merge operator adds; there the model adds, too.
"""

import os
import random
import shutil
import tempfile

import evendb
import pytest

pytest.importorskip("hypothesis", reason="hypothesis is not installed")
pytest.importorskip("sortedcontainers", reason="sortedcontainers is not installed")
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from sortedcontainers import SortedDict

STEPS = int(os.environ.get("EVENDB_PYTHON_STEPS", "1000"))
QUICK_STEPS = int(os.environ.get("EVENDB_PYTHON_QUICK_STEPS", "10000"))
SEED = int(os.environ.get("EVENDB_PYTHON_SEED", "1"))
STEPS_OF_ONE_DATABASE = 150

letters = st.sampled_from([b"", b"\0", b"a", b"b", b"\xfe", b"\xff"])
keys = st.tuples(letters, letters, letters).map(b"".join)
bounds = st.one_of(st.none(), keys)
values = st.one_of(st.binary(max_size=12),
                   st.tuples(st.binary(min_size=1, max_size=3), st.integers(1, 3000)).map(
                       lambda pair: pair[0] * pair[1]))
names = st.sampled_from(["default", "one", "two"])
kinds = st.sampled_from(["keys", "values", "items"])
limits = st.one_of(st.none(), st.integers(0, 12))
ranges = st.fixed_dictionaries(
    {}, optional={"prefix": keys, "start": keys, "stop": keys, "reverse": st.booleans(),
                  "limit": limits})
writes = st.lists(st.one_of(
    st.tuples(st.just("put"), names, keys, values),
    st.tuples(st.just("delete"), names, keys),
    st.tuples(st.just("delete_range"), names, keys, keys),
    st.tuples(st.just("delete_prefix"), names, keys)), max_size=8)
reads = st.lists(st.one_of(
    st.tuples(st.just("get"), names, keys),
    st.tuples(st.just("scan"), names, ranges, kinds)), max_size=3)


class GivenUp(Exception):
    """What leaves a batch or a transaction without effect."""


def select(records, kind, prefix=None, start=None, stop=None, reverse=False, limit=None):
    """What a range of the model gives."""
    found = [key for key in records
             if (prefix is None or key.startswith(prefix))
             and (start is None or key >= start) and (stop is None or key < stop)]
    found = (found[::-1] if reverse else found)[:limit]
    pick = {"keys": lambda key: key, "values": lambda key: records[key],
            "items": lambda key: (key, records[key])}[kind]
    return [pick(key) for key in found]


def apply(records, write):
    """A write of a batch or transaction, to the model."""
    kind, name, *arguments = write
    mine = records[name]
    if kind == "put":
        mine[arguments[0]] = arguments[1]
    elif kind == "delete":
        mine.pop(arguments[0], None)
    elif kind == "delete_range":
        for key in select(mine, "keys", start=arguments[0], stop=arguments[1]):
            del mine[key]
    else:
        for key in select(mine, "keys", prefix=arguments[0]):
            del mine[key]


def send(target, write):
    """The same write, to a batch or transaction of the default keyspace."""
    kind, name, *arguments = write
    getattr(target if name == "default" else target.keyspace(name), kind)(*arguments)


class DatabaseAgainstModel(RuleBasedStateMachine):
    """The steps. `records` has what each keyspace must have."""

    steps = 0
    layout = "chunks"
    snapshots = Bundle("snapshots")
    iterators = Bundle("iterators")

    @initialize(layout=st.sampled_from(["chunks", "guards"]))
    def create(self, layout):
        self.folder = tempfile.mkdtemp(prefix="evendb-model-")
        self.layout = layout
        self.life = 0
        self.counts = {}
        self.records = {name: SortedDict() for name in ("default", "one", "two")}
        self.open("n")

    def open(self, mode):
        self.db = evendb.open(os.path.join(self.folder, "db"), mode, memory_budget="2MiB",
                              layout=self.layout)
        self.counters = self.db.keyspace("counters", merge="add-u64")
        self.life += 1

    def teardown(self):
        if not hasattr(self, "folder"):
            return
        try:
            for name, records in self.records.items():
                assert list(self.at(name).items()) == list(records.items())
            assert self.counts == {key: int.from_bytes(value, "little")
                                   for key, value in self.counters.items()}
            self.db.close()
        finally:
            shutil.rmtree(self.folder)

    def at(self, name):
        return self.db if name == "default" else self.db.keyspace(name)

    @invariant()
    def count(self):
        DatabaseAgainstModel.steps += 1

    # One record.

    @rule(name=names, key=keys, value=values, how=st.sampled_from(["put", "set", "update", "add",
                                                                   "setdefault"]))
    def write_one(self, name, key, value, how):
        keyspace, records = self.at(name), self.records[name]
        before = records.get(key)
        if how == "put":
            keyspace.put(key, value)
        elif how == "set":
            keyspace[bytearray(key)] = memoryview(value)
        elif how == "update":
            keyspace.update({key: value})
        elif how == "add":
            assert keyspace.add(key, value) is (before is None)
        else:
            assert keyspace.setdefault(key, value) == (value if before is None else before)
        if before is None or how in ("put", "set", "update"):
            records[key] = value

    @rule(name=names, key=keys, value=values, over=st.booleans())
    def write_with_time_to_live(self, name, key, value, over):
        self.at(name).put(key, value, ttl=0 if over else 1e8)
        left = self.at(name).ttl(key)
        if over:
            assert left is None
            self.records[name].pop(key, None)
        else:
            assert 9e7 < left < 1e8 + 1  # The end is rounded up to a tick of the clock.
            self.records[name][key] = value

    @rule(name=names, key=keys, value=values, expected=values, right=st.booleans())
    def compare_and_swap(self, name, key, value, expected, right):
        records = self.records[name]
        if right:
            expected = records.get(key)
        done = self.at(name).compare_and_swap(key, expected, value)
        assert done is (records.get(key) == expected)
        if done:
            records[key] = value

    @rule(name=names, key=keys, how=st.sampled_from(["delete", "del", "pop", "pop default"]))
    def delete_one(self, name, key, how):
        keyspace, records = self.at(name), self.records[name]
        before = records.pop(key, None)
        if how == "delete":
            assert keyspace.delete(key) is None
        elif how == "pop default":
            assert keyspace.pop(key, 7) == (7 if before is None else before)
        elif before is None:
            with pytest.raises(KeyError):
                keyspace.pop(key) if how == "pop" else keyspace.__delitem__(key)
        elif how == "pop":
            assert keyspace.pop(key) == before
        else:
            del keyspace[key]

    @rule(name=names, last=st.booleans())
    def popitem(self, name, last):
        records = self.records[name]
        if records:
            assert self.at(name).popitem(last=last) == records.popitem(-1 if last else 0)
        else:
            with pytest.raises(KeyError):
                self.at(name).popitem(last=last)

    @rule(name=names, some=st.lists(keys, max_size=6))
    def read_some(self, name, some):
        keyspace, records = self.at(name), self.records[name]
        assert keyspace.multi_get(some) == [records.get(key) for key in some]
        for key in some:
            assert keyspace.get(key, 5) == records.get(key, 5)
            assert (key in keyspace) is (key in records)
            if key in records:
                assert keyspace[key] == records[key] == bytes(keyspace.view(key))
                assert keyspace.part(key, 1, 4) == records[key][1:4]

    # Ranges.

    @rule(name=names, where=ranges, kind=kinds)
    def scan(self, name, where, kind):
        view = getattr(self.at(name), kind)(**where)
        expected = select(self.records[name], kind, **where)
        assert list(view) == expected
        assert list(view) == expected
        assert len(view) == len(expected)

    @rule(name=names)
    def size(self, name):
        keyspace, records = self.at(name), self.records[name]
        assert (len(keyspace), bool(keyspace)) == (len(records), bool(records))
        assert list(reversed(keyspace)) == list(reversed(records))
        assert keyspace == dict(records)

    @rule(name=names, start=keys, stop=keys)
    def delete_range(self, name, start, stop):
        self.at(name).delete_range(start, stop)
        apply(self.records, ("delete_range", name, start, stop))

    @rule(name=names, prefix=keys.filter(bool))
    def delete_prefix(self, name, prefix):
        self.at(name).delete_prefix(prefix)
        apply(self.records, ("delete_prefix", name, prefix))

    @rule(name=names, sure=st.integers(0, 9))
    def clear(self, name, sure):
        if sure == 0:
            self.at(name).clear()
            self.records[name].clear()

    @rule(name=names, pairs=st.lists(st.tuples(keys, values), max_size=30))
    def update(self, name, pairs):
        self.at(name).update(pairs)
        self.records[name].update(pairs)

    @rule(name=names, pairs=st.dictionaries(keys, values, max_size=30))
    def ingest(self, name, pairs):
        self.at(name).ingest(sorted(pairs.items()))
        self.records[name].update(pairs)

    # Writes that are one.

    @rule(some=writes, given_up=st.booleans())
    def batch(self, some, given_up):
        for name in self.records:
            self.at(name)
        try:
            with self.db.batch() as batch:
                for write in some:
                    send(batch, write)
                if given_up:
                    raise GivenUp
        except GivenUp:
            return
        for write in some:
            apply(self.records, write)

    @rule(some=writes, undone=writes, asked=reads, end=st.sampled_from(["commit", "rollback", "exception",
                                                         "transact"]))
    def transaction(self, some, undone, asked, end):
        for name in self.records:
            self.at(name)
        own = {name: SortedDict(records) for name, records in self.records.items()}

        def run(tx):
            for write in some:
                send(tx, write)
                apply(own, write)
            if undone:
                savepoint = tx.savepoint()
                for write in undone:
                    send(tx, write)
                tx.rollback_to(savepoint)
            for what, name, *rest in asked:
                mine = tx if name == "default" else tx.keyspace(name)
                if what == "get":
                    assert mine.get(rest[0]) == own[name].get(rest[0])
                else:
                    where, kind = rest
                    assert list(getattr(mine, kind)(**where)) == select(own[name], kind, **where)
            if end == "exception":
                raise GivenUp
            if end == "rollback":
                tx.rollback()

        if end == "transact":
            self.db.transact(run)
        else:
            try:
                with self.db.transaction() as tx:
                    run(tx)
            except GivenUp:
                pass
        if end in ("commit", "transact"):
            self.records = own

    # Moments.

    @rule(target=snapshots)
    def take_snapshot(self):
        for name in self.records:
            self.at(name)
        snapshot = self.db.snapshot()
        parts = [(snapshot if name == "default" else snapshot.keyspace(name), SortedDict(records))
                 for name, records in self.records.items()]
        return self.life, snapshot, parts

    @rule(snapshot=snapshots, which=st.integers(0, 2), key=keys, where=ranges, kind=kinds)
    def read_snapshot(self, snapshot, which, key, where, kind):
        life, _, parts = snapshot
        part, copy = parts[which]
        if life != self.life:
            with pytest.raises(evendb.Closed):
                part.get(key)
            return
        assert part.get(key) == copy.get(key)
        assert list(getattr(part, kind)(**where)) == select(copy, kind, **where)
        assert len(part) == len(copy)

    @rule(snapshot=consumes(snapshots))
    def close_snapshot(self, snapshot):
        life, snapshot, parts = snapshot
        snapshot.close()
        for part in (snapshot, *(part for part, _ in parts)):
            with pytest.raises(evendb.Closed):
                part.get(b"a")

    @rule(target=iterators, name=names, where=ranges, kind=kinds)
    def begin_iterator(self, name, where, kind):
        expected = select(self.records[name], kind, **where)
        return self.life, iter(getattr(self.at(name), kind)(**where)), expected

    @rule(target=iterators, iterator=consumes(iterators), count=st.integers(1, 5))
    def step_iterator(self, iterator, count):
        life, iterator, expected = iterator
        for _ in range(count):
            if life != self.life:
                with pytest.raises(evendb.Closed):
                    next(iterator)
                return multiple()
            if not expected:
                with pytest.raises(StopIteration):
                    next(iterator)
                return multiple()
            assert next(iterator) == expected.pop(0)
        return life, iterator, expected

    # Keyspaces, merges, lives.

    @rule(name=st.sampled_from(["one", "two"]))
    def drop_keyspace(self, name):
        dropped = self.at(name)
        self.db.drop_keyspace(name)
        with pytest.raises(evendb.KeyspaceDropped):
            dropped.get(b"a")
        assert name not in self.db.keyspaces()
        self.records[name] = SortedDict()

    @rule()
    def swap_keyspaces(self):
        self.at("one"), self.at("two")
        self.db.swap_keyspaces("one", "two")
        records = self.records
        records["one"], records["two"] = records["two"], records["one"]

    @rule(key=keys, by=st.integers(0, 1 << 40))
    def merge(self, key, by):
        self.counters.merge(key, by.to_bytes(8, "little"))
        self.counts[key] = self.counts.get(key, 0) + by

    @rule(key=keys)
    def read_counter(self, key):
        found = self.counters.get(key)
        assert (found and int.from_bytes(found, "little")) == self.counts.get(key)

    @rule(sure=st.integers(0, 3))
    def reopen(self, sure):
        if sure == 0:
            self.db.close()
            self.open("w")

    @rule(how=st.sampled_from(["flush", "persist"]))
    def make_durable(self, how):
        getattr(self.db, how)()


def test_model():
    phases = (Phase.generate, Phase.shrink)
    how = settings(max_examples=min(200, max(1, STEPS // STEPS_OF_ONE_DATABASE)),
                   stateful_step_count=STEPS_OF_ONE_DATABASE, deadline=None, database=None,
                   phases=phases, report_multiple_bugs=False, print_blob=False,
                   suppress_health_check=list(HealthCheck))
    DatabaseAgainstModel.steps = turn = 0
    while DatabaseAgainstModel.steps < STEPS:
        print(f"{DatabaseAgainstModel.steps} steps", flush=True)
        run_state_machine_as_test(seed(SEED * 1_000_003 + turn)(DatabaseAgainstModel),
                                  settings=how)
        turn += 1
    print(f"{DatabaseAgainstModel.steps} steps, 0 differences")


class Dice(random.Random):
    """Random arguments of the steps, of the kinds that the strategies above make."""

    LETTERS = (b"", b"\0", b"a", b"b", b"\xfe", b"\xff")

    def name(self):
        return self.choice(("default", "one", "two"))

    def key(self):
        return b"".join(self.choices(self.LETTERS, k=3))

    def value(self):
        if self.random() < 0.8:
            return self.randbytes(self.randrange(13))
        return self.randbytes(self.randrange(1, 4)) * self.randrange(1, 3000)

    def where(self):
        where = {"prefix": self.key()[:2], "start": self.key(), "stop": self.key(),
                 "reverse": self.random() < 0.5, "limit": self.choice((None, 0, 1, 5, 12))}
        return {name: value for name, value in where.items() if self.random() < 0.4}

    def writes(self):
        return [self.choice((
            lambda: ("put", self.name(), self.key(), self.value()),
            lambda: ("put", self.name(), self.key(), self.value()),
            lambda: ("delete", self.name(), self.key()),
            lambda: ("delete_range", self.name(), self.key(), self.key()),
            lambda: ("delete_prefix", self.name(), self.key()),
        ))() for _ in range(self.randrange(8))]

    def reads(self):
        return [self.choice((lambda: ("get", self.name(), self.key()),
                             lambda: ("scan", self.name(), self.where(), self.kind())))()
                for _ in range(self.randrange(3))]

    def kind(self):
        return self.choice(("keys", "values", "items"))

    def flag(self):
        return self.random() < 0.5


def quick_step(dice, machine, snapshots, iterators):
    """One step, with random arguments; what the bundles hold is in the two lists."""
    name, key, value = dice.name(), dice.key(), dice.value()
    one = dice.choice(("one", "two"))
    some = [(dice.key(), dice.value()) for _ in range(dice.randrange(30))]
    steps = {
        lambda: machine.write_one(name, key, value, dice.choice(
            ("put", "set", "update", "add", "setdefault"))): 20,
        lambda: machine.write_with_time_to_live(name, key, value, dice.flag()): 5,
        lambda: machine.compare_and_swap(name, key, value, dice.value(), dice.flag()): 5,
        lambda: machine.delete_one(name, key, dice.choice(
            ("delete", "del", "pop", "pop default"))): 10,
        lambda: machine.popitem(name, dice.flag()): 3,
        lambda: machine.read_some(name, [dice.key() for _ in range(dice.randrange(7))]): 10,
        lambda: machine.scan(name, dice.where(), dice.kind()): 10,
        lambda: machine.size(name): 2,
        lambda: machine.delete_range(name, key, dice.key()): 1,
        lambda: machine.delete_prefix(name, key or b"a"): 2,
        lambda: machine.clear(name, dice.randrange(10)): 1,
        lambda: machine.update(name, some): 3,
        lambda: machine.ingest(name, dict(some)): 1,
        lambda: machine.batch(dice.writes(), dice.random() < 0.2): 5,
        lambda: machine.transaction(dice.writes(), dice.writes() if dice.flag() else [],
                                    dice.reads(), dice.choice(
            ("commit", "commit", "rollback", "exception", "transact"))): 8,
        lambda: snapshots.append(machine.take_snapshot()): 3 if len(snapshots) < 5 else 0,
        lambda: machine.read_snapshot(dice.choice(snapshots), dice.randrange(3), key,
                                      dice.where(), dice.kind()): 8 if snapshots else 0,
        lambda: machine.close_snapshot(snapshots.pop(dice.randrange(len(snapshots)))):
            2 if snapshots else 0,
        lambda: iterators.append(machine.begin_iterator(name, dice.where(), dice.kind())):
            4 if len(iterators) < 8 else 0,
        lambda: step_one(dice, machine, iterators): 8 if iterators else 0,
        lambda: machine.drop_keyspace(one): 0.3,
        lambda: machine.swap_keyspaces(): 0.5,
        lambda: machine.merge(key, dice.randrange(1 << 40)): 5,
        lambda: machine.read_counter(key): 3,
        lambda: machine.reopen(dice.randrange(4)): 0.3,
        lambda: machine.make_durable(dice.choice(("flush", "persist"))): 0.3,
    }
    dice.choices([*steps], [*steps.values()])[0]()


def step_one(dice, machine, iterators):
    left = machine.step_iterator(iterators.pop(dice.randrange(len(iterators))),
                                 dice.randrange(1, 6))
    if isinstance(left, tuple):  # An iterator that has ended is not kept.
        iterators.append(left)


def test_quick_steps():
    done, life = 0, 0
    while done < QUICK_STEPS:
        dice = Dice(SEED * 1_000_003 + life)
        machine = DatabaseAgainstModel()
        machine.create(dice.choice(("chunks", "guards")))
        snapshots, iterators = [], []
        try:
            for step in range(min(20_000, QUICK_STEPS - done)):
                try:
                    quick_step(dice, machine, snapshots, iterators)
                except BaseException as failure:
                    failure.add_note(f"EVENDB_PYTHON_SEED={SEED}, life {life}, step {step}")
                    raise
                done += 1
        finally:
            machine.teardown()
        life += 1
        print(f"{done} quick steps", flush=True)
    print(f"{done} quick steps, 0 differences")
