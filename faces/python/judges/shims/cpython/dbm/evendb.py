"""`evendb.dbm` under a name inside of the package `dbm`, as CPython's tests ask for."""

from evendb.dbm import *  # noqa: F403
from evendb.dbm import error, library, open, whichdb  # noqa: A004,F401
