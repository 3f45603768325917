"""Keys and values as bytes, with exact types back.

A KEY is bytes whose first byte says its kind, so that keys sort by kind and then by value:

    0x0f  int of 64 bits, negative; 0x10  one that is not:  8 bytes, big endian
    0x11  float               8 bytes, big endian, in the order of numbers
    0x20  str                 UTF-8 (a lone surrogate has its three bytes)
    0x30  bytes               as they are
    0x40  anything else       one letter, and then
              T  a tuple of str, int, bool, None and finite floats: as `ascii` writes it
              J  None, bool, other ints, tuples, lists, dicts: typed JSON
              P  a pickle (only with codec="pickle")
    0x60  long key            SHA-256 of the key's bytes; the record has the whole key

1, 1.0, True and "1" are four keys. Two keys are the same if their bytes are the same.

A VALUE has a form (a number below 16) and a payload. PLAIN JSON has only what JSON gives back with
exact types: dicts whose keys are str, lists, str, int, float, bool, None. TYPED JSON has one object
for what JSON does not have: {"t": [...]} a tuple, {"b": "..."} bytes as Latin-1, {"i": "ff"} an int
of very many digits, {"d": [key, value, ...]} each dict.

What neither has (a subclass of a type above too, such as an IntEnum) is a TypeError when it is
stored. A pickle is read only by a codec that was asked for by name. Functions here keep no state
and may be called by many threads.
"""

import ast
import json
import math
import pickle
from struct import Struct
from struct import error as struct_error

import evendb

FLAT = frozenset((str, int, float, bool, type(None)))

FORM_BYTES, FORM_STR, FORM_INT, FORM_FLOAT = 1, 2, 3, 4
FORM_NONE, FORM_TRUE, FORM_FALSE = 5, 6, 7
FORM_BINARY, FORM_TEXT, FORM_PICKLE, FORM_JSON, FORM_TYPED = 8, 9, 10, 11, 12

INT_LIMIT = 1 << 63
# Python refuses to read ints of more than 4,300 digits from text; these have fewer.
JSON_INT_BITS = 4_000

_U64 = Struct(">Q")
_I64 = Struct(">q")
_F64 = Struct(">d")
_KIND_U64 = Struct(">BQ")
_KIND_I64 = Struct(">Bq")
_SIGN = 1 << 63
_ALL = (1 << 64) - 1

_scan_json = json.JSONDecoder().raw_decode
_encode_json = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), check_circular=False
).encode


class CodecError(evendb.Error):
    """A stored key or value cannot be read: another codec, or damaged. The text names the key."""


def encode_int(number):
    """An int of any size as little-endian bytes."""
    return number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)


def order_float(number):
    """8 bytes that sort as the floats do."""
    bits = _U64.unpack(_F64.pack(number))[0]
    return _U64.pack(bits ^ _ALL if bits & _SIGN else bits ^ _SIGN)


def float_of_order(data):
    """The float of the bytes that `order_float` made."""
    bits = _U64.unpack(data)[0]
    return _F64.unpack(_U64.pack(bits ^ _SIGN if bits & _SIGN else bits ^ _ALL))[0]


def _is_plain(value):
    kind = type(value)
    if kind is int:
        return value.bit_length() < JSON_INT_BITS
    if kind in FLAT:
        return True
    if kind is list:
        return all(map(_is_plain, value))
    if kind is dict:
        return all(type(key) is str for key in value) and all(map(_is_plain, value.values()))
    return False


def _to_typed(value):
    kind = type(value)
    if kind is int:
        return value if value.bit_length() < JSON_INT_BITS else {"i": format(value, "x")}
    if kind in FLAT:
        return value
    if kind is tuple:
        return {"t": [_to_typed(item) for item in value]}
    if kind is list:
        return [_to_typed(item) for item in value]
    if kind is bytes:
        return {"b": value.decode("latin-1")}
    if kind is dict:
        flat = []
        for key, item in value.items():
            flat.append(_to_typed(key))
            flat.append(_to_typed(item))
        return {"d": flat}
    name = f"{kind.__module__}.{kind.__qualname__}"
    raise TypeError(
        f"a {name} cannot be stored by codec 'json' with its type; it takes None, bool, int, "
        "float, str, bytes, list, tuple and dict (codec='pickle' takes more)"
    )


def _from_typed(pairs):
    ((mark, value),) = pairs.items()
    if mark == "t":
        return tuple(value)
    if mark == "b":
        return value.encode("latin-1")
    if mark == "i":
        return int(value, 16)
    if mark == "d":
        items = iter(value)
        return dict(zip(items, items))
    raise ValueError(f"unknown mark {mark!r} in typed JSON")


def typed_json(value):
    """`value` as typed JSON. TypeError if its types would not come back."""
    try:
        return _encode_json(_to_typed(value)).encode("utf-8", "surrogatepass")
    except RecursionError:
        raise TypeError("a value that contains itself, or is nested too deeply") from None


def read_typed_json(data):
    """The value of typed JSON."""
    return json.loads(str(data, "utf-8", "surrogatepass"), object_hook=_from_typed)


def plain_json(value):
    """The bytes of a value that `_is_plain`."""
    return _encode_json(value).encode("utf-8", "surrogatepass")


# ---- values ----


def encode_value(value):
    """(form, payload) of `value`, or TypeError."""
    kind = type(value)
    if kind is str:
        return FORM_STR, value.encode("utf-8", "surrogatepass")
    if kind is bytes:
        return FORM_BYTES, value
    if kind is int:
        return FORM_INT, encode_int(value)
    if kind is float:
        return FORM_FLOAT, _F64.pack(value)
    if value is None:
        return FORM_NONE, b""
    if kind is bool:
        return (FORM_TRUE if value else FORM_FALSE), b""
    try:
        if _is_plain(value):
            return FORM_JSON, plain_json(value)
    except RecursionError:
        pass  # typed_json says what is wrong.
    return FORM_TYPED, typed_json(value)


def pickle_value(value, protocol):
    """As `encode_value`, and a pickle for what is neither a number nor a text nor bytes."""
    if type(value) in FLAT or type(value) is bytes:
        return encode_value(value)
    return FORM_PICKLE, pickle.dumps(value, protocol=protocol)


def _refuse_pickle(_payload):
    raise CodecError("a pickled value, and this cache was not opened with codec='pickle'")


def _unknown_form(_payload):
    raise CodecError("a value of an unknown form, of a newer version perhaps")


def _text(data):
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogatepass")


def _json(data):
    text = _text(data)
    value, end = _scan_json(text)
    if end != len(text):
        raise ValueError("more than one JSON value")
    return value


# What decodes the payload of a form. Pickles are refused here; see `Disk.decode`.
DECODERS = [_unknown_form] * 16
DECODERS[FORM_BYTES] = DECODERS[FORM_BINARY] = bytes
DECODERS[FORM_STR] = DECODERS[FORM_TEXT] = _text
DECODERS[FORM_INT] = lambda data: int.from_bytes(data, "little", signed=True)
DECODERS[FORM_FLOAT] = lambda data: _F64.unpack(data)[0]
DECODERS[FORM_NONE] = lambda data: None
DECODERS[FORM_TRUE] = lambda data: True
DECODERS[FORM_FALSE] = lambda data: False
DECODERS[FORM_PICKLE] = _refuse_pickle
DECODERS[FORM_JSON] = _json
DECODERS[FORM_TYPED] = read_typed_json


# ---- keys ----


def _all_finite(key):
    return all(math.isfinite(item) for item in key if type(item) is float)


def encode_other_key(key, codec="json", protocol=4):
    """The letter and the bytes of a key that is no number, no text and no bytes."""
    if type(key) is tuple:
        kinds = set(map(type, key))
        if FLAT.issuperset(kinds) and (float not in kinds or _all_finite(key)):
            try:
                return b"T" + ascii(key).encode()
            except ValueError:
                pass  # An int of more digits than Python writes; typed JSON has it.
    try:
        return b"J" + typed_json(key)
    except TypeError as error:
        if codec != "pickle":
            raise TypeError(f"key: {error}") from None
    return b"P" + pickle.dumps(key, protocol=protocol)


def decode_other_key(data, codec="json"):
    """The key of the bytes that `encode_other_key` made."""
    letter, body = data[:1], data[1:]
    try:
        if letter == b"T":
            return ast.literal_eval(body.decode())
        if letter == b"J":
            return read_typed_json(body)
    except Exception as error:
        raise CodecError(f"a damaged key: {data[:40]!r}") from error
    if letter == b"P":
        if codec == "pickle":
            return pickle.loads(body)
        raise CodecError("a pickled key, and this cache was not opened with codec='pickle'")
    raise CodecError(f"a key of an unknown kind: {data[:40]!r}")


def encode_key(key):
    """The bytes of a str, bytes, float or int of 64 bits; None for another key."""
    kind = type(key)
    if kind is str:
        try:
            return b"\x20" + key.encode()
        except UnicodeEncodeError:
            return b"\x20" + key.encode("utf-8", "surrogatepass")
    if kind is int:
        if 0 <= key < INT_LIMIT:
            return _KIND_U64.pack(0x10, key)
        return _KIND_I64.pack(0x0F, key) if -INT_LIMIT <= key < 0 else None
    if kind is bytes:
        return b"\x30" + key
    if kind is float:
        return b"\x11" + order_float(key)
    return None


def encode_native(key, raw=True):
    """The bytes of a key as `Disk.put` gives it: a number, a text, bytes; or bytes not `raw`."""
    data = encode_key(key) if raw else b"\x40" + bytes(key)
    if data is None:
        name = type(key).__name__
        raise TypeError(f"Disk.put gave a {name} as key; it gives str, bytes, int or float")
    return data


def decode_native(data):
    """The pair (key, raw) of the bytes that `encode_native` made."""
    kind = data[0] if data else None
    try:
        if kind == 0x20:
            return str(data[1:], "utf-8", "surrogatepass"), True
        if kind == 0x30:
            return data[1:], True
        if kind == 0x10 or kind == 0x0F:
            return _I64.unpack(data[1:])[0], True
        if kind == 0x11:
            return float_of_order(data[1:]), True
    except (UnicodeDecodeError, struct_error) as error:
        raise CodecError(f"a damaged key: {data[:40]!r}") from error
    if kind == 0x40:
        return data[1:], False
    shown = data if data is None else data[:40]
    raise CodecError(f"a key of an unknown kind: {shown!r}")
