import pathlib
import subprocess
import sys
import textwrap

import pytest

import evendb


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test.db"


@pytest.fixture
def db(path):
    with evendb.open(path, memory_budget="16MiB") as db:
        yield db


@pytest.fixture
def script(tmp_path):
    """Runs a program in a process of its own; returns its outcome."""

    def run(text, *arguments, timeout=60):
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text))
        command = [sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", str(program)]
        command += [str(argument) for argument in arguments]
        package = str(pathlib.Path(evendb.__file__).parent.parent)
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={"PYTHONPATH": package, "PATH": "/usr/bin:/bin"},
        )

    return run
