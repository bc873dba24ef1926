"""Fed-DSLR: FedAvg's messages, edges learned for the buffer once a period, and replay over those edges."""

import math

import pytest
import torch
import torch.nn.functional as F
from camps import gap
from contexts import within
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn_task
from one_client import PERIODS, lived

from algorithms.fed_dslr import FedDslr, strangers, taken
from algorithms.fed_ergnn import FedERGNN
from algorithms.fedavg import FedAvg
from fedsim.core import wire
from fedsim.data.graph import graph_of, sparse_if_worth, with_masks
from fedsim.learn.algorithm import Job, Reply
from fedsim.learn.continual import replay
from fedsim.learn.engine import joining, tree
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.optimiser import Adam
from fedsim.learn.engine.training import Trainer
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN


def made(algorithm, features=5, classes=5, model=None, seed=0):
    return within(algorithm, drawn_task(model or GCN(hidden=6), features, classes, seed))


def history(algorithm, periods=PERIODS):
    """Two rounds a period with one client: the final state, the memories after each round, uploads, and bills."""
    states, *others = lived(made(algorithm), periods)
    return states[-1], *others


def same(one, other):
    return gap(one, other) == 0


def test_with_all_weight_on_the_new_period_it_is_fedavg_whatever_structure_is_learned():
    plain = history(FedAvg())[0]["model"]
    assert same(history(FedDslr(beta=1.0, structure_steps=3))[0]["model"], plain)
    assert not same(history(FedDslr(structure_steps=3))[0]["model"], plain)


def test_without_structure_it_is_replay_of_the_same_class_rule():
    own, other = history(FedDslr(structure=False, keep=2)), history(FedERGNN(keep=2))
    assert same(own[0]["model"], other[0]["model"])
    assert torch.equal(own[1][-1]["buffer"]["x"], other[1][-1]["buffer"]["x"])
    shares, third = [0, 0, 4 / 24, 4 / 24, 8 / 24, 8 / 24], pytest.approx(1 / 3)
    assert own[3] == [(pytest.approx(1 + share), third if at in (2, 4) else 0) for at, share in enumerate(shares)]


def test_its_messages_are_fedavgs():
    sizes = [[wire.size(upload) for upload in history(a)[2]] for a in (FedDslr(structure_steps=2), FedAvg())]
    assert sizes[0] == sizes[1]
    n_gnn = 1433 * 64 + 192 + 64 * 6 + 3 * 6
    algorithm = made(FedDslr(), 1433, 6, GAT(hidden=64))
    download = algorithm.download(algorithm.start(), 0, "train")
    like = algorithm.upload_like(Job(0, "train", 0, download, PERIODS[0], {}, 0))
    assert wire.array_bytes(download) == wire.array_bytes(like) == 4 * n_gnn
    assert like.keys() == {"update", "samples"}  # the one number takes 8 bytes


def test_structure_is_learned_once_a_period_and_billed_then():
    _, memories, _, efforts = history(FedDslr(keep=2, structure_steps=12))
    choosing = pytest.approx(24 + 1 / 3)  # the forward pass on which a period's nodes are chosen
    assert efforts == [(1, 0), (1, 0), (2, choosing), (2, 0), (2, choosing), (2, 0)]
    held = [memory.get("attached") for memory in memories[1:]]
    assert held[0] is held[1] is None
    assert held[2] is held[3]
    assert held[4] is held[5] is not held[2]
    assert [len(memory["buffer"]["y"]) for memory in memories[1:]] == [0, 0, 4, 4, 8, 8]
    for one, period in ((held[2], 1), (held[4], 2)):
        joined, own, kept = one["graph"], PERIODS[period], memories[2 * period + 1]["buffer"]
        assert one["period"] == period
        assert torch.equal(joined["x"], torch.cat([own["x"], kept["x"]]))
        assert torch.equal(joined["edges"][:, : own["edges"].shape[1]], own["edges"])
        assert joined["train"].nonzero().flatten().tolist() == list(range(24, 24 + len(kept["y"])))
        learned = {tuple(pair) for pair in joined["edges"][:, own["edges"].shape[1] :].T.tolist()}
        assert learned == {(b, a) for a, b in learned}
        assert all(max(pair) >= 24 and pair[0] != pair[1] for pair in learned)
        assert len(learned) == 2 * 5 * len(kept["y"])


def test_a_period_without_a_training_node_learns_no_structure():
    never = torch.zeros(24, dtype=torch.bool)
    idle = with_masks(PERIODS[1], never, PERIODS[1]["val"], PERIODS[1]["test"])
    _, memories, _, efforts = history(FedDslr(structure_steps=3), [PERIODS[0], idle, PERIODS[2]])
    kept = pytest.approx(1 + 2 / 24)  # two nodes are held, of a graph of 24
    assert efforts == [(1, 0), (1, 0), (kept, pytest.approx(1 / 3)), (kept, 0), (2, pytest.approx(6 + 1 / 3)), (2, 0)]
    assert "attached" not in memories[4]
    assert memories[5]["attached"]["graph"]["y"][24:].tolist() == [0, 1]
    assert history(FedDslr(structure_steps=3), [idle, idle])[3] == [(1, 0), (1, 0), (1, pytest.approx(1 / 3)), (1, 0)]


def test_the_pairs_come_from_the_jobs_seed_alone():
    algorithm, buffer = made(FedDslr(structure_steps=4)), replay.isolated(PERIODS[0], torch.tensor([1, 2]))

    def learned(seed):
        start = algorithm.start()["model"]
        job = Job(0, "train", 1, {"model": start}, PERIODS[1], {}, seed)
        stacked = tree.stack([start])
        model = algorithm.learn(job, buffer, replay.attached(job.data, buffer), stacked)
        assert same(stacked, tree.stack([made(FedDslr()).start()["model"]]))  # a copy is what learns
        return model

    before = torch.random.get_rng_state()
    one = learned(1)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(5)
    assert same(one, learned(1))
    assert not same(one, learned(2))


@pytest.mark.parametrize("wide", [False, True])
def test_replay_runs_over_the_attached_graph(wide):
    first, second = PERIODS[0], PERIODS[1]
    if wide:
        first, second = (
            graph_of(sparse_if_worth(F.pad(g["x"], (0, 95))), g["edges"], g["y"], g["train"]) for g in (first, second)
        )
        assert second["x"].layout == torch.sparse_csr
    algorithm = made(FedDslr(beta=0.3), features=first["x"].shape[1], model=GAT(hidden=6, dropout=0.0))
    params = tree.stack([algorithm.start()["model"]])
    buffer = replay.isolated(first, torch.tensor([3, 4]))
    edges = torch.tensor([[24, 7, 25, 24], [7, 24, 24, 25]])
    joined = replay.attached(second, buffer, edges)
    loss = algorithm.loss(params, second, {"buffer": joined, "beta": torch.tensor([0.3])})
    x = torch.cat([g["x"].to_dense() if wide else g["x"] for g in (second, buffer)])
    whole = graph_of(x, torch.cat([second["edges"], edges], 1), torch.cat([second["y"], buffer["y"]]))
    old = F.cross_entropy(algorithm.task.forward(params, whole)[24:], buffer["y"])
    rows = second["train"]
    new = F.cross_entropy(algorithm.task.forward(params, second)[rows], second["y"][rows])
    assert float(loss) == pytest.approx(float(0.3 * new + 0.7 * old), abs=1e-5)
    apart = F.cross_entropy(algorithm.task.forward(params, buffer), buffer["y"])
    assert abs(float(old - apart)) > 1e-4


def test_beta_zero_is_each_clients_ratio_of_the_sizes():
    algorithm = made(FedDslr(beta=0.0))
    three, none = replay.isolated(PERIODS[0], torch.arange(3)), replay.empty(PERIODS[0])
    trained = int(PERIODS[1]["train"].sum())
    assert algorithm.balance(PERIODS[1], three) == 3 / (3 + trained)
    assert algorithm.balance(PERIODS[1], none) == 0
    assert made(FedDslr()).balance(PERIODS[1], three) == 0.1
    params = tree.stack([algorithm.start()["model"]] * 2)
    data, buffers = joining.union([PERIODS[1]] * 2), joining.union([three, none])
    betas = torch.tensor([algorithm.balance(PERIODS[1], b) for b in (three, none)])
    loss = algorithm.loss(params, data, {"buffer": buffers, "beta": betas})
    new, old = algorithm.task.loss(params, data), algorithm.task.loss(params, buffers)
    assert torch.allclose(loss, torch.stack([betas[0] * new[0] + (1 - betas[0]) * old[0], new[1]]))


def linked(before, after, first, candidates, links):
    """Brute force: each buffer node in turn takes the most alike of its nearest that it does not know yet."""
    found, total = set(), len(after)
    for row in range(first, total):
        near = sorted((float((before[row] - before[v]).norm()), v) for v in range(total) if v != row)[:candidates]
        alike = sorted((-float(F.cosine_similarity(after[row], after[v], dim=0)), v) for _, v in near)
        for _, other in [(c, v) for c, v in alike if (row, v) not in found][:links]:
            found |= {(row, other), (other, row)}
    return found


@settings(max_examples=30, deadline=None)
@given(
    first=st.integers(1, 12), kept=st.integers(1, 4), seed=st.integers(0, 999),
    candidates=st.integers(1, 9), links=st.integers(1, 4),
)  # fmt: skip
def test_edges_go_to_the_most_alike_of_the_nearest(first, kept, seed, candidates, links):
    generator = torch.Generator().manual_seed(seed)
    before, after = torch.randn(2, first + kept, 3, generator=generator, dtype=torch.double)
    algorithm = made(FedDslr(candidates=candidates, links=links))
    edges = algorithm.edges(before, after, first)
    assert edges.shape[0] == 2
    assert {tuple(pair) for pair in edges.T.tolist()} == linked(before, after, first, candidates, links)


def test_a_buffer_node_with_nobody_else_gets_no_edge():
    assert made(FedDslr()).edges(torch.ones(1, 3), torch.ones(1, 3), 0).shape == (2, 0)


def test_the_link_loss_by_hand():
    z = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    edges = torch.tensor([[0, 1, 2, 3, 5, 7], [1, 0, 4, 6, 5, 8]])
    loss = made(FedDslr()).link_loss(z, edges, torch.Generator().manual_seed(3))
    others = strangers(edges, 9, 3, torch.Generator().manual_seed(3)).T.tolist()
    terms = []
    for pairs, label in ((edges.T.tolist(), 1), (others, 0)):
        for u, v in pairs:
            share = 1 / (1 + math.exp(-(float(F.cosine_similarity(z[u], z[v], dim=0)) + 1) / 2))
            terms.append(-math.log(share if label else 1 - share))
    assert float(loss) == pytest.approx(sum(terms) / len(terms), abs=1e-6)
    assert float(made(FedDslr()).link_loss(z, edges[:, :0], torch.Generator())) == 0


def test_random_pairs_are_no_edges_and_take_two():
    edges = torch.randint(6, (2, 12), generator=torch.Generator().manual_seed(1))
    pairs = {tuple(p) for p in strangers(edges, 6, 500, torch.Generator().manual_seed(2)).T.tolist()}
    known = {tuple(p) for p in edges.T.tolist()}
    assert pairs == {(u, v) for u in range(6) for v in range(6) if u != v} - known


def test_taking_rows_has_the_gradient_of_indexing():
    z = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    rows, weight = torch.tensor([4, 0, 4, 2]), torch.arange(12.0).view(4, 3)
    assert torch.equal(taken(z, rows), z[rows])
    own, plain = (torch.autograd.grad((way * weight).sum(), z)[0] for way in (taken(z, rows), z[rows]))
    assert torch.allclose(own, plain)


# ---- what the mechanism is for

CLASSES, NODES = 4, 160


def neighbourhoods(seed):
    """Noisy features of four classes, nine edges in ten inside a class; and a half of the nodes to train on."""
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(NODES) % CLASSES
    x = 3 * torch.eye(CLASSES, 16)[y] + torch.randn(NODES, 16, generator=g)
    source = torch.arange(NODES).repeat_interleave(4)
    inside = torch.randint(NODES // CLASSES, source.shape, generator=g) * CLASSES + y[source]
    anywhere = torch.randint(NODES, source.shape, generator=g)
    target = torch.where(torch.rand(source.shape, generator=g) < 0.9, inside, anywhere)
    both = torch.cat([torch.stack([source, target]), torch.stack([target, source])], 1)
    edges = torch.unique(both[:, both[0] != both[1]], dim=1)
    return graph_of(x, edges, y), torch.rand(NODES, generator=g) < 0.5


def outcome(algorithm, seed, rounds=8):
    """Old and new accuracy of two clients after five rounds on classes 0 and 1, then some on 2 and 3.

    All edges are kept, so that nodes of the old classes lie in the new period's graph, without their labels.
    Also the share of learned edges that stay within a class.
    """
    algorithm = made(algorithm, 16, CLASSES, GAT(hidden=16), seed)
    cohort = JobQueue(algorithm, Trainer(Adam(0.02, 5e-4), 3))
    worlds = [neighbourhoods(10 * seed + client) for client in range(2)]
    halves = [[(whole["y"] // 2) == period for whole, _ in worlds] for period in range(2)]
    state, memories = algorithm.start(), [{}, {}]
    for period, mine in enumerate(halves):
        data = [
            with_masks(whole, first & own, own & ~own, ~first & own)
            for (whole, first), own in zip(worlds, mine, strict=True)
        ]
        for number in range((5, rounds)[period]):
            sent = algorithm.download(state, 0, "train")
            promises = [
                cohort.submit(Job(k, "train", period, sent, data[k], memories[k], 100 * k + 10 * period + number))
                for k in range(2)
            ]
            replies = [Reply(k, number, sent, promises[k].value()) for k in range(2)]
            memories = [promise.memory() for promise in promises]
            state = algorithm.update(state, replies, "train")
    right = torch.zeros(2)
    within = []
    for (whole, first), memory, *mine in zip(worlds, memories, *halves, strict=True):
        predicted = algorithm.task.forward(tree.stack([memory["local"]]), whole).argmax(1)
        right += torch.stack([(predicted == whole["y"])[own & ~first].float().mean() for own in mine]) / 2
        if "attached" in memory:
            joined = memory["attached"]["graph"]
            ends = joined["y"][joined["edges"][:, joined["edges"][0] >= NODES]]
            within.append(float((ends[0] == ends[1]).float().mean()))
    return right.tolist(), sum(within) / max(1, len(within))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_replay_keeps_old_classes_and_structure_learning_finds_a_nodes_own_class(seed):
    (forgotten, _), _ = outcome(FedAvg(), seed)
    (kept, new), learned = outcome(FedDslr(), seed)
    _, barely = outcome(FedDslr(structure_steps=1), seed, rounds=1)
    assert kept > forgotten + 0.5
    assert new > 1 / CLASSES + 0.15  # not by giving up on the new classes
    assert learned > 1 / CLASSES + 0.3  # chance is each class's share of the nodes
    assert learned > barely + 0.05
