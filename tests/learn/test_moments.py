"""Optimiser states on a shelf: each client finds what it was given, whoever else comes and goes."""

import copy
import gc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn, drawn_task, job_of, largest_gap, own_state

from fedsim.learn.algorithm import Fit
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import SGD, Adam, KeptState, Shelf, gathered, same_cohort
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN

CLIENTS = 6
ROW = 4 * 6  # bytes of a state below: a number of steps and two moments of two numbers, and one more


def state_of(numbers):
    """A state of as many clients, recognisable by its numbers."""
    values = torch.tensor([float(number) for number in numbers])
    one = values.unsqueeze(1)
    return {"steps": values, "first": {"w": one * torch.tensor([1.0, 2.0])}, "second": [one + 1, one * 0, one * 3]}


cohorts = st.lists(st.lists(st.integers(0, CLIENTS - 1), min_size=1, unique=True), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(cohorts, st.integers(0, 30), st.integers(0, 3))
def test_states_are_those_that_were_put_within_the_bound(rounds, rows, old):
    shelf = Shelf.of(state_of([0]), rows * ROW)
    kept, numbers, before = [None] * CLIENTS, [0] * CLIENTS, []
    for turn, cohort in enumerate(rounds, 1):
        mine = [kept[client] for client in cohort]
        taken = None if same_cohort(mine) else shelf.take(mine)
        shelved = taken is not None
        if taken is None:
            none = KeptState(state_of([0]), 0)
            taken = gathered([one or none for one in mine])
        assert largest(taken, state_of([numbers[client] for client in cohort])) == 0
        taken["steps"] += 100 * turn  # what was taken may change
        given_ = [100 * turn + client for client in cohort]
        new = state_of(given_)
        made = shelf.put(new, len(cohort)) if shelved else [KeptState(new, k) for k in range(len(cohort))]
        for client, number, one in zip(cohort, given_, made, strict=True):
            if old and kept[client] is not None:
                before.append((kept[client], numbers[client]))
            kept[client], numbers[client] = one, number
        before = before[-old:] if old else []
        held = [*zip(kept, numbers, strict=True), *before]
        assert all(
            largest(own_state(one), tree.at(state_of([number]), 0)) == 0 for one, number in held if one is not None
        )
        assert len(shelf.state["steps"]) <= max(1, rows)
        places = [one.place for one, _ in held if one is not None and one.source is shelf]
        assert len({*places, *shelf.free, 0}) == len(places) + len(shelf.free) + 1  # no row has two owners
        one = mine = None  # which would hold rows


def largest(one, other):
    return max(float((a - b).abs().max()) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


def test_rows_are_given_back_and_copies_own_none():
    shelf = Shelf.of(state_of([0]), 2**20)
    kept = shelf.put(state_of([5, 6, 7]), 3)
    free = len(shelf.free)
    assert copy.deepcopy(kept[0]) is copy.copy(kept[0]) is kept[0]
    own = own_state(kept[1])
    place = kept[1].place
    del kept
    gc.collect()
    assert len(shelf.free) == free + 3
    assert place in shelf.free
    shelf.put(state_of([9] * 3), 3)
    assert float(own["steps"]) == 6  # a copy


@pytest.mark.parametrize("optimiser", [Adam(0.05, 0.01), SGD(0.1, 0.0, 0.9)])
@pytest.mark.parametrize("budget", [0, 2**30])
def test_mixed_cohorts_train_alike_with_a_shelf_and_without(optimiser, budget):
    task = drawn_task(GCN(hidden=5, dropout=0.0))
    graphs = [drawn(6 + k % 3, k) for k in range(CLIENTS)]

    def loss(params, graph, _):
        return task.loss(params, graph)

    def course(trainer, together):
        memories, model = [{} for _ in graphs], task.init()
        for turn, cohort in enumerate([[0, 1, 2], [2, 3], [4, 0, 1], [0, 1, 2, 3, 4, 5], [5, 1], [3, 0, 5]]):
            work = [(job_of(k, graphs[k], memories[k], seed=turn), Fit(model, loss)) for k in cohort]
            trained = trainer.train(work) if together else [trainer.train([one])[0] for one in work]
            model = tree.mean(trained, [1.0] * len(trained))
        return model, memories

    mixed, memories = course(Trainer(optimiser, 2, budget=2**30), True)
    shelves = {type(memory["optimiser.model"].source) for memory in memories}
    assert Shelf in shelves
    alone, _ = course(Trainer(optimiser, 2, budget=budget), False)
    assert largest_gap(mixed, alone) < 1e-6
