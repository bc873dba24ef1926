"""Outages, stragglers, congestion, and what several effects on one client or link come to."""

import math
from itertools import pairwise

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import access, down, up, world

from fedsim.core.errors import UserError
from fedsim.net.disturbance import Throttle
from fedsim.net.effects.churn import Churn
from fedsim.net.effects.congestion import Congestion
from fedsim.net.effects.diurnal import Diurnal
from fedsim.net.effects.outage import Outage
from fedsim.net.effects.straggler import Straggler
from fedsim.net.links.link import Link
from fedsim.net.model import NetworkModel
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.laws import TransferModel


def watched(effects, clients=1, until=100.0, seed=0, **options):
    """Run effects alone and return the changes of clients: (time, client, what) and (time, client, uplink)."""
    here, moves, rates = world(clients=clients, effects=effects, seed=seed, **options), [], []
    here.nodes.watch(lambda client, what: moves.append((here.env.now, client, what)))
    here.nodes.rates.watch(lambda client: rates.append((here.env.now, client, float(here.nodes.uplink[client]))))
    here.env.run(until=until)
    return here, moves, rates


def test_in_an_outage_bytes_wait():
    """One megabyte at 8 Mbit/s, of which a quarter waits for two seconds: latency + 1 s + 2 s."""
    here = world(latency=0.1, effects=[Outage(every=0.75, length=2.0, times="fixed")], model=NetworkModel())
    here.network.send(up(0, 1_000_000))
    here.env.run(until=10)
    assert [(row.fate, row.wire_bytes) for row in here.rows] == [("delivered", 1_000_000)]
    assert here.rows[0].arrived == pytest.approx(3.1, abs=1e-6)


def test_in_an_outage_that_cuts_bytes_are_lost():
    here = world(latency=0.0, effects=[Outage(every=0.5, length=2.0, times="fixed", cut=True)], model=NetworkModel())
    here.network.send(up(0, 1_000_000))
    here.env.run(until=1)
    assert [(row.fate, row.arrived) for row in here.rows] == [("cut", 0.5)]
    assert here.rows[0].wire_bytes == pytest.approx(500_000, abs=1)
    here.network.send(up(0, 1_000_000))  # offline
    assert here.rows[1].fate == "lost"
    here.env.run(until=2.6)
    assert here.nodes.online.all()


def test_all_that_an_outage_hits_lose_their_connection_at_once():
    _, moves, _ = watched([Outage(every=10.0, length=5.0, share=0.3, cut=True)], clients=10, until=500.0)
    groups = {}
    for time, client, what in moves:
        groups.setdefault((time, what), set()).add(client)
    assert len(groups) > 20
    assert all(len(group) == 3 for group in groups.values())
    assert len({frozenset(group) for group in groups.values()}) > 5  # drawn anew
    for ((_, first), hit), ((_, second), back) in pairwise(groups.items()):
        if first == "sleep":
            assert (second, back) == ("wake", hit)


def test_outages_take_their_share_of_the_time():
    """A quarter of the time half of the clients have no rate: an eighth (5 sigma over some 1000 outages)."""
    here = world(clients=4, effects=[Outage(every=30.0, length=10.0, share=0.5)])
    gone = []
    for time in np.arange(1.0, 40_000.0, 7.0):
        here.env.run(until=time)
        gone.append(np.mean(here.nodes.uplink == 0))
        assert set(here.nodes.downlink[here.nodes.uplink == 0]) <= {0.0}
    assert np.mean(gone) == pytest.approx(1 / 8, abs=0.015)


@pytest.mark.parametrize("direction", ["ingress", "egress"])
def test_an_outage_of_a_link_stops_all_flows_on_it(direction):
    """Two flows of 1 MB on 8 Mbit/s take 2 s and wait for 3 s; those of the other direction do not."""
    outage = Outage(every=1.5, length=3.0, times="fixed", link=direction)
    here = world(latency=0.0, uplink=80e6, downlink=80e6, clients=4, server=access(8e6), effects=[outage])
    for client in (0, 1):
        here.network.send(up(client, 1_000_000))
    for client in (2, 3):
        here.network.send(down(client, 1_000_000))
    here.env.run(until=5.5)
    last = {"ingress": max(r.arrived for r in here.rows if r.dst < 0)}
    last["egress"] = max(r.arrived for r in here.rows if r.src < 0)
    other = "egress" if direction == "ingress" else "ingress"
    assert last[other] == pytest.approx(2.072, rel=0.001)
    assert last[direction] == pytest.approx(5.072, rel=0.001)
    assert len(here.rows) == 4
    assert here.network.shared[direction].capacity == 1e6


def test_what_is_sent_in_an_outage_of_the_link_waits_for_its_end():
    outage = Outage(every=1.0, length=3.0, times="fixed", link="ingress")
    here = world(latency=0.0, uplink=80e6, server=access(8e6), effects=[outage])
    here.at(2.0, here.network.send, up(0, 500_000))
    here.env.run(until=6)
    assert [(row.fate, row.arrived) for row in here.rows] == [("delivered", pytest.approx(4.518, abs=0.001))]


def test_a_share_of_the_clients_is_slow_for_good():
    here, moves, _ = watched([Straggler(factor=5.0, share=0.2, links=True)], clients=50)
    slow = here.nodes.slowdown == 5.0
    assert slow.sum() == 10
    assert set(here.nodes.slowdown[~slow]) == {1.0}
    assert set(here.nodes.uplink[slow]) == set(here.nodes.downlink[slow]) == {8e6 / 5}
    assert set(here.nodes.uplink[~slow]) == {8e6}
    assert {(time, what) for time, _, what in moves} == {(0, "pace")}
    plain, _, rates = watched([Straggler(factor=5.0, share=0.2)], clients=50)
    np.testing.assert_array_equal(plain.nodes.slowdown, here.nodes.slowdown)
    assert rates == []


def test_any_client_is_slow_for_a_while():
    """A quarter of the time, in spells of 10 s on average, but for those that are slow for good (5 sigma)."""
    here = world(clients=400, effects=[Straggler(factor=3.0, share=0.25, every=30.0, length=10.0)])
    always, seen, began, lengths = None, [], {}, []

    def note(client, what):
        if here.nodes.slowdown[client] == 3.0:
            began[client] = here.env.now
        elif began[client] < 300:
            lengths.append(here.env.now - began[client])

    here.nodes.watch(note)
    for time in np.arange(0.5, 400.0, 20.0):
        here.env.run(until=time)
        slow = here.nodes.slowdown == 3.0
        always = slow if always is None else always & slow
        seen.append(slow.mean())
    assert always.sum() == 100
    assert np.mean(seen) == pytest.approx(0.25 + 0.75 * 0.25, abs=0.02)
    assert np.mean(lengths) == pytest.approx(10.0, rel=5 / math.sqrt(len(lengths)))


def last_arrival(effects, **options):
    here = world(latency=0.01, uplink=80e6, downlink=80e6, clients=4, server=access(8e6), effects=effects, **options)
    for client in range(4):
        here.network.send(up(client, 1_000_000))
    here.env.run(until=100)
    assert [row.fate for row in here.rows] == ["delivered"] * 4
    return max(row.arrived for row in here.rows)


def test_congestion_halves_the_rate_of_a_saturated_link():
    free, half, both = last_arrival([]), last_arrival([Congestion(0.5)]), last_arrival([Congestion(0.5)] * 2)
    assert half == pytest.approx(2 * free, rel=0.02)
    assert both == pytest.approx(4 * free, rel=0.02)
    assert last_arrival([Congestion(0.5, link="egress")]) == free
    assert last_arrival([Congestion(0.0)]) == free


def test_congestion_does_not_slow_whom_the_link_does_not_hold_back():
    slow = {"uplink": 1e6, "server": access(8e6), "clients": 2}
    arrivals = []
    for effects in ([], [Congestion(0.5)]):
        here = world(effects=effects, **slow)
        here.network.send(up(0, 100_000))
        here.env.run(until=100)
        arrivals.append(here.rows[0].arrived)
    assert arrivals[0] == arrivals[1]


def test_congestion_that_comes_and_goes_has_its_mean_load():
    """0.6 for a quarter of the time leaves 85 % (5 sigma over some 1000 spells), and nothing in between."""
    here = world(server=access(8e6), effects=[Congestion(0.6, on=10.0, off=30.0)])
    seen = []
    for time in np.arange(1.0, 40_000.0, 7.0):
        here.env.run(until=time)
        seen.append(here.network.shared["ingress"].capacity)
    assert set(seen) == {1e6, 0.4e6}
    assert np.mean(seen) == pytest.approx(0.85e6, abs=0.025e6)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1.0, 0.5, 0.3, 0.77, 0.01, 0.0])), min_size=1, max_size=40)
)
def test_throttles_on_one_link_leave_the_product_of_their_shares(moves):
    link = Link(simpy.Environment(), 1e6)
    throttles, shares = [Throttle(link) for _ in range(3)], [1.0] * 3
    for which, share in moves:
        throttles[which].leave(share)
        shares[which] = share
        assert link.capacity == pytest.approx(1e6 * math.prod(shares), rel=1e-9, abs=1e-10)
    for each in throttles:
        each.leave(1.0)
    assert link.capacity == pytest.approx(1e6, rel=1e-12)


@pytest.mark.parametrize("effect", [Congestion(0.5, link="ingres"), Outage(every=1.0, length=1.0, link="ingres")])
def test_a_link_that_there_is_not_is_reported(effect):
    with pytest.raises(
        UserError, match=r"no link 'ingres' is shared; did you mean 'ingress'. There are: ingress, egress"
    ):
        world(server=access(8e6), effects=[effect])


@pytest.mark.parametrize("effect", [Congestion(0.5), Outage(every=1.0, length=1.0, link="ingress")])
@pytest.mark.parametrize("options", [{}, {"server": access(8e6), "model": NetworkModel()}])
def test_of_an_unlimited_link_no_share_can_be_taken(effect, options):
    with pytest.raises(UserError, match=r"'ingress' is unlimited.*give it a rate \(network.server\)"):
        world(effects=[effect], **options)


def test_an_outage_and_a_straggler_on_one_client_do_not_undo_one_another():
    """Rates are 8 Mbit/s, a quarter, or none: whatever comes and goes in between."""
    both = [Outage(every=5.0, length=5.0, times="fixed"), Straggler(factor=4.0, every=3.0, length=3.0, links=True)]
    here = world(clients=3, effects=both)
    seen = set()
    for time in np.arange(0.5, 200.0, 0.5):
        here.env.run(until=time)
        out = time % 10.0 > 5.0
        for client in range(3):
            expected = 0.0 if out else 8e6 / here.nodes.slowdown[client]
            if time % 5.0:
                assert here.nodes.uplink[client] == here.nodes.downlink[client] == expected
            seen.add(expected)
    assert seen == {0.0, 2e6, 8e6}


@pytest.mark.parametrize(
    "effect",
    [
        Churn(online=5.0, offline=5.0),
        Diurnal(peak=0.9, trough=0.1, every=20.0, day=50.0, zones=3),
        Outage(every=10.0, length=5.0, share=0.4),
        Outage(every=10.0, length=5.0, share=0.4, cut=True),
        Straggler(factor=2.0, share=0.3, every=10.0, length=5.0, links=True),
    ],
)
def test_the_same_seed_gives_the_same_run(effect):
    def drawn_with(seed):
        _, moves, rates = watched([effect], clients=10, seed=seed)
        return moves, rates

    assert drawn_with(0) == drawn_with(0)
    assert drawn_with(0) != drawn_with(1)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.lists(st.tuples(st.integers(0, 3), st.floats(0, 5), st.integers(0, 2_000_000)), min_size=1, max_size=6),
)
def test_no_bytes_come_or_go_however_often_rates_change(every, length, sends):
    """With outages that wait all is delivered in the end, at no more than the rate, and each byte is carried once."""
    effects = [Outage(every=every, length=length, share=0.5), Straggler(2.0, every=length, length=every, links=True)]
    here = world(clients=4, server=access(20e6), effects=[*effects, Congestion(0.3, on=every, off=length)])
    for client, time, nbytes in sends:
        here.at(time, here.network.send, up(client, nbytes))
    here.env.run(until=150)
    assert sorted(row.nbytes for row in here.rows) == sorted(nbytes for _, _, nbytes in sends)
    assert {row.fate for row in here.rows} == {"delivered"}
    assert all(row.arrived - row.sent >= row.nbytes / 1e6 for row in here.rows)
    for client in range(4):
        whole = sum(tcp.wire_size(TransferModel(), nbytes, 0.0) for who, _, nbytes in sends if who == client)
        assert here.network.meters(True)[client] == pytest.approx(whole, rel=1e-6, abs=1)
