"""Cache hits, sets and memoize hits: `evendb.cache` against diskcache, in one run.

functools.lru_cache, which keeps nothing, is measured for memoize as well. Large values are bytes of
1 MiB, which both have in files; "in the store" is with `disk_files=False`.

    python bench/cache.py [--records 10000] [--turns 3]

Needs `pip install diskcache` and a release build of the extension. Each turn measures both, one
after the other, in a fresh directory; the medians of the turns are printed, with their ratio.
Values are texts of 100 bytes, keys are ints in a random order. Times are per call, in
microseconds, for one thread and for four threads together (calls of all threads in the time).
"""

import argparse
import functools
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time

import diskcache

import evendb.cache


def timed(function, keys, threads=1):
    """Microseconds a call."""
    parts = [keys[place::threads] for place in range(threads)]

    def work(part):
        for key in part:
            function(key)

    start = time.perf_counter()
    if threads == 1:
        work(parts[0])
    else:
        running = [threading.Thread(target=work, args=(part,)) for part in parts]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    return (time.perf_counter() - start) / len(keys) * 1e6


def measure(library, records, policy):
    """{name: microseconds} of one library."""
    folder = tempfile.mkdtemp()
    cache = library.Cache(folder, eviction_policy=policy)
    keys = list(range(records))
    random.Random(1).shuffle(keys)
    value = "v" * 100
    results = {"set, new key": timed(lambda key: cache.set(key, value), keys)}
    results["set, old key"] = timed(lambda key: cache.set(key, value), keys)
    results["get, hit"] = timed(cache.get, keys)
    results["get, hit, 4 threads"] = timed(cache.get, keys, 4)
    results["get, miss"] = timed(lambda key: cache.get(-1 - key), keys)

    @cache.memoize()
    def function(number):
        return [number, {"name": "text"}]

    for key in keys:
        function(key)
    results["memoize, hit"] = timed(function, keys)
    results["memoize, hit, 4 threads"] = timed(function, keys, 4)
    results["incr"] = timed(lambda key: cache.incr("count"), keys[: records // 4])
    results["push and pull"] = timed(lambda key: (cache.push(key), cache.pull("jobs")), keys[:1000])
    measure_large(cache, results, "large value")
    cache.close()
    shutil.rmtree(folder)
    return results


def measure_large(cache, results, name):
    """Values of 1 MiB."""
    large = random.Random(2).randbytes(1 << 20)
    results[f"{name}, set"] = timed(lambda key: cache.set(key, large), range(20))
    results[f"{name}, get"] = timed(cache.get, range(20))


def measure_alone():
    """{name: microseconds} of what has no counterpart in both libraries."""
    results = {}
    memoized = functools.lru_cache(None)(lambda number: [number, {"name": "text"}])
    keys = list(range(10_000))
    timed(memoized, keys)
    results["lru_cache, hit"] = timed(memoized, keys)
    results["lru_cache, hit, 4 threads"] = timed(memoized, keys, 4)
    folder = tempfile.mkdtemp()
    with evendb.cache.Cache(folder, disk_files=False) as cache:
        measure_large(cache, results, "in the store")
    shutil.rmtree(folder)
    return results


def main():
    """See the head of the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--policy", default="least-recently-stored")
    options = parser.parse_args()
    turns = []
    for turn in range(options.turns):
        print(f"turn {turn + 1} of {options.turns}", file=sys.stderr)
        turns.append([measure(library, options.records, options.policy)
                      for library in (evendb.cache, diskcache)])
    print(f"{options.records} records, policy {options.policy}, medians of {options.turns}")
    print(f"{'':26}{'evendb':>10}{'diskcache':>12}{'times':>8}")
    for name in turns[0][0]:
        ours, theirs = (statistics.median(turn[which][name] for turn in turns) for which in (0, 1))
        print(f"{name:26}{ours:>7.1f} us{theirs:>9.1f} us{theirs / ours:>8.1f}")
    for name, time in measure_alone().items():
        print(f"{name:26}{time:>7.1f} us")


if __name__ == "__main__":
    main()
