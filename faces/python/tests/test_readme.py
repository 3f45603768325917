"""The programs of the README run."""

import pathlib
import re

import pytest

README = pathlib.Path(__file__).parent.parent / "README.md"


def test_the_programs_run(tmp_path, monkeypatch, capsys):
    if not README.exists():
        pytest.skip("the README lies beside the sources")
    programs = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert programs
    monkeypatch.chdir(tmp_path)
    for program in programs:
        exec(compile(program, "README.md", "exec"), {})
    assert "b'user/3' b'Eve'" in capsys.readouterr().out
