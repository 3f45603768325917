"""EvenDB: an embedded, ordered key-value store. A dictionary of bytes that lasts.

>>> import evendb
>>> with evendb.open(path) as db:
...     db[b"user/1"] = b"Ada"
...     db[b"user/2"] = b"Ben"
...     for key, value in db.items(prefix=b"user/"):
...         print(key, value)
b'user/1' b'Ada'
b'user/2' b'Ben'

One process at a time writes to a database; any number of its threads may. Other processes read
beside it (``mode="beside"``). Nothing is pickled.
"""

import collections.abc
from typing import Any as _Any

from ._evendb import *  # noqa: F403
from ._evendb import Keyspace, Reader, Transaction
from ._evendb import __version__ as __version__

_abc: _Any = collections.abc
_abc.Mapping.register(Reader)
_abc.MutableMapping.register(Keyspace)
_abc.MutableMapping.register(Transaction)

__all__ = [
    "AlreadyExists",
    "ArrowRecords",
    "Batch",
    "CannotLink",
    "Change",
    "Changes",
    "ChangesGone",
    "ChangesLost",
    "Closed",
    "Conflict",
    "Corruption",
    "Database",
    "Deadlock",
    "Error",
    "FilterFailed",
    "ForkError",
    "Full",
    "InvalidArgument",
    "IoError",
    "Keyspace",
    "KeyspaceDropped",
    "Latched",
    "LimitExceeded",
    "LockTimeout",
    "Locked",
    "MergeFailed",
    "NotFound",
    "ReadOnly",
    "Reader",
    "RecordIterator",
    "Records",
    "Savepoint",
    "Snapshot",
    "Stale",
    "TooManyFiles",
    "Transaction",
    "Unsorted",
    "Unsupported",
    "UsedUp",
    "ValueBuffer",
    "Write",
    "WrongKey",
    "backups",
    "destroy",
    "key",
    "open",
    "options",
    "restore",
    "unkey",
    "verify",
]
