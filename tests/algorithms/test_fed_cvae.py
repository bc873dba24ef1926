"""FedCVAE: decoders of the bytes of the formula, no held-out label in them, and a model learned from their samples."""

import pytest
import torch
from camps import gap
from contexts import within
from learnlab import drawn_task
from one_shots import asked, easy

from algorithms.fed_cvae import FedCVAE
from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.data.graph import with_masks
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.models.gcn import GCN
from fedsim.learn.synthetic.pseudo_graphs import knn_flops, stand_in
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

FEATURES, CLASSES = 12, 3
SMALL = {"latent": 4, "hidden": 16, "server_steps": 5, "distil_steps": 5}
NUMBERS = (4 + CLASSES + 1) * 16 + 17 * FEATURES


def made(seed=0, task=None, **options):
    own = drawn_task(GCN(hidden=8, dropout=0.0), FEATURES, CLASSES, seed, task=task)
    return within(FedCVAE(**{**SMALL, **options}), own)


def test_nothing_goes_down_and_a_decoder_goes_up():
    graph = easy(0)
    (reply,), _ = asked(made(), [graph])
    assert reply.download == {}
    assert wire.array_bytes(reply.upload) == 4 * NUMBERS + 4 * CLASSES + 4
    assert reply.upload["examples"].tolist() == [45]
    assert reply.upload["labels"].tolist() == torch.bincount(graph["y"][graph["train"]]).tolist()
    assert made().mass(reply) == 45


def test_held_out_nodes_change_no_tensor_and_training_labels_do():
    graph = easy(1)
    held = ~graph["train"]
    other = with_masks(graph, graph["train"], graph["test"], graph["val"])
    other = {**other, "y": torch.where(held, CLASSES - 1 - graph["y"], graph["y"])}
    other["x"] = torch.where(held.unsqueeze(1), graph["x"].flip(0), graph["x"])
    seen = {**graph, "y": torch.where(held, graph["y"], (graph["y"] + 1) % CLASSES)}
    for one in (other, seen):
        one.pop("layout", None)
    (plain, same, changed) = (asked(made(), [one])[0][0].upload for one in (graph, other, seen))
    assert gap(plain, same) == 0
    assert gap(plain["decoder"], changed["decoder"]) > 1e-3


def test_a_client_without_a_training_node_sends_its_numbers_and_is_left_out():
    own, empty = made(), easy(0, train=-1.0)
    replies, memories = asked(own, [empty, easy(1)])
    assert wire.array_bytes(replies[0].upload) == 4 * CLASSES + 4
    assert replies[0].upload["labels"].tolist() == [0] * CLASSES
    assert "cvae" not in memories[0]
    assert own.effort(Job(0, "train", 0, {}, empty, {}, 0)) == 0
    state = own.start()
    assert gap(own.update(state, replies[:1], "train")["model"], state["model"]) == 0
    both, without = (own.update(state, some, "train")["model"] for some in (replies, replies[1:]))
    assert gap(both, without) == 0
    assert own.server_flops(state, replies[:1], "train") == (4 * CLASSES + 4) / 2


def test_samples_are_as_many_as_nodes_of_the_clients_own_classes():
    own = made(size=0.5)
    replies, _ = asked(own, [easy(0, n=60, classes=(0, 2)), easy(1, n=30, classes=(1,))])
    z, y = own.inputs(own.start(), replies, "first")
    assert [len(one) for one in y] == [30, 15] == [len(one) for one in z]
    assert set(y[0].tolist()) == {0, 2}
    assert set(y[1].tolist()) == {1}
    assert max(float(one.abs().max()) for one in z) <= 1
    share = int(replies[0].upload["labels"][0]) / int(replies[0].upload["labels"].sum())
    many = made(size=20.0)
    _, y = many.inputs(many.start(), replies, "first")
    assert float((y[0] == 0).float().mean()) == pytest.approx(share, abs=0.05)


def test_samples_are_drawn_anew_for_each_client_and_update():
    own = made()
    replies, _ = asked(own, [easy(0), easy(0)])
    state = own.start()
    (one, other), _ = own.inputs(state, replies, "first")
    (later, _), _ = own.inputs({**state, "updates": 1}, replies, "first")
    assert torch.equal(own.inputs(state, replies, "first")[0][0], one)
    assert not torch.equal(one, other)
    assert not torch.equal(one, later)


@pytest.mark.parametrize("variant", ["ensemble", "distil"])
def test_the_order_of_arrival_does_not_matter_and_a_further_round_goes_on(variant):
    own = made(variant=variant)
    graphs = [easy(seed) for seed in range(2)]
    replies, memories = asked(own, graphs)
    state = own.start()
    first, same = (own.update(state, some, "train") for some in (replies, replies[::-1]))
    assert gap(first["model"], same["model"]) == 0
    second, _ = asked(own, graphs, memories, seed=1)
    begun, _ = asked(own, graphs, seed=1)
    near, far = (gap(some[0].upload["decoder"], replies[0].upload["decoder"]) for some in (second, begun))
    assert near < 0.5 * far
    again = own.update(first, second, "train")
    assert again["updates"] == 2
    assert gap(again["model"], first["model"]) > 1e-4
    assert ("decoder" in again) == (variant == "distil")


def accuracy(algorithm, model, graph):
    output = algorithm.task.forward(tree.stack([model]), graph)
    return float((output.argmax(1) == graph["y"])[graph["test"]].float().mean())


@pytest.mark.long
@pytest.mark.parametrize("variant", ["ensemble", "distil"])
def test_a_model_learns_from_the_samples(variant):
    """No client has all of the classes."""
    trained, untrained = [], []
    for seed in range(2):
        own = made(seed, variant=variant, server_steps=30, distil_steps=100, distil_lr=0.02, beta=0.1)
        graphs = [easy(10 * seed + k, classes=classes) for k, classes in enumerate([(0, 1), (2,)])]
        replies, _ = asked(own, graphs, steps=60, seed=seed, lr=0.02)
        graph, state = easy(500 + seed, n=90), own.start()
        trained.append(accuracy(own, own.update(state, replies, "train")["model"], graph))
        untrained.append(accuracy(own, state["model"], graph))
    assert min(trained) > 0.8
    assert sum(trained) > sum(untrained) + 0.5


def test_the_servers_decoder_learns_what_the_clients_return():
    own = made(variant="distil", distil_steps=60, distil_lr=0.02)
    g = torch.Generator().manual_seed(0)
    z, y, decoder = torch.randn(40, 4, generator=g), torch.arange(40) % CLASSES, own.cvae.decoder
    x = decoder.forward(decoder.init(torch.Generator().manual_seed(9)), z, y)
    first = own.start()["decoder"]
    after = own.distilled(first, z, y, x)
    missed = [float((decoder.forward(one, z, y) - x).square().mean()) for one in (first, after)]
    assert missed[1] < 0.1 * missed[0]


def test_options_change_the_model():
    replies, _ = asked(made(), [easy(seed) for seed in range(2)])
    options = [{}, {"variant": "distil"}, {"server_steps": 6}, {"server_lr": 0.02}, {"server_decay": 0.1},
               {"neighbours": 3}, {"size": 0.5}, {"variant": "distil", "distil_steps": 6},
               {"variant": "distil", "distil_lr": 0.1}]  # fmt: skip
    models = []
    for option in options:
        own = made(**option)
        models.append(own.update(own.start(), replies, "train")["model"])
    assert min(gap(models[i], models[j]) for i in range(len(models)) for j in range(i)) > 1e-6
    sent = [asked(made(**option), [easy(0)])[0][0].upload["decoder"] for option in ({}, {"beta": 5.0})]
    assert gap(*sent) > 1e-6


def test_what_it_costs():
    own = made()
    replies, _ = asked(own, [easy(0), easy(1, n=30)])
    state, n = own.start(), 75
    decoding = 2.0 * n * ((4 + CLASSES) * 16 + 16 * FEATURES)
    training = knn_flops(n, FEATURES) + 5 * own.task.flops(stand_in(n, FEATURES, 5))
    reading = 2 * (4 * NUMBERS + 4 * CLASSES + 4) / 2
    assert own.server_flops(state, replies, "train") == pytest.approx(reading + decoding + training)
    more = made(variant="distil").server_flops(state, replies, "train") - own.server_flops(state, replies, "train")
    assert more == pytest.approx(decoding * (1 + 3 * 5))
    graph = easy(0)
    m = int(graph["train"].sum())
    encoder = 2.0 * m * ((FEATURES + CLASSES) * 16 + 16 * 8)
    step = own.effort(Job(0, "train", 0, {}, graph, {}, 0)) * own.task.flops(graph)
    assert step == pytest.approx(3 * (encoder + 2.0 * m * ((4 + CLASSES) * 16 + 16 * FEATURES)))


def test_no_sample_at_all_is_refused():
    with pytest.raises(ScenarioError, match=r"size"):
        find.build("algorithm", Part(name="fed_cvae", options={"size": 0.0}))
