"""Gets, puts, batches and scans of evendb, plyvel and lmdb in one run.

    python bench/quick.py [records] [value bytes] [cpu]

With "cpu" the time is that of the calling thread on a processor, for machines that others use.
All in memory, one thread, no sync per write; medians of three. LMDB: one transaction per put, and
one for all gets, as its users do; gets by `get` of a kept read transaction (values are copied, as
for the others).
"""

import random
import shutil
import statistics
import sys
import tempfile
import time

RECORDS = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
BYTES = int(sys.argv[2]) if len(sys.argv) > 2 else 100
CLOCK = time.thread_time if "cpu" in sys.argv else time.perf_counter
KEYS = [b"key/%012d" % number for number in range(RECORDS)]
VALUE = random.Random(1).randbytes(BYTES)
SOME = random.Random(2).choices(KEYS, k=min(RECORDS, 200_000))
STARTS = SOME[:5_000]


class Evendb:
    def __init__(self, path):
        import evendb

        self.db = evendb.open(path, memory_budget="1GiB")
        self.get, self.put, self.close = self.db.get, self.db.put, self.db.close

    def batch(self, keys):
        with self.db.batch() as batch:
            for key in keys:
                batch[key] = VALUE

    def update(self, keys):
        self.db.update(dict.fromkeys(keys, VALUE))

    def scan(self, start):
        return sum(1 for _ in self.db.items(start=start, limit=100))

    def all(self):
        return sum(1 for _ in self.db.items())


class Plyvel:
    def __init__(self, path):
        import plyvel

        self.db = plyvel.DB(path, create_if_missing=True, lru_cache_size=1 << 30,
                            write_buffer_size=64 << 20)
        self.get, self.put, self.close = self.db.get, self.db.put, self.db.close

    def batch(self, keys):
        with self.db.write_batch() as batch:
            for key in keys:
                batch.put(key, VALUE)

    update = batch

    def scan(self, start):
        count = 0
        for _ in self.db.iterator(start=start):
            count += 1
            if count == 100:
                break
        return count

    def all(self):
        return sum(1 for _ in self.db.iterator())


class Lmdb:
    def __init__(self, path):
        import lmdb

        self.db = lmdb.open(path, map_size=8 << 30, sync=False, metasync=False)
        self.close, self.reader = self.db.close, None

    def read(self):
        self.reader = self.db.begin()
        self.get = self.reader.get

    def put(self, key, value):
        with self.db.begin(write=True) as txn:
            txn.put(key, value)

    def batch(self, keys):
        with self.db.begin(write=True) as txn:
            put = txn.put
            for key in keys:
                put(key, VALUE)

    def update(self, keys):
        with self.db.begin(write=True) as txn, txn.cursor() as cursor:
            cursor.putmulti([(key, VALUE) for key in keys])

    def scan(self, start):
        count = 0
        cursor = self.reader.cursor()
        cursor.set_range(start)
        for _ in cursor:
            count += 1
            if count == 100:
                break
        return count

    def all(self):
        return sum(1 for _ in self.reader.cursor())


def timed(count, body):
    began = CLOCK()
    body()
    return (CLOCK() - began) / count * 1e9


def run(make):
    path = tempfile.mkdtemp()
    store = make(path + "/db")
    times = {}

    def each(call, arguments):
        for argument in arguments:
            call(argument)

    def puts():
        put = store.put
        for key in KEYS:
            put(key, VALUE)

    def batches(write):
        for at in range(0, RECORDS, 1_000):
            write(KEYS[at : at + 1_000])

    times["put"] = timed(RECORDS, puts)
    times["batch of 1,000"] = timed(RECORDS, lambda: batches(store.batch))
    times["update of 1,000"] = timed(RECORDS, lambda: batches(store.update))
    if hasattr(store, "read"):
        store.read()
    times["get"] = timed(len(SOME), lambda: each(store.get, SOME))
    times["scan of 100, per record"] = timed(len(STARTS) * 100, lambda: each(store.scan, STARTS))
    times["scan of all, per record"] = timed(RECORDS, store.all)
    store.reader = None
    store.close()
    shutil.rmtree(path)
    return times


def main():
    results = {}
    for make in (Evendb, Plyvel, Lmdb):
        try:
            rounds = [run(make) for _ in range(3)]
        except ImportError as error:
            print(f"{make.__name__}: {error}")
            continue
        results[make.__name__] = {
            what: statistics.median(times[what] for times in rounds) for what in rounds[0]
        }
    print(f"{RECORDS} records of {BYTES} bytes; nanoseconds per operation")
    print(f"{'':26}" + "".join(f"{name:>10}" for name in results))
    for what in next(iter(results.values())):
        print(f"{what:26}" + "".join(f"{times[what]:10.0f}" for times in results.values()))


if __name__ == "__main__":
    main()
