"""The long runs of the package's own tests: the same tests, more often.

    python judges/campaign.py [model] [kills] [hostile] [collector]

    model      100,000 steps of hypothesis against the model, and a million quick ones
               (EVENDB_PYTHON_STEPS, EVENDB_PYTHON_QUICK_STEPS, EVENDB_PYTHON_SEED)
    kills      500 writers of a shelf killed in the middle, 500 forks while threads write
    hostile    500 databases to which threads do anything while one closes them
    collector  the whole suite under gc.set_threshold(1), with the interpreter's development mode

Without names all of them are run, one after the other. A variable that is set is taken as it is.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
PYTEST = ["-q", "-s", "-p", "no:cacheprovider"]
UNDER_COLLECTOR = """
import gc, sys, pytest
gc.set_threshold(1)
sys.exit(pytest.main(sys.argv[1:]))
"""
RUNS = {
    "model": ({"EVENDB_PYTHON_STEPS": "100000", "EVENDB_PYTHON_QUICK_STEPS": "1000000"},
              ["-m", "pytest", *PYTEST, "test_model.py"]),
    "kills": ({"EVENDB_PYTHON_KILLS": "500", "EVENDB_PYTHON_FORKS": "500"},
              ["-m", "pytest", *PYTEST, "test_shelve.py", "-k", "killed or forked"]),
    "hostile": ({"EVENDB_PYTHON_HOSTILE": "500"}, ["-m", "pytest", *PYTEST, "test_hostile.py"]),
    "collector": ({"EVENDB_PYTHON_STEPS": "300", "EVENDB_PYTHON_QUICK_STEPS": "2000"},
                  ["-X", "dev", "-W", "ignore", "-c", UNDER_COLLECTOR, *PYTEST, "."]),
}


def main() -> int:
    # A shell lets programs in the background ignore the interrupt, which tests send to programs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    names = sys.argv[1:] or list(RUNS)
    failed = 0
    for name in names:
        variables, arguments = RUNS[name]
        print(f"\n== {name}: {variables}", flush=True)
        done = subprocess.run([sys.executable, *arguments], cwd=TESTS,
                              env={**variables, **os.environ})
        failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
