"""A static graph that arrives in snapshots."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsim.core.errors import ScenarioError
from fedsim.data.streams.snapshots import Snapshots
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

NOWHERE = Path("nowhere")


def loaded(seed: int = 0, **options: Any) -> Any:
    return find.build("dataset", Part(name="arriving", options=options)).load(NOWHERE, seed)


def of(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, **options}


SMALL = of("synthetic", nodes=100, classes=4, features=5, degree=6.0)


def test_in_the_end_it_is_the_graph_it_is_of() -> None:
    still = find.build("dataset", Part(name="digits")).load(NOWHERE, 0)
    shots = Snapshots(steps=10, every="1 updates").snapshots(loaded(of="digits"))  # type: ignore[arg-type]
    assert torch.equal(shots[-1]["edges"], still["edges"])
    assert torch.equal(shots[-1]["y"], still["y"])
    assert torch.equal(shots[-1]["x"], still["x"])
    assert [int(shot["arrived"].sum()) for shot in shots][:2] == [180, 360]
    assert shots[-1]["arrived"].all()


def test_an_edge_is_there_as_soon_as_both_its_ends_are() -> None:
    whole = loaded(of=SMALL, snapshots=5, growth=0.5)
    shots = Snapshots(steps=5, every="1 updates").snapshots(whole)  # type: ignore[arg-type]
    counts = [int(shot["arrived"].sum()) for shot in shots]
    assert counts[0] == 50
    assert counts[-1] == 100
    assert max(np.diff(counts)) - min(np.diff(counts)) <= 1
    for shot in shots:
        ends = shots[-1]["edges"]
        there = shot["arrived"][ends].all(0)
        assert torch.equal(shot["edges"], ends[:, there])
    assert 0 < shots[0]["edges"].shape[1] < shots[-1]["edges"].shape[1]


def test_the_order_is_drawn_from_the_seed() -> None:
    born = [loaded(seed=seed, of="digits")["born"] for seed in (1, 1, 2)]
    assert torch.equal(born[0], born[1])
    assert not torch.equal(born[0], born[2])
    assert not torch.equal(born[0], born[0].sort().values)  # not the order of the nodes' numbers


def test_all_at_once_is_one_snapshot() -> None:
    whole = loaded(of=SMALL, snapshots=1)
    assert (whole["born"] == 0).all()
    assert (whole["since"] == 0).all()


def test_what_cannot_arrive_is_reported() -> None:
    with pytest.raises(ScenarioError, match=r"data\.dataset\.of: 'drifting' is already a graph that changes"):
        loaded(of="drifting")
    with pytest.raises(ScenarioError, match=r"data\.dataset\.of: 'digitz' is not a dataset"):
        loaded(of="digitz")
    with pytest.raises(ScenarioError, match=r"needs the option 'of'"):
        loaded()
