"""What the checkpointer, the store and the cache share."""

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


def config_of(thread: str, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns,
                             "checkpoint_id": checkpoint_id}}


def delete_all(records: Any, prefix: bytes) -> None:
    for key in list(records.keys(prefix=prefix)):
        del records[key]
