"""FedSage+'s exchange: bytes, order, lost messages, late joiners, periods, time."""

from dataclasses import replace

import numpy as np
import pytest
import small_points
import torch
from contexts import within
from learnlab import drawn_task

from algorithms.fedavg import FedAvg
from algorithms.fedsage_plus import FedSagePlus
from fedsim.core import wire
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.sage import SAGE

SMALL = {"generator_epochs": 2, "encoder": 6, "latent": 5, "narrow": 6, "wide": 8}
F, C = 7, 3
G = 4 * (5 * 6 + 6 + 6 * 8 + 8 + 5 * (8 * F + F))  # bytes of fGen at these sizes


def made(**options):
    algorithm = FedSagePlus(**{**SMALL, **options})
    model = algorithm.backbone(GCN(hidden=4, dropout=0.25))
    return within(algorithm, drawn_task(model, F, C))


def drawn(nodes, seed, features=F):
    """A random graph with edges both ways and the three splits mixed."""
    g = torch.Generator().manual_seed(seed)
    edges = torch.randint(max(1, nodes), (2, 2 * nodes), generator=g)
    y, part = (torch.randint(3, (nodes,), generator=g) for _ in range(2))
    x = torch.randn(nodes, features, generator=g)
    return graph_of(x, torch.cat([edges, edges.flip(0)], 1), y, part == 0, part == 1, part == 2)


class Lab:
    """Clients and a server by hand, one exchange at a time; `bytes` are what arrays took, by step and direction."""

    def __init__(self, algorithm, graphs):
        self.algorithm, self.graphs, self.state = algorithm, graphs, algorithm.start()
        self.memories, self.jobs, self.bytes = [{} for _ in graphs], 0, {}
        self.cohort = JobQueue(algorithm, Trainer(Adam(0.01), 2))

    def job(self, client, step, period):
        self.jobs += 1
        download = self.algorithm.download(self.state, client, step)
        return Job(client, step, period, download, self.graphs[client], dict(self.memories[client]), self.jobs)

    def exchange(self, step, clients, period=0, lose=()):
        """Ask these clients; the uploads of those in `lose` never arrive."""
        replies = []
        for client in clients:
            job = self.job(client, step, period)
            promise = self.cohort.submit(job)
            assert promise.nbytes == wire.size(promise.value())
            self.memories[client] = promise.memory()
            for way, what in (("down", job.download), ("up", promise.value())):
                self.bytes[step, way] = self.bytes.get((step, way), 0) + wire.array_bytes(what)
            if client not in lose:
                replies.append(Reply(client, 0, job.download, promise.value()))
        if replies:
            self.state = self.algorithm.update(self.state, replies, step)
        return [reply.upload for reply in replies]

    def round(self, clients, period=0, lose=()):
        """A round as the protocols have it; `lose(step, how often it has been)` names whose uploads are lost."""
        waiting, taken = list(self.algorithm.steps(self.state)), []
        while waiting:
            step, before = waiting.pop(0), self.state
            lost = lose(step, taken.count(step)) if callable(lose) else lose
            self.exchange(step, clients, period, lost)
            taken.append(step)
            if self.state is not before:
                waiting = [*self.algorithm.more(self.state, step), *waiting]
        return taken

    def through(self, client):
        return self.memories[client].get("mended", {}).get("through", False)


def graphs(count, nodes=24):
    return [drawn(nodes + 3 * k, 10 + k) for k in range(count)]


def test_the_classifier_is_graphsage_of_the_scenarios_width():
    model = FedSagePlus().backbone(GCN(hidden=32, layers=3, dropout=0.2))
    assert isinstance(model, SAGE)
    assert (model.hidden, model.layers, model.dropout) == (32, 2, 0.2)
    algorithm = within(FedSagePlus(), drawn_task(SAGE(hidden=64), 50, 6))
    assert tree.count(algorithm.start()["model"]) == 2 * 50 * 64 + 64 + 2 * 64 * 6 + 6


@pytest.mark.parametrize("clients", [2, 3, 4])
def test_an_epoch_takes_the_bytes_of_the_formula(clients):
    lab = Lab(made(), graphs(clients))
    everybody = range(clients)
    assert lab.round(everybody) == ["offer", "judge", "offer", "judge", "offer", "train"]
    sizes = [G + 4 * 5 * int(graph["train"].sum()) for graph in lab.graphs]
    epochs, others, total = 2, clients - 1, sum(sizes)
    assert lab.bytes["offer", "up"] == epochs * total
    assert lab.bytes["judge", "down"] == lab.bytes["judge", "up"] == epochs * others * total
    assert lab.bytes["offer", "down"] == epochs * others * total
    generator = sum(count for (step, _), count in lab.bytes.items() if step != "train")
    assert generator == epochs * (3 * clients - 2) * total
    model = 4 * (2 * F * 4 + 4 + 2 * 4 * C + C)
    assert lab.bytes["train", "down"] == lab.bytes["train", "up"] == clients * model
    assert all(lab.through(client) for client in everybody)


def test_an_offer_at_the_papers_size_is_the_recipes():
    algorithm = within(FedSagePlus(), drawn_task(SAGE(), 1433, 6))
    graph = drawn(30, 1, features=1433)
    job = Job(0, "offer", 0, {}, graph, {}, 1)
    floats = 33_024 + 526_336 + 10_245 * 1433 + 128 * int(graph["train"].sum())
    assert wire.array_bytes(algorithm.upload_like(job)) == 4 * floats


def test_nothing_is_kept_at_the_server_beyond_the_exchange():
    lab = Lab(made(), graphs(2))
    lab.exchange("offer", [0, 1])
    assert sorted(lab.state["offers"]) == [0, 1]
    lab.exchange("judge", [0, 1])
    assert lab.state["offers"] == {}
    assert [len(one["parts"]) for one in lab.state["gradients"].values()] == [1, 1]
    lab.exchange("offer", [0, 1])
    assert lab.state["gradients"] == {}
    lab.exchange("train", [0, 1])
    assert lab.state["offers"] == {}


def test_what_the_generator_learns_comes_through_the_exchange():
    """An epoch through the messages is the step on gradients asked for directly, and differs from learning alone."""
    data = graphs(2)
    lab, alone = Lab(made(), data), Lab(made(), data)
    lab.exchange("offer", [0, 1])
    judged = lab.exchange("judge", [0, 1])
    held = lab.memories[0]["generator"]
    lab.exchange("offer", [0, 1])
    alone.jobs = 0
    alone.exchange("offer", [0, 1])
    alone.jobs = 4
    alone.exchange("offer", [0, 1])
    one, other = (x.memories[0]["generator"]["params"]["features"] for x in (lab, alone))
    assert held["epoch"] == 0
    assert lab.memories[0]["generator"]["epoch"] == 1
    assert set(judged[0]) == {"1"}
    assert set(judged[1]) == {"0"}
    assert any(float((a - b).abs().max()) > 1e-4 for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


def test_a_new_period_begins_from_the_weights_of_the_last_one_and_mends_anew():
    lab = Lab(made(), graphs(2))
    lab.round([0, 1])
    assert lab.round([0, 1]) == ["offer", "train"]
    old, graph = lab.memories[0]["generator"]["params"], lab.memories[0]["mended"]["graph"]
    assert lab.round([0, 1], period=1) == ["offer", "judge", "offer", "judge", "offer", "train"]
    assert lab.memories[0]["mended"]["period"] == 1
    assert lab.memories[0]["mended"]["graph"] is not graph
    again = Lab(lab.algorithm, lab.graphs)
    again.memories[0] = {"generator": {"period": 0, "params": old, "number": 2, "epoch": 2, "awaits": False}}
    (offer,) = again.exchange("offer", [0], period=1)
    assert offer["number"] == 3
    assert all(
        torch.equal(a, b) for a, b in zip(tree.leaves(offer["generator"]), tree.leaves(old["features"]), strict=True)
    )


def test_a_client_that_joins_late_learns_while_the_others_only_judge():
    lab = Lab(made(), graphs(3))
    lab.round([0, 1])
    before = [lab.memories[client]["generator"] for client in (0, 1)]
    assert lab.round([0, 1, 2]) == ["offer", "judge", "offer", "judge", "offer", "train"]
    assert lab.through(2)
    assert all(lab.memories[client]["generator"] is note for client, note in zip((0, 1), before, strict=True))


def test_a_lost_offer_costs_its_judgement_and_no_more():
    lab = Lab(made(), graphs(2))
    lab.round([0, 1], lose=lambda step, times: [0] if (step, times) == ("offer", 0) else [])
    assert lab.through(0)
    assert lab.through(1)


def test_gradients_of_another_offer_are_left_aside():
    lab = Lab(made(), graphs(2))
    lab.exchange("offer", [0, 1])
    lab.exchange("judge", [0, 1])
    stale = lab.state["gradients"]
    lab.exchange("offer", [0, 1], lose=[0, 1])
    assert lab.state["gradients"] is stale  # it will send the first offer's again, to who awaits the second's
    job = lab.job(0, "offer", 0)
    assert job.download["number"] == 1
    assert job.memory["generator"]["number"] == 2
    without = replace(job, download={}, memory=dict(job.memory))
    lab.algorithm.work(job)
    lab.algorithm.work(without)
    one, other = (x.memory["generator"]["params"] for x in (job, without))
    assert all(torch.equal(a, b) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


def test_a_client_that_is_not_through_trains_on_its_own_graph_and_goes_on_in_its_next_round():
    lab = Lab(made(), graphs(2))
    lab.exchange("offer", [0, 1])
    lab.exchange("train", [0, 1])
    assert not lab.through(0)
    assert len(lab.memories[0]["mended"]["graph"]["y"]) == len(lab.graphs[0]["y"])
    assert "judge" in lab.round([0, 1])
    assert lab.through(0)


def test_alone_it_learns_without_judges_and_without_data_it_is_through_at_once():
    lab = Lab(made(), graphs(1))
    assert lab.round([0]) == ["offer", "offer", "offer", "train"]
    assert lab.through(0)
    empty = drawn(0, 1)
    isolated = drawn(12, 2)
    isolated["edges"] = isolated["edges"][:, :0]
    lab = Lab(made(), [empty, isolated, *graphs(1)])
    assert lab.round([0, 1, 2])[-2:] == ["offer", "train"]
    assert [lab.through(client) for client in range(3)] == [False, True, True]
    assert lab.algorithm.effort(lab.job(0, "train", 0)) == 1


def test_uniform_aggregation_counts_every_client_once():
    data = graphs(2)
    assert [made(agg="uniform").samples(graph) for graph in data] == [1, 1]
    plain = within(FedAvg(), made().task)
    assert [made().samples(graph) for graph in data] == [plain.samples(graph) for graph in data]


def test_its_clients_time_follows_from_shapes_and_is_mostly_the_generators():
    algorithm = made()
    lab = Lab(algorithm, graphs(2))
    flops = lab.cohort.flops
    own = algorithm.task.flops(lab.graphs[0])
    first = flops(lab.job(0, "offer", 0))
    lab.exchange("offer", [0, 1])
    judge = lab.job(0, "judge", 0)
    rows = int(lab.graphs[1]["train"].sum())
    assert flops(judge) == pytest.approx(3 * 2 * rows * (5 * 6 + 6 * 8 + 8 * 5 * F))
    other = replace(judge, download=tree.transform(lambda leaf: leaf * 7 + 1, judge.download))
    assert flops(other) == flops(judge)
    lab.exchange("judge", [0, 1])
    step = lab.job(0, "offer", 0)
    assert flops(step) > first > 0
    note = step.memory["generator"]
    louder = {**note, "params": tree.transform(lambda leaf: leaf * 9, note["params"])}
    assert flops(replace(step, memory={**step.memory, "generator": louder})) == flops(step)
    assert flops(lab.job(0, "train", 0)) == pytest.approx(2 * own)
    lab.exchange("offer", [0, 1])
    lab.exchange("offer", [0, 1])
    assert lab.through(0)
    assert flops(lab.job(0, "offer", 0)) == 0
    assert flops(lab.job(0, "train", 0)) > 2 * own
    assert algorithm.server_flops(lab.state, [], "judge") == 0


@pytest.mark.parametrize("protocol", [small_points.SYNC, {"name": "one_shot"}])
def test_preparing_counts_no_update_and_comes_before_each_periods_first_round(protocol, tmp_path):
    algorithm = {"name": "fedsage_plus", **SMALL}
    row = small_points.run_in(tmp_path / "run", algorithm=algorithm, protocol={**protocol, "participation": 1.0})
    updates = small_points.table(tmp_path / "run", "updates")
    rounds = protocol.get("rounds", 1)
    assert row["updates"] == rounds
    first = ["offer", "judge", "offer", "judge", "offer", "train"]
    later = ["offer", "train"]
    expected = (first + later + first + later + later) if rounds == 5 else first
    assert [one["step"] for one in updates] == expected
    assert [one["version"] for one in updates if one["step"] == "train"] == list(range(1, rounds + 1))
    arrivals = small_points.table(tmp_path / "run", "arrivals")
    assert {one["version"] for one in arrivals} == ({0, 2} if rounds == 5 else {0})
    kinds = {one["kind"] for one in small_points.table(tmp_path / "run", "transfers")}
    assert kinds == {"offer", "judge", "train"}


def lavish(lab, client):
    """Have the client's generator predict neighbours for every node, so that mending adds some."""
    note = lab.memories[client]["generator"]
    params = tree.transform(torch.clone, note["params"])
    params["count"] = {**params["count"], "bias": torch.full_like(params["count"]["bias"], 3.0)}
    lab.memories[client] = {**lab.memories[client], "generator": {**note, "params": params}}


def test_it_is_scored_on_the_graphs_that_it_was_trained_on_and_on_its_own_until_then():
    lab = Lab(made(), graphs(2))
    first, later = lab.graphs[0], drawn(20, 50)
    lab.exchange("offer", [0, 1])
    assert lab.algorithm.sees(lab.memories[0], first) is first
    lavish(lab, 0)
    lab.round([0, 1])
    mended = lab.memories[0]["mended"]["graph"]
    assert len(mended["y"]) > len(first["y"])
    assert lab.algorithm.sees(lab.memories[0], first) is mended
    masked = {**first, "test": ~first["test"]}  # another period of the same graph
    assert lab.algorithm.sees(lab.memories[0], masked) is mended
    assert lab.algorithm.sees(lab.memories[0], later) is later
    lab.graphs[0] = later
    lab.round([0, 1], period=1)
    assert lab.algorithm.sees(lab.memories[0], later) is lab.memories[0]["mended"]["graph"]
    assert lab.algorithm.sees(lab.memories[0], first) is mended  # a past period's is kept
    own = made(scored="own")
    assert own.sees(lab.memories[0], first) is first
    assert (lab.algorithm.sees_more, own.sees_more) == (True, False)


def test_mended_graphs_are_scored_beside_sparse_ones_of_clients_that_were_not_asked(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "graph.npz"
    x = (rng.random((120, 80)) < 0.05).astype(np.float32)
    np.savez(path, x=x, edge_index=rng.integers(0, 120, (2, 400)), y=rng.integers(0, 3, 120))
    data = {"dataset": {"name": "file", "file": str(path)}, "partition": "random", "stream": "static"}
    algorithm = {"name": "fedsage_plus", **SMALL}
    small_points.run_in(tmp_path / "run", data=data, algorithm=algorithm)  # three of five clients a round
    scores = small_points.table(tmp_path / "run", "scores")
    assert all(0 <= row["value"] <= 1 for row in scores if row["weight"])
    assert {row["client"] for row in scores if row["model"] == "local"} >= {*range(5)}


@pytest.mark.long
def test_all_periods_met_are_scored_whichever_graphs_are_chosen(tmp_path):
    columns, tables = ("time", "client", "period", "seen", "model", "split", "weight"), {}
    for scored in ("mended", "own"):
        algorithm = {"name": "fedsage_plus", **SMALL, "scored": scored}
        protocol = {**small_points.SYNC, "participation": 1.0}
        small_points.run_in(tmp_path / scored, algorithm=algorithm, protocol=protocol)
        tables[scored] = small_points.table(tmp_path / scored, "scores")
    keys = {name: [[row[column] for column in columns] for row in table] for name, table in tables.items()}
    assert keys["mended"] == keys["own"]
    assert {(row[3], row[2]) for row in keys["own"]} >= {(2, 0), (2, 1)}  # once two periods are met, both are scored
    values = {name: [row["value"] for row in table] for name, table in tables.items()}
    assert values["mended"] != values["own"]
