"""What byzantine clients send, who they are, and what a tree needs to be finite."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core import seeds, wire
from fedsim.core.errors import ScenarioError, UserError
from fedsim.learn.engine import tree
from fedsim.learner.client import is_finite
from fedsim.net.attackers import Attackers
from fedsim.net.effects.byzantine import Byzantine
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def upload(kind=torch.float32):
    return {
        "update": {"w": torch.arange(-3, 5).reshape(2, 4).to(kind), "b": np.array([2.0, -1.0], np.float32)},
        "ids": torch.tensor([1, 2]), "samples": 7, "rate": 0.5, "name": "x", "none": None,
    }  # fmt: skip


def sent(attack, tree_, **options):
    forges = Byzantine(attack=attack, clients=(1,), **options).forge(3, np.random.default_rng(0))
    return Attackers({client: [forge] for client, forge in forges.items()}).share(1, tree_, np.random.default_rng(5))


@pytest.mark.parametrize("kind", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("attack", "factor", "times"),
    [("sign_flip", None, -1), ("sign_flip", 5.0, -5), ("scaled", None, 10), ("scaled", 0.5, 0.5)],
)
def test_differences_are_multiplied_and_counts_stay(kind, attack, factor, times):
    given_ = upload(kind)
    found = sent(attack, given_, factor=factor)
    assert torch.equal(found["update"]["w"], upload(kind)["update"]["w"] * times)
    assert found["update"]["w"].dtype == kind
    assert found["update"]["b"].tolist() == [2.0 * times, -1.0 * times]
    assert found["update"]["b"].dtype == np.float32
    assert {k: found[k] for k in ("samples", "rate", "name", "none")} == {
        "samples": 7,
        "rate": 0.5,
        "name": "x",
        "none": None,
    }
    assert torch.equal(found["ids"], torch.tensor([1, 2]))
    assert wire.size(found) == wire.size(given_)
    assert torch.equal(given_["update"]["w"], upload(kind)["update"]["w"])  # the client's own is not touched


def test_noise_is_as_large_as_it_says_and_nan_is_no_number():
    large = {"w": torch.full((200, 200), 3.0)}
    noise = sent("noise", large, factor=2.0)["w"] - 3.0
    assert float(noise.std()) == pytest.approx(6.0, rel=0.02)
    assert abs(float(noise.mean())) < 0.1
    assert torch.equal(sent("noise", {"w": torch.zeros(3)})["w"], torch.zeros(3))
    found = sent("nan", upload())
    assert found["update"]["w"].isnan().all()
    assert not is_finite(found)
    assert not is_finite(sent("scaled", {"w": torch.full((2,), 1e38)}))  # too large for its type


def test_several_effects_strike_one_after_the_other():
    twice = Attackers({0: [lambda array, rng: array * 2, lambda array, rng: array + 1]})
    assert twice.share(0, {"w": torch.tensor([3.0])}, np.random.default_rng(0))["w"].tolist() == [7.0]


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.2, 4), (0.27, 5), (1.0, 20)])
def test_a_share_is_drawn_from_the_runs_seed(share, count):
    def chosen(seed):
        attackers = Attackers.drawn([Byzantine(attack="nan", share=share)], 20, partial(seeds.generator, seed))
        return [client for client in range(20) if client in attackers]

    assert [len(chosen(seed)) for seed in range(4)] == [count] * 4
    assert chosen(1) == chosen(1)
    assert len({tuple(chosen(seed)) for seed in range(4)}) == (1 if share in (0.0, 1.0) else 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attack": "nan"}, "give either 'share'"),
        ({"attack": "nan", "share": 0.1, "clients": [1]}, "give either 'share'"),
        ({"attack": "bribe", "share": 0.1}, "attack"),
        ({"attack": "nan", "share": 0.1, "factor": 2.0}, "no meaning"),
        ({"attack": "scaled", "share": 0.1, "factor": 0.0}, "more than 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ScenarioError, match=message):
        find.build("effect", Part(name="byzantine", options=options))


def test_a_client_that_there_is_not_is_refused():
    with pytest.raises(UserError, match="there is no client 3: they are numbered from 0 to 2"):
        Attackers.drawn([Byzantine(attack="nan", clients=(3,))], 3, partial(seeds.generator, 0))


def kinds(values):
    return [torch.tensor(values, dtype=kind) for kind in FLOATS] + [
        np.array(values, np.float64),
        np.array(values, np.float32),
    ]


@settings(deadline=None)
@given(
    st.lists(st.floats(width=16), min_size=1, max_size=5), st.integers(0, 5), st.sampled_from(["dict", "list", "tuple"])
)
def test_a_tree_is_finite_where_every_number_is(values, which, form):
    array = kinds(values)[which]
    held = {"dict": {"a": 1, "b": {"c": array}}, "list": [None, array], "tuple": ("x", (array, 2))}[form]
    narrowed = array.double().tolist() if torch.is_tensor(array) else array.tolist()
    assert is_finite(held) == all(map(math.isfinite, narrowed))


def test_sums_beyond_the_range_and_what_is_no_float():
    for array in kinds([6e4] * 100):
        assert is_finite(array)  # though the sum is infinite in 16 bits
    assert is_finite(
        [torch.tensor([2**62] * 9), torch.tensor([True]), np.array(["x"]), wire.Spec((3,), "float32"), None, "nan", 3]
    )
    assert is_finite(torch.zeros(0))
    for wrong in (math.nan, math.inf, -math.inf, [torch.tensor([math.inf]), torch.tensor([-math.inf])]):
        assert not is_finite({"a": wrong})


def test_rows_of_a_cohort_are_judged_together_and_not_looked_into():
    stacked = {"w": torch.ones(4, 3, 2), "b": {"c": torch.full((4, 1), 1e38)}}
    assert [is_finite({"update": row, "samples": 1}) for row in tree.unstack(stacked, 4)] == [True] * 4
    stacked["w"][2, 1, 0] = math.nan
    rows = tree.unstack(stacked, 4)
    less = [tree.sub(row, {"w": torch.zeros(3, 2), "b": {"c": torch.zeros(1)}}) for row in rows]
    for found in (rows, less):
        assert [is_finite({"update": row, "samples": 1}) for row in found] == [True, True, False, True]
        assert all(row.origin is not None for row in found)
    rows[0]["w"][0, 0] = math.inf  # who is looked into is judged by itself
    assert [is_finite(row) for row in rows] == [False, True, False, True]
