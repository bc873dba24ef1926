"""Fed-PUB: regularisers, embeddings, similarities and bytes as written, and masks that stay with their client."""

import math

import pytest
import torch
from camps import accuracy, added, check_mixing, community, gap, moved, rounds
from contexts import within
from learnlab import drawn_task

from algorithms.fed_pub import FedPUB, apart, both_ways, joined
from algorithms.fedavg import FedAvg
from fedsim.core import wire
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.masked_gcn import MaskedGCN


def made(algorithm, features=5, classes=4, model=None, seed=0):
    own = algorithm.backbone(model or GCN(hidden=8, dropout=0.0))
    return within(algorithm, drawn_task(own, features, classes, seed))


def graph(seed=0, n=12, features=5, classes=4, edges=20, share=0.5):
    g = torch.Generator().manual_seed(seed)
    train = torch.rand(n, generator=g) < share
    y = torch.randint(classes, (n,), generator=g)
    ends = torch.randint(max(n, 1), (2, edges), generator=g)
    return graph_of(torch.randn(n, features, generator=g), ends, y, train, ~train, ~train)


# ---- what travels


@pytest.mark.parametrize(
    ("options", "masks"),
    [({}, False), ({"preset": "official"}, True), ({"send_masks": True}, True),
     ({"preset": "official", "send_masks": False}, False)],
)  # fmt: skip
def test_messages_have_the_bytes_of_the_formulas(options, masks):
    algorithm = made(FedPUB(**options), 30, 4, GAT(hidden=64))
    state, _, history = rounds(algorithm, {0: graph(features=30)}, [[0], [0]])
    weights = 30 * 64 + 64 * 64 + 64 * 4
    numbers = weights + 64 + 64 + 4
    edges = state["proxy"]["edges"].shape[1]
    downs = [wire.array_bytes(replies[0].download) for replies in history]
    assert downs == [4 * numbers + 4 * 500 * 30 + 8 * edges, 4 * numbers]
    for replies in history:
        assert wire.array_bytes(replies[0].upload) == 4 * (numbers + masks * weights) + 4 * 64
        assert isinstance(replies[0].upload["samples"], int)  # not an array: takes 8 bytes
        assert replies[0].upload.keys() == {"update", "samples", "embedding"} | ({"masks"} if masks else set())


def test_the_proxy_is_sent_until_a_reply_shows_that_it_is_there():
    algorithm = made(FedPUB())
    state = algorithm.start()
    for _ in range(2):  # asked twice, since nothing has come
        assert algorithm.download(state, 0, "train")["proxy"] is state["proxy"]
    state = rounds(algorithm, {0: graph(), 1: graph(1)}, [[0], [0]])[0]
    assert "proxy" not in algorithm.download(state, 0, "train")
    assert algorithm.download(state, 1, "train")["proxy"] is state["proxy"]


def test_the_proxy_is_five_random_blocks_apart():
    proxy = made(FedPUB(), features=40).start()["proxy"]
    source, target = proxy["edges"].long()
    assert proxy["x"].shape == (500, 40)
    assert abs(float(proxy["x"].mean())) < 0.02
    assert float(proxy["x"].std()) == pytest.approx(1, abs=0.02)
    assert bool((source // 100 == target // 100).all())
    assert bool((source < target).all())  # each edge once, no loops
    assert len(torch.unique(proxy["edges"], dim=1).T) == len(source)
    counts = torch.bincount(source // 100, minlength=5)
    assert bool(((counts - 495).abs() < 5 * math.sqrt(4950 * 0.09)).all())
    again, other = made(FedPUB(), features=40).start()["proxy"], made(FedPUB(), features=40, seed=1).start()["proxy"]
    assert gap(again["x"], proxy["x"]) == 0
    assert gap(other["x"], proxy["x"]) > 1
    assert both_ways(proxy)["edges"].T.tolist() == [*proxy["edges"].T.tolist(), *proxy["edges"].flip(0).T.tolist()]


def test_the_model_is_a_masked_gcn_of_the_scenarios_width_and_dropout():
    model = FedPUB(threshold=0.2).backbone(GAT(hidden=48, dropout=0.3, layers=2))
    assert model == MaskedGCN(hidden=48, dropout=0.3, layers=3, threshold=0.2)


# ---- what a client does


def scattered(algorithm, seed, clients=2):
    """Random parameters with a client axis, masks of both signs."""
    g = torch.Generator().manual_seed(seed)
    return tree.transform(
        lambda leaf: torch.randn(clients, *leaf.shape, generator=g).requires_grad_(True), algorithm.task.init()
    )


def slopes(algorithm, params, data, given):
    loss = algorithm.loss(params, data, given)
    order = iter(torch.autograd.grad(loss.sum(), list(tree.leaves(params))))
    return loss.detach(), tree.transform(lambda _: next(order), params)


@pytest.mark.parametrize("preset", ["paper", "official"])
def test_the_regularisers_are_live_in_the_paper_and_inert_in_the_code(preset):
    own, plain = made(FedPUB(preset=preset, lambda1=0.3, lambda2=0.7)), made(FedAvg(), model=MaskedGCN(hidden=8))
    params, received = scattered(own, 1), apart(scattered(own, 2))[0]
    data = graph_of(torch.cat([graph(0)["x"], graph(1)["x"]]), torch.zeros(2, 0), torch.zeros(24), torch.ones(24) > 0)
    data |= {"client": torch.arange(24) // 12, "sizes": torch.tensor([12, 12])}
    given = {"received": received, "learned": torch.tensor([1.0, 0.0])}  # the second client is in the first round
    loss, grads = slopes(own, params, data, given)
    base, expected = slopes(plain, params, data, None)
    if preset == "paper":
        for name, layer in params.items():
            base = base + 0.3 * layer["mask"].detach().abs().sum((1, 2))
            expected[name]["mask"] += 0.3 * layer["mask"].detach().sign()
            for key in ("weight", "bias"):
                off = (layer[key] - received[name][key])[0].detach()
                base[0] += 0.7 * off.norm()
                expected[name][key][0] += 0.7 * off / off.norm()
    torch.testing.assert_close(loss, base)
    assert gap(grads, expected) < 1e-5


def test_where_nothing_has_moved_the_pull_has_no_slope():
    algorithm, data = made(FedPUB(lambda1=0.0, lambda2=5.0)), graph(3)
    params = tree.transform(lambda leaf: leaf.detach()[:1].requires_grad_(True), scattered(algorithm, 1))
    received = tree.transform(torch.detach, apart(params)[0])
    near = slopes(algorithm, params, data, {"received": received, "learned": torch.ones(1)})
    free = slopes(algorithm, params, data, {"received": received, "learned": torch.zeros(1)})
    assert gap(near[1], free[1]) == 0
    assert bool(torch.isfinite(near[0]).all())


def test_the_pull_begins_once_the_server_has_learned_something():
    algorithm = made(FedPUB())
    state, _, history = rounds(algorithm, {c: graph(c) for c in range(2)}, [[0], [0]])
    assert [replies[0].download["learned"] for replies in history] == [False, True]
    assert algorithm.download(state, 1, "train")["learned"]  # a newcomer is not in the very first round
    free = rounds(made(FedPUB(lambda2=0.0)), {0: graph()}, [[0], [0]])[2]
    held = rounds(made(FedPUB(lambda2=10.0)), {0: graph()}, [[0], [0]])[2]
    moved = [[sum(float(leaf.norm()) for leaf in tree.leaves(r[0].upload["update"])) for r in h] for h in (free, held)]
    assert moved[0][0] == moved[1][0]
    assert moved[1][1] < 0.8 * moved[0][1]


def test_masks_stay_with_their_client_while_its_weights_are_replaced():
    algorithm = made(FedPUB(preset="official", tau=1.0))
    graphs = {c: graph(c) for c in range(3)}
    state, memories, history = rounds(algorithm, graphs, [[0, 1], [1, 2], [0, 1, 2]])
    sent = [{r.client: r.upload["masks"] for r in replies} for replies in history]
    assert gap(sent[0][0], sent[0][1]) > 0.01  # each its own
    for client in range(3):
        assert gap(apart(memories[client]["local"])[1], sent[2][client]) == 0
        used = algorithm.predictor(state, client, memories[client])
        assert gap(apart(used)[1], sent[2][client]) == 0
        assert gap(apart(used)[0], algorithm.download(state, client, "train")["model"]) == 0
        assert gap(apart(used)[0], apart(memories[client]["local"])[0]) > 1e-3
        assert algorithm.personal(state, client, memories[client]) is memories[client]["local"]
    newcomer = apart(algorithm.predictor(state, 9, {}))[1]
    assert all(bool((mask == 1).all()) for mask in tree.leaves(newcomer))


def test_a_job_begins_with_the_weights_received_under_the_masks_kept():
    algorithm = made(FedPUB())
    state, memories, _ = rounds(algorithm, {0: graph(), 1: graph(1)}, [[0, 1]])
    download = algorithm.download(state, 0, "train")
    script = algorithm.work(Job(0, "train", 0, download, graph(), memories[0], 5))
    start = next(script).start
    assert gap(start, joined(download["model"], memories[0]["local"])) == 0
    assert gap(apart(start)[1], apart(memories[0]["local"])[1]) == 0


def test_a_client_without_training_nodes_sends_the_model_as_it_came():
    data = graph()
    data["train"] = torch.zeros(12, dtype=torch.bool)
    upload = rounds(made(FedPUB()), {0: data}, [[0]])[2][0][0].upload
    assert all(float(leaf.abs().max()) == 0 for leaf in tree.leaves(upload["update"]))
    assert bool(torch.isfinite(upload["embedding"]).all())


def test_the_embedding_is_the_mean_output_of_the_second_convolution_on_the_proxy():
    algorithm = made(FedPUB(threshold=0.9, proxy_blocks=1, lambda1=0.0), model=GCN(hidden=8, dropout=0.5))
    state, memories, history = rounds(algorithm, {0: graph()}, [[0]], lr=0.1)
    trained, a = memories[0]["local"], torch.zeros(100, 100, dtype=torch.double)
    source, target = state["proxy"]["edges"].long()
    a[source, target] = a[target, source] = 1
    a.fill_diagonal_(1)
    a = a / (a.sum(1, keepdim=True) * a.sum(0)).sqrt()
    h, cut = state["proxy"]["x"].double(), 0
    for name in ("layer1", "layer2"):
        mask = torch.where(trained[name]["mask"].abs() < 0.9, 0.0, trained[name]["mask"])
        cut += int((mask == 0).sum())
        h = a @ (h.relu() if name == "layer2" else h) @ (trained[name]["weight"] * mask).double()
        h = h + trained[name]["bias"]
    assert cut > 0
    torch.testing.assert_close(history[0][0].upload["embedding"].double(), h.mean(0), rtol=1e-4, atol=1e-6)


# ---- what the server makes of it


def reply(algorithm, client, number, embedding, samples=1, weight=1.0):
    """A reply whose model is its download plus `number` everywhere."""
    return moved(algorithm, client, number, samples, weight, embedding=torch.tensor(embedding))


EMBEDDINGS = [[1.0, 0.0], [3.0, 3.0], [0.0, -2.0]]
COSINES = [[1, math.sqrt(0.5), 0], [math.sqrt(0.5), 1, -math.sqrt(0.5)], [0, -math.sqrt(0.5), 1]]


@pytest.mark.parametrize("tau", [0.0, 3.0, 10.0])
def test_each_client_gets_the_mean_by_the_similarities(tau):
    algorithm = made(FedPUB(tau=tau))
    values, samples = [1.0, 2.0, 4.0], [1, 5, 1]
    replies = [reply(algorithm, c, values[c], EMBEDDINGS[c], samples[c]) for c in range(3)]
    state = algorithm.update(algorithm.start(), replies, "train")
    expected = []
    for row in COSINES:
        powers = [math.exp(tau * cosine) for cosine in row]
        expected.append(sum(p * value for p, value in zip(powers, values, strict=True)) / sum(powers))
    got = [added(algorithm, algorithm.download(state, client, "train")["model"]) for client in range(4)]
    # the last is a newcomer: the mean by samples
    assert got == pytest.approx([*expected, (1 + 5 * 2 + 4) / 7], abs=1e-5)


def test_a_stale_reply_is_drawn_to_its_download_and_an_empty_embedding_takes_from_all():
    algorithm = made(FedPUB())
    replies = [reply(algorithm, 0, 2.0, [0.0, 0.0]), reply(algorithm, 1, 4.0, [0.0, 1.0], weight=0.25)]
    state = algorithm.update(algorithm.start(), replies, "train")
    assert added(algorithm, state["personal"][0]) == pytest.approx(1.5, abs=1e-5)


@pytest.mark.parametrize(("absent", "expected"), [("stay", [3.5, 3.5]), ("leave", [5, 1.5])])
def test_those_that_have_not_replied_stay_with_what_they_sent_last_or_are_left_out(absent, expected):
    algorithm = made(FedPUB(absent=absent))
    first = [reply(algorithm, c, 1.0 + c, [1.0, 0.0]) for c in range(2)]
    state = algorithm.update(algorithm.start(), first, "train")
    kept = dict(state["personal"])
    later = algorithm.update(state, [reply(algorithm, 0, 5.0, [1.0, 0.0])], "train")
    assert [added(algorithm, later["personal"][c]) for c in range(2)] == pytest.approx(expected, abs=1e-5)
    assert state["personal"] == kept


def test_mixing_moves_every_personal_model_along():
    algorithm = made(FedPUB(tau=100.0))
    replies = [reply(algorithm, 0, 1.0, [1.0, 0.0]), reply(algorithm, 1, 3.0, [0.0, 1.0])]
    check_mixing(algorithm, replies)


@pytest.mark.parametrize("preset", ["paper", "official"])
def test_the_clock_is_charged_the_embedding_and_the_similarities(preset):
    algorithm = made(FedPUB(preset=preset, proxy_blocks=2))
    state, memories, history = rounds(algorithm, {c: graph(c) for c in range(3)}, [[0, 1], [2]])
    replies, weights, edges = history[1], 5 * 8 + 8 * 8 + 8 * 4, state["proxy"]["edges"].shape[1]
    numbers = weights + 8 + 8 + 4
    averaged = numbers + (weights if preset == "official" else 0)
    assert algorithm.server_flops(state, replies, "train") == 2 * (averaged + 8) + 9 * 2 * (8 + averaged)
    arcs = 2 * edges + 200
    forward = 2 * 200 * 5 * 8 + 2 * arcs * 8 + 5 * 8 + 2 * 200 * 8 * 8 + 2 * arcs * 8 + 8 * 8
    for download in (history[0][0].download, algorithm.download(state, 0, "train")):
        steps = algorithm.extra_steps(Job(0, "train", 0, download, graph(), memories[0], 0))
        assert steps * algorithm.task.flops(graph()) == pytest.approx(forward)


@pytest.mark.parametrize(("preset", "per_mask", "per_weight"), [("paper", 3, 5), ("official", 0, 0)])
def test_the_clock_is_charged_the_regularisers_that_have_a_gradient(preset, per_mask, per_weight):
    algorithm = made(FedPUB(preset=preset))
    _, memories, history = rounds(algorithm, {0: graph()}, [[0], [0]])
    masks, once = 5 * 8 + 8 * 8 + 8 * 4, algorithm.task.flops(graph())
    first, later = (replies[0].download for replies in history)
    efforts = [algorithm.effort(Job(0, "train", 0, download, graph(), memories[0], 0)) for download in (first, later)]
    pull = per_weight * (masks + 8 + 8 + 4)
    assert [(effort - 1) * once for effort in efforts] == pytest.approx([per_mask * masks, per_mask * masks + pull])


def test_one_round_leaves_one_model_for_all_the_mean_by_samples_under_masks_of_ones():
    algorithm = made(FedPUB())
    graphs = {c: graph(c, share=0.2 + 0.3 * c, n=12 + 4 * c) for c in range(3)}
    first = algorithm.start()
    state, memories, (replies,) = rounds(algorithm, graphs, [[0, 1, 2]])
    total = sum(r.upload["samples"] for r in replies)
    mean = tree.mean([r.upload["update"] for r in replies], [r.upload["samples"] / total for r in replies])
    weights, masks = apart(algorithm.common(state))
    assert gap(weights, tree.add(first["model"], mean)) < 1e-6
    assert gap(weights, state["model"]) == 0
    assert all(bool((mask == 1).all()) for mask in tree.leaves(masks))
    assert gap(weights, apart(algorithm.predictor(state, 0, memories[0]))[0]) > 1e-4
    assert not any(bool(r.download["learned"]) for r in replies)
    algorithm.task.forward(tree.stack([algorithm.common(state)]), graphs[0])


# ---- what it is for


def shares_of(algorithm, state):
    """The mean α within a camp, oneself left out, and across camps; even and odd clients are the camps."""
    alpha = algorithm.shares(torch.stack([one["embedding"] for one in state["last"].values()]))
    parity = torch.arange(len(alpha)) % 2
    same = parity.unsqueeze(0) == parity.unsqueeze(1)
    return float(alpha[same & ~torch.eye(len(alpha), dtype=torch.bool)].mean()), float(alpha[~same].mean())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("preset", ["paper", "official"])
def test_clients_that_name_the_same_things_differently_are_told_apart(preset, seed):
    camps = {client: [0, 1] if client % 2 == 0 else [2, 3] for client in range(6)}
    graphs = {client: community(labels, 100 * seed + client) for client, labels in camps.items()}
    unseen = {client: community(labels, 100 * seed + 50 + client, n=200) for client, labels in camps.items()}
    reached, weights_alone = {}, {}
    plain = {"own": FedPUB(preset=preset), "blind": FedPUB(preset=preset, tau=0.0), "one": FedAvg()}
    for name in plain:
        algorithm = made(plain[name], features=20, model=GCN(hidden=16, dropout=0.0), seed=seed)
        state, memories, _ = rounds(algorithm, graphs, [list(graphs)] * 10, seed)
        reached[name] = accuracy(algorithm, state, memories, unseen)
        weights_alone[name] = accuracy(algorithm, state, {client: {} for client in graphs}, unseen)
        if name == "own":
            within, across = shares_of(algorithm, state)
            assert within > 0.1
            assert across < 0.01
    assert reached["own"] > reached["one"] + 0.25
    # masks that stay tell the camps apart too; without them it is the similarities alone that do
    assert reached["blind"] > reached["one"] + 0.25
    assert weights_alone["own"] > weights_alone["blind"] + 0.25
