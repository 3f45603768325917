"""EvenDB beside the stores that Python programs use: one run, medians of three turns.

    python bench/peers.py [--mib 64] [--memory 256] [--turns 3] [--seconds 2] [--only evendb,lmdb]

Needs a release build of the extension; peers are those that are installed:
`pip install plyvel rocksdict lmdb diskcache`; sqlite3 and dbm come with Python.

Data are `--mib` MiB of records of 16-byte keys and 100-byte values, in random order of keys; every
store may use `--memory` MiB for its caches. With `--mib` four times `--memory` the data do not fit;
what LMDB and sqlite3 then have is the page cache of the system, which no option of theirs bounds,
so run it under `scripts/with-memory-limit`. No store syncs a write. Each turn runs all stores one
after the other, each in a fresh directory:

    load       puts of all records in batches of 1,000
    put        single puts over existing keys
    get        reads of random keys that are there
    scan       100 records from a random key on
    4 get      the same reads by four threads together
    4 put      the same puts by four threads together

A load runs to its end, anything else for `--seconds`. A table of thousands of operations a second
is printed (of `load` thousands of records, of `scan` thousands of scans), and the debt that stays
behind is not charged: `close` is outside of the times.
"""

import argparse
import dbm
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time

BATCH = 1_000
SCAN = 100
VALUE_BYTES = 100


class Evendb:
    def __init__(self, path, memory):
        import evendb

        self.db = evendb.open(path, memory_budget=f"{memory}MiB")
        self.get, self.put, self.close = self.db.get, self.db.put, self.db.close

    def batch(self, pairs):
        self.db.update(pairs)

    def scan(self, start):
        return sum(1 for _ in self.db.items(start=start, limit=SCAN))


class Plyvel:
    def __init__(self, path, memory):
        import plyvel

        self.db = plyvel.DB(
            path,
            create_if_missing=True,
            lru_cache_size=memory << 19,
            write_buffer_size=memory << 18,
            bloom_filter_bits=10,
        )
        self.get, self.put, self.close = self.db.get, self.db.put, self.db.close

    def batch(self, pairs):
        with self.db.write_batch() as batch:
            for key, value in pairs:
                batch.put(key, value)

    def scan(self, start):
        with self.db.iterator(start=start) as records:
            return sum(1 for _ in zip(range(SCAN), records))


class Rocksdict:
    def __init__(self, path, memory):
        import rocksdict

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_write_buffer_size(memory << 18)
        table = rocksdict.BlockBasedOptions()
        table.set_block_cache(rocksdict.Cache(memory << 19))
        table.set_bloom_filter(10, False)
        options.set_block_based_table_factory(table)
        self.module, self.db = rocksdict, rocksdict.Rdict(path, options)
        self.get, self.put, self.close = self.db.get, self.db.put, self.db.close

    def batch(self, pairs):
        batch = self.module.WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key, value)
        self.db.write(batch)

    def scan(self, start):
        return sum(1 for _ in zip(range(SCAN), self.db.items(from_key=start)))


class Lmdb:
    def __init__(self, path, memory):
        import lmdb

        self.db = lmdb.open(path, map_size=64 << 30, sync=False, metasync=False, max_readers=64)
        self.close = self.db.close

    def get(self, key):
        with self.db.begin() as txn:
            return txn.get(key)

    def put(self, key, value):
        with self.db.begin(write=True) as txn:
            txn.put(key, value)

    def batch(self, pairs):
        with self.db.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti(pairs)

    def scan(self, start):
        with self.db.begin() as txn, txn.cursor() as cursor:
            cursor.set_range(start)
            return sum(1 for _ in zip(range(SCAN), cursor))


class LmdbOneTransaction(Lmdb):
    """Gets and scans of one read transaction a thread, which sees no later write."""

    def __init__(self, path, memory):
        super().__init__(path, memory)
        self.own = threading.local()

    def reader(self):
        if not hasattr(self.own, "txn"):
            self.own.txn = self.db.begin()
        return self.own.txn

    def get(self, key):
        return self.reader().get(key)


class Diskcache:
    def __init__(self, path, memory):
        import diskcache

        self.db = diskcache.Cache(
            path, eviction_policy="none", size_limit=1 << 50, cull_limit=0,
            sqlite_cache_size=memory << 8,
        )
        self.get, self.put, self.close = self.db.get, self.db.set, self.db.close

    def batch(self, pairs):
        with self.db.transact():
            for key, value in pairs:
                self.db.set(key, value)


class Sqlite3:
    def __init__(self, path, memory):
        self.path, self.memory, self.own = path, memory, threading.local()
        self.connection().execute("create table t (k blob primary key, v blob) without rowid")

    def connection(self):
        if not hasattr(self.own, "db"):
            self.own.db = db = sqlite3.connect(self.path, isolation_level=None, timeout=60)
            db.execute("pragma journal_mode=wal")
            db.execute("pragma synchronous=normal")
            db.execute(f"pragma cache_size=-{self.memory << 10}")
        return self.own.db

    def get(self, key):
        found = self.connection().execute("select v from t where k=?", (key,)).fetchone()
        return found and found[0]

    def put(self, key, value):
        self.connection().execute("insert or replace into t values (?,?)", (key, value))

    def batch(self, pairs):
        db = self.connection()
        db.execute("begin")
        db.executemany("insert or replace into t values (?,?)", pairs)
        db.execute("commit")

    def scan(self, start):
        asked = "select k, v from t where k>=? order by k limit ?"
        return sum(1 for _ in self.connection().execute(asked, (start, SCAN)))

    def close(self):
        self.connection().close()


class Dbm:
    """What `dbm.open` chooses on this machine. It has no threads, batches or order."""

    def __init__(self, path, memory):
        self.db = dbm.open(path, "n")
        self.get, self.put, self.close = self.db.get, self.db.__setitem__, self.db.close

    def batch(self, pairs):
        for key, value in pairs:
            self.db[key] = value


STORES = {
    "evendb": Evendb,
    "plyvel": Plyvel,
    "rocksdict": Rocksdict,
    "lmdb": Lmdb,
    "lmdb-one-txn": LmdbOneTransaction,
    "diskcache": Diskcache,
    "sqlite3": Sqlite3,
    "dbm": Dbm,
}


def rate(call, arguments, seconds, threads=1):
    """Thousands of calls a second of all threads together."""
    done = [0] * threads
    end = time.perf_counter() + seconds

    def work(thread):
        mine = arguments[thread::threads]
        while time.perf_counter() < end:
            for argument in mine[:500]:
                call(*argument)
            mine = mine[500:] + mine[:500]
            done[thread] += min(500, len(mine))

    began = time.perf_counter()
    running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(done) / (time.perf_counter() - began) / 1e3


def turn(make, keys, memory, seconds):
    """Rates of one store by what was done."""
    path = tempfile.mkdtemp()
    rates = {}
    value = random.Random(1).randbytes(VALUE_BYTES)
    try:
        store = make(path + "/db", memory)
        began = time.perf_counter()
        for at in range(0, len(keys), BATCH):
            store.batch([(key, value) for key in keys[at : at + BATCH]])
        rates["load"] = len(keys) / (time.perf_counter() - began) / 1e3
        some = [(key,) for key in random.Random(2).choices(keys, k=100_000)]
        other = random.Random(3).randbytes(VALUE_BYTES)
        pairs = [(key, other) for key in random.Random(4).choices(keys, k=100_000)]
        if any(store.get(key) != value for (key,) in some[:1000]):
            raise SystemExit(f"{make.__name__} lost a record")
        rates["get"] = rate(store.get, some, seconds)
        if hasattr(store, "scan"):
            rates["scan"] = rate(store.scan, some, seconds)
        rates["put"] = rate(store.put, pairs, seconds)
        if make is not Dbm:
            rates["4 get"] = rate(store.get, some, seconds, 4)
            rates["4 put"] = rate(store.put, pairs, seconds, 4)
        store.close()
    finally:
        shutil.rmtree(path, ignore_errors=True)
    return rates


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--memory", type=int, default=256)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default=",".join(STORES))
    asked = parser.parse_args()
    records = (asked.mib << 20) // (16 + VALUE_BYTES)
    keys = [b"key/%012d" % number for number in range(records)]
    random.Random(5).shuffle(keys)
    rounds = {name: [] for name in STORES if name in asked.only.split(",")}
    for _ in range(asked.turns):
        for name in list(rounds):
            try:
                rounds[name].append(turn(STORES[name], keys, asked.memory, asked.seconds))
            except ImportError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
                del rounds[name]
    columns = ("load", "put", "get", "scan", "4 get", "4 put")
    print(f"{records} records of 116 bytes, {asked.memory} MiB; thousands a second")
    print(f"{'':15}" + "".join(f"{column:>10}" for column in columns))
    for name, turns in rounds.items():
        cells = (
            statistics.median(rates[column] for rates in turns) if column in turns[0] else None
            for column in columns
        )
        print(f"{name:15}" + "".join(f"{'-' if c is None else f'{c:.1f}':>10}" for c in cells))


if __name__ == "__main__":
    main()
