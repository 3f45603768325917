"""`Disk`: how keys and values become bytes, and the files of values that are kept as files.

    key   --put-->   (native key, raw)          --get-->    key
    value --store--> (size, mode, file, native) --fetch-->  value

A subclass may change the four methods, as diskcache's `JSONDisk` does; then a get calls them. The
class `Disk` itself is known to `Cache`, which takes a shorter way with the same result.

LARGE VALUES ARE FILES of their own: those of at least `disk_files` bytes (1 MiB, where a file is
the faster of the two) and at least `disk_min_file_size`, and what `read=True` stores. Other
programs read them by `cache.read(key).name`. With `disk_files=True`, or if a subclass has a
`filename` of its own, `disk_min_file_size` alone decides, as in diskcache; with `disk_files=False`
all is in the store.

A file is written before its record is committed and removed after its record is gone. A crash of
the process leaves a file without a record, which `check(fix=True)` removes, and never a record
without its file. With `store_durability="sync"` the file is synced before the commit. Without it a
power cut may leave a file shorter than its record says: such an entry is a miss.

A Disk has no state of its own but its settings; many threads may use it.
"""

import contextlib
import io
import json
import math
import os
import os.path as op
import pickle
import secrets
import struct
import zlib
from typing import Any

from . import _codec as codec

MODE_NONE = 0
MODE_RAW = 1
MODE_BINARY = 2
MODE_TEXT = 3
MODE_PICKLE = 4
MODE_JSON = 5

FORM_OF_MODE = {
    MODE_BINARY: codec.FORM_BINARY,
    MODE_TEXT: codec.FORM_TEXT,
    MODE_PICKLE: codec.FORM_PICKLE,
    MODE_JSON: codec.FORM_TYPED,
}
MODE_OF_FORM = {form: mode for mode, form in FORM_OF_MODE.items()}
MODE_OF_FORM[codec.FORM_JSON] = MODE_JSON
READ_BYTES = 1 << 22
# From here on a file is faster than a record of the store, by bench/cache.py.
LARGE_BYTES = 1 << 20


class Constant(tuple):
    """A value that is only itself, and is written by its name."""

    __slots__ = ()

    def __new__(cls, name: str):
        return tuple.__new__(cls, (name,))

    def __repr__(self):
        return self[0]


ENOVAL = Constant("ENOVAL")
UNKNOWN = Constant("UNKNOWN")


class Reader(io.BytesIO):
    """A value of the store as a file. The value is whole: later writes do not change it."""

    def __init__(self, data, name):
        super().__init__(data)
        self.name = name


class Disk:
    """Keys and values as the store has them. See the head of the module."""

    codec: str = "json"
    files: int = LARGE_BYTES
    sync: bool = False
    _root: str | None = None

    def __init__(
        self, directory: str, min_file_size: int = 0, pickle_protocol: int = 0
    ) -> None:
        self._directory = directory
        self.min_file_size = min_file_size
        self.pickle_protocol = pickle_protocol

    # ---- keys ----

    def hash(self, key: Any) -> int:
        """A number of 32 bits of `key` that is the same in each process."""
        native, _ = self.put(key)
        mask = 0xFFFFFFFF
        if type(native) is bytes:
            return zlib.adler32(native) & mask
        if type(native) is str:
            return zlib.adler32(native.encode("utf-8", "surrogatepass")) & mask
        if type(native) is int:
            return native % mask
        return zlib.adler32(struct.pack("!d", native)) & mask

    def put(self, key: Any) -> tuple[Any, bool]:
        """(native key, raw) of `key`; raw is False if the native key is an encoding of it."""
        kind = type(key)
        if kind is str or kind is bytes or kind is float:
            return key, True
        if kind is int and -codec.INT_LIMIT <= key < codec.INT_LIMIT:
            return key, True
        return codec.encode_other_key(key, self.codec, self.pickle_protocol), False

    def key_bytes(self, key: Any) -> bytes:
        """The store's bytes of a key that is no number, no text and no bytes."""
        return b"\x40" + codec.encode_other_key(key, self.codec, self.pickle_protocol)

    def get(self, key: Any, raw: bool) -> Any:
        """The key of what `put` gave."""
        return key if raw else codec.decode_other_key(key, self.codec)

    # ---- values ----

    def keeps_files(self) -> bool:
        """Whether values may be in files of their own."""
        return bool(self.files) or type(self).filename is not Disk.filename

    def smallest_file(self) -> float:
        """How many bytes a value has at least that is a file."""
        if type(self).filename is not Disk.filename:
            return self.min_file_size
        return max(self.files, self.min_file_size) if self.files else math.inf

    def encode(self, value: Any) -> tuple[int, bytes]:
        """(form, payload) of a value that is no file."""
        if self.codec == "pickle":
            return codec.pickle_value(value, self.pickle_protocol)
        return codec.encode_value(value)

    def store(
        self, value: Any, read: bool, key: Any = UNKNOWN
    ) -> tuple[int, int, str | None, Any]:
        """(size, mode, filename, native value) of `value`."""
        if read:
            return self._store_read(value, key)
        return self.place(value, key, *self.encode(value))

    def place(self, value, key, form, payload):
        """As `store`, of a value that is encoded already."""
        if form == codec.FORM_JSON:
            payload = codec.typed_json(value)
        mode = MODE_OF_FORM.get(form, MODE_RAW)
        if len(payload) >= self.min_file_size and form == codec.FORM_BYTES:
            mode = MODE_BINARY
        large = len(payload) >= self.smallest_file()
        if large and form not in (codec.FORM_INT, codec.FORM_FLOAT):
            if form == codec.FORM_STR:
                mode = MODE_TEXT
            if mode != MODE_RAW:
                name, path = self.filename(key, value)
                self._write(path, (payload,))
                return len(payload), mode, name, None
        return 0, mode, None, payload if mode not in (MODE_RAW,) else value

    def _store_read(self, value, key):
        chunks = iter(lambda: value.read(READ_BYTES), b"")
        if self.keeps_files():
            name, path = self.filename(key, value)
            return self._write(path, chunks), MODE_BINARY, name, None
        data = b"".join(chunks)
        return 0, MODE_BINARY, None, data

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        """The value of what `store` gave."""
        if mode == MODE_RAW:
            return value
        if filename is not None:
            path = self._inside(filename)
            if mode == MODE_BINARY and read:
                return open(path, "rb")
            with open(path, "rb") as file:
                value = file.read()
        elif mode == MODE_BINARY and read:
            return Reader(value, op.join(self._directory, "<stored value>"))
        return self.decode(FORM_OF_MODE[mode], value)

    def decode(self, form: int, payload: bytes) -> Any:
        """The value of a form and its payload; a pickle only if that was asked for by name."""
        if form == codec.FORM_PICKLE:
            return self.decode_pickle(payload)
        return codec.DECODERS[form](payload)

    def decode_pickle(self, payload: bytes) -> Any:
        """The value of a pickle, if the codec is "pickle"."""
        if self.codec == "pickle":
            return pickle.loads(payload)
        return codec.DECODERS[codec.FORM_PICKLE](payload)

    # ---- files ----

    def filename(self, key: Any = UNKNOWN, value: Any = UNKNOWN) -> tuple[str, str]:
        """(name, path) of a new file; a subclass may name it by the key."""
        letters = secrets.token_hex(16)
        name = op.join(letters[:2], letters[2:4], letters[4:] + ".val")
        return name, op.join(self._directory, name)

    def _inside(self, filename):
        if self._root is None:
            self._root = op.realpath(self._directory)
        root = self._root
        try:
            path = op.realpath(op.join(root, filename))
        except ValueError as error:
            raise codec.CodecError(f"no file has the name {filename!r}") from error
        if op.commonpath((root, path)) != root:
            raise codec.CodecError(f"the file {filename!r} is outside of the cache's directory")
        return path

    def _write(self, path, chunks):
        for attempt in range(10):
            try:
                # Each folder may be gone again: another thread removes folders that are empty.
                os.makedirs(op.dirname(path), exist_ok=True)
                file = open(path, "xb")
            except FileNotFoundError:
                if attempt == 9:
                    raise
                continue
            try:
                with file:
                    size = sum(map(file.write, chunks))
                    if self.sync:
                        file.flush()
                        os.fsync(file.fileno())
                if self.sync:
                    self._sync_folders(op.dirname(path))
                return size
            except BaseException:
                self.remove(op.relpath(path, self._directory))
                raise
        raise AssertionError("unreachable")

    def _sync_folders(self, folder):
        """Makes the names of a new file and of its folders durable."""
        while True:
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            if len(folder) <= len(self._directory):
                return
            folder = op.dirname(folder)

    def is_whole(self, filename: str, size: int) -> bool:
        """Whether a file is there and has at least the bytes that were stored."""
        try:
            return os.stat(self._inside(filename)).st_size >= size
        except OSError:
            return False

    def remove(self, filename: str) -> None:
        """Removes a file and the folders that it leaves empty; a missing one is no error.

        A name that leads outside of the cache's directory removes nothing.
        """
        try:
            path = self._inside(filename)
        except codec.CodecError:
            return
        with contextlib.suppress(OSError):
            os.remove(path)
        folder, root = op.dirname(path), op.realpath(self._directory)
        with contextlib.suppress(OSError):
            while len(folder) > len(root):
                os.rmdir(folder)
                folder = op.dirname(folder)


class JSONDisk(Disk):
    """Keys and values as JSON, compressed by zlib. Types that JSON has not come back as JSON's."""

    def __init__(self, directory: str, compress_level: int = 1, **kwargs: Any) -> None:
        self.compress_level = compress_level
        super().__init__(directory, **kwargs)

    def _pack(self, value):
        return zlib.compress(json.dumps(value).encode("utf-8"), self.compress_level)

    def put(self, key: Any) -> tuple[Any, bool]:
        return super().put(self._pack(key))

    def get(self, key: Any, raw: bool) -> Any:
        return json.loads(zlib.decompress(super().get(key, raw)))

    def store(
        self, value: Any, read: bool, key: Any = UNKNOWN
    ) -> tuple[int, int, str | None, Any]:
        return super().store(value if read else self._pack(value), read, key=key)

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        data = super().fetch(mode, filename, value, read)
        return data if read else json.loads(zlib.decompress(data))
