import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from drawn_graphs import same
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedsim.data.datasets.synthetic import Synthetic
from fedsim.data.graph import Graph


def degrees(graph: Graph) -> torch.Tensor:
    return torch.bincount(graph["edges"][0], minlength=len(graph["y"]))


def homophily(graph: Graph) -> float:
    source, target = graph["edges"]
    return float((graph["y"][source] == graph["y"][target]).double().mean())


@given(
    nodes=st.integers(60, 400),
    classes=st.integers(2, 6),
    degree=st.floats(0.5, 4.0),
    share=st.floats(0.0, 1.0),
    exponent=st.floats(2.1, 6.0),
    seed=st.integers(0, 999),
)
@settings(max_examples=60, deadline=None)
def test_degree_homophily_and_classes_are_met_exactly(
    nodes: int, classes: int, degree: float, share: float, exponent: float, seed: int
) -> None:
    graph = Synthetic(nodes, classes, 5, degree, share, exponent).load(Path(), seed)
    edges = round(nodes * degree / 2)
    assert graph["edges"].shape[1] == 2 * edges
    assert homophily(graph) * edges == pytest.approx(round(edges * share), abs=1e-6)
    counts = torch.bincount(graph["y"], minlength=classes)
    assert int(counts.max() - counts.min()) <= 1
    assert tuple(graph["x"].shape) == (nodes, 5)


def test_one_seed_one_graph() -> None:
    small = Synthetic(200)
    assert same(small.load(Path(), 1), small.load(Path("elsewhere"), 1))
    assert not same(small.load(Path(), 1), small.load(Path(), 2))


def test_a_smaller_exponent_gives_heavier_tails() -> None:
    def heaviest(exponent: float) -> int:
        return int(degrees(Synthetic(20000, degree=6.0, exponent=exponent).load(Path(), 0)).max())

    assert heaviest(2.2) > 4 * heaviest(6.0)
    # Equal propensities: degrees are Poisson(6), and the largest of 20,000 stays below 25.
    assert heaviest(math.inf) < 25


def test_the_tail_follows_the_power_law() -> None:
    # Hill's estimator over the largest degrees below the cap: P(degree > d) falls as d^-(exponent - 1).
    graph = Synthetic(200_000, classes=2, features=1, degree=10.0, exponent=3.0).load(Path(), 0)
    top = degrees(graph).double().sort(descending=True).values[:2000]
    slope = 1 / float((top[:-1] / top[-1]).log().mean())
    assert slope == pytest.approx(2.0, abs=0.3)


def test_features_hold_the_signal_they_claim() -> None:
    graph = Synthetic(6000, classes=3, features=16, signal=4.0).load(Path(), 3)
    means = torch.stack([graph["x"][graph["y"] == label].mean(0) for label in range(3)])
    assert np.allclose(means.norm(dim=1), 4.0, atol=0.15)
    rest = graph["x"] - means[graph["y"]]
    assert float(rest.std()) == pytest.approx(1.0, abs=0.02)
    silent = Synthetic(6000, classes=3, features=16, signal=0.0).load(Path(), 3)
    assert float(silent["x"].mean(0).abs().max()) < 0.1


def test_node_numbers_say_nothing_of_classes() -> None:
    y = Synthetic(6000, classes=2).load(Path(), 0)["y"].double()
    assert abs(float(torch.corrcoef(torch.stack([y, torch.arange(6000).double()]))[0, 1])) < 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 1}, "classes must be 2"),
        ({"nodes": 10, "classes": 6}, "at least twice"),
        ({"exponent": 2.0}, "exponent"),
        ({"degree": -1.0}, "degree"),
        ({"signal": math.nan}, "signal"),
        ({"nodes": 50, "degree": 40.0}, "must be sparse"),
    ],
    ids=str,
)
def test_options_without_meaning_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TypeAdapter(Synthetic).validate_python(options)


@pytest.mark.long
def test_a_million_nodes_are_drawn_in_seconds() -> None:
    graph = Synthetic(1_000_000, classes=10, features=4).load(Path(), 0)
    assert graph["edges"].shape[1] == 8_000_000
    assert homophily(graph) == pytest.approx(0.8)
