"""The proxy's losses against their formulas; what it sees is labelled training nodes alone."""

import math
from dataclasses import replace

import pytest
import torch
from learnlab import drawn

from fedsim.data.graph import as_dense, with_masks
from fedsim.learn.engine import tree
from fedsim.learn.synthetic import fgw
from fedsim.learn.synthetic.generators import FeatureGenerator
from fedsim.learn.synthetic.proxy import Proxy, dispersion, divergence, labelled
from fedsim.learn.synthetic.pseudo_graphs import adjacency, knn_graph

GENERATOR = FeatureGenerator(7, 3, noise=4, hidden=(6,))
NONE = Proxy(GENERATOR, divergence=None, dispersion=None, fgw=None, neighbours=3)


def made(nodes=30, seed=2, **options):
    own = labelled(drawn(nodes, seed))
    proxy = replace(NONE, **options)
    given = tree.transform(lambda leaf: leaf.unsqueeze(0), proxy.given(own, torch.zeros(1)))
    params = tree.stack([GENERATOR.init(torch.Generator().manual_seed(0))])
    return proxy, params, own, given


def loss(proxy, params, own, given, seed=5):
    return proxy.loss(params, {**own, "seed": torch.tensor([seed])}, given)


def test_the_divergence_and_the_dispersion_are_the_sums_written_out():
    g = torch.Generator().manual_seed(0)
    x, pseudo = torch.randn(4, 3, generator=g), torch.randn(4, 3, generator=g)
    apart = turned = 0.0
    for own, other in zip(x.tolist(), pseudo.tolist(), strict=True):
        p, q = ([math.exp(v) for v in row] for row in (own, other))
        p, q = [v / sum(p) for v in p], [v / sum(q) for v in q]
        apart += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)) / 4
        norms = math.hypot(*own) * math.hypot(*other)
        turned += (1 - sum(a * b for a, b in zip(own, other, strict=True)) / norms) / 4
    assert float(divergence(x, pseudo)) == pytest.approx(apart, abs=1e-6)
    assert float(dispersion(x, pseudo)) == pytest.approx(turned, abs=1e-6)
    assert float(divergence(x, x)) == pytest.approx(0, abs=1e-6)
    assert float(dispersion(x, 2 * x)) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("as_csr", [False, True])
def test_what_is_labelled_is_the_part_of_the_training_nodes(as_csr):
    graph = drawn(24, 3, as_csr=as_csr)
    own, rows = labelled(graph), graph["train"].nonzero().squeeze(1)
    assert torch.equal(own["y"], graph["y"][rows])
    assert torch.equal(as_dense(own["x"]), as_dense(graph["x"])[rows])
    assert torch.equal(adjacency(own["edges"], len(rows)), adjacency(graph["edges"], 24)[rows][:, rows])
    assert bool(own["train"].all())


def test_nothing_of_other_nodes_is_in_it():
    graph = drawn(24, 3)
    held = ~graph["train"]
    other = with_masks(graph, graph["train"], graph["test"], graph["val"])
    other["y"] = torch.where(held, (graph["y"] + 1) % 3, graph["y"])
    other["x"] = torch.where(held.unsqueeze(1), 9.0, graph["x"])
    within = ~held[graph["edges"]].any(0)
    other["edges"] = graph["edges"][:, within]
    one, two = labelled(graph), labelled(other)
    for key in ("x", "y", "edges", "train", "val", "test"):
        assert torch.equal(one[key], two[key])
    assert not bool((one["val"] | one["test"]).any())


def test_the_loss_is_the_weighted_sum_of_its_parts():
    weights = {"divergence": 0.3, "dispersion": 2.0, "fgw": 0.7}
    whole = loss(*made(**weights))
    parts = [loss(*made(**{name: 1.0})) for name in weights]
    assert whole.shape == (1,)
    assert float(whole) == pytest.approx(sum(float(part) * w for part, w in zip(parts, weights.values(), strict=True)))
    assert len({round(float(part), 4) for part in parts}) == 3
    assert min(map(float, parts)) > 0.01


def test_noise_is_fresh_for_every_seed_and_about_the_centre():
    parts = made(dispersion=1.0)
    values = [float(loss(*parts, seed=seed)) for seed in (5, 5, 6)]
    assert values[0] == values[1] != values[2]
    proxy, params, own, given = parts
    assert float(loss(proxy, params, own, {**given, "centre": torch.full((1, 1), 9.0)}, seed=5)) != values[0]


def test_pseudo_edges_are_the_neighbour_lists_and_no_identity(monkeypatch):
    seen, real = [], fgw.loss
    monkeypatch.setattr(fgw, "loss", lambda *given: seen.append(given) or real(*given))
    loss(*made(fgw=1.0))
    x, pseudo, own, other, a = seen[0]
    n = len(x)
    assert a == 0.5
    assert not torch.equal(other, torch.eye(n))
    assert torch.equal(other, adjacency(knn_graph(pseudo, 3), n))
    assert float(other.sum()) >= 2 * n
    assert float(other.diagonal().sum()) == float(own.diagonal().sum()) == 0
    loss(*made(fgw=1.0, against="code"))
    assert torch.equal(seen[1][3], torch.eye(n))


def test_only_a_sample_of_many_nodes_is_transported(monkeypatch):
    seen, real = [], fgw.loss
    monkeypatch.setattr(fgw, "loss", lambda *given: seen.append(given) or real(*given))
    parts = made(nodes=60, fgw=1.0, sample=5)
    for seed in (1, 2):
        loss(*parts, seed=seed)
    assert [tuple(given[0].shape) for given in seen] == [(5, 7)] * 2
    assert not torch.equal(seen[0][0], seen[1][0])
    x, matrix = parts[3]["x"][0], parts[3]["adjacency"][0]
    rows = [int((x == row).all(1).nonzero()) for row in seen[0][0]]
    assert torch.equal(seen[0][2], matrix[rows][:, rows])
    whole = made(nodes=60, fgw=1.0, sample=len(x))
    loss(*whole)
    assert torch.equal(seen[2][0], x)  # all of them, in their order


def test_every_part_has_a_slope_at_the_generator():
    for name in ("divergence", "dispersion", "fgw"):
        proxy, params, own, given = made(**{name: 1.0})
        params = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), params)
        grads = torch.autograd.grad(loss(proxy, params, own, given).sum(), list(tree.leaves(params)))
        assert all(float(grad.abs().max()) > 1e-6 for grad in grads)


def test_the_cost_of_transport_is_billed_and_capped():
    with_it, without = replace(NONE, fgw=0.1), NONE
    extra = [with_it.flops(n) - without.flops(n) for n in (100, 200, 512, 4000)]
    assert extra[1] > 7 * extra[0]
    assert extra[2] == extra[3] > 25 * 512**3
