"""LANDER on graphs: the geometry of its anchors, its weights and losses by hand, and embeddings that reach anchors."""

import pytest
import torch
from contexts import within
from learnlab import drawn_task
from past_classes import gaussians, learned, made, marks, retained

from algorithms.lander import Lander, balance
from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.learn.engine import tree
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.mlp import MLP
from fedsim.learn.synthetic import inversion


def wide(classes=100, seed=0):
    task = drawn_task(MLP(hidden=4), 3, classes, seed)
    return within(Lander(), task)


def anchored(own, graph=None):
    return {"anchors": own.anchors().unsqueeze(0)}


def test_anchors_have_the_published_geometry():
    anchors = wide().anchors()
    assert anchors.shape == (100, 64)
    assert anchors.norm(dim=1).tolist() == pytest.approx([3.416] * 100, abs=1e-3)
    apart = torch.pdist(anchors).square() / 64
    assert float(apart.mean()) == pytest.approx(0.080, abs=0.002)
    unit = anchors / anchors.norm(dim=1, keepdim=True)
    assert float((unit @ unit.T)[torch.triu_indices(100, 100, 1).unbind()].mean()) == pytest.approx(0.78, abs=0.01)
    assert torch.equal(anchors, wide().anchors())
    assert not torch.equal(anchors, wide(seed=1).anchors())


def test_at_zero_the_bounding_loss_is_theirs_and_with_unit_anchors_it_would_be_none():
    own = wide()
    anchors = own.anchors()
    assert own.outside(torch.zeros(1, 64), anchors[:1]).item() == pytest.approx(0.427**2 - 0.015, abs=1e-5)
    unit = anchors / anchors.norm(dim=1, keepdim=True)
    assert own.outside(torch.zeros(1, 64), unit[:1]).item() < 0.001


def test_what_is_new_and_what_is_retained_are_balanced_as_printed():
    assert balance(4, 6) == pytest.approx((0.36742, 0.65320), abs=1e-5)


@pytest.mark.long
def test_with_the_true_old_features_old_classes_are_told_apart_again():
    fresh, kept = balance(2, 4)
    shares = {"fresh": torch.tensor([fresh]), "kept": torch.tensor([kept])}
    seeds = range(6)
    without = [retained(made(Lander, seed, kd=0.0), seed, anchored, lambda given: given | shares) for seed in seeds]
    with_it = [retained(made(Lander, seed), seed, anchored, lambda given: given | shares) for seed in seeds]
    assert sum(with_it) / 6 > sum(without) / 6 + 0.15


def test_embeddings_of_separable_classes_reach_their_anchors():
    own, graph = made(Lander, width=16), gaussians([0, 1, 2, 3], 3)
    given = {"current": marks(0, 1, 2, 3), **anchored(own)}
    start = own.start()["model"]

    def distance(model):
        attended = own.attended(tree.stack([model]), graph)
        return float((attended - own.anchors()[graph["y"]]).square().mean(1).mean())

    assert distance(start) > 0.1
    assert distance(learned(own, start, graph, given)) < own.radius


def test_the_rectifier_of_a_batch_excuses_a_bad_node_by_good_ones():
    graph = gaussians([0], 0, each=4)
    for bound, expected in (("node", 0.25 * (0.05 - 0.015)), ("batch", 0.0)):
        own = made(Lander, bound=bound)
        attended = own.anchors()[graph["y"]].clone()
        attended[0] += 0.05**0.5
        loss = type("", (Lander,), {"attended": lambda self, params, data, held=attended: held})
        one = made(loss, bound=bound)
        assert float(one.bounded({}, graph, own.anchors().unsqueeze(0))) == pytest.approx(expected, abs=1e-6)


def test_the_teacher_takes_what_was_made_for_the_class_asked_and_finds_it_near_its_anchor():
    own = made(Lander, width=16, student_steps=2, batch=64)
    graph, given = gaussians([0, 1, 2, 3], 0), {"current": marks(0, 1, 2, 3), **anchored(made(Lander))}
    teacher = learned(own, own.start()["model"], graph, given, 200)
    found = own.invert(teacher, marks(0, 1, 3)[0], False, 1)
    assert found["x"].shape == (640, 16)
    assert len(found["x"].unique(dim=0)) == 640  # none is a copy of another
    said = own.task.forward(tree.stack([teacher]), inversion.nodes(found["x"])).argmax(1)
    assert float((said == found["y"]).float().mean()) >= 0.9


def test_anchors_travel_once_and_every_model_has_the_projection():
    task = drawn_task(GCN(hidden=8, dropout=0.0), 20, 4)
    own = within(Lander(anchor_size=6), task)
    state = own.start()
    numbers = 20 * 8 + 8 + 8 * 4 + 4 + 8 * 6 + 6
    assert wire.array_bytes(own.download(state, 0, "train")) == 4 * numbers + 4 * 4 * 6
    reached = {**state, "reached": frozenset({0})}
    assert wire.array_bytes(own.download(reached, 0, "train")) == 4 * numbers


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="send"):
        Lander(send="generator")
    with pytest.raises(ValueError, match="rounds"):
        Lander(rounds=5)
    task = drawn_task(MLP(layers=1), 4, 2)
    with pytest.raises(ScenarioError, match=r"model\.layers"):
        within(Lander(), task).start()
