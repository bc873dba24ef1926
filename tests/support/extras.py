"""Partitions whose packages come with extras of fedsim: tests of them are skipped, and say so, where there are none."""

from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest

from fedsim.data.partition import Partition
from fedsim.data.partitions.louvain import Louvain
from fedsim.data.partitions.metis import Metis
from fedsim.data.partitions.openfgl_louvain import OpenfglLouvain

METIS = pytest.mark.skipif(find_spec("pymetis") is None, reason='pymetis is not installed: pip install -e ".[metis]"')
OPENFGL = pytest.mark.skipif(
    find_spec("sknetwork") is None, reason='scikit-network is not installed: pip install -e ".[openfgl]"'
)
QUICK = partial(Louvain, package="scikit-network")
MARKS = {Metis: METIS, OpenfglLouvain: OPENFGL, QUICK: OPENFGL}


def each(*makes: Any) -> Sequence[Any]:
    """What to parametrise a test by: classes of partitions, or such with options (`partial`), to be called in it."""
    kinds = [make.func if isinstance(make, partial) and make is not QUICK else make for make in makes]
    return [
        pytest.param(make, id=_name(make), marks=[MARKS[kind]] if kind in MARKS else [])
        for make, kind in zip(makes, kinds, strict=True)
    ]


def present(*kinds: type[Partition]) -> list[Partition]:
    """The partitions of these classes whose packages are installed."""
    return [kind() for kind in kinds if kind not in MARKS or not MARKS[kind].args[0]]


def _name(make: Any) -> str:
    options = make.keywords.items() if isinstance(make, partial) else ()
    return "-".join([getattr(make, "func", make).__name__, *(f"{key}={value}" for key, value in options)])
