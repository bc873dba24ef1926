"""FedProx, and FedProto with its embeddings, of a plain module with BatchNorm equal loops in PyTorch."""

from copy import deepcopy

import numpy as np
import plain_nets
import pytest
import torch
import torch.nn.functional as F
from test_modules import CLASSES, RATE, SIZES, STEPS, clients, federation
from torch import nn

from algorithms.fed_proto import FedProto
from algorithms.fedprox import FedProx
from fedsim.core.errors import ScenarioError
from fedsim.data.graph import induced
from fedsim.learn.engine import joining, tree
from fedsim.learn.engine.optimiser import in_training
from fedsim.learn.modules import buffers
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

ROUNDS = 3
MU, LAMBDA = 0.3, 0.7


class Embedding(plain_nets.Images):
    """A convolutional network with BatchNorm that shows its hidden layer."""

    def embed(self, image):
        return self.body(image)


def optimiser(net):
    return torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.5)


def averaged(server, states):
    total = sum(SIZES)
    mean = {
        name: sum(state[name] * (size / total) for state, size in zip(states, SIZES, strict=True))
        if value.is_floating_point() else value
        for name, value in server.state_dict().items()
    }  # fmt: skip
    server.load_state_dict(mean)


def prox(start, graphs):
    """Return the module after the rounds of FedProx."""
    server = deepcopy(start)
    for _ in range(ROUNDS):
        states = []
        for graph in graphs.values():
            net, train = deepcopy(server).train(), graph["train"]
            sgd = optimiser(net)
            for _ in range(STEPS):
                sgd.zero_grad()
                pairs = zip(net.parameters(), server.parameters(), strict=True)
                pull = sum((own - received.detach()).square().sum() for own, received in pairs)
                (F.cross_entropy(net(graph["x"][train]), graph["y"][train]) + MU / 2 * pull).backward()
                sgd.step()
            states.append(net.state_dict())
        averaged(server, states)
    return server


def means(net, graph):
    """The mean embedding of each class of training nodes, and which classes there are."""
    h, y = net.body(graph["x"][graph["train"]]), graph["y"][graph["train"]]
    marks = F.one_hot(y, CLASSES).float()
    return marks.T @ h / marks.sum(0).clamp(min=1).unsqueeze(1), marks.sum(0)


def proto(start, graphs):
    """Return the module after the rounds of FedProto with averaged weights, one pass a step for both terms."""
    server, table, known = deepcopy(start), None, None
    for _ in range(ROUNDS):
        states, sent = [], []
        for graph in graphs.values():
            net, y = deepcopy(server).train(), graph["y"][graph["train"]]
            sgd, marks = optimiser(net), F.one_hot(y, CLASSES).float()
            for _ in range(STEPS):
                sgd.zero_grad()
                h = net.body(graph["x"][graph["train"]])
                loss = F.cross_entropy(net.head(h), y)
                if table is not None:
                    own = marks.T @ h / marks.sum(0).clamp(min=1).unsqueeze(1)
                    loss = loss + LAMBDA * ((own - table).square().mean(1) * (marks.sum(0) > 0) * known).sum()
                loss.backward()
                sgd.step()
            states.append(net.state_dict())
            with torch.no_grad():
                sent.append(means(net.eval(), graph))
        averaged(server, states)
        counts = torch.stack([count for _, count in sent])
        known = (counts.sum(0) > 0).float()
        parts = counts / counts.sum(0).clamp(min=1)
        table = torch.einsum("kc,kch->ch", parts, torch.stack([rows for rows, _ in sent]))
    return server


METHODS = {
    "FedProx": (lambda: FedProx(mu=MU), prox),
    "FedProto": (lambda: FedProto(weight=LAMBDA, average=True), proto),
}


def apart(method):
    make, by_hand = METHODS[method]
    graphs = clients(1, 8, 8)
    run = federation(Embedding, graphs, 1, make)
    resident = run.algorithm.task.model.resident
    for _ in range(ROUNDS):
        run.round([*run.graphs])
    expected = by_hand(resident._built(resident.first_seed), graphs).state_dict()
    reached = {**run.state["model"], **buffers.floats(run.state["buffers"])}
    return max(float((value - expected[name]).abs().max()) for name, value in reached.items())


@pytest.mark.parametrize("method", METHODS)
def test_rounds_equal_a_loop_in_pytorch(method):
    assert apart(method) < 1e-5


def test_prototypes_of_the_first_buffers_are_found(monkeypatch):
    monkeypatch.setattr(buffers.LocalBuffers, "_evaluating", lambda self, job, act: act())
    assert apart("FedProto") > 1e-4


def test_embeddings_that_move_buffers_are_found(monkeypatch):
    run = Embedding.embed
    monkeypatch.setattr(Embedding, "embed", lambda self, image: (self.body(image), run(self, image))[1])
    assert apart("FedProto") < 1e-5  # in copies
    monkeypatch.setattr("fedsim.learn.modules.resident.Resident.run", moving)
    assert apart("FedProto") > 1e-4


def moving(self, params, graph, method):
    """Stand for `run`, and take a pass in training mode that embeds for one that predicts."""
    self.module.train("seed" in graph)
    given = {} if params is self._lent else {**self._given(params), **({} if "seed" in graph else self._evaluated)}
    return self._with(given, graph, method)


def test_fedprox_takes_a_number_alone_as_a_parameter():
    run = federation(plain_nets.Adapted, clients(5), 5, lambda: FedProx(mu=MU))
    run.round([0, 1, 2])
    assert run.state["model"]["scale"].shape == ()


class Shows(nn.Module):
    """An `embed` of another signature, which is nobody's business where no algorithm asks for it."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, classes)

    def embed(self, tokens, positions):
        return tokens + positions

    def forward(self, x):
        return self.layer(x)


def test_embed_is_tried_where_the_algorithm_asks_for_it_alone():
    federation(Shows, clients(5), 5).round([0, 1, 2])
    with pytest.raises(ScenarioError, match=r"Shows\.embed needs 'positions', which these data do not have"):
        federation(Shows, clients(5), 5, FedProto)


AVERAGING = ["fed_dyn", "fed_nova", "fed_opt", "fedavg", "fedprox", "scaffold"]


@pytest.mark.parametrize("name", AVERAGING)
def test_statistics_follow_training_under_every_optimiser_state(name):
    """SCAFFOLD and FedNova keep none under SGD."""
    run = federation(Embedding, clients(1, 8, 8), 1, find.find("algorithm", Part(name=name), name))
    first = run.state["buffers"]
    run.round([0, 1, 2])
    sent = run.work([0])[0].upload["buffers"]
    for key, value in buffers.floats(first).items():
        assert not torch.equal(run.state["buffers"][key], value)
        assert not torch.equal(sent[key], run.state["buffers"][key])
    assert torch.equal(run.state["buffers"]["body.1.num_batches_tracked"], torch.tensor(0))


def test_a_seeded_union_drops_other_values_for_each_of_its_graphs():
    run = federation(plain_nets.Adapted, clients(5), 5, dropout=0.5)
    task, params, graph = run.algorithm.task, tree.stack([run.state["model"]]), run.graphs[2]
    union = in_training(joining.union([graph, graph], shared=True), 3, 0)
    first, second = task.forward(params, union).chunk(2)
    plain = task.forward(params, graph)
    assert not any(torch.allclose(one, other) for one, other in ((first, second), (first, plain), (second, plain)))


def test_a_pass_outside_of_training_leaves_torchs_random_numbers_as_they_are():
    run = federation(plain_nets.Adapted, clients(5), 5, dropout=0.5)
    before = torch.get_rng_state()
    run.algorithm.task.forward(tree.stack([run.state["model"]]), in_training(run.graphs[0], 3, 0))
    run.round([0, 1, 2])
    assert torch.equal(torch.get_rng_state(), before)


def test_operations_do_not_hang_on_whose_graph_is_asked_for_first():
    class Linked(plain_nets.Convolved):
        pass

    graphs = {0: clients(5)[0], 1: clients(5, edges=True)[1]}
    graphs[2] = induced(graphs[0], np.arange(0))
    costs = []
    for first in graphs:
        run = federation(Linked, graphs, 5)
        flops = run.algorithm.task.flops
        flops(graphs[first])
        costs.append([flops(graph) for graph in graphs.values()])
    assert costs[0] == costs[1] == costs[2]
    edges = graphs[1]["edges"].shape[1]
    assert costs[0][1] > costs[0][0] / SIZES[0] * SIZES[1] + edges
