"""The tests of plyvel (a Python interface of LevelDB), over the module in shims/plyvel.

    python judges/judge_plyvel.py [--verbose]

The tests are those of the package's source on PyPI.
"""

import os
import sys

import pytest
from report import JUDGES, Judge, PytestRecorder, sdist, without_roots_rights

VERSION = "1.5.1"
UNABLE = {
    "test_comparator": "keys are in the order of their bytes, and another order is refused"
                       " -- Not implemented: comparator CaseInsensitiveComparator",
    "test_approximate_sizes": "it writes keys of 99,900 bytes; at most 65,535 are allowed"
                              " -- at most 65535",
}


def main() -> int:
    without_roots_rights()
    sys.path.insert(0, str(JUDGES / "shims"))
    tests = sdist("plyvel", VERSION) / "test" / "test_plyvel.py"
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # Other plugins may want a terminal.
    judge = Judge(f"plyvel {VERSION}", UNABLE)
    judge.ended(pytest.main([
        "-p", "no:cacheprovider", "-p", "no:terminal", "--noconftest",
        "-c", os.devnull, "--import-mode=importlib", "--rootdir", str(tests.parent),
        "-W", "error::pytest.PytestUnhandledThreadExceptionWarning", str(tests),
    ], plugins=[PytestRecorder(judge)]))
    return judge.finish()


if __name__ == "__main__":
    sys.exit(main())
