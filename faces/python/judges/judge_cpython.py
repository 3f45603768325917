"""CPython's own tests of mappings, `dbm`, `dbm.sqlite3` and `shelve`, from the interpreter's
package `test`: test_dbm, test_dbm_sqlite3 (since 3.13), test_shelve, and the mapping tests over a
database.

    python judges/judge_cpython.py [--verbose]

What the tests do to SQLite's file behind the back of `dbm.sqlite3` is done here to a database of
EvenDB: its records are read by another handle, and its files are damaged.
"""

import contextlib
import os
import sys
import tempfile
import unittest

from report import JUDGES, Judge, UnittestRecorder

sys.path.insert(0, str(JUDGES / "shims" / "cpython"))

TEXT = ("the keys of its failing mapping are text, which is refused before the mapping fails"
        " -- TypeError")
UNABLE = {
    "BytesMapping.test_update": TEXT,
    "KeyspaceMapping.test_update": TEXT,
    "TransactionMapping.test_update": TEXT,
}
UNABLE_SINCE_3_13 = {
    "CorruptDatabase.test_corrupt_readwrite":
        "damaged files are refused when the database is opened, not at the first read after it",
    "WhichDBTestCase.test_whichdb_sqlite3":
        "what the test takes for dbm.sqlite3 is EvenDB here, and is told as that -- dbm.evendb",
    "URI.test_uri_substitutions": "SQLite opens URIs, EvenDB paths -- NotImplementedError",
}


def mapping_tests(suite: unittest.TestSuite) -> None:
    from test import mapping_tests

    import evendb

    class BytesMapping(mapping_tests.BasicTestMappingProtocol):
        """A database of bytes, without anything between."""

        def _reference(self):
            return {b"1": b"2", b"key1": b"value1", b"key2": b"\x01\x02\x03"}

        def _empty_mapping(self):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            database = evendb.open(os.path.join(folder.name, "db"))
            self.addCleanup(database.close)
            return database

    class KeyspaceMapping(BytesMapping):
        """A keyspace."""

        def _empty_mapping(self):
            return super()._empty_mapping().keyspace("one")

    class TransactionMapping(BytesMapping):
        """An open transaction."""

        def _empty_mapping(self):
            transaction = super()._empty_mapping().transaction()
            transaction.__enter__()
            self.addCleanup(transaction.rollback)
            return transaction

    class DbmMapping(BytesMapping):
        """The same database by `evendb.dbm`."""

        def _empty_mapping(self):
            import evendb.dbm
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            database = evendb.dbm.open(os.path.join(folder.name, "db"), "c")
            self.addCleanup(database.close)
            return database

    for case in (BytesMapping, KeyspaceMapping, TransactionMapping, DbmMapping):
        suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))


class _BehindTheBack:
    """What stands in for SQLite in the tests of `dbm.sqlite3`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def execute(self, statement: str):  # type: ignore[no-untyped-def]
        import evendb.dbm
        if statement.startswith("SELECT"):
            with evendb.dbm.open(self._path, "r") as database:
                column = 0 if "key" in statement else 1
                return [(record[column],) for record in database.items()]
        for name in os.listdir(self._path):
            if name.startswith("MANIFEST"):
                with open(os.path.join(self._path, name), "r+b") as file:
                    file.write(b"\xff" * 64)
        return []

    def close(self) -> None:
        pass

    def __enter__(self):  # type: ignore[no-untyped-def]
        return self

    def __exit__(self, *exception: object) -> None:
        pass


class _Sqlite3:
    connect = _BehindTheBack


def load() -> unittest.TestSuite:
    from test.support import os_helper

    suite = unittest.TestSuite()
    names = ["test.test_dbm", "test.test_shelve"]
    if sys.version_info >= (3, 13):
        names.append("test.test_dbm_sqlite3")
    for name in names:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName(name))
    if "test.test_dbm_sqlite3" in sys.modules:
        sys.modules["test.test_dbm_sqlite3"].sqlite3 = _Sqlite3()

    remove_file = os_helper.unlink

    def unlink(path: str) -> None:
        """A database is a folder, where that of SQLite is a file."""
        if os.path.isdir(path):
            os_helper.rmtree(path)
        else:
            remove_file(path)

    os_helper.unlink = unlink
    return suite


def main() -> int:
    try:
        import test.mapping_tests
    except ImportError:
        print("skipped: this interpreter has no package `test`"
              " (on Debian it is in libpython3-testsuite)")
        return 0
    expected = UNABLE | (UNABLE_SINCE_3_13 if sys.version_info >= (3, 13) else {})
    judge = Judge(f"CPython {sys.version.split()[0]}: mapping, dbm, shelve", expected)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        suite = load()
        mapping_tests(suite)
        suite.run(UnittestRecorder(judge))
    return judge.finish()


if __name__ == "__main__":
    sys.exit(main())
