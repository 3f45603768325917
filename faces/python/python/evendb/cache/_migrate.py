"""`migrate`: a directory of diskcache (SQLite and files) becomes a cache of EvenDB.

    directory/cache.db            Cache, Index, Deque      ->  the room ""
    directory/000/cache.db ...    shards of a FanoutCache  ->  the room ""
    directory/cache/NAME/cache.db, deque/NAME, index/NAME  ->  the rooms "cache/NAME", ...

The source is opened for reading only and is not changed. Keys, values, times of expiry, tags, the
order of keys and the settings `size_limit`, `eviction_policy`, `cull_limit` and `statistics` go
over. How often and when entries were read does not. Nothing is culled meanwhile.

diskcache pickles each key and value that is no text, bytes or number. Pickles of plain data (None,
True, False, tuples, lists, dicts) are read by `_plain`, which looks up no name and calls nothing.
A row with any other pickle is skipped and counted. `codec="pickle"` asks for it: it is unpickled,
which runs code if whoever could write the directory wanted it so. What JSON takes is stored as JSON
then, and only the rest as a pickle.

Rows go over in chunks, each one unit: a migration that was cut off can be done again.
"""

import contextlib
import json
import os
import os.path as op
import pickle
import sqlite3
import time
import zlib
from dataclasses import dataclass, field
from urllib.parse import quote

import evendb

from . import _codec as codec_module
from . import _store
from ._core import Cache
from ._disk import MODE_BINARY, MODE_PICKLE, MODE_TEXT, Disk, JSONDisk
from ._plain import NotPlain, plain_data

CHUNK_ROWS = 500
CHUNK_BYTES = 4 << 20
KEPT = ("size_limit", "eviction_policy", "cull_limit", "statistics")
COLUMNS = "key, raw, expire_time, tag, mode, filename, value"


@dataclass
class Migration:
    """What `migrate` did, in rows."""

    copied: int = 0
    pickled: int = 0
    expired: int = 0
    unreadable: int = 0
    rooms: list = field(default_factory=list)
    settings: dict = field(default_factory=dict)

    def __str__(self):
        limit = self.settings.get("size_limit")
        hint = ' (codec="pickle" would copy them)' if self.pickled else ""
        return (
            f"{self.copied} rows copied; skipped: {self.pickled} pickled objects{hint}, "
            f"{self.expired} expired, {self.unreadable} unreadable; size_limit {limit} bytes"
        )


class _Skip(Exception):
    """A row that is not copied; the argument is the name of its count."""


def _sources(directory):
    """[(room, directories)] of a directory of diskcache."""
    def has(path):
        return op.isfile(op.join(path, "cache.db"))

    main = [directory] if has(directory) else []
    shards = sorted(name for name in os.listdir(directory) if name.isdigit())
    main += [op.join(directory, name) for name in shards if has(op.join(directory, name))]
    found = [("", main)] if main else []
    for kind in ("cache", "deque", "index"):
        for folder, _, _ in os.walk(op.join(directory, kind)):
            if has(folder):
                room = op.relpath(folder, directory).replace(os.sep, "/")
                found.append((room, [folder]))
    return found


@contextlib.contextmanager
def _opened(folder):
    path = quote(op.abspath(op.join(folder, "cache.db")))
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        try:
            connection.execute("SELECT 1 FROM Settings LIMIT 1").fetchall()
        except sqlite3.OperationalError:
            # A file system that is mounted for reading only: SQLite cannot make its -shm file.
            connection.close()
            connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        yield connection
    except sqlite3.DatabaseError as error:
        raise evendb.Error(f"{folder!r} is no readable cache of diskcache: {error}") from error
    finally:
        connection.close()


class _Reader:
    """Rows of diskcache as keys and values."""

    def __init__(self, folder, unpickle, as_json):
        self.folder = folder
        self.unpickle = unpickle
        self.as_json = as_json

    def _loads(self, data):
        try:
            return pickle.loads(data) if self.unpickle else plain_data(data)
        except NotPlain:
            raise _Skip("pickled") from None
        except Exception:
            raise _Skip("unreadable") from None

    def _of_json(self, data):
        try:
            return json.loads(zlib.decompress(data))
        except (TypeError, ValueError, zlib.error):
            raise _Skip("unreadable") from None

    def _file(self, name):
        root = op.realpath(self.folder)
        path = op.realpath(op.join(root, name))
        if op.commonpath((root, path)) != root:
            raise _Skip("unreadable")
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            raise _Skip("unreadable") from None

    def key(self, key, raw):
        """The key of a row."""
        if not raw:
            return self._loads(key)
        return self._of_json(key) if self.as_json else key

    def value(self, mode, filename, value):
        """The value of a row."""
        if filename is not None:
            value = self._file(filename)
        if mode == MODE_PICKLE:
            return self._loads(value)
        if mode == MODE_TEXT:
            try:
                value = str(value, "utf-8")
            except UnicodeDecodeError:
                raise _Skip("unreadable") from None
        if self.as_json and not (mode == MODE_BINARY and filename is None):
            return self._of_json(value)
        return value


class _Writer:
    """Collects rows and writes them in chunks, each one unit."""

    def __init__(self, cache):
        self.cache = cache
        self.rows = {}
        self.size = 0

    def add(self, key, value, expire, tag):
        """One row. TypeError if the target does not take it."""
        cache = self.cache
        data, long_key = cache._key(key)
        as_json = None
        if type(cache.disk) is Disk and cache.disk.codec == "pickle":
            with contextlib.suppress(TypeError):
                as_json = codec_module.encode_value(value)
        fields = cache._fields(key, value, False, expire, tag, long_key, as_json)
        self.rows[data] = fields
        self.size += len(fields.payload)
        if len(self.rows) >= CHUNK_ROWS or self.size >= CHUNK_BYTES:
            self.flush()

    def flush(self):
        """Writes what was collected."""
        if self.rows:
            with self.cache._transact(retry=True) as unit:
                files = (fields.file for fields in self.rows.values())
                unit.new_files += filter(None, files)
                for data, fields in self.rows.items():
                    unit.put(data, fields, unit.entry(data))
        self.rows, self.size = {}, 0


def _copy_rows(connection, reader, writer, report):
    now = time.time()
    query = f"SELECT {COLUMNS} FROM Cache ORDER BY rowid"
    for key, raw, expire, tag, mode, filename, value in connection.execute(query):
        try:
            if expire is not None and expire <= now:
                raise _Skip("expired")
            pair = reader.key(key, raw), reader.value(mode, filename, value)
            writer.add(*pair, expire, tag)
            report.copied += 1
        except _Skip as skip:
            (count,) = skip.args
            setattr(report, count, getattr(report, count) + 1)
        except (TypeError, evendb.LimitExceeded):
            report.unreadable += 1
    writer.flush()


def _settings_of(folders):
    settings = {}
    for folder in folders:
        with _opened(folder) as connection:
            rows = dict(connection.execute("SELECT key, value FROM Settings"))
        limit = settings.get("size_limit", 0)
        settings = {name: rows[name] for name in KEPT if name in rows}
        if "size_limit" in settings:
            settings["size_limit"] = int(limit + settings["size_limit"])
    return settings


def migrate(directory, target, *, codec="json", disk=Disk):
    """Copies a directory of diskcache into the cache at `target`; a `Migration`.

    `target` may be the same directory. `codec="pickle"` unpickles rows that need it: only for a
    directory that nobody else could write. `disk=JSONDisk` if the directory was written by that.
    """
    directory = op.expandvars(op.expanduser(os.fsdecode(directory)))
    target = op.expandvars(op.expanduser(os.fsdecode(target)))
    sources = _sources(directory)
    if not sources:
        raise FileNotFoundError(f"{directory!r} holds no cache of diskcache (cache.db)")
    os.makedirs(op.join(target, _store.DATABASE), 0o700, exist_ok=True)
    report = Migration()
    as_json = issubclass(disk, JSONDisk)
    for room, folders in sources:
        settings = _settings_of(folders)
        if settings.get("eviction_policy") not in _store.POLICY_LETTERS:
            settings.pop("eviction_policy", None)
        if not report.rooms:
            report.settings = settings
        report.rooms.append(room)
        with Cache(target, disk=disk, codec=codec, room=room, **settings) as cache:
            for folder in folders:
                reader = _Reader(folder, codec == "pickle", as_json)
                with _opened(folder) as connection:
                    _copy_rows(connection, reader, _Writer(cache), report)
    return report
