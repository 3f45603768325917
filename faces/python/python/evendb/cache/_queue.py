"""Methods of `Cache` for queues: push, pull, peek; and the first and last entry.

A key belongs to the queue "prefix" only if "prefix-" and 15 digits are the whole of it: the queue
"user-1" has keys among those of "user". A walk over a queue jumps over the keys of another.

A queue without a prefix has the int keys from 0 to 10**15, the first one 500000000000000; a queue
with one has the text keys "prefix-000000000000000". So a queue is entries like others, and each
step is one unit.

An entry whose file is gone is skipped; it does not stop a pull or a peek, and none of them waits.
"""

import time

from . import _codec as codec
from . import _record as rec
from ._disk import ENOVAL, UNKNOWN
from ._record import Entry

FIRST = 500_000_000_000_000
LAST = 999_999_999_999_999
DIGITS = 15
TRIES = 8


def _bounds(prefix):
    if prefix is None:
        first, last = 0, LAST
    else:
        first, last = f"{prefix}-{0:015d}", f"{prefix}-{LAST:015d}"
    return codec.encode_native(first) + b"\x00", codec.encode_native(last)


def _records(space, prefix, back):
    """(key, record) of a queue's entries in `space`, from a side on."""
    start, stop = _bounds(prefix)
    head = None if prefix is None else codec.encode_native(f"{prefix}-")
    while True:
        for data, record in space.items(start=start, stop=stop, reverse=back):
            if head is not None and not _is_number(data[len(head) :]):
                break
            yield data, record
        else:
            return
        beyond = head + b"%015d" % _jump(data[len(head) :], back)
        if back:
            stop = beyond + b"\x00"
        else:
            start = beyond


def _is_number(tail):
    return len(tail) == DIGITS and tail.isdigit()


def _jump(tail, back):
    """The next number, in the order of texts, after a text that is none."""
    digits = tail[:DIGITS]
    while not digits.isdigit():
        digits = digits[:-1]  # Both bounds begin with a digit, so the text does.
    missing = DIGITS - len(digits)
    first = int(digits) * 10**missing
    last = first + 10**missing - 1
    # Texts that begin with `digits` and are numbers are from `first` to `last`.
    if not missing:
        return first if back else first + 1
    before = tail[len(digits) : len(digits) + 1] < b"0"
    if back:
        return first - 1 if before else last
    return first if before else last + 1


def _from_back(side):
    if side not in ("front", "back"):
        raise ValueError(f"side {side!r}; it is 'front' or 'back'")
    return side == "back"


class QueueMethods:
    """See the head of the module. Only `Cache` inherits it."""

    def push(self, value, prefix=None, side="back", expire=None, read=False, tag=None, retry=False):
        """Puts `value` at a side of the queue `prefix`; its key."""
        back = _from_back(side)
        now = time.time()
        expire = None if expire is None else now + expire
        fields = self._fields(UNKNOWN, value, read, expire, tag, None)
        with self._transact(retry, fields.file) as unit:
            number = FIRST
            for data, _ in _records(unit.values, prefix, back):
                key = codec.decode_native(data)[0]
                number = key if prefix is None else int(key[key.rfind("-") + 1 :])
                number += 1 if back else -1
                break
            key = number if prefix is None else f"{prefix}-{number:015d}"
            data = codec.encode_native(key)
            unit.put(data, fields, unit.entry(data))
            self._cull(unit, now)
        return key

    def pull(self, prefix=None, default=(None, None), side="front", expire_time=False, tag=False,
             retry=False):
        """Removes the entry at a side of the queue; (key, value), or `default`."""
        found = self._end(prefix, side, retry, True)
        return self._shaped(found, default, (expire_time, tag))

    def peek(self, prefix=None, default=(None, None), side="front", expire_time=False, tag=False,
             retry=False):
        """The entry at a side of the queue: (key, value), or `default`. Removes expired ones."""
        found = self._end(prefix, side, retry, False)
        return self._shaped(found, default, (expire_time, tag))

    def peekitem(self, last=True, expire_time=False, tag=False, retry=False):
        """(key, value) of the entry whose key came in last, or first. KeyError if none is there."""

        def ends(unit):
            for _, data in unit.index.items(prefix=rec.ORDER, reverse=bool(last)):
                yield data, unit.values.get(data)

        found = self._first_good(ends, retry, False)
        if found is None:
            raise KeyError("the cache is empty")
        return self._shaped(found, None, (expire_time, tag))

    def _end(self, prefix, side, retry, take):
        back = _from_back(side)

        def ends(unit):
            return _records(unit.values, prefix, back)

        return self._first_good(ends, retry, take)

    def _first_good(self, ends, retry, take):
        """(key, value, entry) of the first entry that has a value; it is removed if `take`."""
        for _ in range(TRIES):
            with self._transact(retry) as unit:
                data, entry = self._first_live(unit, ends(unit))
                if entry is None:
                    return None
                key = self._key_of(data, entry.record)
                try:
                    value = self._named(entry, key)
                except OSError:
                    value = ENOVAL
                if take:
                    unit.remove(data, entry)
            if value is not ENOVAL:
                return key, value, entry
        raise OSError(f"the file of the value of {key!r} is gone; check(fix=True) removes it")

    @staticmethod
    def _first_live(unit, pairs):
        now = time.time()
        for data, record in pairs:
            if record is None:
                continue
            entry = Entry(record)
            if entry.expire is None or entry.expire >= now:
                return data, entry
            unit.remove(data, entry)
        return None, None

    def _shaped(self, found, default, wanted):
        from ._core import shape

        if found is None:
            return shape(default, None, None, wanted)
        key, value, entry = found
        return shape((key, value), entry.expire, self._tag_of(entry), wanted)
