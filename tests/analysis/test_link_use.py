import numpy as np
import pandas as pd
import pytest

from analysis.link_use import STEPS, link_use, moved, used


def transfers(*rows):
    return pd.DataFrame(rows, columns=["sent", "arrived", "src", "dst", "wire_bytes"])


def test_bytes_are_spread_evenly_from_sending_to_end():
    sent = transfers((0.0, 4.0, 0, -1, 400), (1.0, 2.0, 1, -1, 50), (3.0, 3.0, 2, -1, 7))
    assert moved(sent, np.array([0.0, 1.0, 2.0, 3.0, 4.0])) == pytest.approx([100, 150, 100, 107])
    assert moved(sent, np.array([0.0, 0.5, 4.0])).sum() == pytest.approx(457)


def test_rates_of_both_links_and_their_shares():
    # 1000 bytes up in ten seconds, 500 down in the first five; peers and edges do not pass the server
    sent = transfers((0.0, 10.0, 0, -1, 1000), (0.0, 5.0, -1, 0, 500), (0.0, 10.0, 0, 1, 9999), (0.0, 9.0, 0, -2, 999))
    frame = link_use(sent, {"network": {"server": {"ingress": 1600.0}}})
    up, down = (frame[frame["link"] == name] for name in ("ingress", "egress"))
    assert len(up) == len(down) == STEPS
    assert up["rate"].to_numpy() == pytest.approx(800.0)
    assert up["share"].to_numpy() == pytest.approx(0.5)
    assert up["time"].to_numpy() == pytest.approx(np.linspace(10 / STEPS, 10, STEPS))
    assert down["rate"].to_numpy() == pytest.approx([800.0] * (STEPS // 2) + [0.0] * (STEPS // 2), abs=1e-6)
    assert down["share"].isna().all()


def test_the_share_is_drawn_only_where_every_capacity_is_known():
    sent = transfers((0.0, 10.0, 0, -1, 1000), (0.0, 5.0, -1, 0, 500))
    known = link_use(sent, {"network": {"server": {"ingress": 1600.0, "egress": 1600.0}}})
    drawn = used(known.assign(algorithm="a"), "")["datasets"]["rows"]
    assert {row["y"] for row in drawn} <= {0.5, 0.0}
    half = link_use(sent, {"network": {"server": {"ingress": 1600.0}}})
    drawn = used(half.assign(algorithm="a"), "")["datasets"]["rows"]
    assert max(row["y"] for row in drawn) == pytest.approx(800.0)


def test_nothing_passes_the_server():
    assert link_use(transfers((0.0, 1.0, 0, 1, 10)), {}).empty
    assert link_use(transfers(), {}).empty
