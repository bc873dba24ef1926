"""What a step of event prediction draws, its loss, and its scores."""

import math

import pytest
import torch
from happening import drawn_events, events_of, graph_of_events, task_of
from metrics_by_name import built
from sklearn.metrics import average_precision_score, roc_auc_score

from fedsim.core.errors import ScenarioError
from fedsim.data.graph import with_keys
from fedsim.learn.engine import joining, tree
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import bind
from fedsim.learn.tasks.event_prediction import EventPrediction
from fedsim.learner.scoring.plans import Joined
from fedsim.learner.scoring.scoring import Outputs


class Counting:
    """Stands in for a model's forward pass, remembers what is asked, and gives every pair the same logit."""

    def __init__(self, monkeypatch, task, logit=0.0):
        self.asked = []
        monkeypatch.setattr(type(task.model), "forward", lambda own, params, graph: self._note(graph, logit))

    def _note(self, graph, logit):
        self.asked.append((graph["pairs"], graph["moments"]))
        return torch.full((graph["pairs"].shape[1],), logit)


def drawn(monkeypatch, graph, seed=0, **options):
    """The events and the negatives of a step, each (clients, ·) lists of (a, b, second)."""
    task = task_of(**options)
    noted = Counting(monkeypatch, task)
    seeds = torch.arange(len(graph["sizes"])) + seed
    loss = task.loss(None, with_keys(graph, {"seed": seeds}))
    pairs, moments = noted.asked[0]
    each = list(zip(*pairs.tolist(), moments.tolist(), strict=True))
    return loss, each


def test_a_step_draws_fresh_events_and_replaces_one_end_of_each(monkeypatch):
    graph = drawn_events(3, fresh=20.0)
    fresh = {one for one in events_of(graph) if one[2] >= 20}
    loss, each = drawn(monkeypatch, graph, batch=400, opposed=2)
    right, wrong = each[:400], each[400:]
    assert set(right) == fresh
    thirds = set()
    for (a, b, s), (u, v, second) in zip(right * 2, wrong, strict=True):
        assert second == s
        assert u in (a, b)
        assert v not in (a, b)
        thirds.add((u == a, v))
    assert thirds == {(side, node) for side in (True, False) for node in range(9)}
    assert float(loss) == pytest.approx(math.log(2))


def test_what_is_drawn_depends_on_a_clients_seed_alone(monkeypatch):
    graphs = [drawn_events(seed, nodes=6 + seed, fresh=10.0) for seed in range(3)]
    _, together = drawn(monkeypatch, joining.union(graphs), batch=5)
    start = 0
    for k, graph in enumerate(graphs):
        _, alone = drawn(monkeypatch, graph, seed=k, batch=5)
        assert [(u - start, v - start, s) for u, v, s in together[10 * k : 10 * k + 10]] == alone
        start += len(graph["y"])
    assert drawn(monkeypatch, graphs[0], seed=1, batch=5)[1] != drawn(monkeypatch, graphs[0], batch=5)[1]


def test_a_client_without_events_has_no_loss_and_disturbs_nobody():
    task = task_of()
    none, some = drawn_events(0, count=0), drawn_events(1, fresh=10.0)
    params = tree.transform(lambda leaf: leaf.requires_grad_(), tree.stack([task.init()] * 3))
    seeds = torch.tensor([7, 8, 9])
    loss = task.loss(params, with_keys(joining.union([none, some, none]), {"seed": seeds}))
    alone = task.loss(tree.stack([task.init()]), with_keys(some, {"seed": seeds[1:2]}))
    assert torch.allclose(loss, torch.stack([alone[0] * 0, alone[0], alone[0] * 0]), atol=1e-6)
    assert task.examples(none, "train") == 0
    assert task.flops(none) == 0
    assert task.loss(tree.stack([task.init()]), with_keys(none, {"seed": seeds[:1]})).tolist() == [0.0]


def test_two_nodes_have_no_third_and_train_on_their_events_alone(monkeypatch):
    graph = graph_of_events([(0, 1, 1.0), (0, 1, 2.0)], 2)
    task = task_of()
    Counting(monkeypatch, task, logit=1.0)
    assert float(task.loss(None, graph)) == pytest.approx(math.log1p(math.exp(-1)))


@pytest.mark.parametrize("opposed", [1, 3])
def test_the_loss_weighs_events_and_negatives_alike(monkeypatch, opposed):
    task = task_of(opposed=opposed)
    Counting(monkeypatch, task, logit=2.0)
    expected = (math.log1p(math.exp(-2)) + opposed * math.log1p(math.exp(2))) / (1 + opposed)
    assert float(task.loss(None, drawn_events(0))) == pytest.approx(expected)


def test_scores_are_those_of_scikit_learn_for_each_owner():
    graph, task = drawn_events(0, asked=40), task_of()
    output, owner = torch.randn(40, generator=torch.Generator().manual_seed(1)), torch.arange(40) // 20
    rows = task.targets(graph, "test")
    found = task.scores(output, graph, rows, owner, 2, built("average_precision", "auc"))
    for one in (0, 1):
        mine = owner == one
        y, logits = graph["links"][mine], output[mine]
        assert float(found["average_precision"][one]) == pytest.approx(average_precision_score(y, logits))
        assert float(found["auc"][one]) == pytest.approx(roc_auc_score(y, logits))
    assert not len(task.targets(graph, "val"))
    with pytest.raises(ScenarioError, match="'train'"):
        task.targets(graph, "train")


def test_pairs_of_a_client_whose_model_has_changed_are_judged_again_in_their_place(monkeypatch):
    task, graphs = task_of(), [drawn_events(k, nodes=6 + k, asked=10 + k) for k in range(4)]
    joined = Joined(joining.union(graphs), [*enumerate(graphs)], graphs, {})
    outputs, params = Outputs(task), {k: task.drawn(k) for k in range(4)}
    first = outputs.of("local", params, joined, False)
    params = params | {2: task.drawn(9)}
    fresh = outputs.fresh(params, joined, False)
    monkeypatch.setattr(outputs, "fresh", None)
    renewed = outputs.of("local", params, joined, False)
    assert torch.allclose(renewed, fresh, atol=1e-6)
    assert (renewed != first).nonzero().squeeze(1).tolist() == [*range(21, 33)]


def test_a_model_of_nodes_judges_no_pairs():
    task = bind(EventPrediction(), GCN(hidden=5), 2, 1, 0, "cpu")
    with pytest.raises(ScenarioError, match="take dygformer"):
        task.loss(tree.stack([task.init()]), drawn_events(0))
