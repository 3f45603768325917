"""The standard package `dbm` with one kind of database in it, that of EvenDB: what CPython's own
tests are run against. All else is the standard package's code, from where it is installed.

`dbm.evendb` and `dbm.sqlite3` are both `evendb.dbm`; the second has the name that CPython's tests
of `dbm.sqlite3` import.
"""

import os as _os
import sysconfig as _sysconfig

_standard = _os.path.join(_sysconfig.get_path("stdlib"), "dbm", "__init__.py")
with open(_standard, encoding="utf-8") as _source:
    exec(compile(_source.read(), _standard, "exec"), globals())

import evendb.dbm as _evendb_dbm

_names = ["dbm.evendb"]
_modules.clear()


def whichdb(filename):
    """The standard names, and `dbm.evendb`."""
    kind = _evendb_dbm.whichdb(filename)
    return "dbm.evendb" if kind == "evendb.dbm" else kind
