"""Batches, transactions, snapshots, keyspaces, merges."""

import threading

import pytest

import evendb


def test_a_batch_is_whole_or_not_at_all(db):
    names = db.keyspace("names")
    db[b"old"] = b""
    with db.batch() as batch:
        batch[b"a"] = b"1"
        batch.put(b"b", b"2", ttl=100)
        del batch[b"old"]
        batch.keyspace("names")[b"a"] = b"Ada"
        batch.keyspace(names).delete(b"x")
        assert b"a" not in db and len(batch) == 5
    assert dict(db) == {b"a": b"1", b"b": b"2"} and dict(names) == {b"a": b"Ada"}
    with pytest.raises(ZeroDivisionError):
        with db.batch(durability="sync") as batch:
            batch[b"c"] = b"3"
            1 / 0
    assert b"c" not in db
    with pytest.raises(evendb.UsedUp):
        batch[b"c"] = b""
    with pytest.raises(evendb.UsedUp):
        batch.commit()
    with db.batch() as batch:
        batch[b"c"] = b"3"
        batch.commit()
    assert db[b"c"] == b"3"
    with db.batch() as batch:
        batch.delete_range(b"a", b"c")
        batch.delete_prefix(b"c")
        batch[b"z"] = b""
        batch.clear()
        batch[b"y"] = b""
    assert list(db) == [b"a", b"b", b"c", b"y"]


def test_a_transaction_sees_its_own_writes_within_bounds(db):
    # trouble-python 14
    db.update({b"a1": b"1", b"a3": b"3", b"c": b""})
    with db.transaction() as tx:
        tx[b"b1"] = b""
        tx[b"a2"] = b"2"
        del tx[b"a1"]
        assert list(tx.items(prefix=b"a")) == [(b"a2", b"2"), (b"a3", b"3")]
        assert list(tx.keys(prefix=b"a", reverse=True)) == [b"a3", b"a2"]
        assert list(tx.keys(prefix=b"a", limit=1)) == [b"a2"]
        assert list(tx.keys(start=b"a3", stop=b"b2")) == [b"a3", b"b1"]
        assert list(tx.keys(start=b"b", stop=b"b1")) == []
        assert b"a1" not in tx and len(tx) == 4
        assert tx.pop(b"a3") == b"3" and tx.pop(b"a3", None) is None
        assert tx.setdefault(b"a3", b"x") == b"x"
        with pytest.raises(KeyError):
            del tx[b"none"]
        assert b"b1" not in db
    assert list(db) == [b"a2", b"a3", b"b1", b"c"]
    with db.transaction() as tx:
        assert tx.popitem() == (b"a2", b"2") and tx.popitem(last=True) == (b"c", b"")
        assert tx.popitem(prefix=b"b") == (b"b1", b"")
        with pytest.raises(KeyError):
            tx.popitem(prefix=b"b")
        tx.clear()
        tx |= {b"n": b"1"}
    assert dict(db) == {b"n": b"1"}


def test_of_two_transactions_over_one_key_one_is_refused(db):
    db[b"k"] = b"1"
    one, other = db.transaction(), db.transaction()
    one[b"k"] = one[b"k"] + b"1"
    other[b"k"] = other[b"k"] + b"2"
    one.commit()
    with pytest.raises(evendb.Conflict):
        other.commit()
    assert db[b"k"] == b"11"
    with pytest.raises(evendb.UsedUp):
        other[b"k"]
    with pytest.raises(evendb.UsedUp):
        list(other.items())
    with pytest.raises(ZeroDivisionError):
        with db.transaction() as tx:
            tx[b"k"] = b"2"
            1 / 0
    assert db[b"k"] == b"11"


def test_transact_tries_again(db):
    db[b"n"] = b"0"

    def add_one(tx):
        tx[b"n"] = b"%d" % (int(tx[b"n"]) + 1)

    def work():
        for _ in range(50):
            db.transact(add_one)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert db[b"n"] == b"200"

    attempts = []

    def meet(tx):
        attempts.append(tx[b"n"])
        db[b"n"] = b"%d" % (int(db[b"n"]) + 1)
        tx[b"n"] = b"x"

    with pytest.raises(evendb.Conflict):
        db.transact(meet, retries=3)
    assert len(attempts) == 4


def test_savepoints_and_locks(db):
    tx = db.transaction()
    tx[b"a"] = b"1"
    here = tx.savepoint()
    tx[b"b"] = b"2"
    tx.rollback_to(here)
    assert list(tx) == [b"a"]
    assert tx.get_for_update(b"k", b"none") == b"none"
    other = db.transaction()
    with pytest.raises(evendb.LockTimeout):
        other.get_for_update(b"k", timeout=0.01)
    assert issubclass(evendb.LockTimeout, TimeoutError)
    tx.commit()
    assert dict(db) == {b"a": b"1"}


def test_a_snapshot_is_one_moment_of_all_keyspaces(db):
    other = db.keyspace("other")
    db[b"k"], other[b"k"] = b"1", b"2"
    with db.snapshot() as then:
        db[b"k"], other[b"k"], db[b"l"] = b"x", b"y", b""
        db.keyspace("later")
        assert dict(then) == {b"k": b"1"} and then.keyspace("other")[b"k"] == b"2"
        assert then.keyspace(other).name == "other" and then.multi_get([b"k"]) == [b"1"]
        assert not hasattr(then, "put") and not then.closed
        with pytest.raises(evendb.NotFound):
            then.keyspace("none")
        with pytest.raises(TypeError):
            then[b"k"] = b""
    assert then.closed
    for use in [lambda: then[b"k"], lambda: list(then), lambda: then.keyspace("other")[b"k"]]:
        with pytest.raises(evendb.Closed):
            use()


def test_a_keyspace_of_another_database_is_refused(db, tmp_path):
    with evendb.open(tmp_path / "other") as other:
        for call in [db.batch().keyspace, db.snapshot().keyspace, db.transaction().keyspace]:
            with pytest.raises(evendb.InvalidArgument, match="another database"):
                call(other.keyspace("k"))


def test_keyspaces(db):
    users = db.keyspace("users", compression="lz4", ttl=3600)
    assert users.name == "users" and db.name == "default"
    assert users.options() == {"compression": "lz4", "ttl": "1h"}
    assert db.keyspaces() == ["default", "users"]
    with pytest.raises(evendb.NotFound):
        db.keyspace("none", create=False)
    with pytest.raises(evendb.InvalidArgument, match="compression"):
        db.keyspace("users", compression="none")
    users[b"k"] = b"v"
    db.rename_keyspace("users", "people")
    assert db.keyspace("people", create=False)[b"k"] == b"v"
    db.keyspace("new")[b"k"] = b"w"
    db.swap_keyspaces("people", "new")
    assert db.keyspace("people")[b"k"] == b"w"
    db.drop_keyspace("new")
    with pytest.raises(evendb.KeyspaceDropped):
        users[b"k"]
    with pytest.raises(evendb.KeyspaceDropped):
        list(users)


def test_options_by_name(path):
    with evendb.open(path, "n", chunk_bytes=65536, munks=False, guards_max_files_per_guard="4"):
        pass
    with pytest.raises(TypeError, match="memory_budget"):
        evendb.open(path, memory_bugdet=1)
    with pytest.raises(ValueError, match="1MiB"):
        evendb.open(path, memory_budget="1KiB")
    with pytest.raises(TypeError, match="memory_budget must be"):
        evendb.open(path, memory_budget=[1])
    with pytest.raises(ValueError, match="mode"):
        evendb.open(path, "x")
    assert evendb.options()["durability"]["default"] == "process"
    assert "ttl" in evendb.options(keyspace=True)


def test_modes_are_those_of_dbm(path):
    for mode in ["r", "w"]:
        with pytest.raises(evendb.NotFound) as missing:
            evendb.open(path, mode)
        assert isinstance(missing.value, FileNotFoundError)
    with evendb.open(path, "n") as db:
        db[b"k"] = b"v"
    with evendb.open(path, "w") as db:
        assert db[b"k"] == b"v" and db.mode == "w" and db.path == str(path)
    with evendb.open(path, "n") as db:
        assert not db
    evendb.destroy(path)
    assert not path.exists()


def test_a_merge_function_of_python(path):
    def joined(key, value, operands):
        if b"bad" in operands:
            raise RuntimeError(f"no {key!r} today")
        if b"none" in operands:
            return None
        if b"text" in operands:
            return "text"
        return b",".join([value] * (value is not None) + operands)

    with evendb.open(path) as db:
        words = db.keyspace("words", merge=("words.joined", joined))
        words.merge(b"a", b"1")
        words.merge(b"a", b"2")
        assert words[b"a"] == b"1,2" and dict(words) == {b"a": b"1,2"}
        words.merge(b"b", b"bad")
        with pytest.raises(evendb.MergeFailed, match="RuntimeError: no b'b' today"):
            words[b"b"]
        assert words[b"a"] == b"1,2"
        words[b"b"] = b"good again"
        words.merge(b"c", b"none")
        assert b"c" not in words
        words.merge(b"d", b"text")
        with pytest.raises(evendb.MergeFailed, match="must be bytes-like, not str"):
            words[b"d"]
        with db.transaction() as tx:
            inner = tx.keyspace(words)
            inner.merge(b"a", b"3")
            assert inner[b"a"] == b"1,2,3"
    with evendb.open(path) as db:
        with pytest.raises(evendb.InvalidArgument, match="words.joined"):
            db.keyspace("words")
        words = db.keyspace("words", merge=("words.joined", joined))
        assert words[b"a"] == b"1,2,3"
        db.flush()
        assert words[b"a"] == b"1,2,3"
        for wrong in [7, ("name", 7)]:
            with pytest.raises(TypeError):
                db.keyspace("x", merge=wrong)
        with pytest.raises(ValueError):
            db.keyspace("x", merge="no-such")


def test_a_compaction_filter_of_python(db):
    db.update({b"drop": b"1", b"keep": b"2", b"change": b"3"})
    decisions = {b"drop": False, b"keep": None, b"change": b"4"}
    db.set_compaction_filter(lambda key, value: decisions[key])
    assert db.compact()["chunks"] >= 1
    assert dict(db) == {b"keep": b"2", b"change": b"4"}

    def raises(key, value):
        raise LookupError(f"what is {key!r}")

    db.set_compaction_filter(raises)
    with pytest.raises(evendb.FilterFailed, match="LookupError: what is b'"):
        db.compact()
    assert dict(db) == {b"keep": b"2", b"change": b"4"}
    db.set_compaction_filter(None)
    db.compact()
