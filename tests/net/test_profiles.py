import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.units import RATE, SECONDS
from fedsim.net.measurements import profiles
from fedsim.net.node import Nodes

SHARES = st.lists(st.integers(0, 20), min_size=len(profiles.NAMES), max_size=len(profiles.NAMES)).filter(any)


def mixed(parts):
    return {name: part / sum(parts) for name, part in zip(profiles.NAMES, parts, strict=True)}


@given(SHARES, st.integers(1, 300), st.integers(0, 5))
def test_each_kind_gets_its_share_to_within_one_client(parts, count, seed):
    mix = mixed(parts)
    names = [[*mix][place] for place in profiles.divided(mix, count, np.random.default_rng(seed), "link profiles")]
    assert len(names) == count
    for name, share in mix.items():
        assert abs(names.count(name) - share * count) < 1
        assert share or name not in names


@given(SHARES, st.integers(1, 50))
def test_the_rows_make_nodes(parts, count):
    nodes = Nodes(**profiles.rows(mixed(parts), count, np.random.default_rng(0)))
    assert len(nodes) == count
    for column in (nodes.latency, nodes.uplink, nodes.downlink, nodes.jitter, nodes.loss_up, nodes.loss_down):
        assert (column > 0).all()


@pytest.mark.parametrize("name", profiles.NAMES)
def test_rows_follow_the_draws_of_the_profile(name):
    """Medians of 40,000 clients (5 sigma of a median is below 4 %)."""
    found, profile = profiles.rows({name: 1.0}, 40_000, np.random.default_rng(1)), profiles.named(name)
    for key in ("latency", "uplink", "downlink"):
        draw = getattr(profile, key)
        middle = draw.values[0] if draw.kind == "lognormal" else sum(draw.values) / 2
        assert np.median(found[key]) == pytest.approx(middle, rel=0.04)
    assert set(found["loss_up"]) == set(found["loss_down"]) == {profile.loss}
    assert set(found["jitter"]) == {profile.jitter.values[0]}


def test_kinds_are_in_the_order_that_everybody_knows():
    def median(name, key):
        return np.median(profiles.rows({name: 1.0}, 1001, np.random.default_rng(0))[key])

    assert (
        median("iot", "downlink") < median("lte", "downlink") < median("5g", "downlink") < median("fibre", "downlink")
    )
    assert median("fibre", "latency") < median("cable", "latency") < median("lte", "latency") < median("iot", "latency")
    assert median("cable", "uplink") < median("cable", "downlink")


def test_a_profile_is_in_si_units_and_reads_back():
    lte = profiles.named("lte")
    assert (lte.latency.unit, lte.downlink.unit) == ("s", "bit/s")
    assert SECONDS.draw(str(lte.latency)) == lte.latency
    assert RATE.draw(str(lte.downlink)) == lte.downlink


def test_a_mixture_mixes_and_the_same_seed_gives_the_same():
    mix = {"fibre": 0.3, "lte": 0.7}
    names = [[*mix][place] for place in profiles.divided(mix, 10, np.random.default_rng(0), "link profiles")]
    assert (names.count("fibre"), names.count("lte")) == (3, 7)
    assert names != sorted(names)
    first, second, other = (profiles.rows(mix, 10, np.random.default_rng(seed)) for seed in (0, 0, 1))
    for key in first:
        np.testing.assert_array_equal(first[key], second[key])
    assert (first["uplink"] != other["uplink"]).all()
    losses = [profiles.named(name).loss for name in names]
    assert first["loss_up"].tolist() == losses


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        ({"fiber": 1.0}, "'fiber' is not a link profile; did you mean 'fibre'"),
        ({"fibre": 0.5, "lte": 0.4}, "add up to 0.9; they must add up to 1"),
        ({"fibre": 1.5, "lte": -0.5}, "share of 'fibre' is 1.5"),
        ({"fibre": math.nan}, "share of 'fibre' is nan"),
        ({}, "add up to 0"),
    ],
)
def test_mixtures_that_make_no_sense_are_refused(mix, message):
    with pytest.raises(ValueError, match=message):
        profiles.rows(mix, 10, np.random.default_rng(0))
