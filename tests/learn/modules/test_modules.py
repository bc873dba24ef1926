"""FedAvg of a plain module equals a loop in PyTorch, its buffers too; what is planted in its way is found by that."""

from copy import deepcopy
from dataclasses import replace

import plain_nets
import pytest
import torch
import torch.nn.functional as F
from federations import Federation

from algorithms.fed_dyn import FedDyn
from algorithms.fed_nova import FedNova
from algorithms.fedavg import FedAvg
from algorithms.fedprox import FedProx
from algorithms.scaffold import Scaffold
from fedsim.core import wire
from fedsim.core.errors import ScenarioError, UserError
from fedsim.data.graph import Graph, Period, graph_of, with_keys
from fedsim.learn.algorithm import Context
from fedsim.learn.engine import joining, tree
from fedsim.learn.engine.optimiser import SGD
from fedsim.learn.engine.training import Trainer
from fedsim.learn.modules import buffers, compose, trainer
from fedsim.learn.modules.module_model import adopted
from fedsim.learn.task import bind
from fedsim.learn.tasks.node_classification import NodeClassification
from fedsim.scenario.learning import Privacy

PUBLIC = Privacy()
CLASSES, STEPS, ROUNDS, RATE = 3, 2, 5, 0.1
SIZES = (9, 14, 23)  # rows of each client, of which two thirds are trained on


def clients(*shape: int, edges: bool = False) -> dict[int, Graph]:
    """Rows of this shape, and random edges with two features each."""
    drawn, graphs = torch.Generator().manual_seed(3), {}
    for k, rows in enumerate(SIZES):
        x = torch.randn(rows, *shape, generator=drawn)
        y = torch.randint(CLASSES, (rows,), generator=drawn)
        ends = torch.randint(rows, (2, 3 * rows if edges else 0), generator=drawn)
        train = torch.arange(rows) % 3 > 0
        graphs[k] = graph_of(x, ends, y, train, ~train, torch.zeros(rows, dtype=torch.bool))
        if edges:
            graphs[k] = with_keys(graphs[k], {"edge_attr": torch.randn(3 * rows, 2, generator=drawn)})
    return graphs


CASES = {
    "CNN with BatchNorm": (plain_nets.Images, clients(1, 8, 8), 1),
    "GINE with BatchNorm": (plain_nets.Gine, clients(5, edges=True), 5),
    "transformer": (plain_nets.Words, clients(7, 8), 7),
    "adapter": (plain_nets.Adapted, clients(5), 5),
}


def federation(
    module_class, graphs, features, algorithm=FedAvg, *, privacy=PUBLIC, seed=4, steps=STEPS, **options
) -> Federation:
    model = adopted(module_class)(**options)
    task = bind(NodeClassification(), model, features, CLASSES, seed, "cpu")
    context = Context(task, learning_rate=RATE, local_steps=steps, momentum=0.0, clients=len(graphs))
    method = replace(algorithm(), context=context)
    method, trainer_of = compose.module(method, task, [[Period(0, graph)] for graph in graphs.values()], privacy)
    return Federation(method, graphs, trainer_of(SGD(RATE, momentum=0.5), steps, keep_state=False))


def by_hand(start: torch.nn.Module, graphs: dict[int, Graph]) -> torch.nn.Module:
    """Return the module after five rounds of FedAvg, in the words of PyTorch."""
    server = deepcopy(start)
    for _ in range(ROUNDS):
        states = []
        for graph in graphs.values():
            net, train = deepcopy(server).train(), graph["train"]
            # not Adam, which makes a full step of the rounding of a gradient that is zero, as before BatchNorm
            sgd = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=RATE, momentum=0.5)
            for _ in range(STEPS):
                sgd.zero_grad()
                if "edge_attr" in graph:
                    output = net(graph["x"], graph["edges"], graph["edge_attr"])[train]
                else:
                    output = net(graph["x"][train])
                F.cross_entropy(output, graph["y"][train]).backward()
                sgd.step()
            states.append(net.state_dict())
        total = sum(SIZES)
        mean = {
            name: sum(state[name] * (size / total) for state, size in zip(states, SIZES, strict=True))
            if value.is_floating_point() else value
            for name, value in server.state_dict().items()
        }  # fmt: skip
        server.load_state_dict(mean)
    return server


def apart(run: Federation) -> float:
    """Return the largest difference of weights and float buffers from the loop by hand."""
    resident = run.algorithm.task.model.resident
    start = resident._built(resident.first_seed)
    for _ in range(ROUNDS):
        run.round([*run.graphs])
    expected = by_hand(start, run.graphs).state_dict()
    reached = {**run.state["model"], **buffers.floats(run.state.get("buffers", {}))}
    return max(float((value - expected[name]).abs().max()) for name, value in reached.items())


@pytest.mark.parametrize("case", CASES)
def test_five_rounds_equal_a_loop_in_pytorch(case):
    assert apart(federation(*CASES[case])) < 1e-5


def all_rows(graph):
    return graph


def equal_weights(algorithm, reply):
    return 1.0


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [(trainer, "training_rows", all_rows), (buffers, "weight_of", equal_weights)],
    ids=["test rows are trained on", "buffers are weighted alike"],
)
def test_a_planted_fault_is_found(monkeypatch, owner, name, fault):
    monkeypatch.setattr(owner, name, fault)
    assert apart(federation(*CASES["CNN with BatchNorm"])) > 1e-3


def test_buffers_that_are_not_averaged_are_found():
    run = federation(*CASES["CNN with BatchNorm"], buffers="local")
    run.round([*run.graphs])
    assert "buffers" not in run.state
    assert "buffers" not in run.work([0])[0].upload
    kept = [run.memories[k]["buffers"]["body.1.running_mean"] for k in run.graphs]
    assert not torch.equal(kept[0], kept[1])
    assert run.algorithm.common(run.state) is None  # as without its statistics the model would be scored with the first


@pytest.mark.parametrize("algorithm", [FedAvg, FedDyn, FedNova, FedProx, Scaffold])
@pytest.mark.parametrize("policy", ["average", "local"])
def test_every_method_that_trains_the_model_takes_its_buffers(algorithm, policy):
    run = federation(*CASES["CNN with BatchNorm"], algorithm, buffers=policy)
    run.round([*run.graphs])
    first = run.algorithm.task.model.resident.first_buffers["body.1.running_mean"]
    reached = [run.algorithm.predictor(run.state, k, run.memories[k])["body.1.running_mean"] for k in run.graphs]
    assert not any(torch.equal(first, each) for each in reached)
    assert torch.equal(reached[0], reached[1]) == (policy == "average")


def test_models_are_scored_in_evaluation_mode_with_the_servers_buffers():
    run = federation(*CASES["CNN with BatchNorm"])
    run.round([*run.graphs])
    task, params = run.algorithm.task, run.algorithm.common(run.state)
    net = deepcopy(task.model.resident.module)
    net.load_state_dict(params)
    graph = run.graphs[1]
    assert torch.allclose(task.forward(tree.stack([params]), graph), net.eval()(graph["x"]), atol=1e-6)
    assert not torch.allclose(task.forward(tree.stack([params]), graph), net.train()(graph["x"]), atol=1e-3)


def test_scoring_many_clients_is_scoring_each_alone():
    run = federation(*CASES["GINE with BatchNorm"])
    run.round([*run.graphs])
    task, params = run.algorithm.task, run.algorithm.common(run.state)
    graphs = [run.graphs[k] for k in run.graphs]
    alone = [task.forward(tree.stack([params]), graph) for graph in graphs]
    union = joining.union(graphs)
    assert torch.equal(task.forward(tree.stack([params] * 3), union), torch.cat(alone))
    assert torch.equal(task.forward(tree.stack([params]), joining.union(graphs, shared=True)), torch.cat(alone))


@pytest.mark.parametrize("algorithm", [FedProx, Scaffold])
def test_losses_and_corrections_that_read_parameters_see_those_of_each_step(monkeypatch, algorithm):
    found = []
    for train in (trainer.ModuleTrainer._train, Trainer._train):  # in place, and by functional calls
        monkeypatch.setattr(trainer.ModuleTrainer, "_train", train)
        run = federation(plain_nets.Adapted, clients(5, edges=True), 5, algorithm, steps=4)
        for _ in range(2):
            run.round([0, 1, 2])
        found.append(run.state["model"])
    assert all(torch.allclose(value, found[1][name], atol=1e-6) for name, value in found[0].items())


def test_what_is_frozen_or_said_twice_is_neither_sent_nor_billed():
    run = federation(*CASES["adapter"])
    sent = run.algorithm.download(run.state, 0, "train")
    assert {*sent["model"]} == {"down.weight", "up.weight", "scale"}
    assert wire.array_bytes(sent) == 4 * (5 * 2 + 2 * CLASSES + 1)


class Tied(torch.nn.Module):
    """A layer that is registered twice, and one whose weight is another's."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(features, features), torch.nn.Linear(features, features)
        self.again, self.second.weight = self.first, self.first.weight
        self.out = torch.nn.Linear(features, classes)

    def forward(self, x):
        return self.out(self.again(self.second(self.first(x).relu()).relu()))


def test_what_is_tied_is_trained_after_it_was_scored():
    run = federation(Tied, clients(5), 5)
    task, start = run.algorithm.task, run.state["model"]
    net = deepcopy(task.model.resident.module)
    assert {*start} == {"first.weight", "first.bias", "second.bias", "out.weight", "out.bias"}
    for _ in range(2):
        before = run.state["model"]
        net.load_state_dict(task.model.state_dict(before))
        graph = run.graphs[0]
        assert torch.equal(task.forward(tree.stack([before]), graph), net.eval()(graph["x"]))
        run.round([*run.graphs])
        assert not any(torch.equal(before[name], run.state["model"][name]) for name in start)


def test_dropout_hangs_on_the_job_alone():
    one, other = (federation(*CASES["adapter"], dropout=0.5) for _ in range(2))
    one.round([0, 1, 2])
    torch.rand(7)
    for k in (0, 1, 2):
        other.work([k])
    assert all(
        torch.equal(a, b)
        for a, b in zip(tree.leaves(one.memories[2]["local"]), tree.leaves(other.memories[2]["local"]), strict=True)
    )


def test_a_client_without_rows_sends_the_model_back():
    graphs = {**clients(5), 3: graph_of(torch.zeros(0, 5), torch.zeros(2, 0), torch.zeros(0))}
    run = federation(plain_nets.Adapted, graphs, 5)
    upload = run.work([3])[0].upload
    assert upload["samples"] == 0
    assert all(not leaf.any() for leaf in tree.leaves(upload["update"]))


def test_one_row_under_batch_norm_is_one_clear_error():
    single = graph_of(torch.zeros(1, 5), torch.zeros(2, 0), torch.zeros(1), torch.ones(1, dtype=torch.bool))
    graphs = {**clients(5, edges=True), 3: with_keys(single, {"edge_attr": torch.zeros(0, 2)})}
    run = federation(plain_nets.Gine, graphs, 5)
    with pytest.raises(UserError, match="Gine cannot be trained on the 1 rows of client 3: Expected more than 1 value"):
        run.work([3])


def test_a_lazy_module_is_materialised():
    run = federation(plain_nets.Lazy, clients(5), 5)
    assert run.state["model"]["layer.weight"].shape == (CLASSES, 5)


@pytest.mark.parametrize(
    ("module_class", "options", "privacy", "message"),
    [
        (plain_nets.Convolved, {"cached": True}, PUBLIC, "keeps tensors in 'conv._cached_edge_index'"),
        (plain_nets.Halving, {}, PUBLIC, "Halving changes 'x', the client's own data, in its forward pass"),
        (plain_nets.Images, {"buffers": "refuse"}, PUBLIC, "has buffers"),
        (plain_nets.Images, {}, Privacy(clip=1.0), "nothing protects them"),
        (plain_nets.Gine, {}, PUBLIC, "needs 'edge_attr'"),
        (plain_nets.Wide, {}, PUBLIC, rf"Wide.forward must return \(\d+, {CLASSES}\), not \(\d+, {CLASSES + 2}\)"),
        (plain_nets.Decided, {}, PUBLIC, rf"Decided.forward must return \((\d+), {CLASSES}\), not \(\1,\)"),
        (plain_nets.Words, {}, PUBLIC, r"Words.forward fails on rows of the shape \(5,\): "),
    ],
)
def test_what_cannot_work_is_refused(module_class, options, privacy, message):
    shape = (1, 8, 8) if module_class is plain_nets.Images else (5,)
    with pytest.raises(ScenarioError, match=message):
        federation(module_class, clients(*shape), shape[0], privacy=privacy, **options)


def test_what_is_changed_in_a_copy_is_not_refused():
    graphs = clients(5)
    before = {number: graph["x"].clone() for number, graph in graphs.items()}
    federation(plain_nets.Halving, graphs, 5, inplace=False).work([*graphs])
    assert all(graph["x"].equal(before[number]) for number, graph in graphs.items())
