"""The conditional autoencoder: its loss by hand, what it learns, and noise cut to where it was asked for."""

import pytest
import torch

from algorithms.fed_cvae import CVAE, truncated_normal
from fedsim.data.graph import Graph, graph_of
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import Adam, descend, in_training

FEATURES, CLASSES = 8, 3


def graph(seed=0, n=30):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % CLASSES
    x = 0.3 * torch.randn(n, FEATURES, generator=g)
    x[torch.arange(n), 2 * y] += 2
    return graph_of(x, torch.zeros(2, 0), y, torch.ones(n, dtype=torch.bool))


def first(own, seed=0):
    return own.init(torch.Generator().manual_seed(seed))


def rebuilt(own, params, data):
    """The mean square that is missed, with the mean code."""
    mean, _ = own.encode(params["encoder"], data["x"], data["y"])
    return float((own.decoder.forward(params["decoder"], mean, data["y"]) - data["x"]).square().sum(1).mean())


def test_the_numbers_of_the_decoder():
    own = CVAE(1433, 7)
    assert tree.count(first(own)["decoder"]) == (64 + 7 + 1) * 256 + 257 * 1433


def test_the_loss_by_hand():
    """With weights of zero the codes are N(b, I) and the output is the decoder's bias."""
    own, data = CVAE(FEATURES, CLASSES, latent=4, hidden=5, beta=0.5), graph()
    params = tree.zeros_like(first(own))
    params["encoder"]["layer2"]["bias"] = torch.tensor([1.0, 0, 0, 0, 0.5, 0, 0, 0])
    params["decoder"]["layer2"]["bias"] = torch.full((FEATURES,), 0.25)
    apart = 0.5 * (1 + torch.tensor(0.5).exp() - 0.5 - 1)
    missed = 0.5 * (data["x"] - 0.25).square().sum(1).mean()
    found = own.loss(tree.stack([params]), in_training(data, 3, 0), None)
    assert float(found) == pytest.approx(float(missed + 0.5 * apart), rel=1e-5)


def test_noise_is_drawn_from_the_graphs_seed():
    own, data = CVAE(FEATURES, CLASSES, latent=4, hidden=5), graph()
    params = tree.stack([first(own)])
    losses = [float(own.loss(params, in_training(data, 3, step), None)) for step in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize("seed", range(2))
def test_it_learns_to_rebuild_and_to_draw_its_classes(seed):
    own, data = CVAE(FEATURES, CLASSES, latent=4, hidden=16, beta=0.1), graph(seed)
    start = first(own, seed)
    trained, _ = descend(start, lambda p, s: own.loss(p, in_training(data, seed, s), None), Adam(0.02), 100)
    assert rebuilt(own, trained, data) < 0.3 * rebuilt(own, start, data)
    z = truncated_normal(60, 4, torch.Generator().manual_seed(seed))
    drawn = own.decoder.forward(trained["decoder"], z, torch.arange(60) % CLASSES)
    assert torch.equal(drawn[:, ::2][:, :CLASSES].argmax(1), torch.arange(60) % CLASSES)


def test_a_weight_on_the_divergence_draws_codes_to_the_middle():
    data, sizes = graph(), []
    for beta in (0.0, 10.0):
        own = CVAE(FEATURES, CLASSES, latent=4, hidden=16, beta=beta)
        loss = lambda p, s, own=own: own.loss(p, in_training(data, 0, s), None)  # noqa: E731
        trained, _ = descend(first(own), loss, Adam(0.02), 60)
        sizes.append(float(own.encode(trained["encoder"], data["x"], data["y"])[0].abs().mean()))
    assert sizes[1] < 0.2 * sizes[0]


def test_edges_and_masks_do_not_matter():
    own, data = CVAE(FEATURES, CLASSES, latent=4, hidden=5), graph()
    other = graph_of(data["x"], torch.tensor([[0, 1], [1, 0]]), data["y"])
    both = [float(own.loss(tree.stack([first(own)]), Graph(**in_training(one, 3, 0)), None)) for one in (data, other)]
    assert both[0] == both[1]


def test_the_cut_normal_has_its_limits_and_its_shape():
    drawn = truncated_normal(2000, 10, torch.Generator().manual_seed(1))
    assert drawn.dtype == torch.float32
    assert float(drawn.abs().max()) <= 1
    assert float(drawn.mean()) == pytest.approx(0, abs=0.02)
    assert float(drawn.var()) == pytest.approx(1 - 2 * 0.241971 / 0.682689, abs=0.01)  # 1 − 2 φ(1) / (Φ(1) − Φ(−1))
    wide = truncated_normal(2000, 10, torch.Generator().manual_seed(1), limit=6.0)
    assert float(wide.var()) == pytest.approx(1, abs=0.05)
    assert torch.equal(truncated_normal(3, 2, torch.Generator().manual_seed(1))[0], drawn[0, :2])
