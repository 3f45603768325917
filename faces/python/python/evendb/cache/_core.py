"""`Cache`: diskcache's Cache over a room of a store.

A Cache object has a directory, settings and a Disk. It opens its store when it is made, and again
when it is used after `close()`. Many threads may use one object. `_store` says how writes, reads
and locks go; `_record` says what is where.

A GET IS ONE READ. If statistics are off, the policy does not look at gets, the Disk is `Disk`
itself, and no transaction is open, `get` reads one record without a lock and decodes it. Any other
get takes the longer way below, with the same answer.

CULLING. Each store of a value removes up to `cull_limit` entries: first expired ones, then by the
policy while the volume is at `size_limit` or above. The entry that is being stored is never
culled by its own store: what `set` said True to is there, however large it is. `culled` counts
what the policy removed.

Not here: memoize (`_memo`), removal of many entries (`_bulk`), checks
(`_check`), queues (`_queue`).
"""

import contextlib
import os
import os.path as op
import tempfile
import time
from hashlib import sha256

import evendb

from . import _codec as codec
from . import _record as rec
from . import _store
from ._bulk import BulkMethods
from ._check import CheckMethods
from ._disk import (
    ENOVAL,
    FORM_OF_MODE,
    MODE_OF_FORM,
    MODE_RAW,
    Disk,
    JSONDisk,
)
from ._memo import MemoMethods
from ._queue import QueueMethods
from ._record import Entry, Fields, entry_of
from ._settings import DEFAULT_SETTINGS, split_settings, stored_settings
from ._store import Timeout

LONG_KEY_BYTES = TAG_BYTES = 60_000
READS_OF_A_MOVING_VALUE = 8


class _Nothing:
    """What a Cache that is closed has in the place of its store: each get takes the long way."""

    tx = True


_CLOSED = _Nothing()


class ForeignDirectory(evendb.Error):
    """The directory holds a cache of diskcache and none of EvenDB."""


def shape(value, expire, tag, wanted):
    """`value`, or the tuple that a get with `expire_time` or `tag` gives."""
    expire_time, with_tag = wanted
    if expire_time and with_tag:
        return value, expire, tag
    if expire_time:
        return value, expire
    if with_tag:
        return value, tag
    return value


class Cache(MemoMethods, QueueMethods, BulkMethods, CheckMethods):
    """A cache on the disk. The limit is 1 GB unless `size_limit` says another (in bytes)."""

    def __init__(self, directory=None, timeout=60, disk=Disk, *, codec="json", mode="c",
                 room="", **settings):
        if not (isinstance(disk, type) and issubclass(disk, Disk)):
            raise ValueError("disk must be a subclass of evendb.cache.Disk")
        if codec not in ("json", "pickle"):
            raise ValueError(f"codec {codec!r}; known are 'json' and 'pickle'")
        if directory is None:
            directory = tempfile.mkdtemp(prefix="evendb-cache-")
        self._directory = op.expandvars(op.expanduser(os.fsdecode(directory)))
        self._timeout = timeout
        self._codec = codec
        self._mode = mode
        self._room_name = room
        self._store = _CLOSED
        self._quick = False
        self.statistics = 0
        self._pid = os.getpid()
        given, self._options = split_settings(settings)
        self._make_directory()
        self._open()
        self._start(disk, given)

    # ---- opening and closing ----

    def _make_directory(self):
        if self._mode in ("c", "n"):
            try:
                os.makedirs(self._directory, 0o700, exist_ok=True)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"the cache directory {self._directory!r} does not exist and could not be made",
                ) from None
        theirs = [op.join(self._directory, *place, "cache.db") for place in ((), ("000",))]
        ours = op.join(self._directory, _store.DATABASE)
        if not op.exists(ours) and any(map(op.exists, theirs)):
            raise ForeignDirectory(
                f"{self._directory!r} holds a cache of diskcache; "
                "evendb.cache.migrate(directory, target) copies it (the target may be the same)"
            )

    def _open(self):
        store = self._store
        if store is not _CLOSED:
            return store
        with _store.locks.opening:
            if self._store is not _CLOSED:
                return self._store
            store = _store.acquire(self._directory, self._mode, self._options)
            try:
                room = store.room(self._room_name)
                room.follow(self)
            except BaseException:
                _store.abandon(store)
                raise
            self._room = room
            self._noting = room.noting and not store.read_only
            self._quick = not (self._noting or self.statistics)
            self._read = room.values.get
            self._store = store
            return store

    def _start(self, disk, given):
        room = self._room
        stored = stored_settings(room.settings, disk)
        settings = {**DEFAULT_SETTINGS, **stored, **given}
        kwargs = {n[len("disk_"):]: v for n, v in settings.items() if n.startswith("disk_")}
        kwargs.pop("files", None)  # An attribute; `_follow` sets it.
        self._root = op.join(self._directory, *_store.file_folder(self._room_name))
        self._disk = disk(self._root, **kwargs)
        self._disk.codec = self._codec
        self._disk.sync = self._options.get("durability") == "sync"
        self._decoders = list(codec.DECODERS)
        self._decoders[codec.FORM_PICKLE] = self._disk.decode_pickle
        writer = not self._store.read_only
        for name, value in settings.items():
            self._follow(name, value)
            if writer and stored.get(name, DEFAULT_SETTINGS.get(name, ENOVAL)) != value:
                self._store_setting(name, value)
                for other in room.others() if name == "eviction_policy" else ():
                    other._follow(name, value)
        if writer and "format" not in room.settings:
            self._store_setting("format", _store.FORMAT)
        if writer and room.policy_unfinished():
            self._store_setting("eviction_policy", self.eviction_policy)
            self._follow("eviction_policy", self.eviction_policy)

    def close(self):
        """Ends this object's use of the store; the last object closes the database.

        The object opens the store again if it is used after that.
        """
        store = self._store
        if store is _CLOSED:
            return
        if store.mine():
            raise evendb.Error("close() inside of transact()")
        with _store.locks.opening:
            if self._store is store and store.leave():
                self._closed()
                return
        # The last user waits for the thread inside of `transact()`, and closes the database.
        with store.lock, _store.locks.opening:
            if self._store is store:
                self._closed()
                store.release()

    def _closed(self):
        self._store = _CLOSED
        self._room.unfollow(self)

    def __del__(self):
        store = self.__dict__.get("_store", _CLOSED)
        if store is _CLOSED or self._pid != os.getpid():
            return
        self._store = _CLOSED
        try:
            _store.abandon(store)
        except Exception:
            pass  # At the end of the interpreter modules are gone; atexit has closed the store.

    def __enter__(self):
        if self._store is _CLOSED:
            self._open()
        return self

    def __exit__(self, *exception):
        self.close()

    def __getstate__(self):
        extra = {"codec": self._codec, "mode": self._mode, "room": self._room_name}
        extra.update((f"store_{name}", value) for name, value in self._options.items())
        return self._directory, self._timeout, type(self._disk), extra

    def __setstate__(self, state):
        directory, timeout, disk, extra = state
        self.__init__(directory, timeout, disk, **extra)

    def __repr__(self):
        room = f", room={self._room_name!r}" if self._room_name else ""
        return (
            f"{type(self).__name__}({self._directory!r}{room}, size_limit={self.size_limit}, "
            f"eviction_policy={self.eviction_policy!r}, codec={self._codec!r})"
        )

    @property
    def directory(self):
        """The directory, as it was given."""
        return self._directory

    @property
    def timeout(self):
        """How many seconds a call waits for the lock of writers before `Timeout`."""
        return self._timeout

    @property
    def disk(self):
        """The Disk that makes bytes of keys and values."""
        return self._disk

    @property
    def culled(self):
        """How many entries the policy has removed in the cache's life."""
        self._open()
        return self._room.counts()[rec.CULLED]

    def refresh(self):
        """With mode="beside": sees what the writer's last checkpoint made durable."""
        self._open().refresh()

    # ---- transactions ----

    @contextlib.contextmanager
    def transact(self, retry=False):
        """All reads and writes of this thread in the block are one transaction.

        Other threads' writes wait, their reads do not. An exception undoes all of the block. Blocks
        may be nested; the outermost one commits. Do not await inside: it belongs to the thread.
        """
        taken = []
        try:
            store = self._take(taken, retry)
            if store.mine():
                yield
            else:
                with _store.transaction(store):
                    yield
        finally:
            for lock in taken:
                lock.release()

    def _take(self, taken, retry):
        """The store, with its lock in `taken`, which the caller releases in a `finally`."""
        while True:
            store = self._open()
            if store.read_only:
                raise evendb.ReadOnly(f"the cache {self._directory!r} was opened for reading only")
            _store.take(taken, store.lock, True, -1 if retry else max(self._timeout, 0))
            if not taken:
                raise Timeout(0)
            if self._store is store:
                return store
            # It was closed meanwhile. No handler of a signal runs between these two lines.
            del taken[:]
            store.lock.release()

    @contextlib.contextmanager
    def _transact(self, retry=False, filename=None):
        taken = []
        try:
            try:
                store = self._take(taken, retry)
            except BaseException:
                if filename is not None:
                    self._disk.remove(filename)
                raise
            if store.mine():
                yield _store.joined(self._room, self._disk, filename)
                return
            if self._room.notes:
                # A unit of its own: culling below reads what is committed.
                self._room.save_counts()
            with _store.single(self._room, self._disk, filename) as unit:
                yield unit
        finally:
            for lock in taken:
                lock.release()

    # ---- keys and values as bytes ----

    def _key(self, key):
        disk = self._disk
        data = codec.encode_native(*disk.put(key))
        if len(data) > LONG_KEY_BYTES:
            return b"\x60" + sha256(data).digest(), data
        return data, None

    def _place(self, key):
        """What tells two keys apart, as the store does."""
        return self._key(key)[0]

    def _key_of(self, data, record=None):
        if data[0] == 0x60:
            record = self._reads()[0].get(data) if record is None else record
            if record is None:
                return ENOVAL
            data = Entry(record).long_key
        return self._disk.get(*codec.decode_native(data))

    def _fields(self, key, value, read, expire, tag, long_key, encoded=None):
        """The fields of a value that is stored; its file, if it has one, is written.

        `encoded` is its (form, payload), if that is known already and the Disk is `Disk` itself.
        """
        disk = self._disk
        tag = None if tag is None else self._tag_bytes(tag)
        if type(disk) is Disk and not read:
            form, payload = encoded or disk.encode(value)
            length = len(payload)
            if length < disk.min_file_size or length < disk.smallest_file():
                if form == codec.FORM_BYTES and length >= disk.min_file_size:
                    form = codec.FORM_BINARY
                return Fields(form, payload, expire, tag, long_key)
            size, mode, filename, native = disk.place(value, key, form, payload)
        else:
            size, mode, filename, native = disk.store(value, read, key=key)
        if filename is not None:
            form, payload = FORM_OF_MODE[mode], filename.encode("utf-8")
        elif mode == MODE_RAW:
            form, payload = codec.encode_value(native)
        else:
            form = FORM_OF_MODE[mode]
            payload = native.encode("utf-8") if type(native) is str else native
        if type(payload) is not bytes:
            raise TypeError(f"read() gave {type(payload).__name__}, not bytes")
        fields = Fields(form, payload, expire, tag, long_key)
        fields.file, fields.file_bytes = filename, size if filename is not None else 0
        return fields

    def _value(self, entry, read=False):
        """The value of an entry. OSError: its file is gone."""
        disk, form, filename = self._disk, entry.form, entry.file()
        try:
            if type(disk) is Disk and filename is None and not read:
                return disk.decode(form, entry.payload())
            if filename is not None:
                if not disk.is_whole(filename, entry.file_bytes):
                    raise FileNotFoundError(f"the file {filename!r} is missing, or is cut off")
                return disk.fetch(MODE_OF_FORM[form], filename, None, read)
            if form in MODE_OF_FORM:
                return disk.fetch(MODE_OF_FORM[form], None, entry.payload(), read)
            return disk.fetch(MODE_RAW, None, codec.DECODERS[form](entry.payload()), read)
        except (OSError, codec.CodecError):
            raise
        except Exception as error:
            if type(disk) not in (Disk, JSONDisk):
                raise  # A Disk of the program's own says what its program catches.
            raise codec.CodecError(f"the stored value cannot be read: {error!r}") from error

    def _named(self, entry, key, read=False):
        """As `_value`; an error of reading names the key."""
        try:
            return self._value(entry, read)
        except codec.CodecError as error:
            raise codec.CodecError(f"key {key!r}: {error}") from (error.__cause__ or error)

    def _tag_bytes(self, tag):
        """The bytes of a tag, or an error that names it."""
        try:
            data = codec.encode_native(*Disk.put(self._disk, tag))
        except TypeError as error:
            raise TypeError(f"tag: {str(error).removeprefix('key: ')}") from None
        if len(data) > TAG_BYTES:
            raise ValueError(
                f"the tag {str(tag)[:40]!r}... takes {len(data)} bytes; it may take {TAG_BYTES}"
            )
        return data

    def _tag_of(self, entry):
        if entry.tag is None:
            return None
        return Disk.get(self._disk, *codec.decode_native(entry.tag))

    def _reads(self):
        """The keyspaces (values, index) as this thread sees them."""
        store = self._open()
        if store.mine():
            unit = _store.joined(self._room, self._disk)
            return unit.values, unit.index
        return self._room.values, self._room.index

    def _live(self, source, data, long_key, now):
        """The entry of a key, unless it is missing or has expired."""
        record = source.get(data)
        if record is None:
            return None
        entry = entry_of(data, record)
        if entry.expire is not None and entry.expire <= now:
            return None
        if long_key is not None and entry.long_key != long_key:
            return None
        return entry

    # ---- one entry ----

    def get(self, key, default=None, read=False, expire_time=False, tag=False, retry=False):
        """The value of `key`, or `default`. With `expire_time` or `tag` a tuple, on a miss too.

        `read=True` gives a binary file for bytes of at least `disk_min_file_size`.
        """
        disk = self._disk
        if (
            self._store.tx is None
            and disk.__class__ is Disk
            and self._quick
            and not (read or expire_time or tag)
        ):
            # The hit that everything else is arranged for: one read, one decoding.
            data = codec.encode_key(key) or disk.key_bytes(key)
            if len(data) <= LONG_KEY_BYTES:
                try:
                    record = self._read(data)
                except (evendb.Closed, evendb.Stale):
                    return self._get_slowly(key, default, read, (expire_time, tag))
                if record is None:
                    return default
                form = record[0] if len(record) >= rec.HEAD_BYTES else 0x10
                if form == codec.FORM_STR:
                    try:
                        return record[rec.HEAD_BYTES :].decode()
                    except UnicodeDecodeError:
                        pass
                if form < 16:
                    try:
                        return self._decoders[form](record[rec.HEAD_BYTES :])
                    except Exception:
                        pass  # The longer way says which key it was.
        return self._get_slowly(key, default, read, (expire_time, tag))

    def _get_slowly(self, key, default, read, wanted):
        data, long_key = self._key(key)
        missing = shape(default, None, None, wanted)
        entry = self._entry_to_read(data, long_key)
        value = ENOVAL
        if entry is not None:
            try:
                value = self._named(entry, key, read)
            except OSError:
                pass  # Its file is gone: a miss.
        if value is ENOVAL:
            if self.statistics:
                self._room.count(1)
            return missing
        if self.statistics:
            self._room.count(0)
        if self._noting and self._room.note(entry.row):
            self._flush_notes()
        return shape(value, entry.expire, self._tag_of(entry), wanted)

    def _entry_to_read(self, data, long_key):
        for _ in range(READS_OF_A_MOVING_VALUE):
            try:
                source, _ = self._reads()
                return self._live(source, data, long_key, time.time())
            except evendb.Stale:
                self.refresh()
            except evendb.Closed:
                continue  # Closed by another thread; opened again by the next turn.
        raise evendb.Closed("the cache was closed again and again while it was read")

    def _flush_notes(self):
        store, taken = self._store, []
        if store is _CLOSED or store.tx is not None:
            return
        try:
            _store.take(taken, store.lock, False)
            if taken and self._store is store:
                self._room.save_counts()
        finally:
            for lock in taken:
                lock.release()

    def set(self, key, value, expire=None, read=False, tag=None, retry=False):
        """Stores `value` for `key`; True. `expire` is in seconds from now."""
        now = time.time()
        data, long_key = self._key(key)
        expire = None if expire is None else now + expire
        fields = self._fields(key, value, read, expire, tag, long_key)
        with self._transact(retry, fields.file) as unit:
            unit.put(data, fields, unit.entry(data))
            self._cull(unit, now)
        return True

    def add(self, key, value, expire=None, read=False, tag=None, retry=False):
        """As `set`, but only if `key` is absent; whether it was. One of many callers wins."""
        now = time.time()
        data, long_key = self._key(key)
        expire = None if expire is None else now + expire
        fields = self._fields(key, value, read, expire, tag, long_key)
        with self._transact(retry, fields.file) as unit:
            old = unit.entry(data)
            if old is not None and (old.expire is None or old.expire > now):
                if fields.file is not None and fields.file != old.file():
                    unit.files.append(fields.file)
                return False
            unit.put(data, fields, old)
            self._cull(unit, now)
        return True

    def _cull(self, unit, now):
        limit = self.cull_limit
        if limit == 0:
            return
        if unit.next_expiry < now:
            limit -= unit.remove_expired(now, limit)
        if limit > 0 and unit.meta[rec.SIZE] >= self.size_limit:
            unit.remove_by_policy(limit)

    def touch(self, key, expire=None, retry=False):
        """Gives `key` another time to expire, or none; whether it was there."""
        now = time.time()
        data, long_key = self._key(key)
        with self._transact(retry) as unit:
            entry = self._live(unit.values, data, long_key, now)
            if entry is None:
                return False
            fields = Fields.of(entry)
            fields.expire = None if expire is None else now + expire
            unit.put(data, fields, entry, keep_seq=True)
        return True

    def incr(self, key, delta=1, default=0, retry=False):
        """Adds `delta` to the number of `key`; the sum.

        An absent number is `default`; KeyError if that is None.
        """
        now = time.time()
        data, long_key = self._key(key)
        with self._transact(retry) as unit:
            old = unit.entry(data)
            live = old is not None and (old.expire is None or old.expire > now)
            if live:
                value = self._named(old, key) + delta
                fields = self._fields(key, value, False, old.expire, None, long_key)
                fields.tag = old.tag
            elif default is None:
                raise KeyError(key)
            else:
                value = default + delta
                fields = self._fields(key, value, False, None, None, long_key)
            unit.put(data, fields, old)
            if not live:
                self._cull(unit, now)
        return value

    def decr(self, key, delta=1, default=0, retry=False):
        """Subtracts `delta` from the number of `key`; the difference. It may fall below zero."""
        return self.incr(key, -delta, default, retry)

    def pop(self, key, default=None, expire_time=False, tag=False, retry=False):
        """Removes `key`; its value, or `default`. As `get` with `expire_time` or `tag`."""
        wanted = expire_time, tag
        data, long_key = self._key(key)
        with self._transact(retry) as unit:
            entry = self._live(unit.values, data, long_key, time.time())
            if entry is None:
                return shape(default, None, None, wanted)
            try:
                value = self._named(entry, key)
            except OSError:
                value = ENOVAL
            unit.remove(data, entry)
        if value is ENOVAL:
            return shape(default, None, None, wanted)
        return shape(value, entry.expire, self._tag_of(entry), wanted)

    def delete(self, key, retry=False):
        """Removes `key`; whether it was there."""
        data, long_key = self._key(key)
        with self._transact(retry) as unit:
            entry = self._live(unit.values, data, long_key, time.time())
            if entry is None:
                return False
            unit.remove(data, entry)
        return True

    def read(self, key, retry=False):
        """The value of `key` as a binary file; KeyError."""
        handle = self.get(key, default=ENOVAL, read=True, retry=retry)
        if handle is ENOVAL:
            raise KeyError(key)
        return handle

    def __getitem__(self, key):
        value = self.get(key, ENOVAL)
        if value is ENOVAL:
            raise KeyError(key)
        return value

    def __setitem__(self, key, value):
        self.set(key, value, retry=True)

    def __delitem__(self, key, retry=True):
        if not self.delete(key, retry=retry):
            raise KeyError(key)

    def __contains__(self, key):
        return self._entry_to_read(*self._key(key)) is not None
