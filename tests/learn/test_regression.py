"""Regression: its loss and metrics by closed forms, and FedAvg of one client as a plain loop in PyTorch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from federations import Federation
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics
from torch import nn

from algorithms.fedavg import FedAvg
from fedsim.data.graph import Graph, Period, graph_of, with_keys
from fedsim.learn.algorithm import Context
from fedsim.learn.engine import joining
from fedsim.learn.engine.optimiser import SGD
from fedsim.learn.metric import Judged
from fedsim.learn.metrics.mae import MAE
from fedsim.learn.metrics.mse import MSE
from fedsim.learn.metrics.r2 import R2
from fedsim.learn.models.mlp import MLP
from fedsim.learn.modules import compose
from fedsim.learn.modules.module_model import adopted
from fedsim.learn.task import bind
from fedsim.learn.tasks.classification import Classification
from fedsim.learn.tasks.node_classification import NodeClassification
from fedsim.learn.tasks.regression import Regression
from fedsim.scenario.learning import Privacy

RATE, STEPS, ROUNDS = 0.1, 3, 4


def rows(count: int, targets: int = 2, seed: int = 0) -> Graph:
    drawn = torch.Generator().manual_seed(seed)
    x, train = torch.randn(count, 3, generator=drawn), torch.arange(count) % 3 > 0
    real = x[:, :1] * 2 - 1 + torch.randn(count, targets, generator=drawn) / 5
    graph = graph_of(x, torch.zeros(2, 0), torch.zeros(count), train, ~train, torch.zeros(count, dtype=torch.bool))
    return with_keys(graph, {"real": real})


def linear_federation(graphs: dict[int, Graph]) -> Federation:
    task = bind(Regression(), adopted(nn.Linear)(), 3, graphs[0]["real"].shape[1], 4, "cpu")
    context = Context(task, learning_rate=RATE, local_steps=STEPS, momentum=0.0, clients=len(graphs))
    periods = [[Period(0, graph)] for graph in graphs.values()]
    method, trainer_of = compose.module(replace(FedAvg(), context=context), task, periods, Privacy())
    return Federation(method, graphs, trainer_of(SGD(RATE), STEPS, keep_state=False))


def test_linear_regression_of_one_client_is_plain_torch():
    graph = rows(30)
    run = linear_federation({0: graph})
    net = nn.Linear(3, 2)
    net.load_state_dict(run.state["model"])
    sgd = torch.optim.SGD(net.parameters(), lr=RATE)
    for _ in range(ROUNDS):
        run.round([0])
        for _ in range(STEPS):
            sgd.zero_grad()
            nn.functional.mse_loss(net(graph["x"][graph["train"]]), graph["real"][graph["train"]]).backward()
            sgd.step()
    for name, value in net.state_dict().items():
        assert torch.allclose(run.state["model"][name], value, atol=1e-6)


@pytest.mark.parametrize("targets", [1, 2])
def test_the_loss_is_each_clients_mean_over_its_training_rows(targets):
    graphs = [rows(9, targets, 1), rows(14, targets, 2)]
    task = bind(Regression(), MLP(hidden=4, dropout=0.0), 3, targets, 0, "cpu")
    params = {
        layer: {name: torch.stack([leaf, leaf * 2]) for name, leaf in leaves.items()}
        for layer, leaves in task.init().items()
    }
    union = joining.union(graphs)
    output, loss = task.forward(params, union), task.loss(params, union)
    for client, begin in ((0, 0), (1, 9)):
        train = graphs[client]["train"]
        each = output[begin : begin + len(train)][train] - graphs[client]["real"][train]
        assert loss[client].item() == pytest.approx(each.square().mean().item(), rel=1e-5)
    assert task.outputs == targets


class Flat(nn.Module):
    """A module that returns a number a row, and no column."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).squeeze(1)


def test_a_number_a_row_is_a_column():
    graph = rows(12, 1)
    model = adopted(Flat)()
    model.settle(3, 1, 0, graph)
    task = bind(Regression(), model, 3, 1, 0, "cpu")
    params = {name: leaf.unsqueeze(0) for name, leaf in task.init().items()}
    column = task.forward(params, graph).unsqueeze(1)
    expected = (column - graph["real"])[graph["train"]].square().mean()
    assert task.loss(params, graph).item() == pytest.approx(expected.item(), rel=1e-6)
    some, nobody = torch.tensor([1, 2]), torch.zeros(2, dtype=torch.long)
    judged = task.judged(task.forward(params, graph), graph, some, nobody, 1)
    assert judged.logits.shape == judged.y.shape == (2, 1)


def judged_of(prediction: np.ndarray, y: np.ndarray, owner: np.ndarray, owners: int) -> Judged:
    return Judged(torch.from_numpy(prediction).float(), torch.from_numpy(y).float(), torch.from_numpy(owner), owners)


@given(count=st.integers(1, 40), owners=st.integers(1, 4), targets=st.integers(1, 3), seed=st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_metrics_equal_scikit_learns(count, owners, targets, seed):
    rng = np.random.default_rng(seed)
    y, owner = rng.standard_normal((count, targets)) * 3 + 10, rng.integers(owners, size=count)
    prediction = y + rng.standard_normal((count, targets))
    judged = judged_of(prediction, y, owner, owners)
    pairs = [
        (MSE(), sklearn_metrics.mean_squared_error),
        (MAE(), sklearn_metrics.mean_absolute_error),
        (R2(), sklearn_metrics.r2_score),
    ]
    for metric, expected in pairs:
        values = metric.values(judged)
        assert values.dtype == torch.float64
        for own in range(owners):
            mine = owner == own
            if mine.sum() < (2 if isinstance(metric, R2) else 1):
                assert values[own].isnan()
            else:
                assert float(values[own]) == pytest.approx(expected(y[mine], prediction[mine]), rel=1e-4, abs=1e-5)


def test_predicting_the_mean_explains_nothing_and_the_truth_everything():
    y, owner = np.array([[1.0], [2.0], [6.0]]), np.zeros(3, dtype=np.int64)
    assert R2().values(judged_of(np.full((3, 1), 3.0), y, owner, 1)).item() == pytest.approx(0, abs=1e-12)
    assert R2().values(judged_of(y, y, owner, 1)).item() == 1
    assert R2().values(judged_of(y, np.ones((3, 1)), owner, 1)).isnan().all()  # no variance to explain


def test_r2_of_all_rows_is_no_mean_of_the_clients():
    y, prediction = np.array([[0.0], [1.0], [10.0], [11.0]]), np.array([[0.5], [0.5], [10.5], [10.5]])
    apart = R2().values(judged_of(prediction, y, np.array([0, 0, 1, 1]), 2))
    assert apart.tolist() == pytest.approx([0, 0])  # each client's mean
    assert R2().values(judged_of(prediction, y, np.zeros(4, np.int64), 1)).item() == pytest.approx(1 - 1 / 101)
    assert not R2.mean


def test_classification_is_one_implementation():
    assert NodeClassification.loss is Classification.loss
    assert NodeClassification.judges == ("classes",)
