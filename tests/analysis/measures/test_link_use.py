import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.link_use import MOST, link_use, moved, stretches, used


def transfers(*rows):
    return pd.DataFrame(rows, columns=["sent", "arrived", "src", "dst", "wire_bytes"])


def updates(*times):
    return pd.DataFrame({"time": pd.Series(times, dtype="float64")})


def test_bytes_are_spread_evenly_from_sending_to_end():
    sent = transfers((0.0, 4.0, 0, -1, 400), (1.0, 2.0, 1, -1, 50), (3.0, 3.0, 2, -1, 7))
    assert moved(sent, np.array([0.0, 1.0, 2.0, 3.0, 4.0])) == pytest.approx([100, 150, 100, 107])
    assert moved(sent, np.array([0.0, 0.5, 4.0])).sum() == pytest.approx(457)


def test_rates_of_both_links_and_their_shares():
    # 1000 bytes up in ten seconds, 500 down in the first five; peers and edges do not pass the server
    sent = transfers((0.0, 10.0, 0, -1, 1000), (0.0, 5.0, -1, 0, 500), (0.0, 10.0, 0, 1, 9999), (0.0, 9.0, 0, -2, 999))
    frame = link_use(sent, updates(5.0, 8.0), {"network": {"server": {"ingress": 1600.0}}})
    up, down = (frame[frame["link"] == name] for name in ("ingress", "egress"))
    assert up[["begin", "end"]].to_numpy().tolist() == [[0.0, 5.0], [5.0, 8.0], [8.0, 10.0]]
    assert up["rate"].to_numpy() == pytest.approx(800.0)
    assert up["share"].to_numpy() == pytest.approx(0.5)
    assert down["rate"].to_numpy() == pytest.approx([800.0, 0.0, 0.0], abs=1e-6)
    assert down["share"].isna().all()


def test_rounds_that_are_alike_are_drawn_alike():
    """Whatever their number: stretches that do not fit to rounds would show waves."""
    for rounds in (7, 40, 80, 333):
        ends = 1.7 * np.arange(1, rounds + 1)
        sent = transfers(*((end - 0.3, end, 0, -1, 1000) for end in ends))
        rate = link_use(sent, updates(*ends), {})["rate"].to_numpy()
        assert 0 < len(rate) <= MOST
        assert rate == pytest.approx(8000 / 1.7)


@given(st.lists(st.floats(0.001, 1e6), max_size=300), st.lists(st.floats(0.001, 1e6), max_size=5))
def test_stretches_are_whole_updates_and_cover_the_run(times, arrived):
    times, arrived = np.array(times), np.array(arrived)
    edges = stretches(times, arrived)
    assert edges[0] == 0
    assert edges[-1] == max([0, *times, *arrived])
    assert len(edges) <= MOST + 1
    assert {*edges[1:-1]} <= {*times}
    if len(np.unique(times)) < MOST:
        assert {*times} <= {*edges}


def test_the_share_is_drawn_only_where_every_capacity_is_known():
    sent = transfers((0.0, 10.0, 0, -1, 1000), (0.0, 5.0, -1, 0, 500))
    where = {"algorithm": "a", "condition": ""}
    known = link_use(sent, updates(5.0), {"network": {"server": {"ingress": 1600.0, "egress": 1600.0}}})
    drawn = used(known.assign(**where), [""])["datasets"]["rows"]
    assert {row["y"] for row in drawn} <= {0.5, 0.0}
    half = link_use(sent, updates(5.0), {"network": {"server": {"ingress": 1600.0}}})
    drawn = used(half.assign(**where), [""])["datasets"]["rows"]
    assert max(row["y"] for row in drawn) == pytest.approx(800.0)


def test_nothing_passes_the_server():
    assert link_use(transfers((0.0, 1.0, 0, 1, 10)), updates(1.0), {}).empty
    assert link_use(transfers(), updates(), {}).empty
