"""Forgetting of DG-CoLearn: an earlier snapshot is predicted from the states of its own time, never from later ones."""

import pandas as pd
import pytest
import small_points
import torch
from exchanging import LINEAR, Driven
from same_points import CHANGING

from algorithms.dg_colearn import DGCoLearn
from analysis.measures.forgetting import matrix
from fedsim.core.errors import ScenarioError
from fedsim.learn.job import Sight
from fedsim.learn.models.roland import Roland

KEEPS = {**LINEAR, "keep": 0.5}


def driven(**options):
    return Driven(DGCoLearn(**{"score_past": True, **options}), Roland(hidden=3, norm="sum", **KEEPS))


def seen(run, met, later):
    """What all clients see of a snapshot for the period that they met."""
    sights = [
        Sight(k, later, own[later].graph, run.state["model"], run.state, run.memories[k], met)
        for k, own in enumerate(run.periods)
    ]
    return run.algorithm.sees_all(sights)


def same(one, other):
    keys = ("x", "state", "halo", "delta1", "delta2", "far", "degree")
    assert {key for key in keys if key in one} == {key for key in keys if key in other}
    for key in keys:
        if key in one:
            torch.testing.assert_close(one[key], other[key], rtol=0, atol=1e-12)


@pytest.mark.parametrize("exchange", ["none", "exact", "paper", "layerwise", "full_graph"])
@pytest.mark.parametrize("later", [1, 2, 3])
def test_a_past_period_is_seen_as_it_was_then_as_long_as_nothing_is_trained(exchange, later):
    """Without training all parameters stay, so that any difference would be knowledge of later periods."""
    run = driven(exchange=exchange)
    run.round(0)
    run.round(1)
    then = [one.graph for one in seen(run, 1, later)]
    for _ in range(2):
        run.round(2)
    run.round(3)
    for one, before in zip(seen(run, 1, later), then, strict=True):
        same(one.graph, before)
    if later > 1:  # today's states know more
        now = [one.graph for one in seen(run, 3, later)]
        assert any(not torch.equal(one["state"], before["state"]) for one, before in zip(now, then, strict=True))


def test_sums_that_outlast_a_snapshot_cannot_be_recalled():
    with pytest.raises(ScenarioError, match="outlast"):
        driven(exchange="fedgcn")


def test_the_states_of_a_past_period_are_those_of_todays_parameters():
    run = driven(exchange="none")
    run.round(0)
    run.round(1)
    then = seen(run, 0, 2)
    for memory in run.memories:
        memory["local"] = {
            name: {key: 2 * leaf for key, leaf in layer.items()} for name, layer in memory["local"].items()
        }
    now = seen(run, 0, 2)
    assert any(not torch.equal(a.graph["state"], b.graph["state"]) for a, b in zip(then, now, strict=True))


def test_a_period_in_which_a_client_was_away_is_seen_from_its_last_one_before():
    run = driven(exchange="none")
    run.absent = {1: 0}
    for t in range(3):
        run.round(t)
    assert [*run.memories[0]["kept"]] == [0]
    graph, expected = run.periods[0][2].graph, run.memories[0]["kept"][0]
    found = seen(run, 1, 2)[0].graph["state"]
    after = run.algorithm.sees({**expected, "local": run.memories[0]["local"]}, graph)["state"]
    torch.testing.assert_close(found, after)


def test_who_began_late_sees_earlier_periods_without_states():
    run = driven(exchange="none")
    run.absent = {0: 0}
    for t in range(3):
        run.round(t)
    assert "state" not in seen(run, 0, 1)[0].graph


def tables(folder, scored, split):
    stream = {**CHANGING["data"]["stream"], "scored": scored}
    data = {**CHANGING["data"], "stream": stream, "dataset": {**CHANGING["data"]["dataset"], "snapshots": 6}}
    data["stream"]["steps"] = 6
    algorithm = {"name": "dg_colearn", "rounds": 3, "score_past": split}
    point = {**CHANGING, "data": data, "algorithm": algorithm, "protocol": {**CHANGING["protocol"], "rounds": 12}}
    row = small_points.run_in(folder, **point)
    return row, pd.read_parquet(folder / "scores.parquet")


@pytest.mark.parametrize("scored", ["split", "ahead_split"])
def test_a_run_scores_all_periods_met_and_nothing_else_changes(scored, tmp_path):
    found = {past: tables(tmp_path / str(past), scored, past) for past in (False, True)}
    (plain, without), (row, scores) = found[False], found[True]
    assert row["fm"] is not None
    assert plain["fm"] is None
    for name in ("bytes_up", "bytes_down", "sim_seconds", "client_seconds"):
        assert row[name] == plain[name]
    for split in ("test", "val"):
        one, other = (matrix(table, "global", "accuracy", split) for table in (without, scores))
        assert one.diagonal() == pytest.approx(other.diagonal(), abs=1e-9)
