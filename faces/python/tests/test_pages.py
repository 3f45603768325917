"""The programs and examples of docs/python.md run, one after the other, and print what they say."""

import doctest
import importlib.util
import pathlib
import re

import pytest

PAGES = [folder / "docs" / "python.md" for folder in pathlib.Path(__file__).parents]
PAGE = next((page for page in PAGES if page.exists()), None)


def is_there(block):
    """Whether what the block needs is installed."""
    if "# This example needs " not in block:
        return True
    needed = {"evendb[keyvalue]": "key_value", "evendb[langgraph]": "langgraph.graph"}
    needs = re.search(r"# This example needs ([^\s]+?)\.?(\s|$)", block)[1]
    try:
        return importlib.util.find_spec(needed.get(needs, needs)) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.skipif(PAGE is None, reason="the page is not above the tests")
def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names, said = {}, []
    text = PAGE.read_text(encoding="ascii")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
    assert "text" not in [lang for lang, text in blocks if "evendb." in text]
    runner = doctest.DocTestRunner()
    parser = doctest.DocTestParser()
    for place, (language, block) in enumerate(blocks):
        if language != "python" or not is_there(block):
            continue
        if block.startswith(">>>"):
            example = parser.get_doctest(block, names, f"block {place}", str(PAGE), 0)
            runner.run(example, clear_globs=False, out=said.append)
            names.update(example.globs)
        else:
            exec(compile(block, str(PAGE), "exec"), names)
            assert capsys.readouterr().out == blocks[place + 1][1]
    assert runner.failures == 0, "".join(said)
    assert runner.tries > 30
