"""Values that are files: which are, what a crash, a power cut and a full disk leave of them."""

import os
import pathlib

import pytest

import evendb
from evendb.cache import Cache, Disk, FanoutCache

MIB = 2**20


def files(folder):
    return sorted(path.stat().st_size for path in pathlib.Path(folder).rglob("*.val"))


def test_large_values_are_files_by_default(tmp_path):
    """As users of diskcache expect of large values, from where a file is the faster place."""
    with Cache(tmp_path / "cache") as cache:
        assert cache.disk_files == MIB and cache.disk_min_file_size == 2**15
        values = {"bytes": b"x" * MIB, "text": "y" * MIB, "list": ["z" * 1000] * 1100,
                  "typed": ("z" * 1000,) * 1100, "int": 1 << (8 * MIB)}
        for key, value in values.items():
            cache[key] = value
            cache["small"] = b"x" * (MIB - 1)
        assert len(files(cache.directory)) == 4 and files(cache.directory)[0] == MIB
        assert {key: cache[key] for key in values} == values
        assert cache.get("small", read=True).read() == cache["small"] == b"x" * (MIB - 1)
        with cache.read("bytes") as file:
            assert pathlib.Path(file.name).read_bytes() == values["bytes"]
        assert cache.pop("text") == values["text"] and cache.check() == []
        with cache.transact():
            cache["list"] = 1
        assert len(files(cache.directory)) == 2
    with Cache(tmp_path / "cache") as cache:
        assert cache.clear() == 5 and os.listdir(cache.directory) == ["cache.evendb"]


@pytest.mark.parametrize(
    "how, smallest",
    [({}, MIB), ({"disk_files": True}, 2**15), ({"disk_files": False}, None),
     ({"disk_files": 5000}, 2**15), ({"disk_files": 5000, "disk_min_file_size": 100}, 5000),
     ({"disk_files": True, "disk_min_file_size": 100}, 100),
     ({"disk_min_file_size": 2 * MIB}, 2 * MIB)],
)
def test_which_values_are_files(tmp_path, how, smallest):
    """`disk_files` and `disk_min_file_size`, and both after a reopening."""
    for turn in range(2):
        with Cache(tmp_path / "cache", **(how if not turn else {})) as cache:
            for length in (99, 100, 4999, 5000, 2**15, MIB - 1, MIB, 2 * MIB):
                cache["key"] = b"x" * length
                expected = [length] if smallest is not None and length >= smallest else []
                assert files(cache.directory) == expected and len(cache["key"]) == length
    for wrong in ("yes", -1, None, 1.5):
        with pytest.raises(ValueError, match="disk_files"):
            Cache(tmp_path / "cache", disk_files=wrong)


def test_what_read_stores_is_a_file(tmp_path):
    """`set(..., read=True)` copies a file of any length without holding it in memory."""
    (tmp_path / "source").write_bytes(b"abc" * 100)
    with FanoutCache(tmp_path / "cache") as cache:
        with open(tmp_path / "source", "rb") as source:
            assert cache.set("key", source, read=True)
        with cache.read("key") as file:
            assert pathlib.Path(file.name).read_bytes() == b"abc" * 100
        assert files(cache.directory) == [300] and cache["key"] == b"abc" * 100


def test_a_disk_whose_names_are_ones_own(tmp_path):
    """A subclass with a `filename` decides by `disk_min_file_size` alone, as in diskcache."""

    class Named(Disk):
        def filename(self, key=None, value=None):
            name = f"{key}.bin"
            return name, os.path.join(self._directory, name)

    with Cache(tmp_path / "cache", disk=Named) as cache:
        cache["a"], cache["b"] = b"x" * 40_000, b"x" * 30_000
        assert sorted(os.listdir(cache.directory)) == ["a.bin", "cache.evendb"]
        assert cache["a"] == b"x" * 40_000


@pytest.mark.parametrize("length", [0, 1, MIB - 1])
def test_a_file_that_a_power_cut_left_short_is_a_miss(tmp_path, length):
    """The record was durable before its file was: never half of a value."""
    with Cache(tmp_path / "cache", statistics=True) as cache:
        cache["key"], cache["other"] = b"x" * MIB, b"y" * MIB
        with cache.read("key") as file:
            name = file.name
        os.truncate(name, length)
        assert cache.get("key") is None and cache.get("key", 5, read=True) == 5
        for call in (lambda: cache["key"], lambda: cache.read("key")):
            with pytest.raises(KeyError):
                call()
        assert cache.stats() == (1, 4) and cache["other"] == b"y" * MIB
        told = [str(found.message) for found in cache.check(fix=True)]
        assert "is missing, or is cut off" in told[0] and "'key'" in told[0]
        assert cache.check() == [] and list(cache) == ["other"]
        cache["key"] = b"z" * MIB
        assert cache["key"] == b"z" * MIB


def test_sync_includes_the_file(tmp_path, monkeypatch):
    """With store_durability="sync" the file and its folders are synced before the commit."""
    synced = []

    def fsync(handle, real=os.fsync):
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with Cache(tmp_path / "lazy") as cache:
        cache["key"] = b"x" * MIB
    assert synced == []
    with Cache(tmp_path / "cache", store_durability="sync") as cache:
        cache["key"] = b"x" * MIB
        with cache.read("key") as file:
            path = pathlib.Path(file.name)
        expected = [path, path.parent, path.parent.parent, tmp_path / "cache"]
        assert synced == [str(place) for place in expected]


# trouble-python 22
@pytest.mark.parametrize("length", [10_000, 2 * MIB])
def test_a_failure_to_write_comes_from_its_call(tmp_path, script, length):
    """The error came in another thread, or never; then the caller waited for ever.

    If a job of the database met the limit first, the next call tells of that (`Latched`)."""
    done = script(
        """
        import errno, os, resource, signal, sys, evendb
        from evendb.cache import Cache
        signal.alarm(30)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        length = int(sys.argv[2])
        how = {"store_memory_budget": "8MiB", "store_durability": "sync"}
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        cache = Cache(sys.argv[1], **how)
        cache["first"] = 1
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        try:
            for number in range(10_000):
                cache[number] = os.urandom(length)
        except (evendb.Error, OSError) as error:
            first = error.__cause__ if isinstance(error, evendb.Latched) else error
            reason = os.strerror(errno.EFBIG)
            print(type(first).__name__, first.errno == errno.EFBIG, reason in str(error))
        # Reads go on, and what they see agrees; whether the last one is there is not known.
        assert cache["first"] == 1 and len(cache) == len(list(cache))
        assert cache.check() == []
        try:
            cache.close()
        except evendb.Error:
            pass
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with Cache(sys.argv[1], **how) as cache:
            keys = list(cache)
            assert keys[: number + 1] == ["first", *range(number)] and len(keys) <= number + 2
            assert all(len(cache[key]) == length for key in range(number))
            assert len(cache) == len(keys) and cache.check() == []
            cache["more"] = b"x" * length
        """,
        tmp_path / "cache", length,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout in [f"{kind} True True\n" for kind in ("Full", "IoError", "OSError")]


# trouble-python 22
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    """An OSError that names the folder, at the opening or at the set."""
    cache = Cache(tmp_path / "cache")
    os.chmod(tmp_path / "cache", 0o500)
    try:
        with pytest.raises(OSError):
            cache["key"] = b"x" * MIB
        assert "key" not in cache
        with pytest.raises(OSError, match="other"):
            Cache(tmp_path / "cache/other")
    finally:
        os.chmod(tmp_path / "cache", 0o700)
    cache["key"] = b"x" * MIB
    cache.close()


# trouble-python 8
def test_sizes_and_truth_read_nothing(tmp_path):
    """`len` counted all, and `list` asked for it first."""
    with Cache(tmp_path / "cache") as cache:
        assert not cache
        for number in range(500):
            cache[number] = number

        def reads():
            figures = cache._store.db.stats()
            looked = sum(n for name, n in figures.items() if name.startswith("gets."))
            return looked + figures["scanned_records"]

        before = reads()
        assert cache and len(cache) == 500 and cache.volume() > 500 and cache.stats() == (0, 0)
        assert reads() == before
        assert list(cache) == list(range(500))
        assert 500 <= reads() - before <= 510
    assert isinstance(evendb.LimitExceeded("x"), evendb.Error)
