"""NeighGen against loops by hand, against central autograd, and where it must learn by construction."""

import pytest
import torch
from learnlab import drawn, drawn_task

from algorithms.fedsage_plus import mending
from algorithms.fedsage_plus.neighbours import NeighGen, greedy, stepped
from fedsim.data.graph import graph_of, sparse_if_worth
from fedsim.learn.engine import tree
from fedsim.learn.models.sage import SAGE


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def neighgen(features=7, classes=3, dropout=0.5, **sizes):
    widths = {"hidden": 6, "latent": 5, "narrow": 8, "wide": 9, **sizes}
    task = drawn_task(SAGE(hidden=5, dropout=0.0), features=features, classes=classes)
    return NeighGen(task, **widths, dropout=dropout)


def both_ways(pairs):
    edges = torch.tensor(pairs).T
    return torch.cat([edges, edges.flip(0)], dim=1)


def test_fgen_has_the_numbers_of_the_recipe():
    like = NeighGen(drawn_task(features=1433)).like()
    shapes = [spec.shape for one in like.values() for spec in one.values()]
    assert sum(torch.Size(shape).numel() for shape in shapes) == 33_024 + 526_336 + 10_245 * 1433


def test_first_parameters_have_the_shapes_that_are_declared():
    small = neighgen()
    params = small.init(seeded())
    assert {
        name: {key: tuple(leaf.shape) for key, leaf in one.items()} for name, one in params["features"].items()
    } == {name: {key: spec.shape for key, spec in one.items()} for name, one in small.like().items()}
    assert small.flops(3) == 2 * 3 * (5 * 8 + 8 * 9 + 5 * 9 * 7)


def test_an_impaired_graph_lacks_half_of_the_validation_nodes_and_knows_them():
    #      0 (train) - 1, 2, 3, 4, 5, 6, 7 (val);  8 (train) - 9;  0 - 8
    pairs = [(0, v) for v in range(1, 8)] + [(8, 9), (0, 8)]
    train = torch.zeros(10, dtype=torch.bool)
    train[[0, 8]] = True
    val = torch.zeros(10, dtype=torch.bool)
    val[1:8] = True
    x = torch.arange(10.0).unsqueeze(1).repeat(1, 3)
    whole = graph_of(x, both_ways(pairs), torch.zeros(10), train, val)
    half = mending.impaired(whole, 0.5, 5, seeded())
    stayed = half.graph["x"][:, 0].long()
    gone = sorted(set(range(10)) - set(stayed.tolist()))
    assert len(gone) == 3  # ⌊0.5 · 7⌋
    assert set(gone) <= set(range(1, 8))
    assert stayed[half.rows].tolist() == [0, 8]
    assert half.counts.tolist() == [3, 0]
    assert half.real.tolist() == [[True] * 3 + [False] * 2, [False] * 5]
    assert half.lost[0, :, 0].tolist() == [*map(float, gone), 0, 0]
    assert float(half.lost[1].abs().sum()) == 0
    kept = {tuple(edge) for edge in stayed[half.graph["edges"]].T.tolist()}
    assert kept == {(a, b) for a, b in both_ways(pairs).T.tolist() if a not in gone and b not in gone}
    assert sorted(stayed[half.reach].tolist()) == sorted({0, 8, 9, *(set(range(1, 8)) - set(gone))})
    everything = mending.impaired(whole, 1.0, 5, seeded())
    assert everything.counts.tolist() == [5, 0]
    assert everything.lost[0, :, 0].tolist() == [1, 2, 3, 4, 5]
    assert len(mending.impaired(whole, 0.0, 5, seeded()).graph["y"]) == 10


def test_an_impaired_graph_of_sparse_features_is_that_of_dense_ones():
    dense, sparse = drawn(30, 1), drawn(30, 1)
    sparse["x"] = sparse_if_worth(dense["x"], below=2.0, wide=1)
    assert sparse["x"].layout == torch.sparse_csr
    one, other = (mending.impaired(graph, 0.5, 3, seeded()) for graph in (dense, sparse))
    assert torch.equal(one.lost, other.lost)
    assert torch.equal(one.graph["x"], other.graph["x"].to_dense())
    assert float(one.counts.sum()) > 0


@pytest.mark.parametrize("seed", range(3))
def test_the_greedy_loss_is_the_loop_of_the_paper(seed):
    g = seeded(seed)
    n, most, width = 6, 4, 3
    guess, true = torch.randn(n, most, width, generator=g), torch.randn(n, most, width, generator=g)
    counts, real = torch.randint(most + 1, (n,), generator=g), torch.randint(most + 1, (n,), generator=g)
    total = 0.0
    for v in range(n):
        for j in range(int(counts[v])):
            errors = [float(((guess[v, j] - true[v, k]) ** 2).mean()) for k in range(int(real[v]))]
            total += min(errors, default=0.0)
    places = torch.arange(most)
    loss = greedy(guess, true, places < counts.unsqueeze(1), places < real.unsqueeze(1))
    assert float(loss) == pytest.approx(total / (n * most), rel=1e-5)


def test_mending_appends_what_is_predicted_joined_both_ways_and_in_no_split():
    small, graph = neighgen(), drawn(20, 3)
    params = small.init(seeded())
    params["count"]["weight"] = params["count"]["weight"] * 8
    counts = small.truncated(small.counts(params, small.latents(params, graph)))
    assert len(counts.unique()) > 2
    full = small.filled(params, graph, seeded(1))
    new = int(counts.sum())
    assert len(full["y"]) == 20 + new
    assert full["sizes"].tolist() == [20 + new]
    assert torch.equal(full["x"][:20], graph["x"])
    assert float(full["x"][20:].abs().max()) <= 1
    for split in ("train", "val", "test"):
        assert torch.equal(full[split][:20], graph[split])
        assert not full[split][20:].any()
    added = full["edges"][:, graph["edges"].shape[1] :]
    assert {tuple(e) for e in added.T.tolist()} == {tuple(e) for e in added.flip(0).T.tolist()}
    assert added.shape[1] == 2 * new
    out = added[:, added[0] >= 20]
    assert sorted(out[0].tolist()) == list(range(20, 20 + new))
    assert torch.equal(torch.bincount(out[1], minlength=20), counts)


def test_counts_are_truncated_and_never_more_than_five():
    told = neighgen().truncated(torch.tensor([0.0, 0.99, 1.0, 4.7, 9.3]))
    assert told.tolist() == [0, 0, 1, 4, 5]


def test_only_neighbours_within_reach_matter_to_the_loss():
    small, graph = neighgen(dropout=0.0), drawn(30, 5)
    half = mending.impaired(graph, 0.5, 5, seeded())
    params = small.init(seeded())
    params["features"]["layer1"]["weight"].zero_()  # no noise, so that it does not matter whose is drawn when
    everywhere = half._replace(reach=torch.arange(len(half.graph["y"])))
    assert len(half.reach) < len(everywhere.reach)
    z, seed = small.latents(params, half.graph), torch.tensor([1])
    near, far = (small.local_loss(params, z, one, seeded(), seed) for one in (half, everywhere))
    assert float(near) == pytest.approx(float(far), rel=1e-6)
    nowhere = half._replace(reach=half.reach[:0])
    assert float(small.local_loss(params, z, nowhere, seeded(), seed)) != pytest.approx(float(near), rel=1e-3)


def test_strangers_are_neighbours():
    x = torch.eye(5)
    graph = graph_of(x, both_ways([(0, 1), (0, 2), (3, 2)]), torch.zeros(5))
    found = mending.strangers(graph, 40, 5, seeded())
    assert found.shape == (40, 5, 5)
    assert set(map(tuple, found.argmax(2).tolist())) > {(0,) * 5}
    allowed = [{1, 2}, {0}, {0, 3}, {2}]
    assert all(any(set(row) <= near for near in allowed) for row in found.argmax(2).tolist())
    assert set(found.argmax(2).flatten().tolist()) == {0, 1, 2, 3}


def test_gradients_that_came_from_elsewhere_are_those_of_the_joint_loss():
    small, graph = neighgen(), drawn(40, 2)
    half = mending.impaired(graph, 0.5, 5, seeded())
    params = small.init(seeded())
    judges = {seed: mending.strangers(drawn(30, seed), len(half.rows), 5, seeded(seed)) for seed in (7, 8)}
    sent = small.latents(params, half.graph)[half.rows].detach()
    came = [small.judged(params["features"], sent, true, seeded(seed)) for seed, true in judges.items()]
    separate = small.gradients(params, half, came, seeded(), torch.tensor([3]))

    own = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), params)
    z = small.latents(own, half.graph)
    joint = small.local_loss(own, z, half, seeded(), torch.tensor([3]))
    for seed, true in judges.items():
        joint = joint + small.foreign_loss(own["features"], z[half.rows], true, seeded(seed))
    central = torch.autograd.grad(joint / 3, list(tree.leaves(own)))
    for mine, wanted in zip(tree.leaves(separate), central, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-4, atol=1e-7)
        assert float(wanted.abs().max()) > 0


def test_a_step_is_adams_and_leaves_what_it_was_given():
    params = neighgen().init(seeded())
    grads = [tree.transform(lambda leaf: torch.randn(leaf.shape, generator=seeded(9)), params) for _ in range(2)]
    before = tree.transform(torch.clone, params)
    own = [leaf.clone().requires_grad_(True) for leaf in tree.leaves(params)]
    oracle = torch.optim.Adam(own, lr=1e-2, weight_decay=1e-1)
    moments, now = None, params
    for grad in grads:
        now, moments = stepped(now, grad, moments, 1e-2, 1e-1)
        for leaf, part in zip(own, tree.leaves(grad), strict=True):
            leaf.grad = part
        oracle.step()
    for mine, wanted in zip(tree.leaves(now), own, strict=True):
        torch.testing.assert_close(mine, wanted.detach(), rtol=1e-5, atol=1e-6)
    assert all(torch.equal(a, b) for a, b in zip(tree.leaves(params), tree.leaves(before), strict=True))


def stars(kinds, leaves, *, count=24):
    """Stars whose hub of kind k has k + 2 leaves alike: half of each star's leaves validation; hubs train."""
    x, pairs, y, train, val = [], [], [], [], []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        hub = len(y)
        x.append(torch.nn.functional.one_hot(torch.tensor(kind), 6).float())
        y.append(kind)
        train.append(True)
        val.append(False)
        for _ in range(2 * (kind + 1)):
            pairs.append((hub, len(y)))
            x.append(leaves[kind])
            y.append(kind)
            train.append(False)
            val.append(True)
    return graph_of(torch.stack(x), both_ways(pairs), torch.tensor(y), torch.tensor(train), torch.tensor(val))


def trained(small, params, half, epochs, judge=None):
    moments = None
    for epoch in range(epochs):
        came = []
        if judge is not None:
            z = small.latents(params, half.graph)[half.rows].detach()
            true = mending.strangers(judge, len(half.rows), 5, seeded(epoch))
            came = [small.judged(params["features"], z, true, seeded(epoch))]
        grads = small.gradients(params, half, came, seeded(epoch), torch.tensor([epoch]))
        params, moments = stepped(params, grads, moments, 5e-3, 1e-4)
    return params


def error(small, params, half):
    """The error of the counts, and the distance of each hub's first guess to its leaves."""
    z = small.latents(params, half.graph)[half.rows]
    counts = (small.counts(params, z) - half.counts).abs().mean()
    x, row, _ = small.generated(params["features"], z, torch.ones(len(z)), seeded(99), training=False)
    has = half.counts > 0
    far = (x - half.lost[row, 0]).square().sum(1)[has[row]].mean()
    return float(counts), float(far)


LEAVES = {0: torch.tensor([0, 0, 0, 0.9, -0.9, 0]), 1: torch.tensor([0, 0, 0, -0.9, 0, 0.9])}


def test_the_generator_learns_how_many_neighbours_are_gone_and_what_they_were_like():
    small = neighgen(features=6, classes=2, dropout=0.2, latent=8, narrow=16, wide=32)
    half = mending.impaired(stars([0, 1], LEAVES), 0.5, 5, seeded())
    start = small.init(seeded())
    end = trained(small, start, half, 150)
    before, after = error(small, start, half), error(small, end, half)
    assert after[0] < 0.8 * before[0]
    assert after[1] < 0.5 * before[1]


def test_the_exchange_brings_the_generator_nearer_to_what_only_others_have():
    small = neighgen(features=6, classes=2, dropout=0.2, latent=8, narrow=16, wide=32)
    half = mending.impaired(stars([0], LEAVES), 0.5, 5, seeded())
    there = stars([1], LEAVES)  # whose nodes' neighbours are leaves of kind 1, and hubs of kind 1
    start = small.init(seeded())
    alone, with_them = (trained(small, start, half, 60, judge) for judge in (None, there))
    far = []
    for params in (alone, with_them):
        z = small.latents(params, half.graph)[half.rows]
        x, _, _ = small.generated(params["features"], z, torch.full((len(z),), 5), seeded(99), training=False)
        targets = torch.stack([LEAVES[1], torch.nn.functional.one_hot(torch.tensor(1), 6).float()])
        far.append(float(torch.cdist(x, targets).min(1).values.mean()))
    assert far[1] < 0.75 * far[0]
