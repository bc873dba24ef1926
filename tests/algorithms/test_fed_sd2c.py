"""FedSD2C: what travels and what does not, codes that say what the nodes said, and a server that learns of them."""

import pytest
import torch
import torch.nn.functional as F
from camps import gap
from one_shots import (
    CLASSES,
    FEATURES,
    NUMBERS,
    accuracy,
    exchanged,
    made,
    of_classes,
    one_round,
    relabelled,
    skewed,
    without_training,
)

from algorithms.fed_sd2c import Autoencoder, FedSD2C, core_set
from fedsim.core import wire
from fedsim.data.graph import with_keys
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.layers import dense
from fedsim.learn.synthetic.pseudo_graphs import knn_flops, pseudo_graph, stand_in

SMALL = {"latent": 5, "width": 7}
DECODER = 6 * 7 + 8 * FEATURES


def sent(algorithm, graphs, memories=None, **options):
    return exchanged(algorithm, algorithm.start(), graphs, {} if memories is None else memories, "train", **options)


def core(data, each):
    return sum(min(each, int((data["y"][data["train"]] == c).sum())) for c in range(CLASSES))


def test_codes_decoder_and_model_go_up_and_nothing_comes_down():
    algorithm, graphs = made(FedSD2C(each=6, latent_steps=2, server_epochs=1, **SMALL)), skewed(0)[0]
    _, replies = sent(algorithm, graphs, steps=2)
    for reply in replies:
        m = core(graphs[reply.client], 6)
        assert m < int(graphs[reply.client]["train"].sum())
        assert reply.download == {}
        assert reply.upload.keys() == {"codes", "decoder", "model"}
        assert reply.upload["codes"].shape == (m, 5)
        assert wire.array_bytes(reply.upload) == 4 * (m * 5 + DECODER + NUMBERS)
        assert algorithm.mass(reply) == m


def test_a_client_without_a_training_node_sends_nothing():
    algorithm, graphs = made(FedSD2C(latent_steps=2, server_epochs=1, **SMALL)), skewed(0)[0]
    graphs[1] = without_training(graphs[1])
    state, replies = sent(algorithm, graphs, steps=2)
    assert replies[1].upload == {}
    assert gap(state["model"], algorithm.start()["model"]) > 1e-3
    alone, _ = sent(algorithm, {1: graphs[1]}, steps=2)
    assert gap(alone["model"], algorithm.start()["model"]) == 0


def test_the_core_set_is_of_each_class_the_training_nodes_of_least_loss():
    losses = torch.tensor([0.5, 0.1, 0.9, 0.2, 0.0, 0.3, 0.4])
    y, train = torch.tensor([0, 0, 0, 1, 0, 0, 2]), torch.tensor([1, 1, 1, 1, 0, 1, 0]).bool()
    data = {"y": y, "train": train}
    assert core_set(losses, data, 2).tolist() == [1, 5, 3]
    assert made(FedSD2C(each=2)).core(Job(0, "train", 0, {}, data, {}, 0)) == 3


def test_no_held_out_label_and_no_held_out_node_apart_from_the_trained_ones_enters_what_is_sent():
    algorithm, graphs = made(FedSD2C(latent_steps=3, server_epochs=1, **SMALL)), skewed(1)[0]
    _, one = sent(algorithm, graphs, steps=3)
    _, other = sent(algorithm, {c: relabelled(data) for c, data in graphs.items()}, steps=3)
    assert all(gap(a.upload, b.upload) == 0 for a, b in zip(one, other, strict=True))
    cut = {}
    for c, data in graphs.items():  # no edge leads from a held-out node to a trained one
        within = data["train"][data["edges"]].all(0)
        cut[c] = with_keys({k: v for k, v in data.items() if k != "layout"}, {"edges": data["edges"][:, within]})
    noise = torch.randn(len(graphs[0]["y"]), FEATURES, generator=torch.Generator().manual_seed(9))
    moved = {
        c: with_keys(
            {k: v for k, v in data.items() if k != "layout"},
            {"x": torch.where(data["train"].unsqueeze(1), data["x"], noise)},
        )
        for c, data in cut.items()
    }
    _, third = sent(algorithm, cut, steps=3)
    _, fourth = sent(algorithm, moved, steps=3)
    assert all(gap(a.upload, b.upload) < 1e-6 for a, b in zip(third, fourth, strict=True))
    assert gap(one[0].upload["codes"], third[0].upload["codes"]) > 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_codes_that_were_moved_say_what_the_nodes_said(seed):
    data, far = of_classes([0, 1, 2], seed), {}
    for steps in (1, 60):
        algorithm = made(FedSD2C(latent_steps=steps, server_epochs=1, latent=4, width=8), seed)
        memories = {}
        _, (reply,) = sent(algorithm, {0: data}, memories, steps=30)
        graph, soft = algorithm.decoded(reply.upload)
        assert gap(reply.upload["model"], memories[0]["local"]) == 0
        logits = algorithm.task.forward(tree.stack([reply.upload["model"]]), data)
        each = F.cross_entropy(logits, data["y"], reduction="none")
        rows = core_set(each, data, 10)
        wanted = torch.softmax(logits[rows], 1)
        far[steps] = float((wanted * (wanted.log() - soft.log())).sum(1).mean())
        assert graph["x"].shape == (len(rows), FEATURES)
    assert far[60] < 0.3 * far[1]


def test_the_autoencoder_is_two_layers_each_way_and_learns_features():
    coder, data = Autoencoder(6, width=5, latent=3), of_classes([0, 1], 2)
    params, x = (
        coder.init(torch.Generator().manual_seed(0)),
        torch.randn(4, 6, generator=torch.Generator().manual_seed(1)),
    )
    enc, dec = params["encoder"], params["decoder"]
    code = (x @ enc["layer1"]["weight"] + enc["layer1"]["bias"]).clamp(min=0) @ enc["layer2"]["weight"]
    code = code + enc["layer2"]["bias"]
    back = (code @ dec["layer1"]["weight"] + dec["layer1"]["bias"]).clamp(min=0) @ dec["layer2"]["weight"]
    back = back + dec["layer2"]["bias"]
    torch.testing.assert_close(dense.through(enc, x), code)
    torch.testing.assert_close(
        coder.loss(tree.stack([params]), data, {"x": x.unsqueeze(0)}).squeeze(), ((back - x) ** 2).mean()
    )
    assert wire.size(coder.like()) == wire.size(dec)
    algorithm = made(FedSD2C(latent_steps=1, server_epochs=1, latent=8, width=16))
    errors = []
    for steps in (1, 150):
        memories = {}
        sent(algorithm, {0: data}, memories, steps=steps)
        given = {"x": data["x"][data["train"]].unsqueeze(0)}
        errors.append(float(algorithm.coder.loss(tree.stack([memories[0]["coder"]]), data, given)))
    assert errors[1] < 0.5 * errors[0]


def test_the_server_decodes_links_and_labels_by_the_clients_own_models():
    algorithm, graphs = made(FedSD2C(latent_steps=2, neighbours=3, server_epochs=1, **SMALL)), skewed(0)[0]
    _, replies = sent(algorithm, graphs, steps=5)
    for reply in replies:
        graph, soft = algorithm.decoded(reply.upload)
        x = dense.through(reply.upload["decoder"], reply.upload["codes"])
        expected = pseudo_graph(x, torch.zeros(len(x)), 3)
        assert torch.equal(graph["edges"], expected["edges"])
        logits = algorithm.task.forward(tree.stack([reply.upload["model"]]), expected)
        torch.testing.assert_close(soft, torch.softmax(logits, 1))
    first = algorithm.start()
    leaves = tree.transform(lambda leaf: leaf.unsqueeze(0).clone().requires_grad_(True), first["model"])
    total, count = 0.0, 0
    for reply in replies:
        graph, soft = algorithm.decoded(reply.upload)
        told = F.log_softmax(algorithm.task.forward(leaves, graph), 1)
        total, count = total - reply.weight * (soft * told).sum(), count + len(soft)
    slopes = iter(torch.autograd.grad(total / count, list(tree.leaves(leaves))))
    expected = tree.transform(lambda leaf: leaf[0].detach() - 0.2 * next(slopes)[0], leaves)
    assert gap(algorithm.update(first, replies, "train")["model"], expected) < 1e-6
    half = [type(r)(r.client, 0, r.download, r.upload, 0.5) for r in replies]
    step = tree.sub(algorithm.update(first, half, "train")["model"], first["model"])
    assert gap(step, tree.scale(tree.sub(expected, first["model"]), 0.5)) < 1e-6


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_the_server_learns_from_one_exchange_what_no_client_knows(seed):
    graphs, unseen = skewed(seed)
    algorithm, memories = made(FedSD2C(latent=8, width=16), seed), {}
    state, _ = one_round(algorithm, graphs, memories, seed=seed, steps=60)
    alone = [accuracy(algorithm, memories[c]["local"], unseen) for c in graphs]
    assert accuracy(algorithm, state["model"], unseen) > max(alone) + 0.15


def test_a_second_round_goes_on():
    algorithm, graphs = made(FedSD2C(latent_steps=2, server_epochs=2, **SMALL)), skewed(0)[0]
    memories = {}
    state, _ = one_round(algorithm, graphs, memories, steps=3)
    before = dict(memories[0])
    again, _ = one_round(algorithm, graphs, memories, state, steps=3, seed=1)
    for name in ("local", "coder"):
        assert 0 < gap(memories[0][name], before[name]) < 0.2  # three steps of 0.02: not begun anew
    assert gap(again["model"], state["model"]) > 0


def test_the_clock_is_charged_both_trainings_the_codes_and_the_servers_epochs():
    algorithm, graphs = made(FedSD2C(latent_steps=4, server_epochs=3, **SMALL)), skewed(0)[0]
    data = graphs[0]
    n, m, once = int(data["train"].sum()), core(data, 10), algorithm.task.flops(data)
    job = Job(0, "train", 0, {}, data, {}, 0)
    half = 2 * 7 * (FEATURES + 5)
    graph = algorithm.task.flops(stand_in(m, FEATURES, 5))
    lists = knn_flops(m, FEATURES)
    assert algorithm.effort(job) == pytest.approx(1 + 6 * n * half / once)
    assert algorithm.extra_steps(job) * once == pytest.approx(once / 3 + 4 * (3 * m * half + lists + graph))
    _, (reply, *_) = sent(algorithm, graphs, steps=2)
    read = 2 * (m * 5 + DECODER + NUMBERS)
    told = algorithm.server_flops(algorithm.start(), [reply], "train")
    assert told == pytest.approx(read + m * half + lists + (1 / 3 + 3) * graph)
