"""What has not changed since the last scoring is not computed again, and the scores are the same."""

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn_task
from metrics_by_name import built
from metrics_by_name import splits as splits_by_name
from test_evaluate import Guess, models, periods_of, world_of

from fedsim.core.record import SERVER
from fedsim.learner.checkpoint import preserve
from fedsim.learner.scoring.scoring import Scoring
from fedsim.learner.scoring.split import Scene

CLIENTS = 5


class Applied:
    """A task that counts over how many clients' graphs a model is applied."""

    def __init__(self, task):
        self._task, self.clients, self.calls = task, Counter(), 0

    def __getattr__(self, name):
        return getattr(self._task, name)

    def forward(self, params, graph):
        self.calls += 1
        self.clients[len(graph["sizes"])] += 1
        return self._task.forward(params, graph)


def made(splits, whole=False, seen=(3, 2, 3, 1, 2)):
    """A task that counts, an algorithm of clients' own models, its world, and what scores."""
    torch.manual_seed(0)
    task = Applied(drawn_task())
    guess = Guess(models(task)[0], models(task, CLIENTS))
    world = world_of(guess, seen, CLIENTS)
    periods = [world.held[k].seen + periods_of(k)[len(world.held[k].seen) :] for k in range(CLIENTS)]

    def build(of):
        scene = Scene(of, guess, splits_by_name(*splits), periods if whole else ())
        return Scoring(world.held, scene, built("accuracy", "macro_f1"), ["global", "local"])

    return task, guess, build


def rows_of(scores):
    return [{key: np.asarray(value).tolist() for key, value in row.items()} for row in scores.rows]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sets(st.integers(0, CLIENTS - 1)), min_size=1, max_size=4), st.booleans())
def test_scores_are_those_of_whoever_knows_nothing(rounds, whole):
    task, guess, build = made(["test", "val", *(["all_periods"] if whole else [])], whole)
    scoring = build(task)
    for changed in [set(), *rounds]:
        for client in changed:
            guess.own[client] = models(task, 1)[0]
        found, fresh = scoring.met(lambda client: {}), build(task).met(lambda client: {})
        assert rows_of(found) == rows_of(fresh)
        assert found.headline == fresh.headline


def test_only_models_that_have_changed_are_applied():
    task, guess, build = made(["test", "val"])
    scoring = build(task)
    scoring.met(lambda client: {})
    assert dict(task.clients) == {1: 1, CLIENTS: 1}  # one model for all, and one of each
    scoring.met(lambda client: {})
    assert task.calls == 2
    guess.own[1] = models(task, 1)[0]
    scoring.met(lambda client: {})
    assert dict(task.clients) == {1: 2, CLIENTS: 1}  # the same global model, and one client's own
    guess.shared = models(task, 1)[0]
    guess.own[:] = models(task, CLIENTS)
    scoring.met(lambda client: {})
    assert dict(task.clients) == {1: 3, CLIENTS: 2}


def test_all_periods_and_those_met_take_one_application():
    task, _, build = made(["test", "all_periods"], whole=True)
    build(task).met(lambda client: {})
    assert task.calls == 2  # one for each model


@pytest.mark.parametrize("everyone", [True, False])
def test_new_data_are_applied_to(everyone):
    task, guess, build = made(["test"])
    scoring = build(task)
    scoring.met(lambda client: {})
    host = scoring._clients[3]
    host.arrive(periods_of(3)[1])
    if everyone:
        guess.own[:] = models(task, CLIENTS)
    assert rows_of(scoring.met(lambda client: {})) == rows_of(build(task).met(lambda client: {}))
    own = [row for row in rows_of(scoring.met(lambda client: {})) if SERVER not in row["client"]]
    assert {row["period"][-1] for row in own} == {1}


def test_a_checkpoint_keeps_outputs_of_clients_own_models():
    task, guess, build = made(["test"])
    scoring = build(task)
    scoring.met(lambda client: {})
    graphs = [period.graph for client in scoring._clients.values() for period in client.seen]
    given_ = preserve.DataGraphs(graphs)
    own, notes = preserve.unpack(preserve.pack([guess.own, scoring.outputs.notes()], given_), given_)
    guess.own[:] = own
    guess.own[2] = models(task, 1)[0]
    resumed = build(task)
    resumed.outputs.resume(notes)
    task.clients.clear()
    found = resumed.met(lambda client: {})
    assert dict(task.clients) == {1: 2}  # the global model, and that of client 2
    assert rows_of(found) == rows_of(build(task).met(lambda client: {}))
