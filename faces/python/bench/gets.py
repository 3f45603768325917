"""Gets of evendb beside those of lmdb and plyvel, in interleaved rounds, by processor time.

    python bench/gets.py [--records 200000] [--bytes 100] [--rounds 15] [--only evendb,lmdb]

For machines that others use: each round asks every store for the same keys, one store after the
other, and what is counted is the time that the calling thread had on a processor. A ratio is the
median of the ratios of single rounds, so that what slows a whole round down slows all of it down.

    evendb        db.get, all in memory
    evendb-file   db.get with 16 MiB of memory: most gets read a file, from the system's cache
    evendb-snap   get of a kept snapshot, all in memory
    lmdb          txn.get of a kept read transaction
    lmdb-begin    a read transaction for each get, which sees all writes that came before, as
                  evendb's db.get does
    plyvel        db.get, all in memory
"""

import argparse
import contextlib
import random
import shutil
import statistics
import tempfile
import time

VALUES = 64


def evendb(path, pairs, memory="1GiB", snapshot=False):
    import evendb

    db = evendb.open(path, memory_budget=memory)
    for at in range(0, len(pairs), 1000):
        db.update(pairs[at : at + 1000])
    db.close()
    db = evendb.open(path, memory_budget=memory)
    return db, (db.snapshot() if snapshot else db).get


def lmdb(path, pairs, begin=False):
    import lmdb

    db = lmdb.open(path, map_size=8 << 30, sync=False, metasync=False)
    with db.begin(write=True) as txn, txn.cursor() as cursor:
        cursor.putmulti(pairs)

    def get(key):
        with db.begin() as txn:
            return txn.get(key)

    return db, (get if begin else db.begin().get)


def plyvel(path, pairs):
    import plyvel

    db = plyvel.DB(path, create_if_missing=True, lru_cache_size=1 << 30)
    with db.write_batch() as batch:
        for key, value in pairs:
            batch.put(key, value)
    db.compact_range()
    return db, db.get


STORES = {
    "evendb": evendb,
    "evendb-file": lambda path, pairs: evendb(path, pairs, "16MiB"),
    "evendb-snap": lambda path, pairs: evendb(path, pairs, snapshot=True),
    "lmdb": lmdb,
    "lmdb-begin": lambda path, pairs: lmdb(path, pairs, begin=True),
    "plyvel": plyvel,
}


def timed(get, keys):
    """Nanoseconds of processor a get."""
    began = time.thread_time()
    for key in keys:
        get(key)
    return (time.thread_time() - began) / len(keys) * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--gets", type=int, default=20_000)
    parser.add_argument("--only", default=",".join(STORES))
    asked = parser.parse_args()
    dice = random.Random(1)
    keys = [b"key/%012d" % number for number in range(asked.records)]
    values = [dice.randbytes(asked.bytes) for _ in range(VALUES)]
    pairs = [(key, values[at % VALUES]) for at, key in enumerate(keys)]
    with contextlib.ExitStack() as stack:
        gets, times = {}, {}
        for name in asked.only.split(","):
            path = tempfile.mkdtemp()
            stack.callback(shutil.rmtree, path)
            try:
                db, gets[name] = STORES[name](path + "/db", pairs)
            except ImportError as error:
                print(f"{name} is left out: {error}")
                continue
            stack.callback(db.close)
            times[name] = []
            if any(gets[name](key) != value for key, value in dice.choices(pairs, k=1000)):
                raise SystemExit(f"{name} lost a record")
        for turn in range(asked.rounds + 1):
            some = dice.choices(keys, k=asked.gets)
            for name in dice.sample([*times], len(times)):
                took = timed(gets[name], some)
                if turn:  # The first round warms up.
                    times[name].append(took)
        gets.clear()
        first = next(iter(times))
        print(f"{asked.records} records of {asked.bytes} bytes; nanoseconds of processor a get, "
              f"median (least); time of {first} : its time, median of rounds")
        for name, rounds in times.items():
            ratio = statistics.median(b / a for a, b in zip(times[first], rounds))
            print(f"{name:12}{statistics.median(rounds):8.0f} ({min(rounds):.0f}){ratio:8.2f}")


if __name__ == "__main__":
    main()
