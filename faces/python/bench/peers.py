"""EvenDB beside the stores that Python programs use: one run, medians of three turns.

    python bench/peers.py [--mib 64] [--memory 256] [--turns 3] [--seconds 2] [--only evendb,lmdb]
    python bench/peers.py --four-times [--memory 96] [--turns 3] [--seconds 2] [--only ...]

Needs a release build of the extension; peers are those that are installed:
`pip install plyvel rocksdict lmdb diskcache`; sqlite3 and dbm come with Python.

Without `--four-times` the data are in memory: `--mib` MiB of records of 16-byte keys and 100-byte
values, in random order of keys; every store may use `--memory` MiB for its caches. No store syncs a
write. Each turn runs all stores one after the other, each in a fresh directory:

    load       puts of all records in batches of 1,000
    put        single puts over existing keys
    get        reads of random keys that are there
    scan       100 records from a random key on
    4 get      the same reads by four threads together
    4 put      the same puts by four threads together

A load runs to its end, anything else for `--seconds`. A table of thousands of operations a second
is printed (of `load` thousands of records, of `scan` thousands of scans), and the debt that stays
behind is not charged: `close` is outside of the times.

With `--four-times` the data are four times the memory of the process: `--memory` MiB are all that
it has, by a control group (scripts/with-memory-limit of the repository, which needs root): the
interpreter, the store's caches (half of it) and the page cache of its files, which is what LMDB and
sqlite3 have. Each store is loaded once, in random order of keys and without the limit, since a
B-tree's load under the limit takes hours; the times of `load` are of that one load, and `close` is
part of them. Then the system forgets the files' pages, and each turn opens the stores again, one
after the other, in a process within the limit, for get, 4 get, scan, put and 4 put, in this order,
after `--warm` seconds of gets: each store has caches to fill. Here no two values are equal, so that
a store which compresses has no less to read.
The default takes about twelve minutes of a quiet machine, half of them for the load of diskcache;
`--only` leaves stores out. It needs about 4 GiB where temporary files lie (TMPDIR).

A run in pieces: `--add FILE` adds the turns to those that are in the file, and prints the table of
all of them; with `--four-times`, `--place FOLDER` keeps what was loaded for the next piece, and
`--turns 0` only loads.
"""

import argparse
import array
import dbm
import json
import os
import pathlib
import random
import shutil
import sqlite3
import statistics
import subprocess
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
    # Its handbook asks for False where the data are larger than the memory.
    readahead = True

    def __init__(self, path, memory):
        import lmdb

        self.db = lmdb.open(path, map_size=64 << 30, sync=False, metasync=False, max_readers=64,
                            readahead=self.readahead)
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
        self.connection().execute(
            "create table if not exists t (k blob primary key, v blob) without rowid")

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
        self.db = dbm.open(path, "c")
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


def rate(call, asked, seconds, threads=1, arguments=list):
    """Thousands of calls a second of all threads together. `arguments` makes tuples of what is
    asked for, 500 at a time."""
    done = [0] * threads
    end = time.perf_counter() + seconds

    def work(thread):
        mine, at = asked[thread::threads], 0
        while time.perf_counter() < end:
            # Slices only: whatever else happens here is time of the stores in the table.
            some = arguments(mine[at : at + 500])
            for argument in some:
                call(*argument)
            done[thread] += len(some)
            at = at + 500 if at + 500 < len(mine) else 0

    began = time.perf_counter()
    running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(done) / (time.perf_counter() - began) / 1e3


def one_value(_, value=random.Random(1).randbytes(VALUE_BYTES)):
    return value


def own_value(key, pool=random.Random(1).randbytes(1 << 20)):
    """A value that does not repeat: a store that compresses would have less than the data."""
    start = int(key[4:]) * 7919 % (len(pool) - VALUE_BYTES)
    return pool[start : start + VALUE_BYTES]


def load(store, keys, value_of=one_value):
    """Thousands of records a second."""
    began = time.perf_counter()
    for at in range(0, len(keys), BATCH):
        store.batch([(key, value_of(key)) for key in keys[at : at + BATCH]])
    return len(keys) / (time.perf_counter() - began) / 1e3


def key_of(number):
    return b"key/%012d" % number


OTHER = random.Random(3).randbytes(VALUE_BYTES)
HOW = {"get": ("get", 1), "scan": ("scan", 1), "put": ("put", 1), "4 get": ("get", 4),
       "4 put": ("put", 4)}


def measures(store, name, order):
    """What of `order` the store has: a name, a function, and a number of threads."""
    for what in order:
        call, threads = HOW[what]
        if hasattr(store, call) and (threads == 1 or name != "dbm"):
            yield what, getattr(store, call), threads


def check(name, store, keys, value_of=one_value):
    if any(store.get(key) not in (value_of(key), value_of(key)[::-1], OTHER) for key in keys):
        raise SystemExit(f"{name} lost a record")


def turn(name, keys, memory, seconds):
    """Rates of one store, in memory, by what was done."""
    path = tempfile.mkdtemp()
    try:
        store = STORES[name](path + "/db", memory)
        rates = {"load": load(store, keys)}
        some = random.Random(2).choices(keys, k=100_000)
        check(name, store, some[:1000])
        asked = {"put": [(key, OTHER) for key in some[::-1]], "get": [(key,) for key in some]}
        for what, call, threads in measures(store, name, HOW):
            arguments = asked["put" if what.endswith("put") else "get"]
            rates[what] = rate(call, arguments, seconds, threads)
        store.close()
    finally:
        shutil.rmtree(path, ignore_errors=True)
    return rates


def all_keys(mib):
    keys = [key_of(number) for number in range((mib << 20) // (16 + VALUE_BYTES))]
    random.Random(5).shuffle(keys)
    return keys


def load_without_limit(name, path, asked):
    """Thousands of records a second, with the close. Nothing of the files stays in memory."""
    keys = all_keys(asked.mib)
    began = time.perf_counter()
    store = STORES[name](path, asked.memory)
    load(store, keys, own_value)
    store.close()
    took = time.perf_counter() - began
    forget(path)
    return {"load": len(keys) / took / 1e3}


def forget(path):
    """Lets the system forget the pages of all files: pages that are in memory already are charged
    to nobody who reads them later."""
    for folder, _, files in os.walk(os.path.dirname(path)):
        for name in files:
            file = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def measure_within_limit(name, path, asked):
    """The rates of a store that was loaded. The order has reads first: puts leave work behind."""
    Lmdb.readahead = False
    dice, records = random.Random(os.getpid()), (asked.mib << 20) // (16 + VALUE_BYTES)

    def numbers(count):
        # Few bytes each, and others each time: what was asked for once is in memory.
        return array.array("q", (dice.randrange(records) for _ in range(count)))

    def gets(some):
        return [(key_of(number),) for number in some]

    def puts(some):
        return [(key, own_value(key)[::-1]) for key in map(key_of, some)]

    store = STORES[name](path, asked.memory)
    check(name, store, [key_of(number) for number in numbers(200)], own_value)
    rate(store.get, numbers(300_000), asked.warm, 1, gets)
    rates = {}
    for what, call, threads in measures(store, name, ("get", "4 get", "scan", "put", "4 put")):
        arguments = puts if what.endswith("put") else gets
        rates[what] = rate(call, numbers(300_000), asked.seconds, threads, arguments)
    store.close()
    forget(path)
    return rates


def part(what, name, path, asked, limit=None):
    """Runs a part in a process of its own. `None` if the store is not installed."""
    command = [sys.executable, __file__, "--part", what, "--path", path, "--only", name,
               "--mib", str(asked.mib), "--memory", str(asked.memory),
               "--seconds", str(asked.seconds), "--warm", str(asked.warm)]
    if limit is not None:
        script = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "with-memory-limit"
        command = [str(script), f"{limit}M", *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode == 3:
        return None
    if done.returncode != 0:
        raise SystemExit(f"{name}: {what} ended with the status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def four_times(names, asked):
    """The rates of all turns by store: see the head."""
    limit = asked.memory
    asked.mib, asked.memory = 4 * limit, limit // 2
    rounds, home = {}, asked.place or tempfile.mkdtemp()
    try:
        for name in names:
            path = os.path.join(home, name, "db")
            if os.path.exists(path):
                rounds[name] = []
                continue
            os.makedirs(os.path.dirname(path))
            loaded = part("load", name, path, asked)
            if loaded is not None:
                rounds[name] = [loaded]
                print(f"{name} is loaded", file=sys.stderr)
        for turn_of in range(asked.turns):
            for name, turns in rounds.items():
                path = os.path.join(home, name, "db")
                turns.append(part("measure", name, path, asked, limit))
            print(f"turn {turn_of + 1} is done", file=sys.stderr)
    finally:
        if not asked.place:
            shutil.rmtree(home, ignore_errors=True)
    return rounds


def in_memory(names, asked):
    """The rates of all turns by store."""
    keys = all_keys(asked.mib)
    rounds = {name: [] for name in names}
    for _ in range(asked.turns):
        for name in list(rounds):
            try:
                rounds[name].append(turn(name, keys, asked.memory, asked.seconds))
            except ImportError as error:
                print(f"{name} is left out: {error}", file=sys.stderr)
                del rounds[name]
    return rounds


def added(rounds, path):
    """The turns of all pieces, by store."""
    file = pathlib.Path(path)
    known = json.loads(file.read_text()) if file.exists() else {}
    for name, turns in rounds.items():
        known.setdefault(name, []).extend(turns)
    file.write_text(json.dumps(known))
    return {name: known[name] for name in STORES if name in known}


def show(rounds):
    columns = ("load", "put", "get", "scan", "4 get", "4 put")
    print(f"{'':15}" + "".join(f"{column:>10}" for column in columns))
    for name, turns in rounds.items():
        found = ([rates[column] for rates in turns if column in rates] for column in columns)
        cells = (f"{statistics.median(rates):.1f}" if rates else "-" for rates in found)
        print(f"{name:15}" + "".join(f"{cell:>10}" for cell in cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--four-times", action="store_true", help="data of four times the memory")
    parser.add_argument("--mib", type=int, default=64, help="size of the data in memory")
    parser.add_argument("--memory", type=int, help="MiB; 256, or 96 with --four-times")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warm", type=float, default=3.0)
    parser.add_argument("--only", default=",".join(STORES), help="names, with commas")
    parser.add_argument("--add", metavar="FILE", help="turns of earlier pieces, and of this one")
    parser.add_argument("--place", metavar="FOLDER", help="where loaded stores are kept")
    parser.add_argument("--part", choices=("load", "measure"), help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names = [name for name in STORES if name in asked.only.split(",")]
    if asked.part:
        work = {"load": load_without_limit, "measure": measure_within_limit}[asked.part]
        try:
            print(json.dumps(work(names[0], asked.path, asked)))
        except ImportError as error:
            print(f"{names[0]} is left out: {error}", file=sys.stderr)
            sys.exit(3)
        return
    if asked.memory is None:
        asked.memory = 96 if asked.four_times else 256
    memory = asked.memory
    rounds = (four_times if asked.four_times else in_memory)(names, asked)
    records = (asked.mib << 20) // (16 + VALUE_BYTES)
    print(f"{records} records of 116 bytes, {memory} MiB; thousands a second")
    show(added(rounds, asked.add) if asked.add else rounds)


if __name__ == "__main__":
    main()
