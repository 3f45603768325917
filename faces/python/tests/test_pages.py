"""The programs and examples of docs/python.md run, one after the other, and print what they say."""

import doctest
import pathlib
import re

import pytest

PAGES = [folder / "docs" / "python.md" for folder in pathlib.Path(__file__).parents]
PAGE = next((page for page in PAGES if page.exists()), None)


@pytest.mark.skipif(PAGE is None, reason="the page is not above the tests")
def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    text = PAGE.read_text(encoding="ascii")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)
    runner = doctest.DocTestRunner()
    parser = doctest.DocTestParser()
    for place, (language, block) in enumerate(blocks):
        if language != "python":
            continue
        if block.startswith(">>>"):
            example = parser.get_doctest(block, names, f"block {place}", str(PAGE), 0)
            runner.run(example, clear_globs=False, out=lambda words: print(words))
            names.update(example.globs)
        else:
            exec(compile(block, str(PAGE), "exec"), names)
            assert capsys.readouterr().out == blocks[place + 1][1]
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out
    assert runner.tries > 30
