"""FedGCN: what clients know of A X and A² X, what it costs, and that later layers lack nothing."""

from collections import Counter

import numpy as np
import pytest
import small_points
import torch
from contexts import within

from algorithms.fed_gcn import FedGCN
from algorithms.fedavg import FedAvg
from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.data.graph import graph_of, with_keys
from fedsim.data.partition import cut
from fedsim.data.time.temporal import Overview, owners_of
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import bind as bind_model
from fedsim.learn.tasks.link_prediction import LinkPrediction
from fedsim.learn.tasks.node_classification import NodeClassification

N, F, CLIENTS = 40, 3, 3


def whole(seed=0):
    """A random undirected graph in float64, an isolated node in it; nodes 37 to 39 are nobody's."""
    g = torch.Generator().manual_seed(seed)
    ends = torch.randint(N - 1, (2, 70), generator=g)
    ends = ends[:, ends[0] != ends[1]]
    edges = torch.unique(torch.cat([ends, ends.flip(0)], 1), dim=1)
    graph = graph_of(torch.zeros(N, F), edges, torch.arange(N) % 3, torch.arange(N) % 2 == 0)
    graph["x"] = torch.randn(N, F, generator=g, dtype=torch.float64)
    return with_keys(graph, {"node": torch.arange(N), "changed": torch.ones(N, dtype=torch.bool)})


class Driven:
    """Rounds of all clients, or some of them, by hand; nothing is trained."""

    def __init__(self, **options):
        self.whole = whole()
        mixed = np.random.default_rng(1).permutation(37)
        self.owned = [np.sort(part) for part in np.array_split(mixed, CLIENTS)]
        self.graphs = cut(self.whole, self.owned)
        for graph, own in zip(self.graphs, self.owned, strict=True):
            graph["x"] = self.whole["x"][own]
        self.algorithm, self.memories, self.messages = FedGCN(**options), [{} for _ in self.graphs], []
        model = self.algorithm.backbone(GCN(hidden=5, dropout=0.0))
        task = bind_model(NodeClassification(), model, F, 3, 0, "cpu")
        self.algorithm = within(self.algorithm, task, Overview([self.whole], [owners_of(self.owned, N)]))
        state = self.algorithm.start()
        self.state = {**state, "model": tree.transform(torch.Tensor.double, state["model"])}

    def round(self, clients=range(CLIENTS)):
        waiting, taken = [*self.algorithm.steps(self.state)], []
        while waiting:
            step = waiting.pop(0)
            taken.append(step)
            replies = [self.ask(client, step) for client in clients]
            self.state = self.algorithm.update(self.state, replies, step)
            waiting = [*self.algorithm.more(self.state, step), *waiting]
        return taken

    def ask(self, client, step):
        down = self.algorithm.download(self.state, client, step)
        job = Job(client, step, 0, down, self.graphs[client], dict(self.memories[client]), 0)
        like, up = self.algorithm.upload_like(job), self.algorithm.work(job)
        if not isinstance(up, dict):
            try:
                fit = next(up)
                up.send(fit.start)
            except StopIteration as stop:
                up = stop.value
        assert wire.size(like) == wire.size(up)
        self.memories[client] = job.memory
        self.messages.append((step, client, wire.array_bytes(down), wire.array_bytes(up)))
        return Reply(client, 0, down, up)

    def seen(self, client):
        return self.algorithm.sees(self.memories[client], self.graphs[client])

    def adjacency(self, owner=None):
        """A (N, N) of everybody's nodes with self-loops, weighed; those of one client alone if told."""
        there = owners_of(self.owned, N)
        there = torch.from_numpy((there >= 0) if owner is None else (there == owner))
        a = torch.eye(N, dtype=torch.float64)
        a[self.whole["edges"][1], self.whole["edges"][0]] = 1
        a = a * there * there[:, None]
        d = a.sum(1).clamp(min=1)
        return {"none": a, "row": a / d[:, None], "sym": a / (d[:, None] * d).sqrt()}[self.algorithm.norm]


@pytest.mark.parametrize("norm", ["none", "sym", "row"])
@pytest.mark.parametrize("hops", [1, 2])
def test_each_owner_has_the_sums_of_the_whole_graph(hops, norm):
    driven = Driven(hops=hops, norm=norm)
    assert driven.round() == ["collect", "give", "train"]
    once = driven.adjacency() @ driven.whole["x"]
    twice = driven.adjacency() @ once
    for client, own in enumerate(driven.owned):
        seen, alone = driven.seen(client), driven.adjacency(client) @ driven.whole["x"]
        torch.testing.assert_close(seen["x"][: len(own)], once[own], rtol=0, atol=1e-6)
        assert float((alone - once)[own].abs().max()) > 0.1  # or the cut would not matter
        if hops == 2:
            second = aggregated(seen, norm)
            torch.testing.assert_close(second[: len(own)], twice[own], rtol=0, atol=1e-6)


def aggregated(graph, norm):
    """A x of a graph written out, by the degrees that it tells."""
    a = torch.eye(len(graph["y"]), dtype=torch.float64)
    a[graph["edges"][1], graph["edges"][0]] = 1
    d = graph["degree"].double()
    return {"none": a, "row": a / d[:, None], "sym": a / (d[:, None] * d).sqrt()}[norm] @ graph["x"]


@pytest.mark.parametrize("norm", ["none", "sym", "row"])
def test_with_two_hops_a_client_computes_what_one_holder_of_the_graph_would(norm):
    driven = Driven(hops=2, norm=norm)
    driven.round()
    p, a = driven.state["model"], driven.adjacency()
    hidden = torch.relu(a @ driven.whole["x"] @ p["layer1"]["weight"] + p["layer1"]["bias"])
    expected = a @ hidden @ p["layer2"]["weight"] + p["layer2"]["bias"]
    for client, own in enumerate(driven.owned):
        logits = driven.algorithm.task.forward(tree.stack([p]), driven.seen(client))
        torch.testing.assert_close(logits[: len(own)], expected[own], rtol=0, atol=1e-6)


def test_before_training_alone_and_again_for_who_comes_late():
    driven = Driven(hops=2)
    assert driven.round([0, 1]) == ["collect", "give", "train"]
    assert driven.round([0, 1]) == ["collect", "train"]
    assert driven.round([1, 2]) == ["collect", "give", "train"]
    once = driven.adjacency() @ driven.whole["x"]
    gaps = [float((driven.seen(c)["x"][: len(own)] - once[own]).abs().max()) for c, own in enumerate(driven.owned)]
    assert gaps[0] > 0.1
    assert max(gaps[1:]) < 1e-6
    assert driven.round() == ["collect", "give", "train"]
    assert float((driven.seen(0)["x"][: len(driven.owned[0])] - once[driven.owned[0]]).abs().max()) < 1e-6
    assert [row for row in driven.messages[-6:] if row[0] == "give" and row[1]] == [
        ("give", 1, 0, 0),
        ("give", 2, 0, 0),
    ]


@pytest.mark.parametrize(("hops", "norm"), [(1, "sym"), (2, "sym"), (2, "none")])
def test_bytes_are_those_of_the_formulas(hops, norm):
    driven = Driven(hops=hops, norm=norm)
    driven.round()
    owner = torch.from_numpy(owners_of(driven.owned, N))
    source, target = driven.whole["edges"]
    for client, own in enumerate(driven.owned):
        n = len(own)
        cut_off = (owner[source] == client) & (owner[target] >= 0) & (owner[target] != client)
        m = len(target[cut_off].unique())
        assert m > 5
        (up,) = [up for step, one, _, up in driven.messages if (step, one) == ("collect", client)]
        (down,) = [down for step, one, down, _ in driven.messages if (step, one) == ("give", client)]
        degrees = hops == 2 and norm != "none"
        wide = 8 * F  # these rows are float64
        assert up == 4 * (n + m) + wide * (n + m) + 4 * n * degrees
        assert down == wide * n + (hops == 2) * (wide + 4) * m + 4 * m * degrees


def test_without_hops_it_is_federated_averaging_with_the_scenarios_model(tmp_path):
    small_points.run_in(tmp_path / "one", algorithm={"name": "fed_gcn", "hops": 0})
    small_points.run_in(tmp_path / "other", algorithm="fedavg")
    one, other = small_points.files(tmp_path / "one"), small_points.files(tmp_path / "other")
    assert {name: one[name] == other[name] for name in ("transfers", "updates", "spans")} == dict.fromkeys(
        ("transfers", "updates", "spans"), True
    )
    scores = [small_points.table(tmp_path / which, "scores") for which in ("one", "other")]
    assert scores[0]
    assert all(row in scores[1] for row in scores[0])  # of the latest periods alone
    assert FedAvg().backbone(GCN()) == FedGCN(hops=0).backbone(GCN())


NUMBERED = {"data__stream": {"name": "static", "numbered": True}, "model": {"name": "gcn", "hidden": 6, "dropout": 0.0}}
SURE = {"measure": {"metrics": ["accuracy"], "models": ["global", "local"], "splits": ["test"]}}
ROUNDS = {"protocol": {"name": "sync", "rounds": 8, "participation": 1.0}}


@pytest.mark.long
def test_on_cut_communities_sums_help(tmp_path):
    means = {}
    for hops in (0, 2):
        folder = tmp_path / str(hops)
        small_points.run_in(folder, algorithm={"name": "fed_gcn", "hops": hops}, **NUMBERED, **SURE, **ROUNDS)
        rows = [row for row in small_points.table(folder, "scores") if row["model"] == "global"][-5:]
        means[hops] = sum(row["value"] for row in rows) / 5
    assert means[2] > means[0] + 0.03


def test_on_snapshots_rows_go_up_once_a_period(tmp_path):
    drifting = {"name": "drifting", "nodes": 60, "edges": 90, "classes": 3, "features": 40, "snapshots": 4}
    stream = {"name": "snapshots", "every": "2 updates", "steps": 4, "scored": "split"}
    data = {"data__dataset": drifting, "data__stream": stream}
    small_points.run_in(tmp_path / "run", algorithm="fed_gcn", **data, **ROUNDS, **SURE)
    small_points.run_in(tmp_path / "plain", algorithm={"name": "fed_gcn", "hops": 0}, **data, **ROUNDS, **SURE)
    rows, plain = (small_points.table(tmp_path / one, "transfers") for one in ("run", "plain"))
    up, model = (Counter(row["nbytes"] for row in part if row["dst"] < 0) for part in (rows, plain))
    assert model.total() == 8 * 5
    large = [size for size in (up - model).elements() if size > 300]
    assert len(large) == 4 * 5  # of each client in each period
    assert (up - model).total() == 4 * 5 + 4 * 5 + 4 * 5  # collect with rows, the answers to give, idle collects


@pytest.mark.parametrize(
    ("stream", "more", "message"),
    [
        ("static", {}, "numbered: true"),
        ({"name": "static", "numbered": True}, {"data__keep": {"edges": 0.5}}, "data.keep.edges"),
    ],
)
def test_who_knows_no_cut_is_told_what_to_write(stream, more, message, tmp_path):
    with pytest.raises(ScenarioError, match=message):
        small_points.run_in(tmp_path / "run", algorithm="fed_gcn", data__stream=stream, **more)


def test_links_are_not_what_it_predicts():
    driven = Driven()
    driven.algorithm = within(
        driven.algorithm, bind_model(LinkPrediction(), GCN(), F, 3, 0, "cpu"), driven.algorithm.overview
    )
    with pytest.raises(ScenarioError, match="node_classification"):
        driven.algorithm.start()
