"""Methods of `Cache` about all or many entries: iteration, removal, settings.

Removal goes in steps of CHUNK entries, each one unit: a crash in between leaves whole entries. In
`transact()` all steps are one transaction. `clear` is one unit.

An iteration is of one moment: it gives the keys that were there when it began, expired ones too.
"""

import contextlib
import time

import evendb

from . import _record as rec
from . import _store
from ._codec import CodecError
from ._disk import ENOVAL
from ._record import Entry
from ._settings import check_setting, stored_settings
from ._store import POLICY_LETTERS, Timeout

CHUNK = 100
CULL_CHUNK = 10
REBUILD_CHUNK = 10_000


class BulkMethods:
    """See the head of the module. Only `Cache` inherits it."""

    # ---- sizes ----

    def __len__(self):
        """How many entries there are, with expired ones that have not been removed yet."""
        self._open()
        return self._room.counts()[rec.COUNT]

    def volume(self):
        """Bytes that entries take: keys, values, files and about 64 for the index of each.

        `size_limit` is compared with it. The database's files are somewhat larger.
        """
        self._open()
        return self._room.counts()[rec.SIZE]

    def stats(self, enable=True, reset=False):
        """(hits, misses) since statistics were turned on; `enable` says whether they go on."""
        self._open()
        result = tuple(self._room.tally)
        if reset:
            self._room.reset_tally()
        self.reset("statistics", enable)
        return result

    def _counts_by_name(self):
        counts, tally = self._room.counts(), self._room.tally
        return {
            "count": counts[rec.COUNT],
            "size": counts[rec.SIZE],
            "hits": tally[0],
            "misses": tally[1],
            "culled": counts[rec.CULLED],
        }

    # ---- iteration ----

    def _keys_of(self, pairs):
        for _, data in pairs:
            key = self._key_of(data)
            if key is not ENOVAL:
                yield key

    def __iter__(self):
        """Keys in the order in which they came in."""
        return self._keys_of(iter(self._reads()[1].items(prefix=rec.ORDER)))

    def __reversed__(self):
        return self._keys_of(iter(self._reads()[1].items(prefix=rec.ORDER, reverse=True)))

    def iterkeys(self, reverse=False):
        """Keys in their own order: ints, floats, texts, bytes, others."""
        for data in self._reads()[0].keys(reverse=reverse):
            key = self._key_of(data)
            if key is not ENOVAL:
                yield key

    # ---- removal ----

    def expire(self, now=None, retry=False):
        """Removes entries that expired before `now` (this moment); how many."""
        now = now or time.time()
        return self._in_steps(lambda unit: unit.remove_expired(now, CHUNK), CHUNK, retry)

    def evict(self, tag, retry=False):
        """Removes the entries with `tag`; how many."""
        prefix = rec.tag_prefix(self._tag_bytes(tag))

        def step(unit):
            return unit.remove_listed(unit.index.items(prefix=prefix, limit=CHUNK), CHUNK, False)

        return self._in_steps(step, CHUNK, retry)

    def cull(self, retry=False):
        """Removes expired entries, then by the policy until the volume is within the limit."""
        now = time.time()
        count = self.expire(now)
        if POLICY_LETTERS[self.eviction_policy] is None:
            return 0
        try:
            while self.volume() > self.size_limit:
                with self._transact(retry) as unit:
                    removed = unit.remove_by_policy(CULL_CHUNK)
                if not removed:
                    break
                count += removed
        except Timeout:
            raise Timeout(count) from None
        return count

    def _in_steps(self, step, full, retry):
        count = 0
        try:
            while True:
                with self._transact(retry) as unit:
                    removed = step(unit)
                count += removed
                if removed < full:
                    return count
        except Timeout:
            raise Timeout(count) from None

    def clear(self, retry=False):
        """Removes all entries; how many."""
        with self._transact(retry) as unit:
            count = unit.meta[rec.COUNT]
            if self._room.settings_here().get("had_files"):
                unit.files += self._files_of(unit)
            unit.clear()
        return count

    @staticmethod
    def _files_of(unit):
        for _, record in unit.values.items():
            with contextlib.suppress(CodecError):
                name = Entry(record).file()
                if name is not None:
                    yield name

    # ---- settings ----

    def reset(self, name, value=ENOVAL, update=True):
        """The stored setting `name` if no value is given; else sets it, and stores it.

        Inside of `transact()` it is undone with the rest. The policy cannot be changed there.

        "count", "size", "hits", "misses" and "culled" are read only.
        """
        self._open()
        room = self._room
        counted = self._counts_by_name()
        if name in counted:
            return counted[name]
        if value is ENOVAL:
            stored = stored_settings(room.settings_here(), type(self._disk))
            value = stored.get(name, getattr(self, name, ENOVAL))
            if value is ENOVAL:
                raise KeyError(name)
        elif update and not self._store.read_only:
            check_setting(name, value)
            self._store_setting(name, value, True)
        self._follow(name, value)
        for other in room.others() if name == "eviction_policy" else ():
            other._follow(name, value)
        return value

    def _follow(self, name, value):
        if value is ENOVAL:
            self.__dict__.pop(name, None)
            return
        if name.startswith("disk_"):
            setattr(self._disk, name[len("disk_") :], value)
        setattr(self, name, value)
        if name == "eviction_policy":
            self._noting = self._room.noting and not self._store.read_only
        if name in ("eviction_policy", "statistics"):
            self._quick = not (self._noting or self.statistics)

    def create_tag_index(self):
        """Sets the setting `tag_index`. Tags are always indexed here."""
        self.reset("tag_index", 1)

    def drop_tag_index(self):
        """Clears the setting `tag_index`. Tags are always indexed here."""
        self.reset("tag_index", 0)

    def _store_setting(self, name, value, joins=False):
        """Stores a setting: as a part of this thread's transaction if it `joins`, else at once.

        What an object is opened with is stored at once: the object is there when the transaction
        is undone, and goes on with its settings.
        """
        taken = []
        try:
            store = self._take(taken, True)
            if joins and store.mine():
                if name == "eviction_policy" and value != self._room.policy:
                    raise evendb.Error("eviction_policy cannot be changed inside of transact()")
                old = getattr(self, name, ENOVAL)
                if old is ENOVAL and name.startswith("disk_"):
                    old = getattr(self._disk, name[len("disk_") :], ENOVAL)
                _store.joined(self._room, self._disk).set(self, name, value, old)
                return
            if name == "eviction_policy":
                self._change_policy(store, value)
            self._room.write_settings({name: value})
        finally:
            for lock in taken:
                lock.release()

    def _change_policy(self, store, policy):
        """Makes the index of another policy, from the order of storing.

        The setting `indexed_policy` is empty meanwhile: after a crash the next opening begins anew.
        """
        room = self._room
        if policy == room.policy and not room.policy_unfinished():
            return
        if store.mine() and (room.meta[rec.COUNT] or room.name in store.units):
            raise evendb.Error("eviction_policy cannot be changed inside of transact()")
        if room.notes:
            room.take_notes()
        room.write_settings({"indexed_policy": ""}, rec.STAMP, rec.POLICY)
        pairs, letter = [], POLICY_LETTERS[policy]
        for index_key, data in room.index.items(prefix=rec.ORDER) if letter else ():
            pairs.append((rec.row_of(index_key), data))
            if len(pairs) == REBUILD_CHUNK:
                self._write_stamps(pairs, letter)
                pairs = []
        self._write_stamps(pairs, letter)
        room.set_policy(policy)
        room.write_settings({"eviction_policy": policy, "indexed_policy": policy})

    def _write_stamps(self, pairs, letter):
        room = self._room
        with room.store.db.batch() as batch:
            index = batch.keyspace(room.names[1])
            for row, data in pairs:
                record = room.values.get(data)
                stamp = 0 if letter == b"f" or record is None else Entry(record).seq
                index.put(rec.policy_key(letter, stamp, row), data)
                if letter != b"s":
                    index.put(rec.stamp_key(row), rec.U64.pack(stamp))
