"""Mistakes: mypy --strict and pyright must find something in each line that is marked, and in no
other. It is never run."""

import evendb
import evendb.shelve

db = evendb.open("db")
db["text"]  # wrong
db["text"] = b"v"  # wrong
db[b"k"] = "text"  # wrong
db.get("text")  # wrong
db.put(b"k", 1)  # wrong
db.put(b"k", b"v", ttl="soon")  # wrong
db.items(prefix="text")  # wrong
db.items(b"a")  # wrong
db.keys(backwards=True)  # wrong
length: str = db[b"k"]  # wrong
value: bytes = db.get(b"k")  # wrong
evendb.open("db", "x")  # wrong
evendb.open(1)  # wrong
evendb.key("ann")  # wrong
db.snapshot()[b"k"] = b"v"  # wrong
db.transact(1)  # wrong
evendb.shelve.open("shelf")[b"k"] = 1  # wrong
