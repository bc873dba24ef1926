"""The examples in docstrings give what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for room in ("fedsim", "algorithms", "analysis")
    for path in (ROOT / room).rglob("*.py")
    if "\n    >>> " in path.read_text("utf-8") or "\n        >>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_the_examples_of_a_module_give_what_they_say(module):
    found = doctest.testmod(import_module(module))
    assert found.attempted
    assert not found.failed


def test_examples_are_found():
    assert {"fedsim.core.units", "fedsim.learn.engine.tree"} <= {*WITH_EXAMPLES}
