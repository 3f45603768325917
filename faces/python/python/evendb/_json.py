"""Values as JSON that come back as they were put, for the adapters and the shelf.

`json.dumps` makes a list of a tuple and a text of a key that is a number, and of two keys that get
one text it keeps both, of which a reader sees the last. Such a value is a ``TypeError`` here. What
comes back is equal to what was put; a subclass of `dict`, `list`, `str`, `int` or `float` comes
back as the plain type.
"""

from __future__ import annotations

import json
from typing import Any


def exact_text(value: Any, *, ensure_ascii: bool = True) -> str:
    """The JSON text of a value. A type that JSON does not have is a ``TypeError``."""
    text = json.dumps(value, ensure_ascii=ensure_ascii, separators=(",", ":"))
    check_exact(value, json.loads(text))
    return text


def check_exact(value: Any, read: Any) -> None:
    """Raises ``TypeError`` if `read`, the value that was read from the JSON of `value`, is not the
    same. Equal values need no closer look; a NaN is equal to nothing, so unequal ones do."""
    if read != value:
        _check(value, read, "the value")


def _check(value: Any, read: Any, where: str) -> None:
    if isinstance(value, dict) and isinstance(read, dict):
        for key, one in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key of {where} is {key!r}: JSON has texts as keys alone, and "
                                f"would not give {type(key).__name__} back")
            _check(one, read[key], f"{where}[{key!r}]")
    elif isinstance(value, list) and isinstance(read, list):
        for at, (one, other) in enumerate(zip(value, read)):
            _check(one, other, f"{where}[{at}]")
    elif read != value and value == value:
        raise TypeError(f"{where} is a {type(value).__name__}, which JSON would give back as a "
                        f"{type(read).__name__}")
