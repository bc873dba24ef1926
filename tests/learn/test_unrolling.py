"""Gradients through time against a recurrence of torch's own, unions of clients whose nodes come and go."""

import warnings

import pytest
import torch
from changing import shaken, undirected
from learnlab import job_of, largest_gap

from algorithms.dg_colearn import unrolling
from fedsim.data.graph import induced
from fedsim.learn.algorithm import Fit
from fedsim.learn.engine import joining, layout, tree
from fedsim.learn.engine.optimiser import SGD
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gcrn_baseline import GCRNBaseline
from fedsim.learn.models.gcrn_lstm import GCRNLSTM
from fedsim.learn.models.roland import Roland
from fedsim.learn.task import bind
from fedsim.learn.tasks.node_classification import NodeClassification

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.nn import ChebConv

FEATURES, HIDDEN, CLASSES = 7, 5, 3


def snapshots(nodes=20, count=3, seed=0):
    """Graphs of the same numbered nodes, edges and features drawn anew."""
    found = []
    for t in range(count):
        graph = undirected(nodes, 100 * seed + t)
        graph["node"] = torch.arange(nodes)
        layout.of(graph)
        found.append(graph)
    return found


def bound(model):
    return bind(NodeClassification(), model, FEATURES, CLASSES, 0, "cpu")


def drawn(model, seed=0):
    params = shaken(model.init(FEATURES, CLASSES, torch.Generator().manual_seed(seed)), seed)
    return tree.transform(lambda leaf: leaf.requires_grad_(True), params)


def convolution(x, weight, graph):
    """PyG's Chebyshev convolution, differentiable in the weight (F, 7 H)."""
    conv = ChebConv(FEATURES, HIDDEN, 7, bias=False)
    names = {f"lins.{k}.weight": part.T for k, part in enumerate(weight.chunk(7, 1))}
    return torch.func.functional_call(conv, names, (x, graph["edges"]))


def by_torch(params, graphs):
    """The mean loss of GCRN-Baseline over the graphs, one step after the other."""
    p, last = params["layer1"], params["classifier"]
    s = c = torch.zeros(len(graphs[0]["y"]), HIDDEN)
    total = 0.0
    for graph in graphs:
        u = convolution(graph["x"], p["input"], graph) + p["shift"]
        gate = (u @ p["given"] + s @ p["memory"] + p["bias"]).split(HIDDEN, 1)
        peep = p["peepholes"].split(HIDDEN)
        entered = torch.sigmoid(gate[0] + peep[0] * c) * torch.tanh(gate[3])
        c = torch.sigmoid(gate[1] + peep[1] * c) * c + entered
        s = torch.sigmoid(gate[2] + peep[2] * c) * torch.tanh(c)
        logits, train = s @ last["weight"] + last["bias"], graph["train"]
        total = total + torch.nn.functional.cross_entropy(logits[train], graph["y"][train])
    return total / len(graphs)


def gradient(loss, params):
    return torch.autograd.grad(loss, list(tree.leaves(params)))


def test_its_gradient_is_that_of_a_recurrence_unrolled_by_torch_and_a_live_updates_is_not():
    task, graphs = bound(GCRNBaseline(hidden=HIDDEN)), snapshots()
    params = drawn(task.model)
    stacked = tree.transform(lambda leaf: leaf.unsqueeze(0), params)
    found = unrolling.loss(task, stacked, graphs)
    torch.testing.assert_close(found[0], by_torch(params, graphs), rtol=1e-4, atol=1e-5)
    own, theirs = gradient(found.sum(), params), gradient(by_torch(params, graphs), params)
    for one, other in zip(own, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    live, state = torch.zeros(1), None
    for graph in graphs:
        seen = graph if state is None else {**graph, "state": state}
        live, state = live + task.loss(stacked, seen) / 3, task.model.remember(stacked, seen)
    torch.testing.assert_close(live, found, rtol=1e-5, atol=1e-6)  # the same forward pass
    gaps = [float((one - other).abs().max()) for one, other in zip(own, gradient(live.sum(), params), strict=True)]
    assert max(gaps) > 1e-2


@pytest.mark.parametrize("kind", [Roland, GCRNLSTM])
def test_a_union_of_clients_whose_nodes_come_and_go_is_each_alone(kind):
    task = bound(kind(hidden=HIDDEN, **({"normalise": "none"} if kind is Roland else {})))
    held = [[[0, 2, 5, 9], [2, 5, 9, 11, 14]], [[1, 3], [0, 1, 3, 4]]]  # by client and snapshot; 0 changes hands
    whole = snapshots(count=2)
    parts = [[induced(graph, own) for graph, own in zip(whole, lists, strict=True)] for lists in held]
    params = [drawn(task.model, k) for k in range(2)]
    together = unrolling.loss(task, tree.stack(params), [joining.union(column) for column in zip(*parts, strict=True)])
    for k in range(2):
        alone = unrolling.loss(task, tree.stack(params[k : k + 1]), parts[k])
        torch.testing.assert_close(together[k], alone[0], rtol=1e-4, atol=1e-5)
    seen = unrolling.continued(task, tree.stack(params[1:]), *parts[1])
    assert not bool(seen["state"][[0, 3]].any())  # new there
    assert bool(seen["state"][[1, 2]].any(1).all())
    after = unrolling.states(task, tree.stack(params[1:]), parts[1])
    torch.testing.assert_close(after, task.model.remember(tree.stack(params[1:]), seen))
    assert not after.requires_grad


def test_who_held_nothing_before_starts_at_zero():
    task, (first, second) = bound(GCRNLSTM(hidden=HIDDEN)), snapshots(count=2)
    params = tree.stack([drawn(task.model)])
    nobody = induced(first, [])
    assert not bool(unrolling.continued(task, params, nobody, second)["state"].any())
    assert unrolling.loss(task, params, [nobody, second]).isfinite().all()


def test_cohorts_with_as_many_snapshots_train_as_one_and_others_apart():
    task = bound(GCRNBaseline(hidden=HIDDEN))

    def loss(params, graph, given):
        return unrolling.loss(task, params, (*given["past"], graph))

    streams = [snapshots(12, 3, 1), snapshots(9, 3, 2), snapshots(7, 1, 3)]
    work = [
        (job_of(k, own[-1], {}), Fit(task.init(), loss, given={"past": tuple(own[:-1])}))
        for k, own in enumerate(streams)
    ]
    together = Trainer(SGD(0.1, 0.0, 0.0), 3).train(work)
    for k in range(3):
        (alone,) = Trainer(SGD(0.1, 0.0, 0.0), 3).train([work[k]])
        assert largest_gap(together[k], alone) < 1e-4
        before, after = (
            float(loss(tree.stack([params]), streams[k][-1], work[k][1].given)) for params in (task.init(), alone)
        )
        assert after < before
