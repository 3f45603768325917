"""`evendb.shelve` under the name of the standard module, for CPython's tests."""

from evendb.shelve import (
    BsdDbShelf,
    DbfilenameShelf,
    Shelf,
    _ClosedDict,
)


def open(filename, flag="c", protocol=None, writeback=False):
    return DbfilenameShelf(filename, flag, protocol, writeback)
