"""Gradients through time at a client: what it keeps and replays, what it is billed for, what it refuses."""

import pytest
import small_points
import torch
from exchanging import Driven
from same_points import CHANGING

from algorithms.dg_colearn import DGCoLearn, unrolling
from fedsim.core.errors import ScenarioError
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.models.evolve_gcn_o import EvolveGCNO
from fedsim.learn.models.gcrn_baseline import GCRNBaseline

BPTT = {"exchange": "none", "retrain": "full", "bptt": True}


def driven(**options):
    return Driven(DGCoLearn(**{**BPTT, **options}), GCRNBaseline(hidden=3, order=2))


def test_a_client_keeps_its_snapshots_and_the_states_of_its_present_parameters():
    run = driven()
    for t in (0, 1, 1, 2):
        run.round(t)
    task = run.algorithm.task
    for memory, own in zip(run.memories, run.periods, strict=True):
        past = memory["past"]
        assert [graph["edges"] is own[t].graph["edges"] for t, graph in enumerate(past)] == [True, True]
        nodes, states = memory["states"]
        params = tree.stack([memory["local"]])
        assert torch.equal(nodes, past[1]["node"])
        second = unrolling.continued(task, params, *past)
        torch.testing.assert_close(states, task.model.remember(params, second))
        seen = run.algorithm.sees(memory, own[2].graph)
        third = unrolling.continued(task, params, second, own[2].graph)
        torch.testing.assert_close(seen["state"], third["state"].detach())


def test_no_states_travel_and_nodes_that_change_hands_begin_at_zero():
    run, other = driven(), driven(bptt=False)
    for t in range(3):
        run.round(t)
        other.round(t)
    assert not any("left" in upload or "moved" in down for *_, down, upload in run.messages)
    assert any("left" in upload for *_, upload in other.messages)


def test_a_job_is_billed_for_all_snapshots_and_for_the_states_that_it_leaves():
    run = driven()
    run.round(0)
    run.round(1)
    flops = [run.algorithm.task.flops(period.graph) for period in run.periods[0][:3]]
    for memory in (run.memories[0], {**run.memories[0], "past": run.memories[0]["past"]}):
        entering = Job(0, "train", 2, {}, run.periods[0][2].graph, memory, 0)
        assert run.algorithm.effort(entering) == pytest.approx(sum(flops) / flops[2])
        assert run.algorithm.extra_steps(entering) == pytest.approx(sum(flops[:2]) / flops[2] / 3)
    again = Job(0, "train", 1, {}, run.periods[0][1].graph, run.memories[0], 0)
    assert run.algorithm.effort(again) == pytest.approx(sum(flops[:2]) / flops[1])


@pytest.mark.parametrize("options", [{"exchange": "exact"}, {"retrain": "incremental"}])
def test_it_goes_with_no_exchange_and_whole_graphs_only(options):
    with pytest.raises(ScenarioError, match="exchange: none and retrain: full"):
        driven(**options)


def test_a_model_without_states_has_nothing_to_go_back_through():
    with pytest.raises(ScenarioError, match="keeps states"):
        Driven(DGCoLearn(**BPTT), EvolveGCNO(hidden=3))


def test_a_run_takes_longer_and_sends_the_same(tmp_path):
    rows = {}
    for bptt in (False, True):
        algorithm = {"name": "dg_colearn", **BPTT, "bptt": bptt}
        point = {**CHANGING, "data": {**CHANGING["data"], "partition": "colearn"}}
        point["model"] = {"name": "gcrn_baseline", "hidden": 4}
        rows[bptt] = small_points.run_in(tmp_path / str(bptt), **{**point, "clients__count": 1, "algorithm": algorithm})
    assert rows[True]["bytes_up"] == rows[False]["bytes_up"]
    assert rows[True]["client_seconds"] > 1.3 * rows[False]["client_seconds"]
