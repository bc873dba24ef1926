"""The tutorial's table of what a class declares against the contracts."""

import re
from inspect import get_annotations
from pathlib import Path

import pytest

from fedsim.clock.protocol import Protocol
from fedsim.clock.sampler import Sampler
from fedsim.learn.algorithm import Algorithm
from fedsim.learn.metric import Metric
from fedsim.net.codec import Codec
from fedsim.net.effect import HOOKS, Effect

TEXT = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text("utf-8")
SECTION = TEXT.partition("### What a class declares")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (\w*) ?\| `(\w+)` \| (.+?) \|", SECTION, re.MULTILINE)
CONTRACTS = {
    "algorithm": Algorithm,
    "effect": Effect,
    "protocol": Protocol,
    "sampler": Sampler,
    "codec": Codec,
    "metric": Metric,
}


def listed():
    """The defaults of each kind's flags, as the table has them."""
    kind, found = "", {}
    for named, flag, default in ROWS:
        kind = named or kind
        found.setdefault(kind, {})[flag] = default
    return found


@pytest.mark.parametrize(("kind", "contract"), CONTRACTS.items())
def test_the_table_has_every_flag_with_its_default(kind, contract):
    hints = {name: str(hint) for base in contract.__mro__ for name, hint in get_annotations(base).items()}
    declared = {name for name, hint in hints.items() if "ClassVar" in hint}
    assert listed()[kind].keys() == declared - {*HOOKS.values(), "declares"}  # set by fedsim
    for name, default in listed()[kind].items():
        value = getattr(contract, name)
        if isinstance(value, bool):
            assert default == str(value).lower(), name
