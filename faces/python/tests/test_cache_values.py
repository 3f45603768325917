"""Keys and values of `evendb.cache` come back with their types, or are refused when stored."""

import enum
import math
import os
import pathlib
import pickle
import struct
import sys

import pytest

import evendb
from evendb.cache import Cache, CodecError, Disk, Index, JSONDisk
from evendb.cache import _codec as codec
from evendb.cache.core import MODE_PICKLE


class Color(enum.IntEnum):
    RED = 1


class Text(str):
    pass


class Plain:
    """A class that pickle knows and JSON does not."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is Plain and other.value == self.value

    __hash__ = None


VALUES = [
    None, True, False, 0, -1, 2**63, -(2**63), 2**70, -(2**70), 10**5000, 0.0, -0.0, 1.5, math.inf,
    "", "text", "\ud800", "\ud83d\ude00", "\U0001f600", "\0", b"", b"\0\xff", [], [1, [2.5, None]],
    (), (1, "a"), [(1,), b"x"], {}, {"a": 1}, {1: "int", False: "bool"}, {(1, 2): [b"bytes"]},
    {"t": [1]}, {"b": "x", "d": []}, [{"i": "ff"}], [10**5000], {"deep": {"deeper": ("x", {})}},
]
REFUSED = [
    Color.RED, Text("x"), [Color.RED], {"a": Text("x")}, {Text("x"): 1}, {1, 2}, bytearray(b"x"),
    memoryview(b"x"), object(), 1j, Plain(1), ..., [lambda: 1],
]


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    with Cache(tmp_path_factory.mktemp("values") / "cache") as cache:
        yield cache


@pytest.fixture
def cache(opened):
    opened.clear()
    return opened


def same(left, right):
    """Equal, with equal types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right)
    return left == right


@pytest.mark.parametrize("place", range(len(VALUES)))
def test_a_value_comes_back_with_its_type(cache, place):
    """A codec chosen by exact type: bool fell to pickle, not int."""
    value = VALUES[place]
    cache.set("key", value)
    assert same(cache["key"], value)
    assert same(cache.get("key", expire_time=True), (value, None))


def test_a_nan_comes_back_with_its_bits(cache):
    """A codec chosen by exact type: not-a-number, alone and in a list."""
    odd = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_1234))[0]
    cache["nan"] = odd
    assert struct.pack("<d", cache["nan"]) == struct.pack("<d", odd)
    cache["list"] = [math.nan]
    assert math.isnan(cache["list"][0])


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_a_type_that_would_not_come_back_is_refused_when_stored(cache, value):
    """A codec chosen by exact type: subclasses, enums, sets, buffers, objects."""
    with pytest.raises(TypeError, match="codec"):
        cache["key"] = value
    assert "key" not in cache and len(cache) == 0 and cache.check() == []


def test_numpy_numbers_are_refused(cache):
    """A codec chosen by exact type: a number of numpy."""
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="numpy"):
        cache["key"] = numpy.int64(1)


def test_a_value_that_contains_itself_is_refused(cache):
    """A codec chosen by exact type: no end of a value."""
    value = []
    value.append(value)
    with pytest.raises(TypeError, match="contains itself"):
        cache["key"] = value


@pytest.mark.parametrize("place", range(len(VALUES)))
def test_a_key_comes_back_with_its_type(cache, place):
    """What iteration gives finds the value again."""
    key = VALUES[place]
    cache[key] = "value"
    (found,) = cache
    assert same(found, key) and cache[found] == "value"
    del cache[found]
    assert len(cache) == 0


def test_keys_of_equal_numbers_are_different(cache):
    """1, 1.0, True and "1" are four keys, and tuples of them."""
    keys = [1, 1.0, True, "1", b"1", (1,), (1.0,), (True,), ("1",), [1]]
    for number, key in enumerate(keys):
        cache[key] = number
    assert [cache[key] for key in keys] == list(range(len(keys)))
    assert len(cache) == len(keys)


def test_keys_sort_by_kind_and_value(cache):
    """`iterkeys` goes by ints, floats, texts, bytes, and others."""
    keys = [-(2**63), -5, -1, 0, 1, 255, 256, 2**63 - 1, -math.inf, -1.5, -0.0, 0.0, 2.0, math.inf,
            "", "a", "b", b"", b"a", b"\xff"]
    for key in reversed(keys):
        cache[key] = None
    assert same(list(cache.iterkeys()), keys)
    assert same(list(cache.iterkeys(reverse=True)), keys[::-1])
    assert same(list(cache), keys[::-1])


def test_a_key_longer_than_the_store_takes(cache):
    """A key of any length: its hash is the store's key, the whole key is compared."""
    keys = ["x" * 100_000, "x" * 100_000 + "y", ("f", "x" * 100_000, None), b"x" * 70_000]
    for number, key in enumerate(keys):
        cache[key] = number
    assert list(cache) == keys
    assert set(map(type, cache.iterkeys())) == {str, tuple, bytes}
    assert [cache.get(key) for key in keys] == [0, 1, 2, 3]
    assert cache.touch(keys[0], 60) and cache.pop(keys[1]) == 1
    assert cache.check() == [] and cache.clear() == 3


def test_a_compound_value_under_each_codec(tmp_path):
    """What one codec stores as JSON the other reads."""
    with Cache(tmp_path / "cache") as cache:
        for number, value in enumerate(VALUES):
            cache[number] = value
    with Cache(tmp_path / "cache", codec="pickle") as cache:
        for number, value in enumerate(VALUES):
            assert same(cache[number], value)


def test_a_class_that_changed_names_its_key(tmp_path, monkeypatch):
    """Reading a stored object raised TypeError inside of unpickling: the class has changed."""
    with Cache(tmp_path / "cache", codec="pickle") as cache:
        cache["good"] = Plain(1)
        cache["bad"] = Plain(2)
        assert cache["good"] == Plain(1)
        record = pickle.dumps(Plain(3)).replace(b"Plain", b"Gone!")
        with monkeypatch.context() as patch:
            patch.setattr(codec.pickle, "dumps", lambda value, protocol: record)
            cache["bad"] = Plain(2)
        for read in (lambda: cache["bad"], lambda: cache.pop("bad"), lambda: cache.incr("bad")):
            with pytest.raises(CodecError, match="'bad'"):
                read()
        assert list(cache) == ["good", "bad"]
        assert cache.delete("bad") and cache.set("bad", 1) and cache["bad"] == 1


def test_an_unknown_form_names_its_key(cache):
    """A codec byte of a newer version: a typed error; delete, overwrite, iteration go on."""
    cache["good"], cache["bad"] = 1, 2
    record = cache._read(codec.encode_key("bad"))
    with cache._transact() as unit:
        unit.write_values.put(codec.encode_key("bad"), b"\x0f" + record[1:])
    with pytest.raises(CodecError, match="'bad'.*newer version"):
        cache.get("bad")
    assert list(cache) == ["good", "bad"]
    cache["bad"] = 3
    assert cache["bad"] == 3 and cache.check() == []


def test_damaged_json_names_its_key(cache):
    """A payload that cannot be decoded is a typed error."""
    cache["bad"] = [1]
    record = cache._read(codec.encode_key("bad"))
    for payload in (b"[1] 2", b"[1", b'{"x": 1}', b"\xff"):
        for form in (codec.FORM_JSON, codec.FORM_TYPED):
            if (payload, form) == (b'{"x": 1}', codec.FORM_JSON):
                continue
            with cache._transact() as unit:
                head = bytes([form]) + record[1:17]
                unit.write_values.put(codec.encode_key("bad"), head + payload)
            with pytest.raises(CodecError, match="'bad'"):
                cache.get("bad")


def test_a_disk_of_ones_own(tmp_path):
    """A subclass of Disk, as diskcache's JSONDisk, sees each key and value."""
    with Cache(tmp_path / "cache", disk=JSONDisk, disk_compress_level=6) as cache:
        cache[{"a": 1}] = (1, {"b": [2]})
        assert cache[{"a": 1}] == [1, {"b": [2]}]
        assert list(cache) == [{"a": 1}]
        assert cache.incr("n", 2) == 2 and cache.incr("n") == 3
    with pytest.raises(ValueError, match="subclass"):
        Cache(tmp_path / "other", disk=dict)


def test_errors_of_a_disk_of_ones_own(tmp_path):
    """A program catches what its own Disk raises (dspy's reads pickles by a list of types)."""

    class Refused(Exception):
        pass

    class Careful(Disk):
        def fetch(self, mode, filename, value, read):
            if mode != MODE_PICKLE:
                return super().fetch(mode, filename, value, read)
            if value is None:
                value = (pathlib.Path(self._directory) / filename).read_bytes()
            if b"Plain" in value:
                raise Refused
            return pickle.loads(value)

    disk = type("Bound", (Careful,), {})
    with Cache(tmp_path / "cache", disk=disk, codec="pickle") as cache:
        cache["good"], cache["bad"] = {1, 2}, Plain(1)
        cache["large"], cache["large and bad"] = ["x"] * 2**20, [Plain(1), "x" * 2**20]
        assert cache["good"] == {1, 2} and cache["large"] == ["x"] * 2**20
        for key in ("bad", "large and bad"):
            for call in (lambda: cache[key], lambda: cache.get(key), lambda: cache.pop(key)):
                with pytest.raises(Refused):
                    call()
            assert cache.delete(key) and key not in cache
        assert cache.check() == []


def test_in_the_place_of_diskcache_for_a_library(tmp_path, monkeypatch):
    """The page's way to give another package this cache when it imports diskcache."""
    places = [folder / "docs/python-cache.md" for folder in pathlib.Path(__file__).parents]
    page = next(place for place in places if place.exists()).read_text()
    code = next(part for part in page.split("```python\n") if "def pickling" in part)
    code = code.split("```")[0]
    for name in ("diskcache", "diskcache.core"):
        monkeypatch.setitem(sys.modules, name, None)
    exec(compile(code, "python-cache.md", "exec"), {"__name__": "stand_in"})
    from diskcache import Cache as Theirs, Deque, FanoutCache, Index
    from diskcache.core import MODE_PICKLE as mode

    assert mode == MODE_PICKLE
    with Theirs(directory=tmp_path / "one", timeout=10) as cache:
        cache["set"] = {1, 2}
        assert cache["set"] == {1, 2} and isinstance(cache, Cache)
    with FanoutCache(str(tmp_path / "two"), shards=16, timeout=10, size_limit=10**7) as fanout:
        assert fanout.set("set", {1, 2}) and fanout.get("set") == {1, 2}
    Index(str(tmp_path / "three"))["set"] = {1}
    Deque([{1}], str(tmp_path / "four"))
    assert Index(str(tmp_path / "three"))["set"] == {1}
    assert list(Deque(directory=str(tmp_path / "four"))) == [{1}]


def test_an_index_is_typed_at_run_time(tmp_path):
    """An Index gives back what it was given, in the order of the keys' coming."""
    index = Index(str(tmp_path / "index"), {"b": 1, 2: (3,)}, c=None)
    assert list(index.items()) == [("b", 1), (2, (3,)), ("c", None)]
    assert index == {"b": 1, 2: (3,), "c": None} and index != {"b": 1}
    assert list(reversed(index)) == ["c", 2, "b"]
    for directory in (tmp_path / "index", os.fsencode(tmp_path / "index")):
        assert Index(directory) == index


def test_a_newer_format_is_refused(tmp_path):
    """A folder of another release: read, or refused by a typed error."""
    with Cache(tmp_path / "cache") as cache:
        cache["key"] = 1
        with cache._transact() as unit:
            unit.write_index.put(b"sformat", b"2")
    with pytest.raises(evendb.Error, match="format 2"):
        Cache(tmp_path / "cache")
    with evendb.open(tmp_path / "cache/cache.evendb") as db:
        db.keyspace("index")[b"sformat"] = b"1"
    with Cache(tmp_path / "cache") as cache:
        assert cache["key"] == 1
