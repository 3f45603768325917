"""Nothing is unpickled unless it was asked for by name; readers see whole values."""

import os
import pathlib
import pickle
import sqlite3
import threading

import pytest

import evendb
from evendb.cache import Cache, CodecError, Deque, FanoutCache, Index, Lock, migrate
from evendb.cache import _codec as codec
from evendb.cache import _record as rec
from test_cache_migrate import make_diskcache


class Trap:
    """Its pickle makes a folder when it is read."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture
def planted(tmp_path):
    """A cache with a pickle as a value, as a key, as a tag and in a setting."""
    sprung = tmp_path / "sprung"
    with Cache(tmp_path / "cache", codec="pickle") as cache:
        cache["value"] = Trap(sprung)
        cache[1] = "good"
        trap = pickle.dumps(Trap(sprung))
        cache.set("tagged", 2)
        with cache._transact() as unit:
            unit.put(b"\x40P" + trap, rec.Fields(codec.FORM_STR, b"x"))
            key = codec.encode_key("tagged")
            entry = unit.entry(key)
            fields = rec.Fields.of(entry)
            fields.tag = b"\x40P" + trap
            unit.put(key, fields, entry)
            for name in (b"scodec", b"sdisk_codec", b"sdisk__directory", b"sdisk_put"):
                unit.write_index.put(name, b'"pickle"')
    return tmp_path / "cache", sprung


def test_a_planted_pickle_is_not_read(planted):
    """Values were pickled by default: who can write the folder runs code in the reader."""
    directory, sprung = planted
    with Cache(directory) as cache:
        assert cache[1] == "good"
        with pytest.raises(CodecError, match="'value'.*codec='pickle'"):
            cache["value"]
        with pytest.raises(CodecError, match="codec='pickle'"):
            list(cache)
        with pytest.raises(CodecError, match="codec='pickle'"):
            list(cache.iterkeys())
        with pytest.raises(CodecError, match="codec='pickle'"):
            cache.get("tagged", tag=True)
        with pytest.raises(CodecError, match="codec='pickle'"):
            cache.pop("value")
        cache.check()
        cache.cull()
        assert cache.clear() == 4
    for make in (lambda: Deque(directory=str(directory)), lambda: Index(str(directory))):
        assert len(make()) == 0
    assert not sprung.exists()


def test_migration_skips_pickled_rows(tmp_path):
    """Values were pickled by default: migration skips and counts such rows unless asked."""
    sprung = tmp_path / "sprung"
    trap = pickle.dumps(Trap(sprung))
    rows = [("good", 1, None, None, 1, None, "value"), ("bad", 1, None, None, 4, None, trap),
            (trap, 0, None, None, 1, None, "value")]
    make_diskcache(tmp_path / "old", rows)
    report = migrate(tmp_path / "old", tmp_path / "new")
    assert (report.copied, report.pickled) == (1, 2)
    assert not sprung.exists()
    with Cache(tmp_path / "new") as cache:
        assert dict((key, cache[key]) for key in cache) == {"good": "value"}


def test_the_folder_is_the_owners(tmp_path):
    """Folders were readable by others."""
    with Cache(tmp_path / "cache") as cache:
        assert os.stat(cache.directory).st_mode & 0o777 == 0o700
    fanout = FanoutCache()
    assert os.stat(fanout.directory).st_mode & 0o777 == 0o700
    fanout.close()


def test_a_files_name_cannot_leave_the_folder(tmp_path):
    """A planted record that names a file elsewhere is refused."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    with Cache(tmp_path / "cache", disk_files=True) as cache:
        for name in ("../secret", str(secret)):
            fields = rec.Fields(codec.FORM_BINARY, name.encode())
            fields.file, fields.file_bytes = name, 6
            with cache._transact() as unit:
                key = codec.encode_key("key")
                unit.put(key, fields)
            with pytest.raises(CodecError, match="outside"):
                cache["key"]
            with pytest.raises(CodecError, match="outside"):
                cache.read("key")
    assert secret.exists()


@pytest.mark.parametrize("files", [False, True])
def test_a_reader_has_a_whole_value(tmp_path, files):
    """Half-written values were read, or files were missing, while others trimmed."""
    values = [bytes([letter]) * 500_000 for letter in b"ab"]
    problems, stop = [], threading.Event()
    with Cache(tmp_path / "cache", disk_files=files, size_limit=1_250_000) as cache:

        def read():
            try:
                while not stop.is_set():
                    try:
                        with cache.read("key") as file:
                            data = file.read(170_000) + file.read()
                    except KeyError:
                        continue
                    if data not in values:
                        problems.append(f"{len(data)} bytes")
                    value = cache.get("key")
                    if value is not None and value not in values:
                        problems.append(f"got {len(value)} bytes")
            except Exception as error:
                problems.append(repr(error))

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for turn in range(8):
            cache.set("key", values[turn % 2], expire=60)
            cache.set(turn, values[0])
            (cache.cull, cache.clear, cache.expire, lambda: cache.delete("key"))[turn % 4]()
        stop.set()
        for thread in threads:
            thread.join()
        assert problems == [] and cache.check() == []


def test_a_bytearray_is_refused_and_a_file_is_read_at_the_call(tmp_path):
    """A buffer that another thread changes meanwhile is not taken; a file's bytes are copied."""
    with Cache(tmp_path / "cache") as cache:
        with pytest.raises(TypeError, match="bytearray"):
            cache.set("key", bytearray(b"x"))

        class File:
            def __init__(self):
                self.chunks = [b"one", bytearray(b"two"), b""]

            def read(self, size):
                return self.chunks.pop(0)

        cache.set("key", File(), read=True)
        assert cache["key"] == b"onetwo"


def test_a_second_process_is_told(tmp_path, script):
    """Several processes: one writes, the others are told what to do instead."""
    with Cache(tmp_path / "cache") as cache:
        cache["key"] = "value"
        done = script(
            """
            import sys, evendb
            from evendb.cache import Cache
            try:
                Cache(sys.argv[1])
            except evendb.Locked as error:
                print(error)
            """,
            tmp_path / "cache",
        )
        assert 'mode="beside"' in done.stdout and done.returncode == 0, done.stderr
    with Cache(tmp_path / "cache") as cache:
        done = script(
            """
            import sys, evendb
            from evendb.cache import Cache
            with Cache(sys.argv[1], mode="beside") as cache:
                print(cache["key"], len(cache), list(cache), cache.get("none", 1))
                try:
                    cache["key"] = 1
                except evendb.ReadOnly as error:
                    print("ReadOnly")
            """,
            tmp_path / "cache",
        )
        assert done.stdout.split() == ["value", "1", "['key']", "1", "ReadOnly"], done.stderr


def test_a_forked_child_gets_an_error_and_does_not_hang(tmp_path, script):
    """Fork while another thread holds the lock: the child used to hang."""
    done = script(
        """
        import os, signal, sys, threading, evendb
        from evendb.cache import Cache
        cache = Cache(sys.argv[1])
        other = sys.argv[1] + "-other"
        inside, out = threading.Event(), threading.Event()
        def hold():
            with cache.transact():
                cache["held"] = 1
                inside.set()
                out.wait()
        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait()
        for turn in range(20):
            child = os.fork()
            if not child:
                signal.alarm(20)
                for call in (lambda: cache.set(1, 1), lambda: cache.get(1), lambda: list(cache)):
                    try:
                        call()
                        os._exit(2)
                    except evendb.ForkError:
                        pass
                cache.close()
                try:
                    with Cache(other) as mine:
                        mine["key"] = 1
                except evendb.ForkError:
                    pass
                os._exit(0)
            if os.waitpid(child, 0)[1] != 0:
                os._exit(3)
        out.set()
        thread.join()
        assert cache["held"] == 1
        cache.close()
        print("good")
        """,
        tmp_path / "cache",
    )
    assert done.stdout == "good\n", done.stderr


def test_a_fork_beside_a_cache_that_opens_and_closes(tmp_path, script):
    """The lock of openings was taken by another thread at the fork: the child hung for ever."""
    done = script(
        """
        import os, signal, sys, threading, evendb
        from evendb.cache import Cache
        cache = Cache(sys.argv[1])
        ended = threading.Event()
        def reopen():
            while not ended.is_set():
                cache.close()
                cache.get("key")
        thread = threading.Thread(target=reopen)
        thread.start()
        told = 0
        for turn in range(60):
            child = os.fork()
            if not child:
                signal.alarm(20)
                for call in (lambda: cache.set("key", 1), lambda: Cache(sys.argv[1] + "-other")):
                    try:
                        call()
                    except evendb.ForkError:
                        pass
                    except evendb.Locked:
                        pass  # It was closed at the fork, and the parent has opened it since.
                os._exit(0)
            told += os.waitpid(child, 0)[1] == 0
        ended.set()
        thread.join()
        cache["key"] = 2
        cache.close()
        print(told)
        """,
        tmp_path / "cache",
    )
    assert done.stdout == "60\n", (done.stdout, done.stderr)


def test_a_lock_is_gone_with_its_directory(tmp_path):
    """A directory that was removed under a cache is made anew by the next one."""
    import shutil

    old = Cache(tmp_path / "cache")
    old["key"] = 1
    shutil.rmtree(tmp_path / "cache")
    with Cache(tmp_path / "cache") as new:
        assert "key" not in new
        new["key"] = 2
        lock = Lock(new, "lock")
        with lock:
            assert lock.locked()
    with Cache(tmp_path / "cache") as new:
        assert new["key"] == 2
    assert isinstance(evendb.Locked("x"), evendb.Error) and sqlite3.sqlite_version


def test_a_reader_beside_the_writer_moves_on(tmp_path):
    """A reader sees the writer's last checkpoint, and `refresh` takes it to the newest one."""
    with Cache(tmp_path / "cache") as writer:
        writer["a"] = 1
    with Cache(tmp_path / "cache", mode="beside") as reader:
        other = Cache(tmp_path / "cache", mode="beside")
        assert reader["a"] == 1 and list(reader) == ["a"]
        with Cache(tmp_path / "cache") as writer:
            writer["b"] = 2
            writer.set("a", 3, expire=1000)
        assert "b" not in reader and reader["a"] == 1
        reader.refresh()
        for cache in (reader, other):
            assert cache["b"] == 2 and cache["a"] == 3 and len(cache) == 2
            assert cache.get("a", expire_time=True)[1] is not None
            assert cache.stats() == (0, 0) and cache.volume() > 0
            for call in (cache.clear, cache.expire, cache.check, cache.pull):
                with pytest.raises(evendb.ReadOnly):
                    call()
        other.close()


def test_the_example_of_the_page_runs(tmp_path, monkeypatch):
    """The first example of docs/python-cache.md."""
    places = [folder / "docs/python-cache.md" for folder in pathlib.Path(__file__).parents]
    page = next(place for place in places if place.exists()).read_text()
    code = page.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "example"}
    exec(compile(code, "python-cache.md", "exec"), names)
    with Cache("pages.cache") as cache:
        assert "home" not in cache and cache.size_limit == 200_000_000
        assert cache[names["area"].__cache_key__(2, 3)] == {"area": 6, "sides": (2, 3)}
