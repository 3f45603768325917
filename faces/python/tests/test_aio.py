"""evendb.aio (trouble-python 62 to 67)."""

import asyncio
import gc
import threading

import pytest

import evendb
import evendb.aio


def cold(path):
    """A database whose records are on disk alone."""
    with evendb.open(path, munks=False, row_cache=False) as db:
        db.ingest((b"%05d" % number, b"v" * 100) for number in range(5_000))
    return {"munks": False, "row_cache": False}


def test_the_calls(path):
    async def main():
        async with await evendb.aio.open(path, memory_budget="16MiB") as db:
            await db.put(b"a", b"1")
            await db.put(b"synced", b"2", durability="sync")
            await db.put(b"gone", b"", ttl=0)
            await db.delete(b"none")
            await db.update({b"b": b"2", b"c": b"3"})
            assert await db.get(b"a") == b"1" and await db.get(b"gone", 7) == 7
            assert await db.contains(b"b") and await db.multi_get([b"c", b"x"]) == [b"3", None]
            assert [key async for key in db] == [b"a", b"b", b"c", b"synced"]
            assert await db.items(prefix=b"b").list() == [(b"b", b"2")]
            assert await db.keys(reverse=True, limit=2).list() == [b"synced", b"c"]
            assert await db.values(start=b"b", stop=b"d").list() == [b"2", b"3"]
            assert await db.keys(limit=0).list() == []
            other = await db.keyspace("other", compression="lz4")
            async with db.batch(durability="sync") as batch:
                batch[b"d"] = b"4"
                batch.keyspace(other).put(b"k", b"v")
                del batch[b"a"]
            assert await other.get(b"k") == b"v" and await db.get(b"a") is None
            with pytest.raises(ZeroDivisionError):
                async with db.batch() as batch:
                    batch[b"e"] = b""
                    1 / 0
            assert not await db.contains(b"e")
            async with db.snapshot() as then:
                await db.put(b"d", b"5")
                assert await then.get(b"d") == b"4" and await then.multi_get([b"d"]) == [b"4"]
                assert await then.keyspace(other).items().list() == [(b"k", b"v")]
            assert await db.add(b"d", b"") is False and await db.setdefault(b"n", b"1") == b"1"
            assert await db.pop(b"n") == b"1" and await db.pop(b"n", None) is None
            assert await db.transact(lambda tx: tx.setdefault(b"t", b"1")) == b"1"
            await db.persist()
            with pytest.raises(TypeError, match="key must be bytes-like"):
                await db.get("text")
            with pytest.raises(TypeError, match="pass the path"):
                import pickle

                pickle.dumps(db)
        assert db.closed
        await db.close()
        for call in [db.get(b"a"), db.put(b"a", b""), db.persist(), db.multi_get([b"a"])]:
            with pytest.raises(evendb.Closed):
                await call

    asyncio.run(main(), debug=True)


def test_what_is_on_disk_is_read_by_threads_of_the_database(path):
    options = cold(path)

    async def main():
        async with await evendb.aio.open(path, **options) as db:
            keys = [b"%05d" % number for number in range(0, 5_000, 5)]
            before = threading.active_count()
            found = await asyncio.gather(*[db.get(key) for key in keys])
            assert found == [b"v" * 100] * len(keys)
            assert threading.active_count() == before
            assert await db.multi_get(keys[:100]) == found[:100]
            assert [key async for key in db.keys()] == [b"%05d" % n for n in range(5_000)]

    asyncio.run(main())


# trouble-python 64
def test_a_paused_iteration_holds_up_no_write(path):
    options = cold(path)

    async def main():
        async with await evendb.aio.open(path, **options) as db:

            async def write():
                for number in range(100):
                    await db.put(b"x%d" % number, b"")

            seen = 0
            async for key, _ in db.items():
                seen += 1
                if seen % 1_000 == 0:
                    await asyncio.create_task(write())
                    await db.put(b"y" + key, b"")
            assert seen == 5_000
            async for _ in db.items():
                break
            gc.collect()

    asyncio.run(main())


# trouble-python 67
def test_no_loop_is_remembered(path):
    options = cold(path)
    db = evendb.open(path, **options)
    handle = evendb.aio.AsyncDatabase(db)

    async def reads(low):
        keys = [b"%05d" % number for number in range(low, low + 200)]
        return await asyncio.gather(*[handle.get(key) for key in keys])

    for low in (0, 200):
        assert asyncio.run(reads(low)) == [b"v" * 100] * 200
    assert asyncio.run(handle.get(b"04999")) == b"v" * 100
    found = []
    threads = [
        threading.Thread(target=lambda low=low: found.append(asyncio.run(reads(low))))
        for low in (1_000, 2_000, 3_000)
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == [[b"v" * 100] * 200] * 3
    db.close()


# trouble-python 67
def test_a_busy_thread_beside_a_thousand_awaits(path):
    options = cold(path)
    done = threading.Event()

    def busy():
        while not done.is_set():
            sum(range(1_000))

    async def main():
        async with await evendb.aio.open(path, durability="sync", **options) as db:
            keys = [b"%05d" % number for number in range(1_000)]
            calls = [db.get(key) for key in keys] + [db.put(key, b"w") for key in keys[:50]]
            await asyncio.gather(*calls)
            assert await db.get(b"00001") == b"w"

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        asyncio.run(asyncio.wait_for(main(), 60))
    finally:
        done.set()
        thread.join()


# trouble-python 65
def test_the_blocking_calls_within_a_coroutine(path):
    async def main():
        async with await evendb.aio.open(path) as db:
            db.sync[b"k"] = b"v"
            assert await asyncio.to_thread(db.sync.get, b"k") == b"v"
            assert await db.get(b"k") == b"v" and list(db.sync) == [b"k"]

    asyncio.run(main())


def test_a_feed(path):
    async def main():
        async with await evendb.aio.open(path) as db:
            feed, keys = db.watch(b"u/"), []

            async def follow():
                async for change in feed:
                    keys.extend(write.key for write in change)
                    if len(keys) == 3:
                        return

            task = asyncio.create_task(follow())
            for key in [b"u/1", b"other", b"u/2", b"u/3"]:
                await asyncio.sleep(0.01)
                await db.put(key, b"")
            await asyncio.wait_for(task, 10)
            assert keys == [b"u/1", b"u/2", b"u/3"]
            # A wait that is called off loses nothing.
            waiting = asyncio.create_task(anext(feed))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await db.put(b"u/4", b"")
            assert [write.key for write in await anext(feed)] == [b"u/4"]
            again = asyncio.create_task(anext(db.changes()))
            await asyncio.sleep(0.01)
        with pytest.raises(evendb.Closed):
            await asyncio.wait_for(again, 10)

    asyncio.run(main())


# trouble-python 11
def test_an_iteration_over_a_closed_database_is_no_end(path):
    cold(path)

    async def main():
        db = await evendb.aio.open(path)
        it = db.items().__aiter__()
        for _ in range(10):
            await anext(it)
        await db.close()
        with pytest.raises(evendb.Closed):
            await anext(it)

    asyncio.run(main())


def test_calls_that_are_cancelled(path):
    options = cold(path)

    async def main():
        async with await evendb.aio.open(path, durability="sync", **options) as db:
            for number in range(200):
                read = asyncio.create_task(db.get(b"%05d" % number))
                write = asyncio.create_task(db.put(b"w%d" % number, b""))
                await asyncio.sleep(0)
                read.cancel()
                write.cancel()
                await asyncio.gather(read, write, return_exceptions=True)
            assert await db.get(b"00001") == b"v" * 100

    asyncio.run(main())


# trouble-python 62
def test_a_program_without_a_close_ends(script, path):
    outcome = script(
        """
        import asyncio, evendb.aio, sys
        async def main():
            db = await evendb.aio.open(sys.argv[1])
            await db.put(b"k", b"v")
            await db.put(b"l", b"v", durability="sync")
            task = asyncio.create_task(anext(db.changes()))
            await asyncio.sleep(0.01)
        asyncio.run(main())
        print("done")
        """,
        path,
    )
    assert outcome.returncode == 0 and "done" in outcome.stdout, outcome.stderr
    assert "ResourceWarning" in outcome.stderr
    with evendb.open(path) as db:
        assert len(db) == 2


def test_a_fork_within_a_loop(script, path):
    outcome = script(
        """
        import asyncio, evendb.aio, os, sys
        async def main():
            db = await evendb.aio.open(sys.argv[1])
            await db.put(b"l", b"v", durability="sync")
            child = os.fork()
            if child == 0:
                for call in [lambda: db.get(b"k"), lambda: db.put(b"k", b""), db.persist,
                             lambda: anext(db.keys().__aiter__())]:
                    try:
                        await call()
                    except evendb.ForkError:
                        continue
                    os._exit(1)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            await db.close()
        asyncio.run(main())
        """,
        path,
    )
    assert outcome.returncode == 0, outcome.stderr


# trouble-python 23: the thread for wake-ups is the parent's alone
def test_a_child_of_a_closed_parent_has_wake_ups_of_its_own(script, path):
    outcome = script(
        """
        import asyncio, evendb.aio, os, signal, sys
        async def work(key):
            async with await evendb.aio.open(sys.argv[1], durability="sync") as db:
                await asyncio.gather(*[db.put(key + b"%d" % n, b"v") for n in range(50)])
        asyncio.run(work(b"parent"))
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            asyncio.run(work(b"child"))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with evendb.open(sys.argv[1]) as db:
            assert len(db) == 100
        """,
        path,
    )
    assert outcome.returncode == 0, outcome.stderr
