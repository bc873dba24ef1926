"""GHOST: one upload of the bytes of the formula, no held-out label in it, and centres that one must know."""

from dataclasses import replace

import pytest
import torch
from camps import gap
from contexts import within
from learnlab import drawn_task
from one_shots import asked, easy

from algorithms.ghost import Ghost
from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.data.graph import with_masks
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.masked_gcn import MaskedGCN
from fedsim.learn.synthetic.pseudo_graphs import knn_flops, stand_in

FEATURES, CLASSES = 12, 3
NUMBERS = 9 + 68 * 64 + 65 * 128 + 129 * 256 + 257 * FEATURES


def made(seed=0, task=None, model=None, **options):
    own = drawn_task(model or GCN(hidden=8, dropout=0.0), FEATURES, CLASSES, seed, task=task)
    return within(Ghost(**options), own)


# ---- what travels, and what is seen


def test_nothing_goes_down_and_a_generator_goes_up():
    algorithm = made(shift=30.0)
    (reply,), _ = asked(algorithm, [easy(0)])
    assert reply.download == {}
    assert wire.array_bytes(reply.upload) == 4 * NUMBERS + 4 + 4
    assert reply.upload["examples"].tolist() == [45]
    assert reply.upload["centre"].tolist() == [30]
    assert algorithm.steps(algorithm.start()) == ("train",)
    assert algorithm.mass(reply) == 45


def test_held_out_nodes_change_no_tensor():
    graph = easy(1)
    held = ~graph["train"]
    other = with_masks(graph, graph["train"], graph["test"], graph["val"])
    other = {**other, "y": torch.where(held, CLASSES - 1 - graph["y"], graph["y"])}
    other["x"] = torch.where(held.unsqueeze(1), graph["x"].flip(0), graph["x"])
    other.pop("layout", None)
    (one, two), _ = asked(made(), [graph, graph])
    ((same,), _), ((changed,), _) = asked(made(), [graph]), asked(made(), [other])
    assert gap(same.upload, changed.upload) == 0
    assert gap(one.upload["generator"], two.upload["generator"]) > 0.01  # another client's seed does


def test_a_training_label_changes_the_generator():
    graph = easy(1)
    other = {**graph, "y": torch.where(graph["train"], (graph["y"] + 1) % CLASSES, graph["y"])}
    (one,), (two,) = asked(made(), [graph])[0], asked(made(), [other])[0]
    assert gap(one.upload["generator"], two.upload["generator"]) > 1e-3


def test_a_client_without_a_training_node_sends_two_numbers_and_is_left_out():
    algorithm, empty = made(), easy(0, train=-1.0)
    replies, memories = asked(algorithm, [empty, easy(1)])
    assert wire.array_bytes(replies[0].upload) == 8
    assert "generator" not in memories[0]
    state = algorithm.start()
    job = Job(0, "train", 0, {}, empty, {}, 0)
    assert algorithm.effort(job) == 0
    alone = algorithm.update(state, replies[:1], "train")
    assert gap(alone["model"], state["model"]) == 0
    both, without = (algorithm.update(state, some, "train")["model"] for some in (replies, replies[1:]))
    assert gap(both, without) == 0
    assert gap(both, state["model"]) > 0


def test_a_client_keeps_its_centre_and_goes_on_with_its_generator():
    algorithm = made(shift=30.0, shift_range=5.0)
    first, memories = asked(algorithm, [easy(0), easy(1)])
    second, _ = asked(algorithm, [easy(0), easy(1)], memories, seed=1)
    centres = [[float(reply.upload["centre"]) for reply in replies] for replies in (first, second)]
    assert centres[0] == centres[1]
    assert all(25 < one < 35 for one in centres[0])
    assert centres[0][0] != centres[0][1]
    begun, _ = asked(algorithm, [easy(0)], {0: {"centre": memories[0]["centre"]}}, seed=1)
    assert gap(begun[0].upload["generator"], first[0].upload["generator"]) > 3 * gap(
        second[0].upload["generator"], first[0].upload["generator"]
    )


# ---- the server


def graphs_of(algorithm, replies, repeats=3):
    state = algorithm.start()
    return [algorithm.drawn(state, reply, m) for reply in replies for m in range(repeats)]


def test_graphs_have_uniform_labels_whatever_the_client_holds():
    graph = easy(0, n=46)
    graph = {**graph, "y": torch.zeros_like(graph["y"])}  # of one class alone
    replies, _ = asked(made(), [graph])
    for drawn in graphs_of(made(), replies):
        assert torch.bincount(drawn["y"]).tolist() == [15, 15, 16]
        assert bool(drawn["train"].all())
    halved = graphs_of(made(size=0.5), replies)
    assert {len(drawn["y"]) for drawn in halved} == {23}


def test_held_labels_are_uniform_over_the_classes_trained_on_and_cost_a_byte_each():
    graph = easy(0, n=46)
    labels = torch.where(graph["train"], 2 * (torch.arange(46) % 2), 1)  # only held-out nodes have class 1
    algorithm = made(labels="held")
    replies, _ = asked(algorithm, [{**graph, "y": labels}])
    assert replies[0].upload["held"].tolist() == [True, False, True]
    assert wire.array_bytes(replies[0].upload) == 4 * NUMBERS + 8 + CLASSES
    for drawn in graphs_of(algorithm, replies):
        assert torch.bincount(drawn["y"], minlength=CLASSES).tolist() == [23, 0, 23]


def test_graphs_are_drawn_anew_for_each_repeat_client_and_update():
    algorithm = made()
    replies, _ = asked(algorithm, [easy(0), easy(0)])
    state = algorithm.start()
    one = algorithm.drawn(state, replies[0], 0)["x"]
    assert torch.equal(algorithm.drawn(state, replies[0], 0)["x"], one)
    others = [(state, replies[0], 1), (state, replies[1], 0), ({**state, "updates": 1}, replies[0], 0)]
    assert not any(torch.equal(algorithm.drawn(*other)["x"], one) for other in others)


def test_the_order_of_arrival_does_not_matter_and_a_further_round_goes_on():
    algorithm = made()
    replies, _ = asked(algorithm, [easy(seed) for seed in range(3)])
    state = algorithm.start()
    first, same = (algorithm.update(state, some, "train") for some in (replies, replies[::-1]))
    assert gap(first["model"], same["model"]) == 0
    second = algorithm.update(first, replies, "train")
    assert second["updates"] == 2
    assert gap(second["model"], first["model"]) > 1e-4
    assert all(
        bool((new >= old).all())
        for new, old in zip(
            tree.leaves(second["retained"]["weight"]), tree.leaves(first["retained"]["weight"]), strict=True
        )
    )


def test_options_of_the_server_change_the_model():
    replies, _ = asked(made(), [easy(seed) for seed in range(2)])
    options = [{}, {"use_retention": False}, {"order": "joint"}, {"criterion": "before"}, {"self_loops": True},
               {"repeats": 1}, {"server_steps": 2}, {"neighbours": 3}, {"attacker": 30.0}]  # fmt: skip
    models = []
    for option in options:
        algorithm = made(**{"lambda_r": 0.1, **option})
        models.append(algorithm.update(algorithm.start(), replies, "train")["model"])
    pairs = [(i, j) for i in range(len(models)) for j in range(i)]
    assert min(gap(models[i], models[j]) for i, j in pairs) > 1e-6


def test_options_of_the_client_change_the_generator():
    options = [{}, {"use_div": False}, {"use_disp": False}, {"use_fgw": False}, {"scale": 1e-2}, {"a": 0.9},
               {"shift": 3.0}, {"sample": 9}, {"lambda_f": 0.5}, {"lambda_d": 0.5}]  # fmt: skip
    sent = [asked(made(**option), [easy(0)])[0][0].upload["generator"] for option in options]
    pairs = [(i, j) for i in range(len(sent)) for j in range(i)]
    assert min(gap(sent[i], sent[j]) for i, j in pairs) > 1e-6


def accuracy(algorithm, replies, graph):
    model = algorithm.update(algorithm.start(), replies, "train")["model"]
    output = algorithm.task.forward(tree.stack([model]), graph)
    return float((output.argmax(1) == graph["y"])[graph["test"]].float().mean())


@pytest.mark.long
def test_who_lacks_the_centre_learns_much_less():
    known, unknown = [], []
    for seed in range(4):
        algorithm = made(seed, shift=3.0, use_fgw=False, use_retention=False, server_steps=20)
        replies, _ = asked(algorithm, [easy(10 * seed + k) for k in range(3)], steps=80, seed=seed)
        graph = easy(500 + seed, n=90)
        known.append(accuracy(algorithm, replies, graph))
        thief = within(replace(algorithm, attacker=-40.0), algorithm.task)
        unknown.append(accuracy(thief, replies, graph))
    assert min(known) > 0.9
    assert sum(unknown) / 4 < sum(known) / 4 - 0.2


# ---- what it costs, and what is refused


def test_the_server_pays_for_graphs_training_and_criterion():
    algorithm = made()
    replies, _ = asked(algorithm, [easy(0), easy(1, n=30)])
    state, total = algorithm.start(), sum(4 * NUMBERS + 8 for _ in range(2)) / 2
    for n in (45, 30):
        weights = 67 * 64 + 64 * 128 + 128 * 256 + 256 * FEATURES
        edges = 2 * n * 4
        step = 3 * sum(2.0 * n * a * b + 2.0 * (edges + n) * b for a, b in ((FEATURES, 8), (8, CLASSES)))
        numbers = 13 * 8 + 9 * 3
        total += 3 * (2.0 * n * weights + knn_flops(n, FEATURES) + 7 * step + 6.0 * 7 * numbers)
    assert algorithm.server_flops(state, replies, "train") == pytest.approx(total)
    joint, plain = made(order="joint"), made(use_retention=False)
    costs = [one.server_flops(state, replies, "train") for one in (joint, plain)]
    more = sum(3.0 * algorithm.task.flops(stand_in(n, FEATURES, 5)) for n in (45, 30))  # a step on all six graphs
    assert costs[0] - costs[1] == pytest.approx((30 - 5) * more)


def test_the_client_pays_for_its_transport():
    graph = easy(0, n=900)
    job = Job(0, "train", 0, {}, graph, {}, 0)
    n = int(graph["train"].sum())
    steps = [made(**option).effort(job) * made().task.flops(graph) for option in ({}, {"use_fgw": False})]
    assert steps[0] - steps[1] > 25 * n**3


@pytest.mark.parametrize(
    ("options", "message"),
    [({"model": MaskedGCN(hidden=8)}, "use_retention"),
     ({"use_div": False, "use_disp": False, "use_fgw": False}, "use_div")],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(options, message):
    with pytest.raises(ScenarioError, match=message):
        made(**options).start()
    if "model" in options:
        assert made(**options, use_retention=False).start()["updates"] == 0
