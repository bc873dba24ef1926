"""Fed-ERGNN: FedAvg's messages, experience nodes at the end of each period, and replay that weighs as said."""

import pytest
import torch

from algorithms.fed_ergnn import FedERGNN
from algorithms.fedavg import FedAvg
from fedsim.algorithm import Job, Reply, bind
from fedsim.data.graph import graph_of
from fedsim.learn import replay, tree
from fedsim.learn.cohort import Cohort
from fedsim.learn.models.gcn import GCN
from fedsim.learn.optimiser import Adam
from fedsim.learn.task import bind as bind_task
from fedsim.learn.tasks.node_classification import NodeClassification
from fedsim.learn.training import Trainer
from fedsim.net import wire


def graph(classes, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.tensor(classes)[torch.arange(24) % len(classes)]
    train = torch.rand(24, generator=generator) < 0.5
    x = torch.randn(24, 5, generator=generator)
    return graph_of(x, torch.randint(24, (2, 50), generator=generator), y, train, ~train, ~train)


PERIODS = [graph([0, 1], 1), graph([2, 3], 2), graph([1, 4], 3)]


def history(algorithm):
    """Two rounds a period with one client: the final state, the memories after each round, and the uploads."""
    algorithm = bind(algorithm, bind_task(NodeClassification(), GCN(hidden=6), 5, 5, 0, "cpu"))
    cohort = Cohort(algorithm, Trainer(Adam(0.02), 2))
    state, memories, uploads = algorithm.start(), [{}], []
    for number in range(6):
        period = number // 2
        download = algorithm.download(state, 0, "train")
        promise = cohort.submit(Job(0, "train", period, download, PERIODS[period], dict(memories[-1]), number))
        uploads.append(promise.value())
        assert wire.size(uploads[-1]) == promise.nbytes
        memories.append(promise.memory())
        state = algorithm.update(state, [Reply(0, number, download, uploads[-1])], "train")
    return state, memories, uploads


def gap(one, other):
    return max(float((a - b).abs().max()) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


def test_with_all_weight_on_the_new_period_it_is_fedavg():
    assert gap(history(FedERGNN(beta=1.0))[0]["model"], history(FedAvg())[0]["model"]) == 0
    assert gap(history(FedERGNN(beta=0.5))[0]["model"], history(FedAvg())[0]["model"]) > 1e-4


def test_its_messages_are_as_large_as_fedavgs():
    sizes = [[wire.size(upload) for upload in history(algorithm)[2]] for algorithm in (FedERGNN(), FedAvg())]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("rule", ["same_class", "other_class", "mean_feature"])
def test_a_period_leaves_its_experience_once_when_the_next_has_begun(rule):
    _, memories, _ = history(FedERGNN(rule=rule, keep=2))
    labels = [memory["buffer"]["y"].tolist() for memory in memories[1:]]
    assert labels == [[], [], [0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 1, 2, 2, 3, 3]]
    kept = memories[-1]["buffer"]
    for place, row in enumerate(kept["x"]):
        source = PERIODS[place // 4]
        assert ((source["x"] == row).all(1) & source["train"] & (source["y"] == kept["y"][place])).sum() == 1


def test_it_is_chosen_by_the_clients_own_last_model_of_the_period():
    algorithm = FedERGNN(keep=3, epsilon=0.7)
    _, memories, _ = history(algorithm)
    chosen = algorithm.select(PERIODS[0], memories[2]["local"])
    assert torch.equal(memories[3]["buffer"]["x"], chosen["x"])


def test_the_other_class_rule_counts_near_vertices_of_other_classes():
    data = PERIODS[2]
    algorithm = FedERGNN(rule="other_class", distance=2.0)
    for rows in replay.class_rows(data):
        label = int(data["y"][rows[0]])
        crowd = [
            sum(
                float((data["x"][i] - data["x"][j]).norm()) < 2.0
                for j in data["train"].nonzero().flatten().tolist()
                if int(data["y"][j]) != label
            )
            for i in rows.tolist()
        ]
        assert int(algorithm.choose(data, data["x"], rows)[0]) == crowd.index(min(crowd))
