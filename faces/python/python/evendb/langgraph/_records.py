"""What the checkpointer, the store and the cache share: the form of keys and of values.

A key is a list of texts, each with an end mark. No two lists have the same bytes, and a list that
begins with another list has bytes that begin with its bytes:

    key_of("a/b")     61 2f 62 00 01
    key_of("a", "b")  61 00 01 62 00 01         begins with key_of("a")
"""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

RETRIES = 1000


class Deleted(RuntimeError):
    """A write to a thread or run that was deleted meanwhile."""


class DataSerializer(JsonPlusSerializer):
    """LangGraph's msgpack form, and no other. Only listed types are made again."""

    def __init__(self) -> None:
        super().__init__(pickle_fallback=False, allowed_json_modules=None,
                         allowed_msgpack_modules=None)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        if data[0] not in ("null", "bytes", "bytearray", "msgpack"):
            raise ValueError(f"a record of the form {data[0]!r} is not read")
        return super().loads_typed(data)


def key_of(*parts: Any) -> bytes:
    """Texts, each with an end mark, as docs/keys.md has them: no two lists have the same bytes."""
    return b"".join(str(part).encode("utf-8").replace(b"\0", b"\0\xff") + b"\0\x01"
                    for part in parts)


def parts_of(key: bytes) -> list[str]:
    return [part.replace(b"\0\xff", b"\0").decode("utf-8") for part in key.split(b"\0\x01")[:-1]]


def config_of(thread: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns,
                             "checkpoint_id": checkpoint_id}}


def delete_all(records: Any, prefix: bytes) -> None:
    for key in list(records.keys(prefix=prefix)):
        del records[key]
