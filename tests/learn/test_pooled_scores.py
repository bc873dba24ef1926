"""Scores of all clients together are those of scikit-learn on everything that they predict, laid end to end."""

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn_task
from metrics_by_name import built
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score
from test_evaluate import Guess, Rows, models, observer_of, world_of

from analysis.measures.forgetting import average_accuracy, headline, matrix, of_clients, pooled, usable
from analysis.measures.frontier import scored
from fedsim.core.record import SERVER
from fedsim.learn.engine import tree
from fedsim.learn.metric import Judged

THEIRS = {
    "accuracy": accuracy_score,
    "macro_f1": lambda y, guess: f1_score(y, guess, average="macro"),
    "micro_f1": lambda y, guess: f1_score(y, guess, average="micro"),
}
LINKS = {"auc": roc_auc_score, "average_precision": average_precision_score}


def predicted(task, world, own, number):
    """Every client's labels and predictions of a period, laid end to end, for the clients that have met it."""
    y, guess = [], []
    for client, host in world.held.items():
        for period in host.seen:
            if period.number == number:
                graph = period.graph
                output = task.forward(tree.stack([own[client]]), graph)[graph["test"]]
                y, guess = [*y, *graph["y"][graph["test"]].tolist()], [*guess, *output.argmax(1).tolist()]
    return y, guess


@pytest.mark.parametrize("seen", [[3, 3, 3], [3, 2, 1]])
def test_a_score_of_all_clients_is_that_of_all_their_predictions(seen):
    torch.manual_seed(0)
    task, rows = drawn_task(), Rows()
    own = models(task)
    world = world_of(Guess(None, own), seen)
    observer_of(world, task, rows, metrics=[*THEIRS], models=["local"], splits=["test"]).score()
    scores = pd.DataFrame([asdict(row) for row in rows.rows])
    for metric, theirs in THEIRS.items():
        found = pooled(headline(scores, "local", metric, "test"), ["time", "version", "period"])
        expected = {number: theirs(*predicted(task, world, own, number)) for number in range(max(seen))}
        assert dict(zip(found["period"], found["value"], strict=True)) == pytest.approx(expected)
    whole = scores[scores["client"] == SERVER]
    assert {*whole["metric"]} == {"macro_f1"}  # the others are means over nodes
    assert (whole["seen"] == max(seen)).all()
    assert not np.allclose(whole["value"], means(scores, "macro_f1"))


def test_what_is_reported_is_of_all_predictions_where_clients_meet_periods_together():
    torch.manual_seed(0)
    task, rows = drawn_task(), Rows()
    own = models(task)
    world = world_of(Guess(None, own), [1, 1, 1])
    observer = observer_of(world, task, rows, models=["local"], metrics=["macro_f1"], splits=["test"])
    cells = np.full((3, 3), np.nan)
    for last in range(3):
        for version in (2 * last + 1, 2 * last + 2):
            world.server.version = version
            own[:] = models(task)
            observer.score()
        for number in range(last + 1):
            cells[last, number] = THEIRS["macro_f1"](*predicted(task, world, own, number))
        for client, host in world.held.items():
            host.seen += world_of(Guess(None, own), [3, 3, 3]).held[client].seen[last + 1 : last + 2]
    scores = pd.DataFrame([asdict(row) for row in rows.rows])
    np.testing.assert_allclose(matrix(scores, "local", "macro_f1"), cells)
    drawn = scored(usable(scores, "local", "macro_f1", "test"))
    assert drawn["score"].iloc[-1] == pytest.approx(average_accuracy(cells))
    assert drawn["periods"].tolist() == [1, 1, 2, 2, 3, 3]


def test_clients_that_meet_periods_at_their_own_times_are_averaged():
    torch.manual_seed(0)
    task, rows = drawn_task(), Rows()
    world = world_of(Guess(None, models(task)), [1, 1, 1])
    observer = observer_of(world, task, rows, models=["local"], metrics=["macro_f1"], splits=["test"])
    observer.score()
    world.held[0].seen += world_of(Guess(None, models(task)), [2, 2, 2]).held[0].seen[1:]
    world.server.version += 1
    observer.score()  # the last score with one period is the first one's of client 0, and this one's of the others
    scores = pd.DataFrame([asdict(row) for row in rows.rows])
    own = of_clients(scores)
    last = own[(own["seen"] == 1) & ((own["version"] == world.server.version) | (own["client"] == 0))]
    expected = np.average(last["value"], weights=last["weight"])
    assert matrix(scores, "local", "macro_f1")[0, 0] == pytest.approx(expected)


def test_scores_may_be_means_over_clients_instead():
    torch.manual_seed(0)
    task, rows = drawn_task(), Rows()
    world = world_of(Guess(None, models(task)), [2, 2, 2])
    observer_of(world, task, rows, together=False, metrics=["macro_f1"], models=["local"], splits=["test"]).score()
    scores = pd.DataFrame([asdict(row) for row in rows.rows])
    assert (scores["client"] >= 0).all()
    found = pooled(scores, ["period"])["value"]
    np.testing.assert_allclose(found, means(scores, "macro_f1"))


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(2, 60), owners=st.integers(1, 4), levels=st.integers(1, 9), seed=st.integers(0, 10**6))
def test_the_score_of_one_owner_of_everything_is_that_of_all_rows(rows, owners, levels, seed):
    rng = np.random.default_rng(seed)
    logits, y = torch.from_numpy(rng.integers(levels, size=rows) / 4), torch.from_numpy(rng.random(rows) < 0.5)
    y[:2] = torch.tensor([True, False])
    owner = torch.from_numpy(rng.integers(owners, size=rows))
    for name, theirs in LINKS.items():
        metric = built(name)[name]
        (together,) = metric.values(Judged(logits, y, torch.zeros_like(owner), 1)).tolist()
        assert together == pytest.approx(theirs(y, logits))
        assert not metric.mean


@pytest.mark.parametrize("name", ["accuracy", "micro_f1"])
@given(rows=st.integers(1, 40), owners=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_a_metric_that_says_so_is_a_mean_over_rows(name, rows, owners, seed):
    rng = np.random.default_rng(seed)
    logits, y = torch.from_numpy(rng.normal(size=(rows, 3))), torch.from_numpy(rng.integers(3, size=rows))
    owner, metric = torch.from_numpy(rng.integers(owners, size=rows)), built(name)[name]
    each, counts = metric.values(Judged(logits, y, owner, owners)), owner.bincount(minlength=owners)
    together = metric.values(Judged(logits, y, torch.zeros_like(owner), 1))
    assert metric.mean
    assert float((each.nan_to_num() * counts).sum() / rows) == pytest.approx(float(together))


def means(scores, metric):
    """The means of clients' values by weight, period after period."""
    own = scores[(scores["client"] >= 0) & (scores["metric"] == metric)]
    return [np.average(group["value"], weights=group["weight"]) for _, group in own.groupby("period")]
