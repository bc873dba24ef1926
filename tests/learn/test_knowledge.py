"""A series of graphs: the pull holds what mattered, without it nothing is held, and all at once is the mean."""

import pytest
import torch
from learnlab import drawn_task, largest_gap

from algorithms.ghost.teaching import Teaching, importance
from fedsim.core.seeds import integer
from fedsim.learn.continual import retention
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import SGD, Adam, descend, in_training
from fedsim.learn.models.gcn import GCN
from fedsim.learn.synthetic.pseudo_graphs import pseudo_graph


def graphs(count=4):
    drawn = []
    for seed in range(count):
        g = torch.Generator().manual_seed(seed)
        y = torch.arange(12) % 3
        drawn.append(pseudo_graph(torch.randn(12, 7, generator=g) + y.unsqueeze(1), y, 3))
    return drawn


def teaching(pull, optimiser=None, dropout=0.5, **options):
    task = drawn_task(GCN(hidden=5, dropout=dropout))
    return Teaching(task, optimiser or Adam(0.01, 4e-4), 5, pull, **options)


def taught(pull, series=None, **options):
    own = teaching(pull, **options)
    start = own.task.init()
    return start, *own.in_turn(start, retention.nothing(start), graphs() if series is None else series, 7)


def test_without_a_pull_it_is_plain_training_on_one_graph_after_the_other():
    _, with_nought, kept = taught(0.0)
    start, without, empty = taught(None)
    task, model, moments = teaching(None).task, start, None
    for number, graph in enumerate(graphs()):
        seed = integer(7, number)
        model, moments = descend(
            model,
            lambda p, s: task.loss(p, in_training(graph, seed, s)),  # noqa: B023
            Adam(0.01, 4e-4),
            5,
            moments,
        )
    assert largest_gap(without, model) == 0
    assert largest_gap(with_nought, model) < 1e-6
    assert largest_gap(model, start) > 0.05
    assert float(sum(leaf.sum() for leaf in tree.leaves(kept["weight"]))) > 0
    assert float(sum(leaf.sum() for leaf in tree.leaves(empty["weight"]))) == 0


def test_a_huge_pull_freezes_what_matters():
    moved = {}
    for pull in (0.0, 1e8):
        own = teaching(pull)
        first, kept = own.in_turn(own.task.init(), retention.nothing(own.task.init()), graphs()[:1], 7)
        last, _ = own.in_turn(first, kept, graphs()[1:] * 3, 8)
        matters = [weight > weight.median() for weight in tree.leaves(kept["weight"])]
        gaps = tree.leaves(tree.sub(last, first))
        moved[pull] = torch.cat([gap[some].abs() for gap, some in zip(gaps, matters, strict=True)])
    assert float(moved[0.0].mean()) > 0.05
    assert float(moved[1e8].mean()) < 0.2 * float(moved[0.0].mean())
    assert float(moved[1e8].max()) < 0.05  # Adam's own steps are 0.01


def test_the_pull_is_on_every_earlier_graph():
    weak = teaching(1e-3, SGD(0.01, 0.0, 0.0), dropout=0.0)
    start = weak.task.init()
    model, kept, anchors = start, retention.nothing(start), []
    for number, graph in enumerate(graphs(3)):
        model, kept = weak.in_turn(model, kept, [graph], 7 + number)
        anchors.append((model, importance(weak.task.model, model, graph)))
    probe = tree.stack([start])
    total = sum(
        (importance * (own - anchor).square()).sum()
        for at, weight in anchors
        for own, anchor, importance in zip(tree.leaves(start), tree.leaves(at), tree.leaves(weight), strict=True)
    )
    assert float(retention.penalty(kept, probe)) == pytest.approx(float(total), rel=1e-4)


def test_the_criterion_may_be_taken_before_but_the_anchor_is_what_was_reached():
    (graph, *_), own = graphs(1), teaching(1e-3, before=True)
    start = own.task.init()
    model, kept = own.in_turn(start, retention.nothing(start), [graph], 7)
    assert largest_gap(kept["weight"], importance(own.task.model, start, graph)) == 0
    some = [(mean, weight > 0, end) for mean, weight, end in zip(
        tree.leaves(kept["mean"]), tree.leaves(kept["weight"]), tree.leaves(model), strict=True)]  # fmt: skip
    assert all(torch.equal(mean[held], end[held]) for mean, held, end in some)
    _, _, after = taught(1e-3, [graph])
    assert largest_gap(kept["weight"], after["weight"]) > 1e-3


def test_all_at_once_takes_as_many_steps_on_the_mean_of_the_losses():
    own, series = teaching(None, SGD(0.1, 0.0, 0.0), dropout=0.0), graphs(3)
    start = own.task.init()

    def loss(params, step):
        return torch.stack([own.task.loss(params, graph).sum() for graph in series]).mean()

    expected, _ = descend(start, loss, SGD(0.1, 0.0, 0.0), 15)
    assert largest_gap(own.jointly(start, series, 7), expected) < 1e-5


def test_the_order_of_a_series_matters_in_turn_and_not_at_once():
    series = graphs(3)
    own = teaching(None, dropout=0.0)
    start, nothing = own.task.init(), retention.nothing(own.task.init())
    assert (
        largest_gap(own.in_turn(start, nothing, series, 7)[0], own.in_turn(start, nothing, series[::-1], 7)[0]) > 1e-3
    )
    assert largest_gap(own.jointly(start, series, 7), own.jointly(start, series[::-1], 7)) < 1e-4


def test_retention_and_more_passes_cost_more():
    (graph,) = graphs(1)
    own, plain = teaching(1.0), teaching(None)
    once = own.task.flops(graph)
    assert plain.flops(graph, 100) == 5 * once
    assert plain.flops(graph, 100, 4) == 20 * once
    assert own.flops(graph, 100) == 7 * once + 6 * 7 * 100
