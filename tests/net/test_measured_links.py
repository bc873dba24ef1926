"""Measured links: draws give the tables back, floors cut stalled uploads, ranks are correlated as asked."""

import csv

import numpy as np
import pytest

from fedsim.net.measurements import measured

COUNT = 10_000
KEYS = {"download_mbps": ("downlink", 1e6), "upload_mbps": ("uplink", 1e6), "rtt_ms": ("latency", 5e-4)}


def drawn(country, count=COUNT, seed=0, **options):
    return measured.rows(np.full(count, country), np.random.default_rng(seed), **options)


def table(country):
    with measured.FILE.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["country"] == country]


def ranks(values):
    return np.argsort(np.argsort(values))


@pytest.mark.parametrize("country", ["US", "DE", "IN", "NG", "NA"])
def test_ten_thousand_draws_give_the_table_back(country):
    """The share of draws below each value is the table's, to 4 sigma of sampling (0.02 at the median)."""
    found = drawn(country, floor=None)
    for row in table(country):
        share = int(row["quantile"]) / 100
        if 0.05 <= share <= 0.95:
            for name, (key, unit) in KEYS.items():
                below = (found[key] <= float(row[name]) * unit).mean()
                assert abs(below - share) < 4 * np.sqrt(share * (1 - share) / COUNT), (name, share, below)


@pytest.mark.parametrize(("country", "stalled"), [("US", 0.05), ("DE", 0.08), ("IN", 0.15), ("NG", 0.15)])
def test_the_floor_cuts_uploads_that_stalled_and_leaves_the_others_shares(country, stalled):
    links = measured.links(country)
    assert abs(links.below(200e3) - stalled) < 0.006  # published in whole per cent
    found, whole = drawn(country), drawn(country, floor=None)
    assert found["uplink"].min() >= 200e3 * (1 - 1e-9) > whole["uplink"].min()
    assert (found["downlink"] == whole["downlink"]).all()
    for row in table(country):
        share = (int(row["quantile"]) / 100 - links.below(200e3)) / (1 - links.below(200e3))
        if 0.05 <= share <= 0.95:
            below = (found["uplink"] <= float(row["upload_mbps"]) * 1e6).mean()
            assert abs(below - share) < 4 * np.sqrt(share * (1 - share) / COUNT)


@pytest.mark.parametrize(("down_up", "rates_rtt"), [(0.7, -0.3), (0.9, -0.6), (0.0, 0.0)])
def test_ranks_are_correlated_as_asked(down_up, rates_rtt):
    found = drawn("IN", floor=None, down_up=down_up, rates_rtt=rates_rtt)
    got = np.corrcoef([ranks(found[key]) for key in ("downlink", "uplink", "latency")])
    assert np.abs([got[0, 1] - down_up, got[0, 2] - rates_rtt, got[1, 2] - rates_rtt]).max() < 0.03


def test_a_clients_place_in_its_country_depends_on_neither_the_count_nor_the_others_countries():
    few, many = drawn("BR", 10), drawn("BR", 1000)
    mixed = measured.rows(np.array(["BR", "US"] * 5), np.random.default_rng(0))
    for key in few:
        assert (few[key] == many[key][:10]).all()
        assert (few[key][::2] == mixed[key][::2]).all()


@pytest.mark.parametrize(
    ("code", "words"),
    [("UK", "did you mean 'GB'"), ("us", "did you mean 'US'"), ("QQ", "those with Q are QA"), ("", "")],
)
def test_an_unknown_country_is_refused_with_similar_ones(code, words):
    with pytest.raises(ValueError, match="There are tables of 157 countries") as caught:
        measured.links(code)
    assert words in str(caught.value)


def test_correlations_that_contradict_each_other_and_floors_above_all_are_refused():
    with pytest.raises(ValueError, match="contradict each other"):
        measured.gaussian(-0.5, -0.9)
    with pytest.raises(ValueError, match="take a lower floor"):
        drawn("US", 10, floor=2e9)


def test_the_licences_lie_beside_the_table():
    assert "CC0" in (measured.FILE.parent / "NOTICES.txt").read_text()
