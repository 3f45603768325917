"""Plyvel's names over EvenDB: what plyvel's own tests are run against, and a way to try a program
that was written for plyvel. It is not part of the package.

    DB, its iterators, raw iterators, write batches, snapshots, prefixed databases; repair_db and
    destroy_db; Error, IOError, CorruptionError, IteratorInvalidError

An iterator stands in a gap between two records. The gap is written as the smallest key that may lie
behind it, and each iterator has a snapshot of its own:

      ... | b"a" | b"b" | ...        behind b"a":  gap = b"a\\0";  next() gives b"b", prev() b"a"

What is not here: comparators (refused), and the figures of LevelDB's levels.
"""

import os

import evendb

__version__ = "1.5.1"
__leveldb_version__ = "1.23"


class Error(Exception):
    """A failure of the database."""


class IOError(Error, OSError):
    """The system refused something."""


class CorruptionError(Error):
    """The files are damaged."""


class IteratorInvalidError(Error):
    """A raw iterator stands at no record."""


_CLOSED = "Database or iterator is closed"


def _raise(failure):
    if isinstance(failure, evendb.Closed):
        raise RuntimeError(_CLOSED) from failure
    if isinstance(failure, evendb.Corruption):
        raise CorruptionError(str(failure)) from failure
    if isinstance(failure, OSError):
        raise IOError(str(failure)) from failure
    raise Error(str(failure)) from failure


def _call(function, *arguments, **names):
    try:
        return function(*arguments, **names)
    except (evendb.Error, OSError) as failure:
        _raise(failure)


def _bytes(value, name="key"):
    if not isinstance(value, bytes):
        raise TypeError(f"argument '{name}' must be bytes, not {type(value).__name__}")
    return value


def _successor(prefix):
    """The first key behind all that begin with this prefix, or None."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def _number(value, name):
    if value is not None and not isinstance(value, int):
        raise TypeError(f"'{name}' must be a number, not {type(value).__name__}")


class DB:
    """A database."""

    def __init__(self, name, *, create_if_missing=False, error_if_exists=False,
                 paranoid_checks=None, write_buffer_size=None, max_open_files=None,
                 lru_cache_size=None, block_size=None, block_restart_interval=None,
                 max_file_size=None, compression="snappy", bloom_filter_bits=0,
                 comparator=None, comparator_name=None):
        self._db = None
        if not isinstance(name, (bytes, str)):
            raise TypeError("'name' arg must be a byte string or a unicode string")
        for option in ("write_buffer_size", "max_open_files", "lru_cache_size", "block_size",
                       "block_restart_interval", "max_file_size", "bloom_filter_bits"):
            _number(locals()[option], option)
        if isinstance(compression, bytes):
            compression = compression.decode()
        if compression not in (None, "snappy"):
            raise ValueError("'compression' must be None or 'snappy'")
        if (comparator is None) != (comparator_name is None):
            raise ValueError("'comparator' and 'comparator_name' must be specified together")
        if comparator is not None:
            _bytes(comparator_name, "comparator_name")
            if not callable(comparator):
                raise TypeError("custom comparator object must be callable")
            raise Error(f"Not implemented: comparator {comparator_name.decode()}: "
                        "keys are in the order of their bytes")
        self._name = name
        path = os.fsdecode(name)
        if os.path.isdir(path) and not os.access(path, os.W_OK):
            raise IOError(f"IO error: {path}: Permission denied")
        exists = os.path.exists(os.path.join(path, "CURRENT"))
        if exists and error_if_exists:
            raise Error(f"Invalid argument: {path}: exists (error_if_exists is true)")
        if not exists and not create_if_missing:
            raise Error(f"Invalid argument: {path}: does not exist (create_if_missing is false)")
        options = {}
        if lru_cache_size:
            options["memory_budget"] = max(lru_cache_size, 1 << 20)
        options["compression"] = "none" if compression is None else "lz4"
        self._db = _call(evendb.open, path, "c", **options)

    @property
    def name(self):
        return self._name

    @property
    def closed(self):
        return self._db is None

    def close(self):
        database, self._db = self._db, None
        if database is not None:
            _call(database.close)

    def __del__(self):
        try:
            self.close()
        except Exception:  # The folder may be gone, and the interpreter may be ending.
            pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        return f"<plyvel.DB with name {self._name!r}{' (closed)' if self.closed else ''}>"

    def _use(self):
        if self._db is None:
            raise RuntimeError("Database is closed")
        return self._db

    def get(self, key, default=None, *, verify_checksums=False, fill_cache=True):
        return _call(self._use().get, _bytes(key), default)

    def put(self, key, value, *, sync=False):
        _call(self._use().put, _bytes(key), value, durability="sync" if sync else None)

    def delete(self, key, *, sync=False):
        _call(self._use().delete, _bytes(key), durability="sync" if sync else None)

    def write_batch(self, *, transaction=False, sync=False):
        return WriteBatch(self, b"", transaction, sync)

    def __iter__(self):
        return self.iterator()

    def iterator(self, **options):
        return Iterator(self, b"", None, **options)

    def raw_iterator(self, *, verify_checksums=False, fill_cache=True):
        return RawIterator(self, None)

    def snapshot(self):
        return Snapshot(self, b"")

    def prefixed_db(self, prefix):
        return PrefixedDB(db=self, prefix=prefix)

    def get_property(self, name):
        name = _bytes(name, "name")
        if name in (b"leveldb.stats", b"leveldb.sstables"):
            return _call(self._use().stats_text).encode()
        if name.startswith(b"leveldb.num-files-at-level"):
            return b"0"
        return None

    def compact_range(self, *, start=None, stop=None):
        _call(self._use().compact, start, stop)

    def approximate_size(self, start, stop):
        return self.approximate_sizes((start, stop))[0]

    def approximate_sizes(self, *ranges):
        sizes = []
        for pair in ranges:
            if not isinstance(pair, tuple):
                raise TypeError("a range must be a tuple of two keys")
            start, stop = _bytes(pair[0]), _bytes(pair[1])
            sizes.append(_call(self._use().approximate_size, start=start, stop=stop))
        return sizes


class PrefixedDB:
    """The part of a database whose keys begin with a prefix, which is left out."""

    def __init__(self, *, db, prefix):
        self.db = db
        self.prefix = _bytes(prefix, "prefix")

    def get(self, key, default=None, **options):
        return self.db.get(self.prefix + _bytes(key), default, **options)

    def put(self, key, value, *, sync=False):
        self.db.put(self.prefix + _bytes(key), value, sync=sync)

    def delete(self, key, *, sync=False):
        self.db.delete(self.prefix + _bytes(key), sync=sync)

    def write_batch(self, *, transaction=False, sync=False):
        return WriteBatch(self.db, self.prefix, transaction, sync)

    def __iter__(self):
        return self.iterator()

    def iterator(self, **options):
        return Iterator(self.db, self.prefix, None, **options)

    def snapshot(self):
        return Snapshot(self.db, self.prefix)

    def prefixed_db(self, prefix):
        return PrefixedDB(db=self.db, prefix=self.prefix + _bytes(prefix, "prefix"))


class WriteBatch:
    """Writes that are kept until they are written together."""

    def __init__(self, db, prefix, transaction, sync):
        self._db, self._prefix, self._transaction, self._sync = db, prefix, transaction, sync
        self._writes = []
        db._use()

    def put(self, key, value):
        self._db._use()
        self._writes.append((self._prefix + _bytes(key), bytes(memoryview(value))))

    def delete(self, key):
        self._db._use()
        self._writes.append((self._prefix + _bytes(key), None))

    def clear(self):
        self._db._use()
        self._writes.clear()

    def append(self, source):
        self._db._use()
        self._writes.extend(source._writes)

    def approximate_size(self):
        self._db._use()
        return 12 + sum(len(key) + len(value or b"") + 3 for key, value in self._writes)

    def _put_all(self):
        with self._db._use().batch(durability="sync" if self._sync else None) as batch:
            for key, value in self._writes:
                if value is None:
                    batch.delete(key)
                else:
                    batch.put(key, value)

    def write(self):
        _call(self._put_all)

    def __enter__(self):
        self._db._use()
        return self

    def __exit__(self, kind, *exception):
        self._db._use()
        if not (self._transaction and kind is not None):
            self.write()
        self.clear()


class Snapshot:
    """The database as it was."""

    def __init__(self, db, prefix):
        self._db, self._prefix = db, prefix
        self._snapshot = _call(db._use().snapshot)

    def _use(self):
        if self._snapshot is None or self._db.closed:
            raise RuntimeError("Database or snapshot is closed")
        return self._snapshot

    def close(self):
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None and not self._db.closed:
            snapshot.close()

    release = close

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def get(self, key, default=None, *, verify_checksums=False, fill_cache=True):
        return _call(self._use().get, self._prefix + _bytes(key), default)

    def __iter__(self):
        return self.iterator()

    def iterator(self, **options):
        return Iterator(self._db, self._prefix, self._use(), **options)

    def raw_iterator(self, *, verify_checksums=False, fill_cache=True):
        return RawIterator(self._db, self._use())


class _Reader:
    """What iterators and raw iterators share: a snapshot, and records read from it."""

    def __init__(self, db, snapshot):
        self._db = db
        self._own = snapshot is None
        self._snapshot = _call(db._use().snapshot) if snapshot is None else snapshot

    def _use(self):
        if self._snapshot is None or self._db.closed:
            raise RuntimeError(_CLOSED)
        return self._snapshot

    def close(self):
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None and self._own and not self._db.closed:
            snapshot.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _records(self, start, stop, reverse):
        if stop is not None and start >= stop:
            return iter(())
        view = _call(self._use().items, start=start, stop=stop, reverse=reverse)
        return _call(iter, view)


class Iterator(_Reader):
    """A position in the gap between two records, inside of bounds."""

    def __init__(self, db, db_prefix, snapshot, *, reverse=False, start=None, stop=None,
                 include_start=True, include_stop=False, prefix=None, include_key=True,
                 include_value=True, verify_checksums=False, fill_cache=True):
        if prefix is not None:
            if start is not None or stop is not None:
                raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
            start, stop = prefix, _successor(_bytes(prefix, "prefix"))
            include_start, include_stop = True, False
        super().__init__(db, snapshot)
        self._skip = len(db_prefix)
        self._low = db_prefix
        if start is not None:
            self._low += _bytes(start, "start") + (b"" if include_start else b"\0")
        if stop is not None:
            self._high = db_prefix + _bytes(stop, "stop") + (b"\0" if include_stop else b"")
        else:
            self._high = _successor(db_prefix)
        self._reverse, self._key, self._value = reverse, include_key, include_value
        self._stand(self._high if reverse else self._low)

    def _stand(self, gap):
        self._gap = gap
        self._running = None
        self._backward = None

    def _step(self, backward):
        self._use()
        if self._running is None or self._backward != backward:
            bounds = (self._low, self._gap) if backward else (self._gap, self._high)
            self._running = self._records(*bounds, backward) if bounds[0] is not None else iter(())
            self._backward = backward
        record = _call(next, self._running, None)
        if record is None:
            self._running = None
            raise StopIteration
        key, value = record
        self._gap = key if backward else key + b"\0"
        key = key[self._skip:]
        if self._key:
            return (key, value) if self._value else key
        return value if self._value else None

    def __iter__(self):
        return self

    def __next__(self):
        return self._step(self._reverse)

    def prev(self):
        return self._step(not self._reverse)

    def seek_to_start(self):
        self._use()
        self._stand(self._low)

    def seek_to_stop(self):
        self._use()
        self._stand(self._high)

    def seek(self, target):
        self._use()
        gap = max(self._low, self._low[:self._skip] + _bytes(target, "target"))
        self._stand(gap if self._high is None else min(gap, self._high))


class RawIterator(_Reader):
    """A position at a record, or at none."""

    def __init__(self, db, snapshot):
        super().__init__(db, snapshot)
        self._at = None

    def _go(self, start, stop, reverse):
        self._at = _call(next, self._records(start, stop, reverse), None)

    def valid(self):
        self._use()
        return self._at is not None

    def seek_to_first(self):
        self._go(b"", None, False)

    def seek_to_last(self):
        self._go(b"", None, True)

    def seek(self, target):
        self._go(_bytes(target, "target"), None, False)

    def _record(self):
        self._use()
        if self._at is None:
            raise IteratorInvalidError()
        return self._at

    def next(self):
        self._go(self._record()[0] + b"\0", None, False)

    def prev(self):
        self._go(b"", self._record()[0], True)

    def key(self):
        return self._record()[0]

    def value(self):
        return self._record()[1]

    def item(self):
        return self._record()


def repair_db(name, **options):
    """Opens the database, which recovers what a crash left, and verifies it."""
    DB(name).close()
    if not _call(evendb.verify, os.fsdecode(name))["sound"]:
        raise CorruptionError(os.fsdecode(name))


def destroy_db(name):
    """Removes the directory of a database that no process has open."""
    path = os.fsdecode(name)
    if os.path.exists(os.path.join(path, "CURRENT")):
        _call(evendb.destroy, path)
