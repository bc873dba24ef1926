"""Digests: equal for equal contents, another for whatever has changed, and where."""

import random
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsim.data.graph import csr
from fedsim.trial import trees

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)  # fmt: skip


@given(TREES, TREES)
def test_trees_differ_where_their_texts_do(one, other):
    assert trees.changed(trees.digests(one), trees.digests(one)) == []
    assert bool(trees.changed(trees.digests(one), trees.digests(other))) == (repr(one) != repr(other))


@dataclass
class Seen:
    """Something of an author's."""

    rows: torch.Tensor
    _known: dict[int, int] = field(default_factory=dict)

    @cached_property
    def total(self):
        """What is computed once."""
        return self.rows.sum()


@pytest.mark.parametrize(
    ("value", "change", "path"),
    [
        ({"a": [torch.zeros(2)]}, lambda it: it["a"][0].add_(1), "['a'][0]"),
        ({"a": np.zeros(2)}, lambda it: it["a"].fill(1), "['a']"),
        ({"a": {}}, lambda it: it["a"].update(b=1), "['a']"),
        ([{1}], lambda it: it[0].add(2), "[0]"),
        ({"a": Seen(torch.zeros(2))}, lambda it: it["a"].rows.add_(1), "['a'].rows"),
        ([csr(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1))],
         lambda it: it[0].values().mul_(2), "[0]"),
        ([Seen(torch.zeros(2), {1: 2})], lambda it: it[0]._known.update({1: 3}), "[0]._known[1]"),
        ([torch.Generator()], lambda it: torch.rand(1, generator=it[0]), "[0]"),
        ([np.random.default_rng(0)], lambda it: it[0].random(), "[0]"),
        ([random.Random(0)], lambda it: it[0].random(), "[0]"),
    ],
)  # fmt: skip
def test_a_change_is_found_at_its_path(value, change, path):
    before = trees.digests(value)
    change(value)
    assert trees.changed(before, trees.digests(value)) == [path]


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (Seen(torch.ones(2)), lambda it: it.total),
        (Seen(torch.ones(2)), lambda it: it._known.update({1: 2})),
        ({"x": 1}, lambda it: it.update(layout=object())),
        ({"x": 1}, lambda it: it.update({"optimiser.model": object()})),
    ],
)
def test_what_is_derived_is_no_change(value, change):
    before = trees.digests(value)
    change(value)
    assert trees.changed(before, trees.digests(value)) == []


def test_what_refers_to_itself_ends():
    it = Seen(torch.ones(1))
    it.own = it
    assert len(trees.digests({"it": it})) < 10
