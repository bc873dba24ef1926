"""Prototypes of classes, as they are told and read."""

import pytest
import torch
from learnlab import drawn, drawn_task

from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.learn import task as tasks
from fedsim.learn.engine import tree
from fedsim.learn.models.evolve_gcn_o import EvolveGCNO
from fedsim.learn.models.gcn import GCN
from fedsim.learn.personalised import class_means
from fedsim.learn.tasks.link_prediction import LinkPrediction


@pytest.mark.parametrize("counted", [True, False])
def test_a_prototype_is_the_mean_embedding_of_its_class_and_absent_classes_are_not_told(counted):
    graph, task = drawn(30, 1, classes=4), drawn_task(GCN(hidden=5), classes=4)
    graph["y"][graph["y"] == 2] = 1
    params, mask = task.init(), graph["train"]
    sent = class_means.of(task, params, graph, mask, counted=counted)
    h = task.embed(tree.stack([params]), graph)
    assert sent["classes"].tolist() == [0, 1, 3]
    for label, row in zip(sent["classes"].tolist(), sent["prototypes"], strict=True):
        torch.testing.assert_close(row, h[mask & (graph["y"] == label)].mean(0))
    like = class_means.like(graph, mask, 5, counted=counted)
    assert wire.size(like) == wire.size(sent) == len(wire.encode(sent))
    assert wire.array_bytes(sent) == 3 * (4 * 5 + 4 + 4 * counted)
    if counted:
        table, counts = class_means.spread(sent, 4)
        assert counts.tolist() == [int((mask & (graph["y"] == label)).sum()) for label in range(4)]
        assert counts[2] == 0
        assert torch.equal(table[torch.tensor([0, 1, 3])], sent["prototypes"])
        assert not table[2].any()


def test_without_a_node_there_is_no_prototype():
    graph, task = drawn(8, 1), drawn_task()
    sent = class_means.of(task, task.init(), graph, torch.zeros_like(graph["train"]), counted=True)
    assert [len(value) for value in sent.values()] == [0, 0, 0]


def test_the_width_is_the_hidden_one_where_there_is_one():
    assert class_means.width(drawn_task(GCN(hidden=5))) == 5
    assert class_means.width(drawn_task(EvolveGCNO(hidden=6, layers=1))) == 6
    with pytest.raises(ScenarioError, match="hidden layer"):
        class_means.width(drawn_task(GCN(hidden=5, layers=1)))
    linked = tasks.bind(LinkPrediction(), GCN(hidden=5), 7, 3, 0, "cpu")
    with pytest.raises(ScenarioError, match="node_classification"):
        class_means.width(linked)
