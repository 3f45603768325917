"""`evendb.dbm` under a name inside of the package `dbm`, as CPython's tests ask for."""

from evendb.dbm import *
from evendb.dbm import error, library, open, whichdb
