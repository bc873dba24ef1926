"""FedEgo: mashed ego-graphs, distances of labels and what is mixed by them, and what travels."""

import pytest
import torch
from camps import community, gap, rounds
from contexts import within

from algorithms.fed_ego import FedEgo, egos, mixed, mixing, overall, shares_of
from fedsim.core import wire
from fedsim.data.graph import graph_of
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.engine import tree
from fedsim.learn.models.gcn import GCN
from fedsim.learn.task import bind as bind_model
from fedsim.learn.tasks.node_classification import NodeClassification

CLASSES = 3


def ready(features=2, hidden=4, task=None, **options):
    """The algorithm bound to a task."""
    algorithm = FedEgo(**options)
    model = algorithm.backbone(GCN(hidden=hidden, dropout=0.0))
    return within(algorithm, bind_model(task or NodeClassification(), model, features, CLASSES, 0, "cpu"))


def couples():
    """0 - 1, 2 - 3 and 4 alone: whoever draws a neighbour can draw but one."""
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0], [-2.0, 1.0], [0.0, 4.0], [7.0, 0.5]])
    ends = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    train = torch.tensor([True, False, True, True, True])
    return graph_of(x, ends, torch.tensor([0, 1, 2, 1, 2]), train, ~train, ~train)


def upload_of(algorithm, data, state, client=0, memory=None):
    job = Job(client, "train", 0, algorithm.download(state, client, "train"), data, memory or {}, 5)
    work = algorithm.work(job)
    try:
        fit = next(work)
        work.send(fit.start)
    except StopIteration as stop:
        return stop.value, job


def test_the_slots_of_an_ego_graph_hang_together():
    assert egos.slots((6, 6)) == 43
    ends = egos.edges((2, 3))
    assert ends.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 1, 1, 1, 2, 2, 2]]
    both = egos.joined(torch.arange(18.0).view(2, 9, 1), (2, 3))
    assert both["edges"][:, :8].tolist() == ends.tolist()
    assert both["edges"][:, 8:].tolist() == (ends + 9).tolist()
    assert both["x"].flatten().tolist() == list(range(18))


def test_slots_hold_neighbours_and_theirs():
    data, generator = community([0, 1, 2], 1), torch.Generator().manual_seed(2)
    near = {v: set(data["edges"][0][data["edges"][1] == v].tolist()) or {v} for v in range(24)}
    chosen = egos.sampled(data, torch.arange(24), (6, 6), generator)
    assert chosen.shape == (24, 43)
    for centre, row in enumerate(chosen.tolist()):
        assert row[0] == centre
        assert set(row[1:7]) <= near[centre]
        assert all(set(row[7 + 6 * i : 13 + 6 * i]) <= near[row[1 + i]] for i in range(6))
    often = egos.sampled(data, torch.zeros(300, dtype=torch.long), (6, 6), generator)
    assert set(often[:, 1:7].flatten().tolist()) == near[0]


@pytest.mark.parametrize("batch", [4, 32])
def test_mashing_by_hand(batch):
    algorithm, data = ready(batch=batch, first=2, second=1), couples()
    state = algorithm.start()
    sent, _ = upload_of(algorithm, data, state)
    r = state["model"]["reduction"]
    h = torch.relu(data["x"] @ r["weight"] + r["bias"])
    partner = [1, 0, 3, 2, 4]
    centres, others = [0, 2, 3, 4], [1, 3, 2, 4]
    assert [partner[v] for v in centres] == others
    mean = [h[centres].mean(0), h[others].mean(0), h[others].mean(0), h[centres].mean(0), h[centres].mean(0)]
    torch.testing.assert_close(sent["x"], torch.stack(mean).unsqueeze(0), rtol=0, atol=1e-6)
    # labels 0, 2, 1, 2; of the others node 1 is none to train on
    centre, other = [0.25, 0.25, 0.5], [0.0, 0.25, 0.5]
    assert sent["y"][0].tolist() == [centre, other, other, centre, centre]


def test_batches_are_of_equal_numbers_and_each_centre_is_in_one():
    algorithm, data = ready(batch=3, first=1, second=1), couples()
    sent, _ = upload_of(algorithm, data, algorithm.start())
    assert sent["x"].shape == (2, 3, 4)
    assert (2 * sent["y"][:, 0].sum(0)).tolist() == [1.0, 1.0, 2.0]


def test_noise_is_on_features_alone():
    data = couples()
    quiet, loud = (upload_of(ready(sigma=s), data, ready(sigma=s).start())[0] for s in (0.0, 0.5))
    assert torch.equal(quiet["y"], loud["y"])
    noise = (loud["x"] - quiet["x"]).flatten()
    assert float(noise.std()) == pytest.approx(0.5, rel=0.25)
    again = upload_of(ready(sigma=0.5), data, ready(sigma=0.5).start())[0]
    assert torch.equal(again["x"], loud["x"])


@pytest.mark.parametrize(
    ("own", "all_", "emd", "share"),
    [
        ([1.0, 0.0, 0.0], [0.0, 0.5, 0.5], 2.0, 1.0),
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5], 0.0, 0.0),
        ([0.5, 0.5, 0.0], [0.25, 0.25, 0.5], 1.0, 0.5**0.5),
    ],
)
def test_distances_of_labels_and_mixing_by_hand(own, all_, emd, share):
    own, all_ = torch.tensor(own), torch.tensor(all_)
    assert egos.distance(own, all_) == pytest.approx(emd)
    assert mixing(own, all_) == pytest.approx(share)
    server, mine = ({name: {"w": torch.full((2,), v)} for name in ("reduction", "layer1")} for v in (1.0, 5.0))
    got = mixed(server, mine, own, all_)
    assert got["reduction"]["w"].tolist() == [1.0, 1.0]
    assert got["layer1"]["w"].tolist() == pytest.approx([5.0 - 4.0 * share] * 2)


def test_who_has_no_model_or_receives_no_labels_takes_the_servers():
    assert mixing(torch.tensor([1.0, 0.0]), torch.zeros(0)) == 1.0
    assert mixing(torch.zeros(2), torch.tensor([0.5, 0.5])) == 1.0
    model = {"reduction": {}, "layer1": {}}
    assert mixed(model, None, None, torch.zeros(0)) is model


def test_the_server_knows_the_labels_that_clients_sent_last():
    algorithm, data = ready(), couples()
    state = algorithm.start()
    assert len(overall(state)) == 0
    sent, job = upload_of(algorithm, data, state)
    state = algorithm.update(state, [Reply(0, 0, job.download, sent)], "train")
    torch.testing.assert_close(overall(state), shares_of(data, CLASSES))
    other = {**sent, "y": torch.zeros(1, 43, 3).index_fill(2, torch.tensor([0]), 1.0)}
    state = algorithm.update(state, [Reply(1, 0, job.download, other)], "train")
    torch.testing.assert_close(overall(state), torch.tensor([1.25, 0.25, 0.5]) / 2)
    assert torch.equal(algorithm.download(state, 0, "train")["labels"], overall(state))


def test_bytes_are_those_of_the_formulas():
    algorithm, data = ready(features=20, hidden=4, batch=5), community([0, 1, 2], 1)
    state = algorithm.start()
    sent, job = upload_of(algorithm, data, state)
    count = -(-int(data["train"].sum()) // 5)
    assert count > 1
    assert wire.array_bytes(sent) == 4 * (20 * 4 + 4) + count * 43 * (4 + CLASSES) * 4
    assert wire.size(sent) == wire.size(algorithm.upload_like(job))
    assert wire.array_bytes(job.download) == 4 * tree.count(state["model"])
    later = algorithm.update(state, [Reply(0, 0, job.download, sent)], "train")
    assert wire.array_bytes(algorithm.download(later, 0, "train")) == 4 * tree.count(state["model"]) + 4 * CLASSES


def test_the_servers_work_hangs_on_what_came_and_on_its_epochs():
    data, works = community([0, 1, 2], 1), {}
    for epochs, batch in ((5, 5), (10, 5), (5, 2)):
        algorithm = ready(features=20, batch=batch, server_epochs=epochs)
        sent, job = upload_of(algorithm, data, algorithm.start())
        replies = [Reply(0, 0, job.download, sent)]
        work = algorithm.server_flops({}, replies, "train") - wire.array_bytes(sent) / 2
        works[epochs, batch] = work / len(sent["x"])
    once = 2 * (4 * 43 * 4 * 4 + 2 * 42 * 4) + 2 * 43 * 4 * CLASSES  # two GraphSAGE layers and the classifier
    assert works == {(5, 5): 15.0 * once, (10, 5): 30.0 * once, (5, 2): 15.0 * once}


def test_the_server_learns_the_centres_labels():
    g = torch.Generator().manual_seed(0)
    algorithm = ready(hidden=8, server_epochs=60, server_lr=0.02, centres=0.5)
    kind = torch.arange(12) % CLASSES
    x = torch.randn(12, 43, 8, generator=g)
    x[torch.arange(12), :, kind] += 3
    y = torch.nn.functional.one_hot(kind, CLASSES).float()
    first = algorithm.start()["model"]
    before = {name: layer for name, layer in first.items() if name != "reduction"}
    taught = algorithm.taught(before, x, y, 0)

    def right(params):
        logits = algorithm.task.model.after(tree.stack([params]), x.flatten(0, 1), egos.joined(x, (6, 6)))[::43]
        return float((logits.argmax(1) == kind).float().mean())

    assert right(taught) == 1.0 > right(before)
    assert gap(before, algorithm.taught(before, x, y, 0)) > 0
    assert gap(taught, algorithm.taught(before, x, y, 0)) == 0


def test_rounds_move_reduction_and_personal_layers_of_all():
    algorithm = ready(features=20, hidden=6, batch=4)
    graphs = {k: community([0, 1, 2], k) for k in range(3)}
    state, memories, history = rounds(algorithm, graphs, [[0, 1, 2]] * 3)
    assert state["updates"] == 3
    first = algorithm.start()["model"]
    assert all(gap({name: state["model"][name]}, {name: first[name]}) > 0 for name in first)
    assert len(history[0][0].upload["x"]) == egos.batches(int(graphs[0]["train"].sum()), 4)
    share = mixing(memories[0]["labels"], overall(state))
    assert 0 < share < 1
    own, server = memories[0]["local"]["layer1"]["root"], state["model"]["layer1"]["root"]
    begun = algorithm.predictor(state, 0, memories[0])["layer1"]["root"]
    torch.testing.assert_close(begun, share * server + (1 - share) * own)


def test_the_server_learns_at_the_clients_rate_unless_it_has_its_own():
    x, y = torch.randn(6, 43, 8, generator=torch.Generator().manual_seed(0)), torch.eye(CLASSES).repeat(2, 1)
    x, y = x[: len(y)], y[: len(x)]

    def moved(**options):
        algorithm = ready(hidden=8, server_epochs=1, centres=1.0, **options)
        before = {name: layer for name, layer in algorithm.start()["model"].items() if name != "reduction"}
        return gap(before, algorithm.taught(before, x, y, 0))

    rate = ready(hidden=8).learning_rate
    assert moved() == moved(server_lr=rate)
    assert moved(server_lr=rate / 10) < moved() / 5  # Adam's first step is as long as its rate
