"""`Cache.check`: what does not agree, and how it is mended. Only `Cache` inherits it.

    entries       each record is read; a damaged one is removed. The file of its value is there and
                  whole, or the entry is removed
    index         each row that an entry needs is there and has the entry's key, or is written;
                  any other row is removed. Two entries with one row: the one that the order does
                  not name gets a new row
    counts        entries, bytes and the next numbers are those of the entries
    files         a file or folder that belongs to no entry is removed

All but the last is one unit, so a crash leaves all of it or none. It reads each entry and each row
of the index once, with one more read for each, and keeps the names of files in memory only.
Entries whose keys need another codec or Disk are left alone.
"""

import os
import os.path as op
import warnings

from . import _codec as codec
from . import _record as rec
from . import _store
from ._disk import Disk
from ._record import Entry


class UnknownFileWarning(UserWarning):
    """`check` found a file in the cache's directory that no entry has."""


class EmptyDirWarning(UserWarning):
    """`check` found a folder without files in the cache's directory."""


class _Check:
    """One run over the entries and the index of a unit."""

    def __init__(self, unit, disk, is_damaged, tell, fix):
        self.unit = unit
        self.disk = disk
        self.is_damaged = is_damaged
        self.tell = tell
        self.fix = fix
        self.files = set()
        self.count = self.size = 0
        self.next_row = self.next_seq = 0
        # Rows of the index that were written here, and the keys of entries that have a new row.
        self.written, self.moved = set(), {}

    def entries(self, name):
        """Looks at each entry; `name` names one."""
        unit = self.unit
        for data, record in unit.values.items():
            try:
                if self.is_damaged(data, record):
                    raise codec.CodecError("its key is damaged")
                entry = Entry(record)
                file = entry.file()
            except codec.CodecError as error:
                self.tell(f"the entry {data[:40]!r} cannot be read: {error}")
                if self.fix:
                    unit.write_values.delete(data)
                continue
            self.count += 1
            self.size += entry.bytes_of(data)
            self.next_row = max(self.next_row, entry.row + 1)
            self.next_seq = max(self.next_seq, entry.seq + 1)
            if file is not None:
                self.files.add(file)
                if not self._is_whole(file, entry.file_bytes):
                    self.tell(f"the file {file} of {name(data, record)} is missing, or is cut off")
                    if self.fix:
                        unit.remove(data, entry)
                        continue
            self._rows_of(data, entry)

    def _is_whole(self, file, size):
        try:
            return self.disk.is_whole(file, size)
        except codec.CodecError:
            return False

    def _rows_of(self, data, entry):
        unit = self.unit
        order = rec.order_key(entry.row)
        owner = unit.index.get(order)
        if owner != data and (order in self.written or self._has_row(owner, entry.row)):
            self.tell(f"the entry {data[:40]!r} has the row of another one")
            if self.fix:
                self.moved[data] = entry
            return
        for index_key, value in index_of(unit, data, entry):
            if unit.index.get(index_key) != value:
                self.tell(f"the index does not have {index_key!r}")
                if self.fix:
                    unit.write_index.put(index_key, value)
                    self.written.add(index_key)

    def move(self):
        """Gives new rows to entries that have the row of another one. All entries were seen."""
        unit = self.unit
        for data, entry in self.moved.items():
            row = max(unit.meta[rec.NEXT_ROW], self.next_row)
            unit.meta[rec.NEXT_ROW] = row + 1
            unit.write_values.put(data, rec.Fields.of(entry).record(row, entry.seq))
            entry.row = row
            for index_key, value in index_of(unit, data, entry):
                unit.write_index.put(index_key, value)
                self.written.add(index_key)

    def _has_row(self, key, row):
        record = None if key is None else self.unit.values.get(key)
        try:
            return record is not None and Entry(record).row == row
        except codec.CodecError:
            return False

    def index(self):
        """Looks at each row of the index."""
        for prefix in rec.INDEXES:
            for index_key, value in self.unit.index.items(prefix=prefix):
                if index_key in self.written or self._belongs(prefix, index_key, value):
                    continue
                self.tell(f"the index has {index_key!r}, which no entry has")
                if self.fix:
                    self.unit.write_index.delete(index_key)

    def _belongs(self, prefix, index_key, value):
        unit = self.unit
        if prefix == rec.STAMP:
            order = rec.ORDER + index_key[1:]
            value = unit.index.get(order)
            if order in self.written:
                return True
        record = None if value is None or value in self.moved else unit.values.get(value)
        try:
            return record is not None and any(
                index_key == wanted for wanted, _ in index_of(unit, value, Entry(record))
            )
        except codec.CodecError:
            return False

    def counts(self, meta):
        """Compares the counts. `meta` has them as they were before the unit."""
        found = ("count", rec.COUNT, self.count), ("size", rec.SIZE, self.size)
        for name, place, real in found:
            if meta[place] != real:
                self.tell(f"{name} is {meta[place]}, but entries have {real}")
                if self.fix:
                    self.unit.meta[place] += real - meta[place]
        found = ("row", rec.NEXT_ROW, self.next_row), ("stamp", rec.NEXT_SEQ, self.next_seq)
        for name, place, least in found:
            if meta[place] < least:
                self.tell(f"the next {name} is {meta[place]}, but entries have up to {least - 1}")
                if self.fix:
                    self.unit.meta[place] = max(self.unit.meta[place], least)


def index_of(unit, data, entry):
    """The rows of the index that an entry needs: (key, value)."""
    row, letter = entry.row, unit.room.letter
    yield rec.order_key(row), data
    if entry.expire is not None:
        yield rec.expiry_key(entry.expire, row), data
    if entry.tag is not None:
        yield rec.tag_key(entry.tag, row), data
    if letter == b"s":
        yield rec.policy_key(letter, entry.seq, row), data
    elif letter is not None:
        stamp = unit.index.get(rec.stamp_key(row))
        if stamp is None or len(stamp) != 8:
            stamp = rec.U64.pack(0 if letter == b"f" else entry.seq)
        yield rec.stamp_key(row), stamp
        yield rec.policy_key(letter, rec.U64.unpack(stamp)[0], row), data


class CheckMethods:
    """See the head of the module."""

    def check(self, fix=False, retry=False):
        """A list of warnings about entries, index, counts and files; `fix` mends them."""
        found = []

        def tell(text, category=UserWarning):
            found.append(warnings.WarningMessage(category(text), category, __file__, 0))

        with self._transact(retry) as unit:
            run = _Check(unit, self._disk, self._is_damaged, tell, fix)
            meta = list(unit.meta)
            run.entries(self._name)
            run.move()
            run.index()
            run.counts(meta)
        self._check_files(run.files, tell, fix)
        return found

    def _name(self, data, record):
        try:
            return repr(self._key_of(data, record))
        except codec.CodecError:
            return f"the entry {data[:40]!r}"

    def _is_damaged(self, data, record):
        """Whether no codec reads the key of an entry."""
        if data[:1] == b"\x60":
            data = Entry(record).long_key
        try:
            key, raw = codec.decode_native(data)
            if not raw and type(self._disk) is Disk and key[:1] != b"P":
                codec.decode_other_key(key)
        except codec.CodecError:
            return True
        return False

    def _check_files(self, files, tell, fix):
        root = self._root
        for folder, names in _folders(root):
            inside = op.relpath(folder, root)
            for name in names:
                relative = op.normpath(op.join(inside, name))
                if relative not in files:
                    tell(f"the file {relative} belongs to no entry", UnknownFileWarning)
                    if fix:
                        os.remove(op.join(root, relative))
            if not os.listdir(folder):
                tell(f"the folder {inside} is empty", EmptyDirWarning)
                if fix:
                    os.rmdir(folder)


def _folders(root):
    """(folder, names of files), the inner folders first, of what is the cache's own.

    Not the database, not rooms, and no folder of diskcache, which `migrate` may have left here.
    """
    found = []
    for folder, inner, names in os.walk(root):
        if "cache.db" in names:
            inner.clear()
            continue
        if folder == root:
            inner[:] = [name for name in inner if name not in (_store.DATABASE, _store.ROOMS)]
        found.append((folder, names))
    return reversed(found)
