"""The record of an entry, and the keys of the index. A page of bytes; no store is opened here.

Keyspace `values`, one record an entry, under the entry's key (`_codec`):

    +------+-------+-------+ - - - - - - + - - - - - - - + - - - - - - + - - - - - - + ---------+
    | form | row   | seq   | expiry      | tag           | file size   | long key    | payload  |
    | 1    | 8     | 8     | 8 (0x10)    | 2 + n (0x20)  | 8 (0x40)    | 4 + n (0x80)| the rest |
    +------+-------+-------+ - - - - - - + - - - - - - - + - - - - - - + - - - - - - + ---------+

The low four bits of the first byte are the form, the high four say which parts follow. A record
without them has its payload at byte 17: a hit is one read of the store, one look at a byte, one
decoding. `row` is the number that the entry got when its key came in (the order of iteration);
`seq` grows with each store (the order of "least recently stored"). With a file (0x40) the payload
is the file's name.

Keyspace `index`; rows and stamps are 8 bytes, big endian; each has the entry's key as value:

    o row              entries in the order in which their keys came in
    p X stamp row      entries in the order in which the policy X culls them
    a row              (value: stamp) where the entry is in `p`, for policies that look at gets
    x expiry row       entries that expire, the soonest first
    t tag row          entries with a tag
    m                  (value) counts: entries, bytes, next row, next seq, hits, misses, culled
    s name             (value) a setting, as JSON

All of an entry is written, and removed, by one batch: a crash leaves none without the other.
"""

from struct import Struct
from struct import error as struct_error

from . import _codec as codec

HAS_EXPIRY, HAS_TAG, HAS_FILE, HAS_LONG_KEY = 0x10, 0x20, 0x40, 0x80
FORM_MASK = 0x0F
HEAD = Struct(">BQQ")
HEAD_BYTES = 17
U64 = Struct(">Q")
F64 = Struct(">d")
U32 = Struct(">I")
U16 = Struct(">H")
ROWS = Struct(">QQ")
META = Struct(">7Q")

COUNT, SIZE, NEXT_ROW, NEXT_SEQ, HITS, MISSES, CULLED = range(7)

ORDER, POLICY, STAMP, EXPIRY, TAG, META_KEY, SETTING = b"o", b"p", b"a", b"x", b"t", b"m", b"s"
INDEXES = (ORDER, POLICY, STAMP, EXPIRY, TAG)

# What an entry's rows in the index take, about; it is counted with each entry's bytes.
INDEX_BYTES = 64


class Entry:
    """A record, read. CodecError if it is damaged: too short for what its first byte says."""

    __slots__ = ("form", "row", "seq", "expire", "tag", "file_bytes", "long_key", "at", "record")

    def __init__(self, record):
        try:
            self._read(record)
        except (struct_error, UnicodeDecodeError):
            self.at = len(record) + 1
        if self.at > len(record):
            raise codec.CodecError(f"a damaged record: {record[:40]!r}")

    def _read(self, record):
        first, self.row, self.seq = HEAD.unpack_from(record)
        self.record = record
        self.form = first & FORM_MASK
        self.expire = self.tag = self.file_bytes = self.long_key = None
        at = HEAD_BYTES
        if first & HAS_EXPIRY:
            (self.expire,) = F64.unpack_from(record, at)
            at += 8
        if first & HAS_TAG:
            (length,) = U16.unpack_from(record, at)
            self.tag = record[at + 2 : at + 2 + length]
            at += 2 + length
        if first & HAS_FILE:
            (self.file_bytes,) = U64.unpack_from(record, at)
            at += 8
        if first & HAS_LONG_KEY:
            (length,) = U32.unpack_from(record, at)
            self.long_key = record[at + 4 : at + 4 + length]
            at += 4 + length
        self.at = at
        if first & HAS_FILE:
            str(record[at:], "utf-8")

    def payload(self):
        """The payload's bytes."""
        return self.record[self.at :]

    def file(self):
        """The name of the entry's file, or None."""
        return None if self.file_bytes is None else str(self.payload(), "utf-8")

    def bytes_of(self, key):
        """What the entry takes of the cache's limit."""
        return len(key) + len(self.record) + INDEX_BYTES + (self.file_bytes or 0)


def entry_of(key, record):
    """The entry of a record. CodecError, with the key's bytes, if it is damaged."""
    try:
        return Entry(record)
    except codec.CodecError as error:
        raise codec.CodecError(
            f"the entry {key[:40]!r}: {error}; check(fix=True) removes it"
        ) from error


class Fields:
    """What a record has besides its key, row and seq."""

    __slots__ = ("form", "payload", "expire", "tag", "file", "file_bytes", "long_key")

    def __init__(self, form, payload, expire=None, tag=None, long_key=None):
        self.form = form
        self.payload = payload
        self.expire = expire
        self.tag = tag
        self.file = None
        self.file_bytes = 0
        self.long_key = long_key

    @classmethod
    def of(cls, entry):
        """The fields of an entry, to write it again."""
        fields = cls(entry.form, entry.payload(), entry.expire, entry.tag, entry.long_key)
        if entry.file_bytes is not None:
            fields.file, fields.file_bytes = entry.file(), entry.file_bytes
        return fields

    def record(self, row, seq):
        """The record's bytes."""
        first, parts = self.form, []
        if self.expire is not None:
            first |= HAS_EXPIRY
            parts.append(F64.pack(self.expire))
        if self.tag is not None:
            first |= HAS_TAG
            parts.append(U16.pack(len(self.tag)) + self.tag)
        if self.file is not None:
            first |= HAS_FILE
            parts.append(U64.pack(self.file_bytes))
        if self.long_key is not None:
            first |= HAS_LONG_KEY
            parts.append(U32.pack(len(self.long_key)) + self.long_key)
        parts.append(self.payload)
        return HEAD.pack(first, row, seq) + b"".join(parts)


def order_key(row):
    """The key of a row in the order of iteration."""
    return ORDER + U64.pack(row)


def policy_key(letter, stamp, row):
    """The key of a row in a policy's order."""
    return POLICY + letter + ROWS.pack(stamp, row)


def stamp_key(row):
    """The key under which a row's stamp is."""
    return STAMP + U64.pack(row)


def expiry_key(expire, row):
    """The key of a row in the order of expiry."""
    return EXPIRY + codec.order_float(expire) + U64.pack(row)


def expiry_of(index_key):
    """The time of an expiry key."""
    return codec.float_of_order(index_key[1:9])


def tag_prefix(tag):
    """What all rows of a tag begin with."""
    return TAG + U16.pack(len(tag)) + tag


def tag_key(tag, row):
    """The key of a row with a tag."""
    return tag_prefix(tag) + U64.pack(row)


def row_of(index_key):
    """The row at the end of an index key."""
    return U64.unpack(index_key[-8:])[0]
