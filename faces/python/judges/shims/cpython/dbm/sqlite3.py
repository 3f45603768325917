"""`evendb.dbm` under the name of `dbm.sqlite3`, for CPython's tests of that module."""

from evendb.dbm import error, open


def _normalize_uri(path):
    raise NotImplementedError("a database of EvenDB is opened by its path, not by a URI")
