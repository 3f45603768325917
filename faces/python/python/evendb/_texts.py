"""Lists of texts as keys, for the adapters.

Each text has an end mark, as docs/keys.md has it: 0x00 is written as 0x00 0xff, and 0x00 0x01 ends
the text. No two lists have the same bytes, and a list that begins with another list has bytes that
begin with its bytes:

    key_of("a/b")     61 2f 62 00 01
    key_of("a", "b")  61 00 01 62 00 01         begins with key_of("a")
"""

from __future__ import annotations


def key_of(*parts: object) -> bytes:
    """The key of these texts; what is no text is taken as its `str`. A lone surrogate is a
    `UnicodeEncodeError`."""
    return b"".join(str(part).encode("utf-8").replace(b"\0", b"\0\xff") + b"\0\x01"
                    for part in parts)


def parts_of(key: bytes) -> list[str]:
    """The texts of a key."""
    return [part.replace(b"\0\xff", b"\0").decode("utf-8") for part in key.split(b"\0\x01")[:-1]]
