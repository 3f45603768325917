"""LangGraph's conformance suite for checkpointers, over `evendb.langgraph.EvenDBSaver`.

    python judges/judge_langgraph.py [--verbose]

It needs the package langgraph-checkpoint-conformance, which has the suite.
"""

import asyncio
import sys
import tempfile
from importlib.metadata import version

from report import Judge

UNABLE: dict[str, str] = {}


async def judge_saver(judge: Judge) -> None:
    from langgraph.checkpoint.conformance import checkpointer_test, validate
    from langgraph.checkpoint.conformance.report import ProgressCallbacks

    import evendb
    from evendb.langgraph import EvenDBSaver

    @checkpointer_test(name="EvenDBSaver")
    async def saver():  # type: ignore[no-untyped-def]
        with tempfile.TemporaryDirectory() as folder, evendb.open(f"{folder}/agents.db") as db:
            yield EvenDBSaver(db)

    def record(capability: str, test: str, passed: bool, detail: str | None) -> None:
        if passed:
            judge.passed(f"{capability}.{test}")
        else:
            judge.failed(f"{capability}.{test}", detail or "")

    report = await validate(saver, progress=ProgressCallbacks(on_test_result=record))
    for capability, result in report.results.items():
        if not result.detected:
            judge.failed(capability, "the capability was not found")


def main() -> int:
    try:
        name = f"langgraph-checkpoint-conformance {version('langgraph-checkpoint-conformance')}"
    except ImportError:
        print("skipped: langgraph-checkpoint-conformance is not installed")
        return 0
    judge = Judge(name, UNABLE)
    asyncio.run(judge_saver(judge))
    return judge.finish()


if __name__ == "__main__":
    sys.exit(main())
