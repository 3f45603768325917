"""Many threads do anything to everything: what the calls may answer is written down, and nothing
else is an answer: no crash, no hang, no error of the binding's own.

EVENDB_PYTHON_HOSTILE (default 3) is how many databases are treated like that; 500 in the campaign.
The numbers are those of the list of other people's trouble that the tests are about.
"""

import gc
import os
import random
import threading

import evendb
import evendb.dbm
import evendb.shelve
import pytest

TURNS = int(os.environ.get("EVENDB_PYTHON_HOSTILE", "3"))
ANSWERS = (evendb.Error, KeyError, StopIteration, ValueError)


def all_at_once(count, work):
    """Runs `work(number)` in so many threads; the exceptions that left it."""
    failures = []
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    [thread.start() for thread in threads]
    # A machine that does other things may take minutes; a thread that hangs is there after hours.
    [thread.join(300) for thread in threads]
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    return failures


def anything(dice, db, handles):
    """One call of any kind on any handle. What it makes is kept for the other threads."""
    key = b"%d" % dice.randrange(50)
    keyspace = dice.choice([db, *handles["keyspaces"]])
    snapshot = dice.choice(handles["snapshots"])
    batch = dice.choice(handles["batches"])
    tx = dice.choice(handles["transactions"])
    iterator = dice.choice(handles["iterators"])
    slot = dice.randrange(4)

    def keep(kind, handle):
        handles[kind][slot % len(handles[kind])] = handle

    def move(tx):
        tx[key] = tx.get(key, b"") + b"1"

    calls = [
        lambda: keyspace[key], lambda: keyspace.put(key, key * 9), lambda: keyspace.delete(key),
        lambda: keyspace.update({key: b"1", key + b"x": bytearray(3000)}),
        lambda: keyspace.setdefault(key, b"2"), lambda: keyspace.popitem(),
        lambda: list(keyspace.items(prefix=b"1", reverse=True, limit=9)), lambda: len(keyspace),
        lambda: keyspace.multi_get([key, b"none"]), lambda: bytes(keyspace.view(key)),
        lambda: keyspace.delete_range(key, key + b"y"), lambda: keyspace.transact(move),
        lambda: keep("snapshots", keyspace.snapshot()), lambda: snapshot.get(key),
        lambda: list(snapshot.items(limit=20)), lambda: snapshot.close(),
        lambda: keep("batches", keyspace.batch()), lambda: batch.put(key, b"3"),
        lambda: batch.delete_prefix(key), lambda: batch.commit(), lambda: batch.clear(),
        lambda: keep("transactions", keyspace.transaction()), lambda: tx.put(key, b"4"),
        lambda: tx[key], lambda: list(tx.items(limit=5)), lambda: tx.commit(),
        lambda: tx.rollback(),
        lambda: keep("iterators", iter(keyspace.items())), lambda: next(iterator),
        lambda: keep("iterators", iter(snapshot.keys(reverse=True))),
        lambda: keep("keyspaces", db.keyspace(f"k{slot}")), lambda: db.drop_keyspace(f"k{slot}"),
        lambda: db.persist(), lambda: repr(dice.choice([db, snapshot, batch, tx, iterator])),
    ]
    dice.choice(calls)()


@pytest.mark.parametrize("turn", range(TURNS))
def test_10_29_threads_do_anything_while_one_closes(tmp_path, turn):
    db = evendb.open(tmp_path / "db", memory_budget="4MiB")
    handles = {"keyspaces": [db.keyspace("k0")], "snapshots": [db.snapshot() for _ in range(2)],
               "batches": [db.batch()], "transactions": [db.transaction() for _ in range(2)],
               "iterators": [iter(db), iter(db.items())]}

    done = [0] * 8

    def work(number):
        dice = random.Random(turn * 1000 + number)
        for step in range(150):
            try:
                anything(dice, db, handles)
                done[number] += 1
            except ANSWERS:
                pass
            if number == 0 and step == 120:
                db.close()

    assert all_at_once(8, work) == []
    assert sum(done) > 100
    for call in (lambda: db.get(b"1"), lambda: next(handles["iterators"][0]),
                 lambda: handles["snapshots"][0].get(b"1"),
                 lambda: handles["keyspaces"][0].get(b"1")):
        with pytest.raises(evendb.Error):
            call()
    handles.clear()
    gc.collect()
    with evendb.open(tmp_path / "db", "w") as db:
        assert len(db) == len(list(db))
    assert evendb.verify(tmp_path / "db")["sound"]


def test_28_the_same_under_a_collector_that_never_rests(tmp_path):
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        test_10_29_threads_do_anything_while_one_closes(tmp_path, 7)
    finally:
        gc.set_threshold(*before)


def test_29_sixteen_threads_on_one_transaction(tmp_path):
    with evendb.open(tmp_path / "db") as db:
        with db.transaction() as tx:
            def work(number):
                for step in range(50):
                    tx[b"%d/%d" % (number, step)] = b"1"
                    assert tx[b"%d/%d" % (number, step)] == b"1"

            assert all_at_once(16, work) == []
            assert not db
        assert len(db) == 800


def test_29_sixteen_threads_on_one_iterator_of_dbm(tmp_path):
    with evendb.dbm.open(tmp_path / "db", "c") as db:
        db.update({str(number): "1" for number in range(5000)})
        once, several = db._use().keys(), []
        iterator = iter(once)

        def work(number):
            mine = []
            while (key := next(iterator, None)) is not None:
                mine.append(key)
            several.append(mine)

        assert all_at_once(16, work) == []
        assert sorted(key for mine in several for key in mine) == db.keys()


def test_an_exception_in_a_transaction_leaves_nothing(tmp_path):
    with evendb.open(tmp_path / "db") as db:
        for kind in (ValueError, KeyboardInterrupt, SystemExit, GeneratorExit):
            for block in (db.transaction, db.batch):
                with pytest.raises(kind), block() as writes:
                    writes[b"a"] = b"1"
                    raise kind
            with pytest.raises(kind):
                def body(tx):
                    tx[b"a"] = b"1"
                    raise kind
                db.transact(body)
        assert not db
        db[b"a"] = b"2"
        assert db[b"a"] == b"2"


def test_31_a_shelf_in_a_kept_traceback(tmp_path):
    def fails():
        shelf = evendb.shelve.open(tmp_path / "shelf", writeback=True)
        shelf["a"] = [1]
        raise RuntimeError

    try:
        fails()
    except RuntimeError as failure:
        kept = failure
    with evendb.shelve.open(tmp_path / "shelf") as other:  # It shares what the traceback keeps.
        assert other["a"] == [1]
    del kept
    gc.collect()
    with evendb.open(tmp_path / "shelf") as db:
        assert len(db) == 1
