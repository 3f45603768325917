"""LangGraph's memory in an EvenDB database: a checkpointer, a store and a cache.

Needs `langgraph-checkpoint` 4 (``pip install evendb[langgraph]``).

    db = evendb.open("agents.db")
    graph = builder.compile(checkpointer=EvenDBSaver(db), store=EvenDBStore(db),
                            cache=EvenDBCache(db))

All three share the database, each in keyspaces whose names begin with ``langgraph.``; the database
is closed by who opened it. Their methods may be called from all threads and event loops: the
``a``-methods run in threads, so that a loop never waits for the disk.

* **Whole or not at all.** Each put, deletion, copy and each batch of the store is one transaction.
  A reader sees one moment of the database, and holds nothing up while it is paused.
* **Texts are texts.** Parts of a key are encoded so that thread ``a/b`` is not ``a`` and ``b``;
  filters are compared as data, and an operator that is not known is a ``ValueError``.
* **Nothing is made of records but data and listed types.** The serializer is LangGraph's msgpack
  with its list of safe types alone, without pickle and without the older JSON form that makes
  objects; ``serde=`` takes another one. Other types come back as their data.
* **What was deleted stays deleted.** A worker that did not notice the deletion of its thread or
  run gets ``Deleted`` for its next put or its writes, for a day. A put without a parent begins the
  thread anew.

What is not here: search by meaning (``query`` is not looked at, as in a store without an index).
"""

from evendb.langgraph._records import Deleted
from evendb.langgraph._saver import EvenDBSaver
from evendb.langgraph._store import EvenDBCache, EvenDBStore

__all__ = ["Deleted", "EvenDBCache", "EvenDBSaver", "EvenDBStore"]
