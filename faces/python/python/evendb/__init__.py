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

from collections.abc import ItemsView, KeysView, Mapping, MutableMapping

from . import _evendb
from ._evendb import *  # noqa: F403
from ._evendb import Keyspace, Reader, Transaction, __version__

Mapping.register(Reader)
MutableMapping.register(Keyspace)
MutableMapping.register(Transaction)

__all__ = [name for name in dir(_evendb) if not name.startswith("_")]
