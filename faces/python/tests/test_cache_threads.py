"""All operations of a cache from many threads at once: nothing fails, and all agrees after it."""

import random
import threading

import pytest

from evendb.cache import EVICTION_POLICY, Cache, FanoutCache

STEPS = 120
KEYS = 40


class Worker(threading.Thread):
    """Random operations on one directory, by objects of its own."""

    def __init__(self, directory, seed):
        super().__init__()
        self.draw = random.Random(seed)
        self.directory = directory
        self.cache = Cache(directory)
        self.fanout = FanoutCache(directory, timeout=60)
        self.failure = None

    def run(self):
        """See the head of the class."""
        try:
            for _ in range(STEPS):
                self.step(self.draw.randrange(KEYS), self.draw.randrange(12))
        except Exception as error:
            self.failure = error

    def step(self, key, choice):
        """One operation."""
        cache, draw = self.cache, self.draw
        value = bytes([key]) * draw.randrange(1500)
        if choice < 3:
            expire = draw.choice([None, -1, 100])
            assert cache.set(key, value, expire=expire, tag=draw.choice([None, "t"]), retry=True)
        elif choice < 6:
            found = cache.get(key, b"")
            assert type(found) is bytes and set(found) <= {key}
        elif choice == 6:
            draw.choice([cache, self.fanout]).delete(key, retry=True)
        elif choice == 7:
            self.fanout.add(key, value, retry=True)
            cache.touch(key, draw.choice([None, 100]), retry=True)
        elif choice == 8:
            cache.push(value, prefix="queue", retry=True)
            pulled = cache.pull(prefix="queue", default=(None, b""), retry=True)[1]
            assert len(set(pulled)) <= 1
        elif choice == 9:
            self.transact(key, value)
        elif choice == 10 and draw.random() < 0.3:
            draw.choice([cache.cull, cache.expire, cache.clear, lambda: cache.evict("t")])()
        elif choice == 11:
            draw.choice([cache, self.fanout, Cache(self.directory)]).close()

    def transact(self, key, value):
        """A key and a count in a room of its own, together or not at all."""
        try:
            with self.cache.transact(retry=True):
                self.cache.set(key, value)
                index = self.fanout.index("counts")
                index["all"] = index.get("all", 0) + 1
                self.cache.delete((key + 1) % KEYS)
                if self.draw.random() < 0.3:
                    raise ZeroDivisionError
            self.fanout.index("commits").setdefault(self.draw.random(), None)
        except ZeroDivisionError:
            pass


@pytest.mark.parametrize("policy", EVICTION_POLICY)
@pytest.mark.parametrize("files", [False, True])
def test_threads_with_all_operations(tmp_path, policy, files):
    """Values of whole sets only; entries, indexes, counts and files agree; commits are counted."""
    how = {"eviction_policy": policy, "size_limit": 15_000, "disk_min_file_size": 400}
    with Cache(tmp_path / "cache", disk_files=files, **how) as cache:
        workers = [Worker(tmp_path / "cache", seed) for seed in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [worker.failure for worker in workers] == [None] * 4
        assert cache.check() == []
        with FanoutCache(tmp_path / "cache") as fanout:
            assert fanout.index("counts").get("all", 0) == len(fanout.index("commits"))
        cache.clear()
        assert cache.check() == [] and len(cache) == cache.volume() == 0
