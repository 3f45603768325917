"""What the judges share: other people's tests, one by one, and what is expected of each.

A judge runs tests that others wrote, none of which is kept here. Each test that cannot pass is
listed in the judge with its reason. A judge fails if

* a test fails that is not listed, or a listed one passes, or is not there,
* less than 95 % of its tests pass (those that are skipped count neither way), or no test ran.

    judge = Judge("plyvel 1.5.1", {"test_comparator": "keys are in the order of their bytes"})
    judge.passed("test_get"); judge.failed("test_comparator", "Error: ..."); judge.skipped(...)
    sys.exit(judge.finish())

A listed test's failure must also contain the text behind " -- " in its reason, if there is one.
`--verbose` prints each test; without it only those that did not pass are printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

JUDGES = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("EVENDB_PYTHON_TARGET", JUDGES.parents[2] / "target" / "judges"))
MINIMUM = 0.95


class Judge:
    """The outcome of each test of a suite."""

    def __init__(self, name: str, expected: dict[str, str] | None = None) -> None:
        self.name = name
        self.expected = expected or {}
        self.outcomes: dict[str, tuple[str, str]] = {}
        self.complaints: list[str] = []
        self.verbose = "--verbose" in sys.argv

    def passed(self, test: str) -> None:
        self.outcomes.setdefault(test, ("passed", ""))

    def skipped(self, test: str, why: str) -> None:
        self.outcomes.setdefault(test, ("skipped", why))

    def failed(self, test: str, detail: str) -> None:
        kind, before = self.outcomes.get(test, ("", ""))
        self.outcomes[test] = ("failed", before + detail if kind == "failed" else detail)

    def ended(self, how: int) -> None:
        """Takes the exit status of pytest, which says whether all tests were run."""
        if how not in (0, 1):
            self.complaints.append(f"the run of the tests ended early: pytest's status {how}")

    def _print(self, test: str, kind: str, detail: str) -> None:
        reason = self.expected.get(test)
        last = detail.strip().splitlines()[-1] if detail.strip() else ""
        if kind == "failed" and reason is not None:
            told, _, text = reason.partition(" -- ")
            print(f"  unable   {test}: {told} ({last})")
            if text and text not in detail:
                self.complaints.append(f"{test} failed by another error than {text!r}: {last}")
        elif kind == "failed":
            print(f"  FAILED   {test}\n{detail.rstrip()}")
            self.complaints.append(f"{test} failed: {last}")
        elif kind == "skipped":
            print(f"  skipped  {test}: {last}")
        elif self.verbose:
            print(f"  passed   {test}")

    def finish(self) -> int:
        """Prints the report; what the process is to exit with."""
        print(f"\n== {self.name}")
        for test, (kind, detail) in self.outcomes.items():
            self._print(test, kind, detail)
        for test in self.expected:
            kind = self.outcomes.get(test, ("absent", ""))[0]
            if kind != "failed":
                self.complaints.append(f"{test} is listed as unable to pass, and is {kind}")
        kinds = [kind for kind, _ in self.outcomes.values()]
        good, bad, skipped = (kinds.count(kind) for kind in ("passed", "failed", "skipped"))
        share = good / (good + bad) if good + bad else 0.0
        if share < MINIMUM:
            self.complaints.append(f"{share:.1%} of the tests pass, and {MINIMUM:.0%} must")
        for complaint in self.complaints:
            print(f"  complaint: {complaint}")
        print(f"{self.name}: {good} of {good + bad} pass ({share:.1%}), {skipped} skipped: "
              + ("FAILED" if self.complaints else "as expected"), flush=True)
        return 1 if self.complaints else 0


class PytestRecorder:
    """A plugin of pytest that tells a judge what became of each test."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge

    def pytest_runtest_logreport(self, report) -> None:  # type: ignore[no-untyped-def]
        test = report.nodeid.split("::", 1)[1]
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.judge.failed(test, f"{report.longreprtext}\n{crash.message if crash else ''}")
        elif report.skipped:
            self.judge.skipped(test, str(report.longrepr[2] if report.longrepr else ""))
        elif report.when == "call":
            self.judge.passed(test)

    def pytest_collectreport(self, report) -> None:  # type: ignore[no-untyped-def]
        if report.failed:
            self.judge.failed(report.nodeid, report.longreprtext)


class UnittestRecorder(unittest.TestResult):
    """A result of unittest that tells a judge what became of each test, without its module."""

    def __init__(self, judge: Judge) -> None:
        super().__init__()
        self.judge = judge

    @staticmethod
    def _name(test: unittest.TestCase) -> str:
        return ".".join(test.id().split(".")[-2:])

    def _failure(self, test, error) -> None:  # type: ignore[no-untyped-def]
        self.judge.failed(self._name(test), self._exc_info_to_string(error, test))

    def addSuccess(self, test) -> None:  # type: ignore[no-untyped-def]
        self.judge.passed(self._name(test))

    def addError(self, test, err) -> None:  # type: ignore[no-untyped-def]
        self._failure(test, err)

    def addFailure(self, test, err) -> None:  # type: ignore[no-untyped-def]
        self._failure(test, err)

    def addSkip(self, test, reason) -> None:  # type: ignore[no-untyped-def]
        self.judge.skipped(self._name(test), reason)

    def addSubTest(self, test, subtest, err) -> None:  # type: ignore[no-untyped-def]
        if err is not None:
            self._failure(test, err)


def sdist(name: str, version: str) -> Path:
    """The folder of a package's source as the registry serves it, fetched once into target/."""
    folder = TARGET / f"{name}-{version}"
    if not folder.is_dir():
        TARGET.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name,
             "--dest", str(TARGET), f"{name}=={version}"], check=True, stdout=sys.stderr)
        with tarfile.open(TARGET / f"{name}-{version}.tar.gz") as archive:
            archive.extractall(TARGET, filter="data")
    return folder


def without_roots_rights() -> None:
    """Begins the script anew without root's right to read and write everywhere, if it has it:
    some tests are of folders that must not be written."""
    flag = "EVENDB_JUDGE_WITHOUT_ROOTS_RIGHTS"
    if os.geteuid() != 0 or flag in os.environ:
        return
    os.environ[flag] = "1"
    command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable,
               *sys.argv]
    try:
        os.execvp(command[0], command)
    except FileNotFoundError:
        print("setpriv is not there: tests of folders that must not be written may fail")
