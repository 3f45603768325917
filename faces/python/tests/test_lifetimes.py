"""Iterators, views and handles that outlive what they came from (trouble-python 10 to 31)."""

import gc
import os
import threading

import pytest

import evendb


def records(count):
    return {b"%06d" % number: b"v" * 20 for number in range(count)}


@pytest.fixture
def full(path):
    db = evendb.open(path)
    db.update(records(10_000))
    yield db
    db.close()


# trouble-python 10, 11
@pytest.mark.parametrize(
    "make",
    [
        lambda db: iter(db),
        lambda db: iter(db.items()),
        lambda db: iter(db.values(reverse=True)),
        lambda db: iter(db.keyspace("other").keys()),
        lambda db: iter(db.snapshot().items()),
        lambda db: iter(db.transaction().items()),
    ],
)
def test_an_iterator_of_a_closed_database_raises_closed(full, make):
    full.keyspace("other").update(records(3_000))
    it = make(full)
    for _ in range(1_000):
        next(it)
    full.close()
    for _ in range(3):
        with pytest.raises(evendb.Closed):
            next(it)
    del it
    gc.collect()


# trouble-python 10, 31
def test_every_use_after_close_is_typed(full):
    other, snapshot, tx = full.keyspace("other"), full.snapshot(), full.transaction()
    batch, feed, view, items = full.batch(), full.changes(), full.view(b"000000"), full.items()
    full.close()
    full.close()
    assert full.closed and snapshot.closed
    uses = [
        lambda: full[b"k"],
        lambda: full.__setitem__(b"k", b""),
        lambda: full.__delitem__(b"000000"),
        lambda: b"k" in full,
        lambda: len(full),
        lambda: bool(full),
        lambda: list(full),
        lambda: list(items),
        lambda: full.get(b"k"),
        lambda: full.multi_get([b"k"]),
        lambda: full.put(b"k", b"", ttl=1),
        lambda: full.put(b"k", b"", durability="sync"),
        lambda: full.update({b"k": b""}),
        lambda: full.clear(),
        lambda: full.pop(b"k", None),
        lambda: full.setdefault(b"k", b""),
        lambda: full.add(b"k", b""),
        lambda: full.popitem(),
        lambda: full.delete_prefix(b"k"),
        lambda: full.keyspace("x"),
        lambda: full.keyspaces(),
        lambda: full.batch(),
        lambda: full.transaction(),
        lambda: full.snapshot(),
        lambda: full.changes(),
        lambda: full.watch(b"k"),
        lambda: full.persist(),
        lambda: full.flush(),
        lambda: full.stats(),
        lambda: full.compact(),
        lambda: full.ingest({b"k": b""}),
        lambda: full.approximate_len(),
        lambda: full.ttl(b"k"),
        lambda: full.position(),
        lambda: full.arrow().__arrow_c_stream__(),
        lambda: full.__enter__(),
        lambda: other[b"k"],
        lambda: other.put(b"k", b""),
        lambda: snapshot[b"k"],
        lambda: list(snapshot),
        lambda: tx[b"k"],
        lambda: tx.put(b"k", b""),
        lambda: tx.commit(),
        lambda: batch.commit(),
        lambda: next(feed),
        lambda: full.backup("/nowhere"),
        lambda: full.fork("/nowhere"),
    ]
    for number, use in enumerate(uses):
        with pytest.raises(evendb.Closed):
            use()
            print(number)
    tx.rollback()
    assert bytes(view) == b"v" * 20


# trouble-python 13
def test_iterators_left_in_the_middle_keep_nothing(full):
    def files():
        return len(os.listdir("/proc/self/fd"))

    full.flush()
    next(iter(full.items()))
    before = files()
    for _ in range(20_000):
        next(iter(full.items()))
    kept = []
    for _ in range(100):
        try:
            next(iter(full.items()))
            raise ValueError
        except ValueError as error:
            kept.append(error)
    assert files() <= before + 2
    snapshot = full.snapshot()
    full.close()
    with pytest.raises(evendb.Closed):
        snapshot[b"000000"]


# trouble-python 17
def test_a_view_stays_right_whatever_becomes_of_its_owner(path):
    db = evendb.open(path)
    contents = {b"small": b"s" * 10, b"large": bytes(range(256)) * 4_000}
    db.update(contents)
    views = {key: db.view(key) for key in contents}
    db.flush()
    views |= {key + b" of disk": db.view(key) for key in contents}
    parts = [views[b"large"][7:1_000], views[b"large"].cast("B")[100:]]
    for key in contents:
        db[key] = b"foreign" * 100_000
    db.compact()
    for view in views.values():
        assert view.readonly and isinstance(view, memoryview)
        with pytest.raises(TypeError):
            view[0] = 1
    found = []
    reader = threading.Thread(target=lambda: found.append(bytes(views[b"large"])))
    reader.start()
    db.close()
    del db
    gc.collect()
    evendb.destroy(path)
    reader.join()
    assert found == [contents[b"large"]]
    for key, view in views.items():
        assert view == contents[key.removesuffix(b" of disk")]
    del views
    gc.collect()
    assert parts[0] == contents[b"large"][7:1_000] and parts[1] == contents[b"large"][100:]


def test_numpy_over_a_view(db):
    numpy = pytest.importorskip("numpy")
    db[b"k"] = numpy.arange(1_000, dtype=numpy.int64)
    array = numpy.frombuffer(db.view(b"k"), dtype=numpy.int64)
    db[b"k"] = b""
    assert array.sum() == 499_500 and not array.flags.writeable
    strided = numpy.arange(20, dtype=numpy.uint8)[::2]
    db[strided[:2]] = strided
    assert db[b"\x00\x02"] == bytes(range(0, 20, 2))


# trouble-python 20
def test_buffers_that_change_are_taken_as_they_were(db):
    key, value = bytearray(b"key"), bytearray(b"a" * 5_000)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            try:
                value.clear()
                value.extend(b"b" * 5_000)
                value.extend(b"b" * 100_000)
                value[:] = b"a" * 5_000
            except BufferError:
                pass

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(300):
            db[key] = value
            db.put(key, value)
            with db.batch() as batch:
                batch[memoryview(key)] = value
            db.update({b"u": value})
            db.ingest([(bytearray(b"i"), value)])
            assert db.get(key) is not None
            for stored in db.multi_get([key, b"u", b"i"]):
                assert set(stored) <= {97} or set(stored) <= {98}
                assert len(stored) in {0, 5_000, 105_000}
    finally:
        stop.set()
        other.join()


# trouble-python 31
def test_letting_a_database_go_frees_its_lock(path):
    db = evendb.open(path)
    db[b"k"] = b"v"
    del db
    gc.collect()
    with evendb.open(path) as db:
        it = iter(db.items())
    del db
    with evendb.open(path) as db:
        assert db[b"k"] == b"v"
    with pytest.raises(evendb.Closed):
        next(it)
    with pytest.raises(ZeroDivisionError):
        with evendb.open(path) as db:
            1 / 0
    assert db.closed
    with pytest.raises(evendb.Closed):
        with db:
            pass


# trouble-python 31
def test_a_closed_database_holds_nothing_whatever_still_names_it(full, path):
    def held():
        places = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        files = [os.readlink(place) for place in places if os.path.lexists(place)]
        maps = open("/proc/self/maps").read().splitlines()
        return [line for line in files + maps if str(path) in line]

    full.flush()
    handles = [full.keyspace("other"), full.snapshot(), full.transaction(), full.batch()]
    handles += [full.changes(), iter(full.items()), iter(handles[2].items())]
    handles += [handles[1].keyspace("other"), handles[3].keyspace("other")]
    [next(handle) for handle in handles[5:7]]
    assert held()
    full.close()
    assert held() == []
    evendb.destroy(path)
    for handle in handles[5:7]:
        with pytest.raises(evendb.Closed):
            next(handle)


# trouble-python 26
def test_the_same_path_twice_says_how_to_go_on(path, tmp_path):
    db = evendb.open(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    for alias, mode in [(path, "c"), (path, "r"), (link, "c"), (str(path) + "/.", "w")]:
        with pytest.raises(evendb.Locked, match="in this process .* share that handle"):
            evendb.open(alias, mode)
    db[b"k"] = b"v"
    with evendb.open(path, "beside") as beside:
        assert b"k" not in beside
        db.flush()
        assert beside.refresh()[b"k"] == b"v"
    assert db[b"k"] == b"v"
    db.close()


# trouble-python 28
def test_collection_in_another_thread(path):
    class Node:
        pass

    def make():
        node = Node()
        node.db = evendb.open(path)
        node.db[b"k"] = b"v"
        node.items, node.tx = iter(node.db.items()), node.db.transaction()
        node.view, node.callback = node.db.view(b"k"), lambda: node
        next(node.items)
        node.self = node

    gc.disable()
    try:
        maker = threading.Thread(target=make)
        maker.start()
        maker.join()
    finally:
        gc.enable()
    collector = threading.Thread(target=gc.collect)
    collector.start()
    collector.join()
    with evendb.open(path) as db:
        assert db[b"k"] == b"v"


# trouble-python 28
def test_everything_under_a_restless_collector(db):
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for number in range(200):
            with db.batch() as batch:
                batch[b"%d" % number] = b"v"
            list(db.items(limit=20))
            with db.transaction() as tx:
                tx[b"t"] = tx.get(b"t", b"")[:10] + b"x"
            bytes(db.view(b"t"))
    finally:
        gc.set_threshold(*threshold)


# trouble-python 29
def test_threads_share_one_iterator_and_one_batch(full):
    it = iter(full.items())
    batch = full.batch()
    found = [[] for _ in range(8)]

    def work(mine):
        for key, _ in it:
            mine.append(key)
            batch[b"x" + key] = b""

    threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    keys = [key for mine in found for key in mine]
    assert sorted(keys) == sorted(records(10_000)) and len(keys) == 10_000
    batch.commit()
    assert full.approximate_len(prefix=b"x") > 0 and len(full.keys(prefix=b"x")) == 10_000


# trouble-python 29, 10
def test_close_against_everything(path):
    for _ in range(10):
        db = evendb.open(path)
        db.update(records(500))
        it, tx, batch = iter(db.items()), db.transaction(), db.batch()
        wrong, go = [], threading.Barrier(9)

        def work(number):
            go.wait()
            uses = [
                lambda: next(it, None),
                lambda: tx.put(b"t", b""),
                lambda: batch.put(b"b", b""),
                lambda: db.put(b"k", b"v"),
                lambda: db[b"000001"],
                lambda: list(db.items(limit=50)),
                lambda: db.transact(lambda tx: tx.put(b"z", b"")),
                lambda: len(db),
            ]
            try:
                for _ in range(10_000):
                    uses[number]()
            except evendb.Closed:
                pass
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        [thread.start() for thread in threads]
        go.wait()
        db.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert wrong == []


# trouble-python 4
def test_setdefault_is_atomic(db):
    def work(own, mine):
        for number in range(200):
            mine.append(db.setdefault(b"%d" % number, own))

    found = [[] for _ in range(8)]
    threads = [
        threading.Thread(target=work, args=(b"%d" % number, mine))
        for number, mine in enumerate(found)
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for number in range(200):
        assert {mine[number] for mine in found} == {db[b"%d" % number]}


# trouble-python 18
def test_merge_functions_and_close_in_many_threads(path):
    def longest(key, value, operands):
        sum(range(200))
        return max(operands + [value or b""])

    db = evendb.open(path)
    words = db.keyspace("words", merge=longest)
    wrong = []

    def work(number):
        try:
            for step in range(100_000):
                words.merge(b"%d" % (step % 7), b"%d" % step)
                words.get(b"%d" % number)
                if step % 50 == 0:
                    list(words.items())
                    db.flush()
        except evendb.Closed:
            pass
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    for thread in threads:
        thread.join(0.05)
    db.close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert wrong == []


# trouble-python 11
def test_a_broken_table_is_corruption_and_not_the_end(path):
    with evendb.open(path, munks=False, row_cache=False) as db:
        keys = [b"%06d" % number for number in range(20_000)]
        db.ingest((key, os.urandom(100)) for key in keys)
        db.flush()
    tables = sorted(path.rglob("*.sst"))
    assert tables
    for table in tables:
        with open(table, "r+b") as file:
            file.seek(table.stat().st_size // 2)
            file.write(b"\xa5" * 5_000)
    with evendb.open(path, munks=False) as db:
        with pytest.raises(evendb.Corruption) as found:
            list(db.items())
        assert found.value.file.endswith(".sst") and found.value.offset > 0
        with pytest.raises(evendb.Corruption):
            for key in keys:
                db[key]
        it = iter(db.items())
        with pytest.raises(evendb.Corruption):
            while True:
                next(it)
        with pytest.raises(evendb.Corruption):
            next(it)
    assert not evendb.verify(path)["sound"]


# trouble-python 31
def test_a_kept_traceback_keeps_the_database_and_the_error_says_so(path):
    def fails():
        db = evendb.open(path)
        db[b"k"] = b"v"
        raise LookupError

    try:
        fails()
    except LookupError as error:
        kept = error
    with pytest.raises(evendb.Locked, match="in this process"):
        evendb.open(path)
    kept.__traceback__ = None
    gc.collect()
    with evendb.open(path) as db:
        assert db[b"k"] == b"v"


# trouble-python 29
def test_threads_share_one_transaction_and_one_feed(db):
    feed, tx = db.changes(timeout=0.2), db.transaction()
    seen, wrong = [], []

    def write(number):
        try:
            for step in range(200):
                tx[b"%d/%d" % (number, step)] = b"v"
                assert tx[b"%d/%d" % (number, step)] == b"v"
                list(tx.items(prefix=b"%d/" % number, limit=3))
                db[b"d%d/%d" % (number, step)] = b"v"
        except BaseException as error:
            wrong.append(error)

    def follow():
        try:
            seen.extend(change.position for change in feed)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    threads += [threading.Thread(target=follow) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    seen.extend(change.position for change in feed)
    assert wrong == []
    assert len(seen) == len(set(seen)) == 800
    tx.commit()
    assert len(db) == 1_600
