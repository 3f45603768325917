"""The stubs say what is there, and type checkers take them (trouble-python 71)."""

import pathlib
import subprocess
import sys

import pytest

import evendb

SAMPLE = pathlib.Path(__file__).parent / "sample_for_type_checkers.py"


def checked(*command):
    package = pathlib.Path(evendb.__file__).parent.parent
    installed = "site-packages" in package.parts
    outcome = subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=pathlib.Path(sys.prefix) if installed else package,
        env={"PATH": "/usr/bin:/bin"}
        | ({} if installed else {"PYTHONPATH": str(package), "MYPYPATH": str(package)}),
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_stubtest_finds_no_difference(tmp_path):
    pytest.importorskip("mypy")
    allowed = tmp_path / "allowed"
    # A class of the extension is not made by a call; its future calls are not public.
    allowed.write_text("evendb._evendb._futures\n")
    checked("mypy.stubtest", "evendb", "--allowlist", str(allowed), "--ignore-unused-allowlist")


def test_mypy_takes_a_sample(tmp_path):
    pytest.importorskip("mypy")
    checked("mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(SAMPLE))


def test_the_package_says_that_it_is_typed():
    assert (pathlib.Path(evendb.__file__).parent / "py.typed").exists()


def test_pyright_takes_the_package_and_a_sample():
    pytest.importorskip("pyright")
    package = pathlib.Path(evendb.__file__).parent
    # The cache's own modules have no types within; its stub has those of its names.
    seen = [
        str(source)
        for source in package.rglob("*.py*")
        if source.suffix == ".pyi" or (source.suffix == ".py" and source.parent.name != "cache")
    ]
    outcome = subprocess.run(
        [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(SAMPLE), *seen],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=package.parent,
    )
    if "0 errors" not in outcome.stdout and "error:" not in outcome.stdout:
        pytest.skip("pyright finds no Node: " + outcome.stderr[-200:])
    assert outcome.returncode == 0, outcome.stdout
