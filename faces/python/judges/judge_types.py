"""The types of the package: stubtest, and mypy --strict and pyright (strict) over the stubs, over
the package's own modules, over a right program and over one with a mistake in each marked line.

    python judges/judge_types.py [--verbose]

It needs the packages mypy and pyright; pyright needs node.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from report import JUDGES, Judge

import evendb

PACKAGE = Path(evendb.__file__).parent
TYPING = JUDGES / "typing"
UNABLE: dict[str, str] = {}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    # An installed package is found without help, and mypy refuses to be helped there.
    if "site-packages" not in PACKAGE.parts:
        paths = [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
        environment |= {"MYPYPATH": str(PACKAGE.parent), "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True,
                          cwd=TYPING, env=environment)


def judge_run(judge: Judge, test: str, *command: str) -> None:
    done = run(*command)
    if done.returncode == 0:
        judge.passed(test)
    else:
        judge.failed(test, done.stdout + done.stderr)


def pyright(path: str) -> list[dict]:  # type: ignore[type-arg]
    """The findings of pyright, strict, in a file or in the package."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=TYPING) as settings:
        json.dump({"typeCheckingMode": "strict", "include": [path],
                   "extraPaths": [str(PACKAGE.parent)], "pythonVersion": "3.11",
                   "reportPrivateUsage": False, "reportMissingModuleSource": False,
                   "reportUnusedExpression": False}, settings)
        settings.flush()
        done = run("pyright", "--outputjson", "--project", settings.name, "--pythonpath",
                   sys.executable)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return [{"severity": "error", "message": done.stdout + done.stderr,
                 "range": {"start": {"line": -1}}}]
    if not report["summary"]["filesAnalyzed"]:
        return [{"severity": "error", "message": f"{path} was not read",
                 "range": {"start": {"line": -1}}}]
    return [found for found in report["generalDiagnostics"] if found["severity"] == "error"]


def judge_right(judge: Judge) -> None:
    judge_run(judge, "mypy: a right program", "mypy", "--strict", "right.py")
    found = pyright("right.py")
    if found:
        judge.failed("pyright: a right program", json.dumps(found, indent=1))
    else:
        judge.passed("pyright: a right program")
    judge_run(judge, "the right program runs", "right")


def judge_wrong(judge: Judge) -> None:
    lines = (TYPING / "wrong.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    text = run("mypy", "--strict", "wrong.py").stdout
    by_mypy = {int(number) for number in re.findall(r"^wrong\.py:(\d+): error", text, re.M)}
    by_pyright = {found["range"]["start"]["line"] + 1 for found in pyright("wrong.py")}
    for tool, found in (("mypy", by_mypy), ("pyright", by_pyright)):
        for number in sorted(marked | found):
            test = f"{tool}: {lines[number - 1] if number > 0 else 'ran'}"
            if number in marked and number in found:
                judge.passed(test)
            else:
                judge.failed(test, "not found" if number in marked else "found without need")


def main() -> int:
    for tool in ("mypy", "pyright"):
        try:
            __import__(tool)
        except ImportError:
            print(f"skipped: {tool} is not installed")
            return 0
    if run("pyright", "--version").returncode != 0:
        print("skipped: pyright does not run here; it needs node, or a registry that has it")
        return 0
    judge = Judge("types", UNABLE)
    judge_run(judge, "stubtest", "mypy.stubtest", "evendb", "--allowlist", "stubtest.allowed",
              "--ignore-unused-allowlist")
    judge_run(judge, "mypy: the package", "mypy", "--strict", "--config-file", "mypy.ini", "-p",
              "evendb")
    judge_right(judge)
    judge_wrong(judge)
    return judge.finish()


if __name__ == "__main__":
    sys.exit(main())
