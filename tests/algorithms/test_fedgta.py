"""FedGTA: moments and confidence as written, groups that follow the labels, and models made for each client."""

import math
from dataclasses import replace

import pytest
import torch
from camps import accuracy, added, check_mixing, community, gap, moved, rounds
from contexts import within
from learnlab import drawn_task

from algorithms.fedavg import FedAvg
from algorithms.fedgta import FedGTA
from fedsim.core import wire
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job
from fedsim.learn.engine import tree
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN
from fedsim.learn.modules.operations import Operations


def made(algorithm, features=5, classes=4, model=None, seed=0):
    return within(algorithm, drawn_task(model or GCN(hidden=8), features, classes, seed))


def graph(seed=0, n=12, features=5, classes=4, edges=20):
    g = torch.Generator().manual_seed(seed)
    train = torch.rand(n, generator=g) < 0.5
    y = torch.randint(classes, (n,), generator=g)
    ends = torch.randint(max(n, 1), (2, edges), generator=g)  # directed, with self-loops and repetitions
    return graph_of(torch.randn(n, features, generator=g), ends, y, train, ~train, ~train)


# ---- what a client sends


@pytest.mark.parametrize(("kind", "moments"), [("hybrid", 10), ("hybrid", 6), ("raw", 13), ("central", 4)])
def test_it_sends_the_moments_and_one_number_more_than_fedavg(kind, moments):
    graphs, model = {0: graph(features=30)}, GAT(hidden=64)
    sent = [
        rounds(made(algorithm, 30, 4, model), graphs, [[0]])[2][0][0].upload
        for algorithm in (FedGTA(kind=kind, moments=moments), FedAvg())
    ]
    numbers = (2 if kind == "hybrid" else 1) * moments * 4
    assert wire.array_bytes(sent[0]) - wire.array_bytes(sent[1]) == 4 * (numbers + 1)
    assert wire.array_bytes(sent[1]) == 4 * (30 * 64 + 192 + 64 * 4 + 3 * 4)
    assert gap(sent[0]["update"], sent[1]["update"]) == 0


def test_the_numbers_are_those_of_the_formulas_written_out():
    """In plain Python and double precision, node by node, from the trained model's logits."""
    data, algorithm = graph(3), made(FedGTA(moments=3))
    state, _, history = rounds(algorithm, {0: data}, [[0]])
    logits = algorithm.task.forward(tree.stack([state["last"][0]["model"]]), data).double()
    n, classes, y, train = 12, 4, data["y"].tolist(), data["train"].tolist()

    def softmax(row, temperature=1.0):
        powers = [math.exp(value / temperature) for value in row]
        return [power / sum(powers) for power in powers]

    edges = [(a, b) for a, b in data["edges"].T.tolist() if a != b] + [(i, i) for i in range(n)]
    degree = [sum(b == i for _, b in edges) for i in range(n)]
    first = [softmax(logits[i].tolist()) if train[i] else [0.0] * classes for i in range(n)]
    now = first
    for _ in range(5):
        spread = [[0.0] * classes for _ in range(n)]
        for a, b in edges:
            for c in range(classes):
                spread[b][c] += now[a][c] / math.sqrt(degree[a] * degree[b])
        now = [[min(1.0, 0.5 * spread[i][c] + 0.5 * first[i][c]) for c in range(classes)] for i in range(n)]

    def shares(temperature):
        one_hot = [[float(c == y[i]) for c in range(classes)] for i in range(n)]
        return [one_hot[i] if train[i] else softmax(now[i], temperature) for i in range(n)]

    p, expected = shares(1.0), []
    mean = [sum(row[c] for row in p) / n for c in range(classes)]
    for off in ([0.0] * classes, mean):
        for order in (1, 2, 3):
            expected += [sum((row[c] - off[c]) ** order for row in p) / n for c in range(classes)]
    torch.testing.assert_close(history[0][0].upload["moments"], torch.tensor(expected), rtol=1e-4, atol=1e-6)

    both = [sum((a == i) + (b == i) for a, b in data["edges"].T.tolist()) for i in range(n)]
    entropy = sum(both[i] * sum(v * math.log(v + 1e-8) for v in row) for i, row in enumerate(shares(20.0)))
    confidence = sum(both) * classes / math.e + entropy
    assert float(history[0][0].upload["confidence"]) == pytest.approx(confidence, rel=1e-5)


def test_without_loops_it_spreads_as_pyg_does():
    lp = pytest.importorskip("torch_geometric.nn.models").LabelPropagation(num_layers=5, alpha=0.5)
    data = graph(5, edges=40)
    soft = torch.softmax(torch.randn(12, 4, generator=torch.Generator().manual_seed(1)), 1)
    ours = made(FedGTA(loops=False)).propagated(soft, data)
    torch.testing.assert_close(ours, lp(soft, data["edges"], mask=data["train"]))
    assert gap(ours, made(FedGTA()).propagated(soft, data)) > 0.01


@pytest.mark.parametrize("kind", ["no_edges", "no_training", "nothing"])
def test_a_poor_graph_gives_numbers_all_the_same(kind):
    data = graph(n=0 if kind == "nothing" else 12, edges=0 if kind != "no_training" else 20)
    if kind == "no_training":
        data["train"] = torch.zeros(12, dtype=torch.bool)
    algorithm = made(FedGTA())
    moments, confidence = algorithm.describe(algorithm.task.init(), data)
    assert bool(torch.isfinite(moments).all())
    assert float(confidence) >= 0
    assert (float(confidence) == 0) == (kind != "no_training")


@pytest.mark.parametrize("classes", [1, 2, 3, 7])
def test_the_confidence_is_never_negative(classes):
    algorithm, data = made(FedGTA(), classes=classes), graph(classes=classes)
    for p in (torch.full((12, classes), 1 / classes), torch.rand(12, classes, generator=torch.Generator())):
        assert float(algorithm.confidence_of(p / p.sum(1, keepdim=True), data)) > 0


# ---- what the server makes of it


def reply(algorithm, client, number, moments, confidence=1.0, samples=1, weight=1.0):
    """A reply whose model is its download plus `number` everywhere."""
    told = {"moments": torch.tensor(moments), "confidence": torch.tensor([confidence])}
    return moved(algorithm, client, number, samples, weight, **told)


def test_each_client_gets_the_confident_mean_of_those_alike():
    algorithm = made(FedGTA(threshold=0.6))
    replies = [
        reply(algorithm, 0, 1.0, [1.0, 0.0], 3.0),
        reply(algorithm, 1, 2.0, [1.0, 1.0], 1.0, samples=5),
        reply(algorithm, 2, 4.0, [0.0, 2.0], 2.0, weight=0.5),
    ]  # cosines: 0.707 of 0 and 1, and of 1 and 2; 0 of 0 and 2: likeness is not transitive
    state = algorithm.update(algorithm.start(), replies, "train")
    assert algorithm.groups(state["last"]) == {0: (0, 1), 1: (0, 1, 2), 2: (1, 2)}
    got = [added(algorithm, algorithm.download(state, client, "train")["model"]) for client in range(4)]
    # the last is a newcomer: FedAvg's mean, here weighted 1 : 5 : 1; the third reply's change is discounted to 2
    expected = [(3 * 1 + 2) / 4, (3 * 1 + 2 + 2 * 2) / 6, (2 + 2 * 2) / 3, (1 + 5 * 2 + 2) / 7]
    assert got == pytest.approx(expected, abs=1e-5)
    assert algorithm.predictor(state, 1, {}) is algorithm.download(state, 1, "train")["model"]


@pytest.mark.parametrize(("confidences", "expected"), [([0.0, 0.0], 2.0), ([-2.0, 1.0], 2.0), ([0.0, 1.0], 3.0)])
def test_no_confidence_at_all_weighs_equally(confidences, expected):
    algorithm = made(FedGTA())
    replies = [reply(algorithm, c, 1.0 + 2 * c, [1.0, 0.0], h) for c, h in enumerate(confidences)]
    state = algorithm.update(algorithm.start(), replies, "train")
    assert added(algorithm, state["personal"][0]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("threshold", [0.5, 1.0])
def test_a_client_is_always_like_itself(threshold):
    algorithm = made(FedGTA(threshold=threshold))
    replies = [reply(algorithm, c, float(c), [0.0, 0.0]) for c in range(2)]
    assert algorithm.groups(algorithm.update(algorithm.start(), replies, "train")["last"]) == {0: (0,), 1: (1,)}


@pytest.mark.parametrize(("absent", "expected"), [("stay", [(5 + 2) / 2, (5 + 2) / 2]), ("leave", [5, (1 + 2) / 2])])
def test_those_that_have_not_replied_stay_with_what_they_sent_last_or_are_left_out(absent, expected):
    algorithm = made(FedGTA(absent=absent))
    first = [reply(algorithm, c, 1.0 + c, [1.0, 0.0]) for c in range(2)]
    state = algorithm.update(algorithm.start(), first, "train")
    kept = dict(state["personal"])
    later = algorithm.update(state, [reply(algorithm, 0, 5.0, [1.0, 0.0])], "train")
    got = [added(algorithm, later["personal"][client]) for client in range(2)]
    assert got == pytest.approx(expected, abs=1e-5)
    assert state["personal"] == kept
    flops = algorithm.server_flops(state, first[:1], "train")
    assert flops > algorithm.server_flops(algorithm.start(), first[:1], "train") or absent == "leave"


@pytest.mark.parametrize("options", [{}, {"spread_steps": 20}, {"moments": 20, "kind": "raw"}])
def test_the_clock_is_charged_the_prediction_and_about_what_follows_from_it(options):
    algorithm, data = made(FedGTA(**options)), graph(0, n=300, edges=900)
    model, step = algorithm.task.init(), algorithm.task.flops(data)
    job = Job(0, "train", 0, {"model": model}, data, {}, 0)
    algorithm.describe(model, data)  # derives the graph's matrices
    with Operations() as counted:
        algorithm.describe(model, data)
    with Operations() as predicted:
        algorithm.task.forward(tree.stack([model]), data)
    billed, seen = (algorithm.extra_steps(job) - 1 / 3) * step, counted.total - predicted.total
    assert seen <= billed <= 4 * seen  # what sums and sparse products add up is not seen
    longer = made(replace(algorithm, spread_steps=algorithm.spread_steps + 1)).extra_steps(job)
    assert longer * step - billed - step / 3 == pytest.approx(4 * (2 * (900 + 300) + 4 * 300))


def test_mixing_moves_every_personal_model_along():
    algorithm = made(FedGTA())
    replies = [reply(algorithm, 0, 1.0, [1.0, 0.0]), reply(algorithm, 1, 3.0, [0.0, 1.0])]
    other = check_mixing(algorithm, replies)
    alone = algorithm.update(algorithm.start(), replies[:1], "train")  # a peer: its own model is the mixed one
    alone = algorithm.mix(alone, [algorithm.share(alone), other], [1.0, 1.0])
    assert gap(algorithm.download(alone, 0, "train")["model"], alone["model"]) < 1e-6


def test_in_one_group_of_equally_sure_clients_it_is_fedavg():
    data = graph(4, edges=30)
    graphs, asked = {0: data, 1: data}, [[0, 1]] * 3  # the same graph, trained with different seeds
    own = FedGTA(threshold=-1.0, temperature=1e6)  # with P' uniform off the training nodes both are as sure
    one, other = made(own, model=GCN(hidden=8, dropout=0.5)), made(FedAvg(), model=GCN(hidden=8, dropout=0.5))
    first, second = rounds(one, graphs, asked)[0], rounds(other, graphs, asked)[0]
    assert gap(first["personal"][0], second["model"]) < 1e-5
    assert gap(first["model"], second["model"]) < 1e-5


# ---- what it is for


CAMPS = {client: [0, 1] if client % 2 == 0 else [2, 3] for client in range(6)}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_contradicting_clients_are_told_apart_and_each_camp_learns_its_own_rule(seed):
    """Two camps name the same clusters differently: one model cannot serve both, and one client's data are too few."""
    graphs = {client: community(rule, 10 * seed + client) for client, rule in CAMPS.items()}
    unseen = {client: community(rule, 1000 + 10 * seed + client, n=200) for client, rule in CAMPS.items()}
    reached = {}
    for name, plain in {"camps": FedGTA(), "alone": FedGTA(threshold=1.0), "together": FedAvg()}.items():
        algorithm = made(plain, features=20, seed=seed)
        state, memories, _ = rounds(algorithm, graphs, [list(graphs)] * 10, seed)
        reached[name] = accuracy(algorithm, state, memories, unseen)
        if name == "camps":
            assert algorithm.groups(state["last"]) == {c: (0, 2, 4) if c % 2 == 0 else (1, 3, 5) for c in graphs}
    assert reached["camps"] > reached["alone"] + 0.05
    assert reached["camps"] > reached["together"] + 0.25


@pytest.mark.parametrize(
    ("train", "other", "apart"),
    [(0.5, [2, 3], True), (0.5, [1, 0], False), (0.1, [2, 3], False)],
    ids=["other labels", "swapped labels", "other labels, few of them to train on"],
)
def test_it_is_by_the_labels_of_training_nodes_alone_that_clients_are_told_apart(train, other, apart):
    graphs = {client: community([0, 1] if client == 0 else other, client, 200, train) for client in range(2)}
    algorithm = made(FedGTA(), features=20)
    state = rounds(algorithm, graphs, [[0, 1]] * 4)[0]
    assert (algorithm.groups(state["last"])[0] == (0,)) == apart
