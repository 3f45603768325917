"""diskcache's own tests over `evendb.cache`: test by test, with a reason for each that fails.

    python judges/diskcache.py [--work DIR] [--values files|default|both] [--only TEXT]

The judge downloads the source archive of diskcache 5.6.3 from PyPI into DIR (target/judges), makes
a package `diskcache` there that is a shim over `evendb.cache` with codec="pickle", and runs the 179
tests of test_core, test_fanout, test_deque, test_index and test_recipes by pytest. Nothing of
diskcache's code is imported or committed.

Twice: with values of 32 KiB and more as files of their own, as diskcache has them
(`disk_files=True`), and with the default of `evendb.cache`, which has files from 1 MiB on. At least
95 % of each run must pass.

EXPECTED says which tests fail, and why. A failure that is not there, or a test there that passes,
fails the judge; so does a test of the 179 that was not run.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = "5.6.3"
SUITES = ("core", "fanout", "deque", "index", "recipes")
# 181 lines begin with `def test`; two of them are functions inside of tests.
TOTAL = 179
MINIMUM = 0.95

SQLITE = "reaches into SQLite through private attributes of diskcache"
EXPECTED = {
    "core::test_pragma_error": SQLITE,
    "core::test_close_error": SQLITE,
    "core::test_set_timeout": SQLITE,
    "core::test_add_timeout": SQLITE,
    "core::test_check": SQLITE + " (an UPDATE of its table)",
    "core::test_integrity_check": "damages cache.db, SQLite's file",
    "core::test_custom_eviction_policy": "adds an eviction policy that is a text of SQL",
    "fanout::test_custom_filename_disk": "looks for files in folders of shards; there are none",
}
# It compares the pragmas among the default settings; here are none, so it asks nothing.
EMPTY = {"core::test_pragmas"}

SHIM = '''"""diskcache's names over evendb.cache, with codec="pickle". The judge makes it."""

import os
import sys

from evendb import cache as _cache
from evendb.cache import *  # noqa: F403
from evendb.cache import _disk as core
from evendb.cache import Deque as _Deque, Index as _Index

sys.modules[__name__ + ".core"] = core
FILES = os.environ["JUDGE_VALUES"] == "files"
if FILES:
    # `_how` gives it to each cache, so it is a default of this package.
    DEFAULT_SETTINGS = {**_cache.DEFAULT_SETTINGS, "disk_files": True}


def _how(settings):
    settings.setdefault("codec", "pickle")
    if FILES:
        settings.setdefault("disk_files", True)
    return settings


class Cache(_cache.Cache):
    def __init__(self, *args, **settings):
        super().__init__(*args, **_how(settings))


class FanoutCache(_cache.FanoutCache):
    def __init__(self, *args, **settings):
        super().__init__(*args, **_how(settings))


class Deque(_Deque):
    codec = "pickle"


class Index(_Index):
    codec = "pickle"
'''


def fetch(work):
    """The folder of diskcache's tests, downloaded if it is not there."""
    folder = work / f"diskcache-{VERSION}"
    if not (folder / "tests").is_dir():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary",
                   ":all:", "--dest", str(work), f"diskcache=={VERSION}"]
        subprocess.run(command, check=True)
        with tarfile.open(work / f"diskcache-{VERSION}.tar.gz") as archive:
            archive.extractall(work, filter="data")
    return folder / "tests"


def run(work, values, only):
    """{test: (passed, text)} of one run."""
    place = work / f"run-{values}"
    shutil.rmtree(place, ignore_errors=True)
    (place / "shim" / "diskcache").mkdir(parents=True)
    (place / "shim" / "diskcache" / "__init__.py").write_text(SHIM)
    for suite in SUITES:
        shutil.copy(fetch(work) / f"test_{suite}.py", place)
    (place / "pytest.ini").write_text("[pytest]\n")
    (place / "tmp").mkdir()
    report = place / "report.xml"
    # The package that is installed or on PYTHONPATH, else the sources beside this file.
    found = importlib.util.find_spec("evendb")
    python = Path(found.origin).parents[1] if found else ROOT / "python"
    environment = {**os.environ, "JUDGE_VALUES": values, "TMPDIR": str(place / "tmp")}
    paths = [str(place / "shim"), str(python), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short",
               f"--junitxml={report}", *(["-k", only] if only else [])]
    command += [f"test_{suite}.py" for suite in SUITES]
    with open(place / "output.txt", "w") as output:
        subprocess.run(command, cwd=place, env=environment, stdout=output, stderr=output)
    results = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = case.get("classname").rpartition(".")[2].removeprefix("test_")
        bad = [child for child in case if child.tag in ("failure", "error")]
        text = (bad[0].get("message") or "").splitlines() if bad else []
        results[f"{name}::{case.get('name')}"] = not bad, text[0] if text else ""
    shutil.rmtree(place / "tmp", ignore_errors=True)
    return results


def judge(values, results, whole):
    """Prints the results of one run; how many are not as expected."""
    wrong = 0
    print(f"\nfiles of values from {'32 KiB' if values == 'files' else '1 MiB (the default)'} on")
    for name, (passed, text) in sorted(results.items()):
        reason = EXPECTED.get(name)
        if passed and reason is None:
            print(f"  passed   {name}" + (" (asks nothing here)" if name in EMPTY else ""))
        elif passed:
            wrong += 1
            print(f"  PASSED, BUT IS LISTED AS A FAILURE   {name}")
        elif reason is not None:
            print(f"  failed   {name}: {reason}")
        else:
            wrong += 1
            print(f"  FAILED, NOT LISTED   {name}: {text}")
    passed = sum(ok for ok, _ in results.values())
    if whole and len(results) != TOTAL:
        wrong += 1
        print(f"  {len(results)} TESTS WERE RUN INSTEAD OF {TOTAL}")
    if passed < MINIMUM * len(results) and whole:
        wrong += 1
        print("  FEWER THAN 95 % PASS")
    print(f"  {passed} of {len(results)} passed ({100 * passed / max(len(results), 1):.1f} %); "
          f"{wrong} not as expected")
    return wrong


def main():
    """See the head of the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=ROOT / "target" / "judges")
    parser.add_argument("--values", choices=("files", "default", "both"), default="both")
    parser.add_argument("--only", default="", help="pytest's -k")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    work = options.work.resolve()
    kinds = ("files", "default") if options.values == "both" else (options.values,)
    wrong = sum(judge(k, run(work, k, options.only), not options.only) for k in kinds)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
