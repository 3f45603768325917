"""The examples of the docstrings run."""

import doctest
import inspect

import pytest

import evendb


def documented():
    for name in evendb.__all__ + ["__module__"]:
        thing = evendb if name == "__module__" else getattr(evendb, name)
        if thing.__doc__:
            yield name, thing.__doc__
        if inspect.isclass(thing):
            for inner, member in vars(thing).items():
                text = getattr(member, "__doc__", None)
                if text and not inner.startswith("__"):
                    yield f"{name}.{inner}", text


EXAMPLES = {name: text for name, text in documented() if ">>>" in text}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_run(name, tmp_path):
    globals_ = {"evendb": evendb, "path": tmp_path / "example.db"}
    with evendb.open(tmp_path / "test.db") as db:
        globals_["db"] = db
        test = doctest.DocTestParser().get_doctest(EXAMPLES[name], globals_, name, None, 0)
        outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert outcome.attempted > 0 and outcome.failed == 0


def test_everything_public_is_documented():
    missing = []
    for name in evendb.__all__:
        thing = getattr(evendb, name)
        if not thing.__doc__:
            missing.append(name)
        if inspect.isclass(thing) and not issubclass(thing, BaseException):
            members = [m for m in vars(thing) if not m.startswith("_")]
            getters = {"position", "durability", "writes", "kind", "keyspace", "keyspace_id"}
            getters |= {"key", "value", "operands", "stop", "expires"}
            for member in members:
                if not getattr(thing, member).__doc__ and member not in getters:
                    missing.append(f"{name}.{member}")
    assert missing == []


def test_the_examples_are_many():
    assert len(EXAMPLES) >= 15
