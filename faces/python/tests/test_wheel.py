"""What is installed, and what it does to its interpreter (trouble-python 68, 70)."""

import importlib.metadata
import sys
import sysconfig

import pytest

import evendb


# trouble-python 68
def test_the_installed_wheel_is_the_one_for_all_pythons():
    """A wheel for one Python only, or of a free-threaded one by mistake, was shipped."""
    try:
        distribution = importlib.metadata.distribution("evendb")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("evendb is used from its sources")
    lines = (distribution.read_text("WHEEL") or "").splitlines()
    tags = [line.removeprefix("Tag: ") for line in lines if line.startswith("Tag: ")]
    if not tags:
        pytest.skip("evendb was not installed from a wheel")
    assert [tag.rsplit("-", 1)[0] for tag in tags] == ["cp311-abi3"]
    names = [file.name for file in distribution.files or ()]
    assert names.count("_evendb.abi3.so") == 1
    assert {"py.typed", "_evendb.pyi", "__init__.pyi"} <= set(names)


# trouble-python 70
def test_a_source_distribution_says_that_it_needs_rust():
    """pip wanted Cargo, and the user did not know what for."""
    try:
        data = importlib.metadata.metadata("evendb")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("evendb is used from its sources")
    assert data["Requires-Python"] == ">=3.11"
    assert "Programming Language :: Rust" in data.get_all("Classifier")


# trouble-python 68
@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="a Python with a GIL")
def test_the_import_does_not_turn_the_lock_on():
    assert evendb.open and not sys._is_gil_enabled()


# trouble-python 73
def test_a_value_beyond_two_gib_is_refused(path):
    """A value that no column of 32 bits takes: LimitExceeded, before anything is copied."""
    large = bytes(2_200_000_000)  # Zeros: the system gives no memory before they are read.
    with evendb.open(path, memory_budget="16MiB") as db:
        for call in (lambda: db.put(b"key", large), lambda: db.update({b"key": large})):
            with pytest.raises(evendb.LimitExceeded):
                call()
        assert not db
