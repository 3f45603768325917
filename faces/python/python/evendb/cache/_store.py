"""The stores of this process, their rooms, and the units in which rooms are written.

    directory/cache.evendb      one EvenDB database: a STORE, one in a process for each directory
        values, index           the ROOM "" (a Cache has one room; `_record` has the layout)
        deque/jobs:values, ...  the room "deque/jobs" of a FanoutCache
    directory/ab/cd/....val     files of values of the room "", if it has any (`_disk`)
    directory/rooms/deque/jobs  the same of other rooms

One process writes to a store: the database's lock keeps others out, with `Locked`. In the process
any number of Cache objects share one store, which closes with the last of them.

WRITES. One lock a store, taken by each write and held through `transact()`; the thread that has it
may take it again. A write is a UNIT: it reads what is committed, collects its writes in one batch,
and commits the batch with the room's counts. Inside of `transact()` all units of the thread read
and write one transaction of the database, which commits at the end, or leaves nothing.
No conflict is possible, because nobody else writes. Order of locks: a store's, `opening`, the
registry's.

READS take no lock. They see what is committed; the thread inside of `transact()` sees its own
writes.

COUNTS (entries, bytes, next numbers, hits, misses, culled) are in memory and in the record `m`,
which each unit writes: after a crash they are exactly those of the last commit. Hits and misses
between two writes are in memory only, until the next write or the close.

NOTES of gets ("least recently used", "least frequently used") are in memory, at most NOTES_MAX,
and go into the index with the next write. A crash loses at most those.

EXCEPTIONS AT ANY LINE. The handler of a signal (Ctrl-C, an alarm) may raise between any two steps,
most often just after a commit that has happened. So a unit is in `pending` from its beginning until
its outcome is in memory. Whoever leaves it by an exception, and else the next writer, settles it:
the record `m`, read back, says whether it was committed. Locks are taken by `take` and are released
in a `finally` that begins before.

FORK: a child that inherits a store gets `ForkError` from it; the locks here are made anew in it.
"""

import atexit
import json
import math
import os
import threading
import weakref
from collections import deque
from contextlib import contextmanager, suppress
from itertools import compress

import evendb

from . import _record as rec
from ._codec import CodecError
from ._record import entry_of

DATABASE = "cache.evendb"
ROOMS = "rooms"
# What `_codec` and `_record` describe. It is stored with each room.
FORMAT = 1
NOTES_MAX = 256
POLICY_LETTERS = {
    "none": None,
    "least-recently-stored": b"s",
    "least-recently-used": b"u",
    "least-frequently-used": b"f",
}


def file_folder(room):
    """The folder, in parts, of the files of a room; [] for the room ""."""
    parts = room.split("/") if room else []
    if any(part in ("", ".", "..") or os.sep in part for part in parts):
        raise ValueError(f"the name {room!r} is no path of names with / between them")
    return [ROOMS, *parts] if parts else []


class Timeout(Exception):
    """The lock of the cache was not to be had in time. The first argument counts what was done."""


def take(taken, lock, blocking=True, timeout=-1):
    """Takes `lock`, and appends it to `taken` if it was to be had.

    Both are one step of C: no handler of a signal runs between them, so that the caller's `finally`
    knows by `taken` what to release.
    """
    taken.extend(compress((lock,), map(lock.acquire, (blocking,), (timeout,))))


class _Locks:
    """The locks of this module. `opening` is of Cache objects, and is taken before `registry`."""

    def __init__(self):
        self.registry = threading.Lock()
        self.opening = threading.RLock()


_registry: dict = {}
_orphans: deque = deque()
locks = _Locks()


def _open_database(path, mode, options):
    """The database, in a directory that only its owner may look into."""
    made = mode in ("c", "n") and not os.path.lexists(path)
    try:
        if made:
            os.mkdir(path, 0o700)
        db = evendb.open(path, mode=mode, **options)
        if mode == "n":
            os.chmod(path, 0o700)
        return db
    except evendb.Locked as error:
        raise evendb.Locked(
            f"{error}. One process at a time writes to a cache. Others can read it with "
            'Cache(directory, mode="beside"), or have a directory each'
        ) from error
    except BaseException:
        if made:
            with suppress(OSError):
                os.rmdir(path)  # It is empty, or stays.
        raise


class Store:
    """A database that is open, and who uses it. Made by `acquire` only."""

    def __init__(self, path, mode, options):
        self.path = path
        self.mode = mode
        self.pid = os.getpid()
        self.lock = threading.RLock()
        self.tx = None
        self.owner = None
        self.units = {}
        self.pending = []
        self.writing = False
        self.users = 0
        self.rooms = {}
        self.db = _open_database(path, mode, options)
        self.identity = self._identity()

    def _identity(self):
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def alive(self):
        """Whether the directory is still the one that was opened."""
        return self.identity is not None and self._identity() == self.identity

    @property
    def read_only(self):
        """Whether this opening cannot write."""
        return self.mode in ("r", "beside")

    def room(self, name):
        """The room `name`, made if it is missing."""
        with locks.registry:
            found = self.rooms.get(name)
            if found is None:
                found = self.rooms[name] = Room(self, name)
            return found

    def settle(self):
        """Ends the units whose outcome is not known here. The caller has the lock."""
        for unit in tuple(self.pending):
            unit.settle()
        self.pending = []

    def give_up(self):
        """As `settle`, after an exception. What fails now is done by the next writer."""
        with suppress(Exception):
            self.settle()

    def mine(self):
        """Whether this thread is inside of `transact()`."""
        return self.tx is not None and self.owner == threading.get_ident()

    def refresh(self):
        """Moves a reader beside the writer to the writer's newest moment."""
        with locks.registry:
            newer = self.db.refresh()
            if newer is not None:
                self.db = newer
            for room in self.rooms.values():
                room.load()
                for cache in room.followers:
                    cache._read = room.values.get

    def leave(self):
        """One user less, unless it is the last one; whether it was not."""
        with locks.registry:
            if self.users > 1:
                self.users -= 1
                return True
            return False

    def release(self):
        """One user less; the last one closes the database. The caller has the lock."""
        with self.lock, locks.registry:
            self.users -= 1
            if self.users > 0:
                return
            if _registry.get((self.path, self.mode)) is self:
                del _registry[self.path, self.mode]
            self._close()

    def _close(self):
        if self.pid != os.getpid():
            return  # A forked child: the parent's files are left alone.
        try:
            if not self.read_only and self.alive():
                for room in self.rooms.values():
                    room.save_counts()
        finally:
            self.db.close()


def acquire(directory, mode, options):
    """The store of a directory, opened if this process does not have it open."""
    path = os.path.join(os.path.realpath(directory), DATABASE)
    for _ in range(len(_orphans)):
        abandon(_orphans.popleft())
    with locks.registry:
        store = _registry.get((path, mode))
        if store is not None and not store.alive():
            # Somebody removed the directory. The old handle's users get errors.
            del _registry[path, mode]
            try:
                store.db.close()
            except Exception:
                pass
            store = None
        if store is None:
            store = _registry[path, mode] = Store(path, mode, options)
        store.users += 1
        return store


def abandon(store):
    """One user less, for a Cache that nobody has any more. It never waits.

    Python may collect a Cache at any line of any thread, also of one that is in this module. Where
    a lock is not free the store waits for the next opening, or for the end of the process.
    """
    taken = []
    try:
        take(taken, locks.registry, False)
        if not taken:
            _orphans.append(store)
            return
        if store.users > 1:
            store.users -= 1
            return
    finally:
        for lock in taken:
            lock.release()
    # The last user is gone, so this thread is in no operation of the store.
    taken = []
    try:
        take(taken, store.lock, False)
        if taken:
            store.release()
        else:
            _orphans.append(store)
    finally:
        for lock in taken:
            lock.release()


@atexit.register
def _close_all():
    for store in list(_registry.values()):
        try:
            store._close()
        except Exception:
            pass


def _after_fork():
    locks.__init__()
    for store in _registry.values():
        store.lock = threading.RLock()
        store.tx = store.owner = None
        store.units, store.pending, store.writing = {}, [], False
        for room in store.rooms.values():
            room.notes_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def setting_record(name, value):
    """(key, value) of a setting in the index."""
    return rec.SETTING + name.encode("utf-8"), json.dumps(value).encode("utf-8")


class Room:
    """A cache's two keyspaces, its counts and settings. Shared by the Cache objects over it."""

    def __init__(self, store, name):
        self.store = store
        self.name = name
        self.names = (f"{name}:values", f"{name}:index") if name else ("values", "index")
        self.notes = {}
        self.notes_lock = threading.Lock()
        self.followers = weakref.WeakSet()
        self.load()

    def load(self):
        """Opens the keyspaces and reads counts and settings."""
        db, create = self.store.db, not self.store.read_only
        self.values, self.index = (db.keyspace(name, create=create) for name in self.names)
        stored = self.index.get(rec.META_KEY)
        self.meta = list(rec.META.unpack(stored)) if stored else [0] * 7
        self.saved = list(self.meta)
        # Hits and misses are counted by readers, which take no lock of the store.
        self.tally = self.meta[rec.HITS : rec.CULLED]
        self.settings = self.stored_settings()
        if self.settings.get("format", FORMAT) != FORMAT:
            raise evendb.Error(
                f"the cache {self.store.path!r} has format {self.settings['format']!r}, "
                f"and this version of evendb.cache knows format {FORMAT}"
            )
        self.set_policy(self.settings.get("eviction_policy", "least-recently-stored"))
        self.next_expiry = self.first_expiry(self.index)

    def stored_settings(self):
        """The settings, as they are stored."""
        return {
            str(key[1:], "utf-8"): json.loads(value)
            for key, value in self.index.items(prefix=rec.SETTING)
        }

    def settings_here(self):
        """The settings as this thread sees them."""
        store = self.store
        unit = store.units.get(self.name) if store.mine() else None
        return self.settings if unit is None else {**self.settings, **unit.settings}

    def follow(self, cache):
        """A Cache that hears of a change of the policy."""
        with locks.registry:
            self.followers.add(cache)

    def unfollow(self, cache):
        """The Cache was closed."""
        with locks.registry:
            self.followers.discard(cache)

    def others(self):
        """The Cache objects over this room."""
        with locks.registry:
            return list(self.followers)

    def set_policy(self, policy):
        """Follows the setting `eviction_policy`."""
        self.policy = policy if policy in POLICY_LETTERS else "least-recently-stored"
        self.letter = POLICY_LETTERS[self.policy]
        self.noting = self.letter in (b"u", b"f")

    def policy_unfinished(self):
        """Whether a change of the policy was cut off by a crash."""
        return self.settings.get("indexed_policy", self.policy) != self.policy

    def write_settings(self, settings, *removed):
        """Stores settings, and removes prefixes of the index, at once: beside any transaction."""
        with self.store.db.batch() as batch:
            index = batch.keyspace(self.names[1])
            for prefix in removed:
                index.delete_prefix(prefix)
            for name, value in settings.items():
                index.put(*setting_record(name, value))
        self.settings.update(settings)

    @staticmethod
    def first_expiry(index):
        """The time of the entry that expires first."""
        for key in index.keys(prefix=rec.EXPIRY, limit=1):
            return rec.expiry_of(key)
        return math.inf

    def note(self, entry_row):
        """Notes a get for the policy."""
        with self.notes_lock:
            count = self.notes.pop(entry_row, 0)
            self.notes[entry_row] = count + 1
            return len(self.notes) >= NOTES_MAX

    def take_notes(self):
        """The notes since the last write."""
        with self.notes_lock:
            notes, self.notes = self.notes, {}
            return notes

    def count(self, miss):
        """Counts a hit (0) or a miss (1)."""
        with self.notes_lock:
            self.tally[miss] += 1

    def reset_tally(self):
        """Hits and misses begin at 0 again."""
        with self.notes_lock:
            self.tally = [0, 0]

    def save_counts(self):
        """Writes notes and counts, if there are any since the last write."""
        with self.store.lock, single(self) as unit:
            unit.apply_notes()

    def counts(self):
        """The counts as this thread sees them."""
        store = self.store
        if store.mine():
            unit = store.units.get(self.name)
            if unit is not None:
                return unit.meta
        if store.read_only:
            stored = self.index.get(rec.META_KEY)
            return rec.META.unpack(stored) if stored else [0] * 7
        return self.meta


@contextmanager
def single(room, disk=None, filename=None):
    """A unit that is one batch. The caller has the store's lock, and is in no `transact()`."""
    store = room.store
    if store.writing:
        # A finalizer, or what encodes a value, has come here from within a write of this thread.
        raise evendb.Error("a write to a cache from within another write to it")
    if store.pending:
        store.settle()
    try:
        store.writing = True
        with store.db.batch() as batch:
            writes = [batch.keyspace(name) for name in room.names]
            unit = Unit(room, (room.values, room.index), writes, disk, filename)
            store.pending = [unit]
            yield unit
            unit.finish()
        unit.adopt()
        store.pending = []
    except BaseException:
        store.give_up()
        raise
    finally:
        store.writing = False


@contextmanager
def transaction(store):
    """All units of this thread are one transaction. The caller has the store's lock."""
    if store.writing:
        raise evendb.Error("a transaction of a cache from within a write to it")
    if store.pending:
        store.settle()
    try:
        with store.db.transaction() as tx:
            store.units = {}
            store.owner, store.tx = threading.get_ident(), tx
            yield
            for unit in store.units.values():
                unit.finish()
        # From here on this thread reads what is committed.
        store.tx = store.owner = None
        for unit in store.pending:
            unit.adopt()
        store.pending = []
    except BaseException:
        store.tx = store.owner = None
        store.give_up()
        raise
    finally:
        # Nothing is called here, so nothing can come between.
        store.tx = store.owner = None
        store.units = {}


def joined(room, disk, filename=None):
    """The unit of a room in the transaction of this thread."""
    store = room.store
    unit = store.units.get(room.name)
    if unit is None:
        spaces = [store.tx.keyspace(name) for name in room.names]
        unit = Unit(room, spaces, spaces, disk)
        store.pending.append(unit)
        store.units[room.name] = unit
    if filename is not None:
        unit.new_files.append(filename)
    return unit


class Unit:
    """One write of a room: reads, collected writes and the counts as they will be.

    `written` is the record of counts as this unit has written it. `torn` is set while an entry and
    its index do not agree: a transaction in which an exception left it so is not committed.
    `gone` has the rows that this unit has removed or written: reads of an index in a unit outside
    of `transact()` see them still.
    """

    __slots__ = ("room", "values", "index", "write_values", "write_index", "meta", "gone", "disk",
                 "files", "new_files", "next_expiry", "written_expiry", "written", "torn",
                 "settings", "followed")

    def __init__(self, room, reads, writes, disk=None, filename=None):
        self.room = room
        self.values, self.index = reads
        self.write_values, self.write_index = writes
        self.meta = list(room.meta)
        self.gone = set()
        self.disk = disk
        self.files = []
        self.new_files = [] if filename is None else [filename]
        self.written, self.torn = None, False
        self.settings, self.followed = {}, []
        self.next_expiry = room.next_expiry
        self.written_expiry = math.inf

    def finish(self):
        """The last write of the unit: the counts, if the unit has changed anything."""
        room = self.room
        self._begin()
        counts = self.meta[: rec.HITS] + room.tally + self.meta[rec.CULLED :]
        if counts != room.saved:
            self.written = rec.META.pack(*counts)
            self.write_index.put(rec.META_KEY, self.written)
            room.saved = counts

    def adopt(self):
        """After the commit: the room has the unit's counts; replaced files go."""
        room = self.room
        room.meta = self.meta
        room.next_expiry = self.next_expiry
        if self.settings:
            room.settings = {**room.settings, **self.settings}
        for name in self.files:
            self.disk.remove(name)

    def set(self, cache, name, value, old):
        """A setting: it is stored with the rest. If that is undone, `cache` follows `old` again."""
        self.followed.append((cache, name, old))
        self.settings[name] = value
        self.write_index.put(*setting_record(name, value))

    def settle(self):
        """After an exception: takes what is stored, and removes the files that no record has.

        A unit that writes or removes a file changes the counts: a new record has a new number, and
        a removed one is one less. So the record of counts tells whether the unit was committed.
        May be called again, if an exception cut it off.
        """
        room = self.room
        stored = room.index.get(rec.META_KEY)
        committed = self.written is not None and stored == self.written
        room.meta = list(rec.META.unpack(stored)) if stored else [0] * 7
        room.saved = list(room.meta)
        room.next_expiry = room.first_expiry(room.index)
        if self.settings:
            room.settings = room.stored_settings()
            if any(room.settings.get(name) != self.settings[name] for name in self.settings):
                for cache, name, old in reversed(self.followed):
                    cache._follow(name, old)
        for name in self.files if committed else self.new_files:
            self.disk.remove(name)

    def _begin(self):
        if self.torn:
            raise evendb.Error(
                "an operation of this transaction was cut off by an exception: all of it is undone"
            )
        self.torn = True

    # ---- entries ----

    def entry(self, key):
        """The entry of a key, or None."""
        record = self.values.get(key)
        return None if record is None else entry_of(key, record)

    def put(self, key, fields, old=None, keep_seq=False):
        """Writes the entry of a key, over `old`."""
        self._begin()
        meta = self.meta
        if old is None:
            row = meta[rec.NEXT_ROW]
            meta[rec.NEXT_ROW] += 1
            meta[rec.COUNT] += 1
            self.write_index.put(rec.order_key(row), key)
        else:
            row = old.row
            self._unlink(key, old, keep_seq)
            if old.file_bytes is not None and old.file() != fields.file:
                self.files.append(old.file())
        if keep_seq:
            seq = old.seq
        else:
            seq = meta[rec.NEXT_SEQ]
            meta[rec.NEXT_SEQ] += 1
        record = fields.record(row, seq)
        self.write_values.put(key, record)
        if fields.file is not None and "had_files" not in self.room.settings:
            # `clear` looks for files from now on.
            self.settings["had_files"] = True
            self.write_index.put(*setting_record("had_files", True))
        meta[rec.SIZE] += len(key) + len(record) + rec.INDEX_BYTES + fields.file_bytes
        if fields.expire is not None:
            self.write_index.put(rec.expiry_key(fields.expire, row), key)
            self.written_expiry = min(self.written_expiry, fields.expire)
            self.next_expiry = min(self.next_expiry, fields.expire)
        if fields.tag is not None:
            self.write_index.put(rec.tag_key(fields.tag, row), key)
        if not keep_seq:
            self._stamp(key, row, 0 if self.room.letter == b"f" else seq)
        self.gone.add(row)
        self.torn = False

    def remove(self, key, entry):
        """Removes the entry of a key."""
        if entry.row in self.gone and self.values is self.room.values:
            return False
        self._begin()
        self.write_values.delete(key)
        self.write_index.delete(rec.order_key(entry.row))
        self._unlink(key, entry, False)
        self.meta[rec.COUNT] -= 1
        if entry.file_bytes is not None:
            self.files.append(entry.file())
        self.gone.add(entry.row)
        self.torn = False
        return True

    def _unlink(self, key, entry, keep_seq):
        row, index = entry.row, self.write_index
        self.meta[rec.SIZE] -= entry.bytes_of(key)
        if entry.expire is not None:
            index.delete(rec.expiry_key(entry.expire, row))
        if entry.tag is not None:
            index.delete(rec.tag_key(entry.tag, row))
        if keep_seq:
            return
        letter = self.room.letter
        if letter == b"s":
            index.delete(rec.policy_key(letter, entry.seq, row))
        elif letter is not None:
            stamp = self.index.get(rec.stamp_key(row))
            if stamp is not None:
                index.delete(rec.policy_key(letter, rec.U64.unpack(stamp)[0], row))
                index.delete(rec.stamp_key(row))

    def _stamp(self, key, row, stamp):
        letter = self.room.letter
        if letter is None:
            return
        self.write_index.put(rec.policy_key(letter, stamp, row), key)
        if letter != b"s":
            self.write_index.put(rec.stamp_key(row), rec.U64.pack(stamp))

    def clear(self):
        """Removes all entries. The caller has listed their files."""
        self._begin()
        if self.values is self.room.values:
            self.write_values.delete_prefix(b"")
            for prefix in rec.INDEXES:
                self.write_index.delete_prefix(prefix)
        else:
            for key in list(self.values.keys()):
                self.write_values.delete(key)
            for prefix in rec.INDEXES:
                for key in list(self.index.keys(prefix=prefix)):
                    self.write_index.delete(key)
        self.meta[rec.COUNT] = self.meta[rec.SIZE] = 0
        self.next_expiry = self.written_expiry = math.inf
        self.torn = False

    def apply_notes(self):
        """Moves the entries that were read since the last write to their new places."""
        notes, letter = self.room.take_notes(), self.room.letter
        if letter not in (b"u", b"f"):
            return
        for row, count in notes.items():
            stored = self.index.get(rec.stamp_key(row))
            if stored is None:
                continue  # It has been removed since.
            (old,) = rec.U64.unpack(stored)
            key = self.index.get(rec.policy_key(letter, old, row))
            if key is None:
                continue
            self.write_index.delete(rec.policy_key(letter, old, row))
            if letter == b"f":
                self._stamp(key, row, old + count)
            else:
                self._stamp(key, row, self.meta[rec.NEXT_SEQ])
                self.meta[rec.NEXT_SEQ] += 1

    # ---- removal by index ----

    def remove_listed(self, pairs, limit, skip=True):
        """Removes up to `limit` of the entries that an index lists; how many were removed."""
        removed = 0
        for index_key, key in pairs:
            if removed == limit:
                break
            row = rec.row_of(index_key)
            if skip and row in self.gone:
                continue
            try:
                entry = self.entry(key)
            except CodecError:
                continue  # `check(fix=True)` removes it.
            if entry is not None and entry.row == row and self.remove(key, entry):
                removed += 1
        return removed

    def remove_expired(self, now, limit):
        """Removes entries that expired before `now`, the first ones first."""
        bound = limit + len(self.gone)
        pairs = list(self.index.items(prefix=rec.EXPIRY, limit=bound))
        expired = [pair for pair in pairs if rec.expiry_of(pair[0]) < now]
        removed = self.remove_listed(expired, limit)
        if removed < limit:
            if len(expired) < len(pairs):
                self.next_expiry = rec.expiry_of(pairs[len(expired)][0])
            elif len(pairs) < bound:
                self.next_expiry = math.inf
            # The index that was listed may be without what this unit has written.
            self.next_expiry = min(self.next_expiry, self.written_expiry)
        return removed

    def remove_by_policy(self, limit):
        """Removes the entries that the policy culls first, and counts them."""
        letter = self.room.letter
        if letter is None:
            return 0
        prefix = rec.POLICY + letter
        pairs = self.index.items(prefix=prefix, limit=limit + len(self.gone))
        removed = self.remove_listed(pairs, limit)
        self.meta[rec.CULLED] += removed
        return removed
