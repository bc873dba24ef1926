"""Who is online when: churn by a table, and the hours of the day."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import down, world

from fedsim.core.errors import UserError
from fedsim.net.effects.churn import Churn
from fedsim.net.effects.diurnal import Diurnal
from fedsim.net.effects.outage import Outage
from fedsim.net.measurements import stretches


def online_at(times, clients, *effects, seed=0):
    """Return who is online at these times, (times, K)."""
    here, found = world(clients=clients, effects=effects, seed=seed), []
    for time in times:
        here.env.run(until=time)
        found.append(here.nodes.online.copy())
    return np.array(found)


def table(tmp_path, text):
    path = tmp_path / "online.csv"
    path.write_text(text)
    return path


def test_a_table_says_when_clients_are_online(tmp_path):
    path = table(tmp_path, "client,on_s,off_s\n2,5,8\n0,0,10\n2,1,5\n2,20,\n")
    seen = online_at([0.5, 1.5, 5.0, 5.5, 8.5, 10.5, 20.5, 1000.0], 4, Churn(table=path, unlisted="online"))
    assert seen[:, 0].tolist() == [True] * 5 + [False] * 3
    assert seen[:, 2].tolist() == [False, True, True, True, False, False, True, True]
    assert seen[:, [1, 3]].all()  # not listed
    never = online_at([0.5, 5.0, 1000.0], 4, Churn(table=path, unlisted="offline"))
    assert not never[:, [1, 3]].any()
    assert never[:, 2].tolist() == [False, True, True]
    with pytest.raises(
        UserError, match=r"online\.csv has no row for 2 of 4 clients, the first of them 1; .*'unlisted'"
    ):
        online_at([0.5], 4, Churn(table=path))
    table(tmp_path, "client,on_s,off_s\n0,0,10\n1,1,\n")
    assert online_at([5.0], 2, Churn(table=path)).all()


def test_stretches_that_touch_cut_nothing(tmp_path):
    here = world(effects=[Churn(table=table(tmp_path, "client,on_s,off_s\n0,0,5\n0,5,100\n"))])
    here.network.send(down(0, 8_000_000))
    here.env.run(until=50)
    assert [row.fate for row in here.rows] == ["delivered"]


def test_the_end_of_a_stretch_cuts(tmp_path):
    here = world(effects=[Churn(table=table(tmp_path, "client,on_s,off_s\n0,0,5\n"))])
    here.network.send(down(0, 8_000_000))
    here.env.run()
    assert [(row.fate, row.arrived) for row in here.rows] == [("cut", 5.0)]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 6)), min_size=1, max_size=12))
def test_a_table_of_sound_stretches_is_followed_and_any_other_refused(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("churn") / "online.csv"
    path.write_text("client,on_s,off_s\n" + "".join(f"{who},{on},{on + long}\n" for who, on, long in rows))
    seconds = [(who, second) for who, on, long in rows for second in range(on, on + long)]
    if len(set(seconds)) < len(seconds):
        with pytest.raises(UserError, match=r"online\.csv, line \d+: client \d is online .* already \(line \d+\)"):
            stretches.read(path)
    else:
        seen = online_at([second + 0.5 for second in range(30)], 4, Churn(table=path, unlisted="online"))
        listed = {who for who, _, _ in rows}
        expected = [[who not in listed or (who, second) in seconds for who in range(4)] for second in range(30)]
        assert seen.tolist() == expected


def test_wrong_tables_are_reported_by_their_line(tmp_path):
    with pytest.raises(UserError, match="line 3: off_s is 4: it must come after on_s, which is 7"):
        Churn(table=table(tmp_path, "client,on_s,off_s\n0,1,2\n0,7,4\n"))
    with pytest.raises(UserError, match=r"line 2: client 0 is online from 1 s for good already \(line 3\)"):
        Churn(table=table(tmp_path, "client,on_s,off_s\n0,5,6\n0,1,\n"))
    path = table(tmp_path, "client,on_s,off_s\n0,1,2\n5,1,2\n")
    with pytest.raises(ValueError, match="leave means and 'groups' out"):
        Churn(online=1.0, table=path)
    with pytest.raises(UserError, match="line 3: there is no client 5; there are 5 clients, numbered from 0"):
        world(clients=5, effects=[Churn(table=path)])


HOURS = np.arange(1, 48, 3) * 3600.0


@pytest.mark.parametrize(
    "diurnal",
    [
        Diurnal(peak=0.9, trough=0.2, peak_at=2 * 3600.0),
        Diurnal(peak=1.0, trough=0.0, every=6 * 3600.0),
        Diurnal(peak=0.5, trough=0.5),
        Diurnal(peak=0.8, trough=0.1, every=40 * 86_400.0),
        Diurnal(peak=0.7, trough=0.0, every=3600.0, day=43_200.0),
    ],
)
def test_the_share_online_follows_the_curve(diurnal):
    """At every third hour of two days (5 sigma)."""
    clients = 600
    seen = online_at(HOURS, clients, diurnal).mean(axis=1)
    height = (1 + np.cos(2 * np.pi * (HOURS - diurnal.peak_at) / diurnal.day)) / 2
    expected = diurnal.trough + (diurnal.peak - diurnal.trough) * height
    assert (np.abs(seen - expected) <= 5 * np.sqrt(expected * (1 - expected) / clients) + 1e-9).all()


def test_zones_lie_behind_one_another():
    """With two zones half a day apart the share is always the mean; with one peak of everybody it is not."""
    seen = online_at(HOURS, 800, Diurnal(peak=0.9, trough=0.1, zones=2)).mean(axis=1)
    assert (np.abs(seen - 0.5) < 5 * math.sqrt(0.25 / 800)).all()
    four = online_at([1e-9, 21_600.0], 800, Diurnal(peak=1.0, trough=0.0, zones=4, every=1e12))
    assert four.mean(axis=1) == pytest.approx([0.5, 0.5], abs=5 * math.sqrt(0.25 / 800))
    assert not (four[0] & ~four[1]).all()


def test_what_a_client_does_is_tied_over_time_as_said():
    """Covariance p (1 - p) exp(-s / every) where the curve is flat (5 sigma, clients being independent)."""
    clients, every = 4000, 1000.0
    first, *later = online_at([1e-9, 300.0, 1000.0, 2000.0], clients, Diurnal(peak=0.4, trough=0.4, every=every))
    for then, gap in zip(later, (300.0, 1000.0, 2000.0), strict=True):
        covariance = np.mean(first & then) - 0.4**2
        assert covariance == pytest.approx(0.24 * math.exp(-gap / every), abs=5 * 0.5 / math.sqrt(clients))


def test_everybody_is_online_at_a_peak_of_one_and_nobody_at_a_trough_of_none():
    seen = online_at([36_000.0, 79_200.0, 122_400.0], 300, Diurnal(peak=1.0, trough=0.0, peak_at=36_000.0))
    assert seen.mean(axis=1) == pytest.approx([1.0, 0.0, 1.0], abs=0.01)


def test_who_is_kept_asleep_by_two_is_online_when_neither_does():
    """Churn and outages that cut are independent, so the share is the product."""
    churn, outage = Churn(online=30.0, offline=10.0), Outage(every=20.0, length=20.0, cut=True, times="fixed")
    times = np.arange(5.0, 400.0, 10.0)
    seen = online_at(times, 200, churn, outage).mean(axis=1)
    down = times % 40.0 > 20.0
    assert (seen[down] == 0).all()
    assert seen[~down].mean() == pytest.approx(0.75, abs=0.03)
    alone = online_at(times, 200, churn).mean(axis=1)
    np.testing.assert_array_equal(seen[~down], alone[~down])
