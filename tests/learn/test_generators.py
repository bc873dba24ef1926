"""The generator has the published sizes, hangs on all that it is given, and draws from what it is handed only."""

import pytest
import torch

from fedsim.learn.engine import tree
from fedsim.learn.synthetic.generators import FeatureGenerator

SMALL = FeatureGenerator(features=6, classes=3, noise=4, hidden=(5, 8))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("features", "classes", "numbers"),
    [(1433, 7, 414_282), (3703, 6, 997_595), (500, 3, 174_205), (745, 8, 237_545), (6805, 15, 1_795_574),
     (128, 40, 82_560)],
)  # fmt: skip
def test_it_has_as_many_numbers_as_published(features, classes, numbers):
    generator = FeatureGenerator(features, classes)
    params = generator.init(seeded())
    assert tree.count(params) == numbers


def test_it_computes_the_formula():
    params, z, y = SMALL.init(seeded()), SMALL.draw(7, seeded(1)), torch.arange(7) % 3
    h = torch.cat([params["labels"]["weight"][y], z], 1)
    for name in ("layer1", "layer2"):
        h = torch.tanh(h @ params[name]["weight"] + params[name]["bias"])
    expected = h @ params["layer3"]["weight"] + params["layer3"]["bias"]
    torch.testing.assert_close(SMALL.forward(params, z, y), expected)


def test_a_one_hot_code_stands_for_the_table():
    coded = FeatureGenerator(6, 3, noise=4, hidden=(5, 8), labels="one_hot")
    params, z, y = coded.init(seeded()), coded.draw(5, seeded(1)), torch.arange(5) % 3
    assert "labels" not in params
    assert tree.count(params) == tree.count(SMALL.init(seeded())) - 9
    table = {**params, "labels": {"weight": torch.eye(3)}}
    assert torch.equal(coded.forward(params, z, y), SMALL.forward(table, z, y))


def test_dropout_is_drawn_only_from_what_is_handed_in():
    params, z, y = SMALL.init(seeded()), SMALL.draw(40, seeded(1)), torch.arange(40) % 3
    quiet = SMALL.forward(params, z, y)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, again, other = (SMALL.forward(params, z, y, seeded(seed)) for seed in (2, 2, 3))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(one, quiet)


def test_dropout_zeroes_its_share_and_scales_the_rest():
    wide = FeatureGenerator(1, 2, noise=3, hidden=(4000,), dropout=0.2)
    params = wide.init(seeded())
    params["layer2"] = {"weight": torch.ones(4000, 1), "bias": torch.zeros(1)}
    params["layer1"] = {"weight": torch.zeros(5, 4000), "bias": torch.ones(4000)}
    z, y = wide.draw(1, seeded()), torch.zeros(1, dtype=torch.long)
    kept = wide.forward(params, z, y, seeded()) / torch.tanh(torch.ones(())) * 0.8 / 4000
    assert float(kept) == pytest.approx(0.8, abs=0.03)


def test_noise_lies_about_its_centre():
    z = SMALL.draw(4000, seeded(), centre=30.0)
    assert float(z.mean()) == pytest.approx(30, abs=0.1)
    assert float(z.std()) == pytest.approx(1, abs=0.05)
    assert torch.allclose(z - 30, SMALL.draw(4000, seeded()), atol=1e-5)


def test_it_learns_what_a_label_looks_like():
    want = torch.randn(3, 6, generator=seeded(4))
    params = tree.transform(lambda leaf: leaf.requires_grad_(True), SMALL.init(seeded()))
    optimiser = torch.optim.Adam(list(tree.leaves(params)), lr=0.02)
    y, noise = torch.arange(30) % 3, seeded(1)
    losses = []
    for _ in range(150):
        loss = (SMALL.forward(params, SMALL.draw(30, noise), y, noise) - want[y]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


def test_operations_count_two_a_weight():
    assert SMALL.flops(10) == 2 * 10 * (7 * 5 + 5 * 8 + 8 * 6)
