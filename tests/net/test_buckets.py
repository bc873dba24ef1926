"""Token buckets: the first bytes of an idle link cost no time."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from netlab import down, fluid, up, world

from fedsim.net.links.link import Link
from fedsim.net.links.link_meter import credit, tokens
from fedsim.net.model import NetworkModel
from fedsim.net.network import ServerAccess
from fedsim.net.tcp import congestion_avoidance
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.laws import TransferModel

MODEL = TransferModel()
rates, bursts = st.floats(1e5, 1e9), st.floats(0, 2e5) | st.just(0.0)


def shaped(client_burst, server_burst=0.0, server_rate=None, **options):
    server = ServerAccess(server_rate, server_rate, ingress_burst=server_burst, egress_burst=server_burst)
    return world(columns={"up_burst": client_burst, "down_burst": client_burst}, server=server, **options)


def arrival(direction, nbytes, *where, **options):
    here = shaped(*where, **options)
    here.network.send(direction(0, nbytes))
    here.env.run()
    assert here.rows[0].wire_bytes == round(tcp.wire_size(MODEL, nbytes, 0.0))
    assert here.network.meters(direction is up)[0] == pytest.approx(tcp.wire_size(MODEL, nbytes, 0.0))
    return here.env.now


@given(st.sampled_from([up, down]), st.integers(1, 10**7), rates, rates, bursts, bursts)
def test_a_lone_flow_over_two_buckets_is_as_fast_as_their_curves(direction, nbytes, rate, server_rate, own, servers):
    """Without round trips W bytes take max (W - burst) / rate over the links, or no time at all."""
    seconds = arrival(direction, nbytes, own, servers, server_rate, latency=0.0, uplink=rate, downlink=rate)
    size = tcp.wire_size(MODEL, nbytes, 0.0)
    expected = max(0.0, 8 * (size - own) / rate, 8 * (size - servers) / server_rate)
    assert seconds == pytest.approx(expected, rel=1e-9, abs=1e-9)


def windows_through_a_bucket(size, r, rtt, burst):
    """Seconds until windows have left a bucket, each twice the last, sent a packet's time and a trip after it."""
    sent_at, free, held, flight, left = 0.0, 0.0, burst, 15_000.0, size
    while True:
        flight = min(flight, left)
        start = max(sent_at, free)
        held = min(burst, held + r * (start - free))
        free = start + max(0.0, flight - held) / r
        sent_at = start + 1500 / r + rtt
        held, left = max(0.0, held - flight), left - flight
        if left <= 0:
            return free
        flight *= 2


@given(
    st.integers(1, 10**7), rates, st.floats(1e-3, 0.5), st.floats(0, 15_000) | st.sampled_from([0.0, 1500.0, 4600.0])
)
def test_a_lone_flow_starts_as_windows_leave_a_bucket(nbytes, rate, rtt, burst):
    """But where the bucket alone opens a gap behind the last full window: the model lets the link be busy there."""
    gaps = [rtt + (1500 - 15_000 * 2**number) * 8 / rate for number in range(30)]
    assume(not any(-8 * burst / rate <= gap <= 0 for gap in gaps))
    seconds = arrival(up, nbytes, burst, latency=rtt / 2, uplink=rate, downlink=rate)
    expected = 1.5 * rtt + windows_through_a_bucket(tcp.wire_size(MODEL, nbytes, 0.0), rate / 8, rtt, burst)
    assert seconds == pytest.approx(expected, rel=2e-9, abs=2e-9)


def test_by_hand():
    """100 kB at 10 Mbit/s and 20 ms with 4600 bytes: one gap of 9.2 ms, then all bytes but the burst."""
    seconds = arrival(up, 100_000, 4600, latency=0.01, uplink=10e6)
    assert seconds == pytest.approx(0.03 + 0.0092 + (103_640 - 4600) / 1.25e6)
    serial = arrival(up, 100_000, 0.0, latency=0.01, uplink=10e6)
    assert serial == pytest.approx(0.03 + 0.0092 + 103_640 / 1.25e6)
    thin = arrival(up, 100_000, 500.0, latency=0.01, uplink=10e6)
    assert thin == pytest.approx(0.03 + 0.0092 + (103_640 - 500) / 1.25e6)


def test_the_last_round_is_all_that_a_burst_can_spare():
    """10 packets and 3 more: the gap stays, and the three cost nothing."""
    here = arrival(up, 13 * 1448, 10_000, latency=0.05, uplink=10e6)
    assert here == pytest.approx(0.15 + (0.1 - 0.0108) + 15_000 / 1.25e6)


def test_a_link_fills_its_bucket_while_it_rests():
    here = shaped(10_000, latency=0.0, uplink=8e6)
    for at in (0.0, 1.0, 1.02, 1.03):
        here.at(at, here.network.send, up(0, 14_480))
    here.env.run()
    took = [row.arrived - row.sent for row in here.rows]
    assert took == pytest.approx([0.005, 0.005, 0.015 - 0.010, 0.010])
    assert here.rows[2].arrived == pytest.approx(1.025)  # so that 5 ms are left to fill it with 5 kB


def test_a_server_that_carries_something_gives_no_burst():
    here = shaped(0.0, 10_000, 8e6, latency=0.0, uplink=16e6, clients=2)
    here.network.send(up(0, 1_448_000))
    here.at(0.5, here.network.send, up(1, 14_480))
    here.env.run()
    assert here.rows[0].arrived == pytest.approx(0.53)
    assert here.rows[1].arrived == pytest.approx(1.5 - 0.01 + 0.015)


def test_flows_of_one_client_take_one_burst():
    here = shaped(10_000, latency=0.0, uplink=8e6)
    here.network.send(up(0, 14_480))
    here.network.send(up(0, 14_480))
    here.env.run()
    assert [row.arrived for row in here.rows] == pytest.approx([0.01, 0.02])


def test_a_rate_that_no_idle_link_sets_has_no_burst():
    """Acknowledgements hold the upload below its access rate, so its bucket stays full."""
    seconds = arrival(up, 1_448_000, 50_000, latency=0.0, uplink=1e9, downlink=1e6)
    assert seconds == pytest.approx(8 * 1_500_000 / (1e6 * 2 * 1500 / 52))


def test_an_outage_leaves_the_burst_for_later():
    here = shaped(10_000, latency=0.0, uplink=0.0)
    here.network.send(up(0, 14_480))
    here.at(1.0, lambda: here.nodes.set_rate(0, uplink=8e6))
    here.env.run()
    assert here.rows[0].arrived == pytest.approx(1.015)


def test_bytes_that_passed_at_once_count_when_a_message_is_cut():
    here = shaped(10_000, latency=0.0, uplink=8e6)
    here.network.send(up(0, 1_448_000))
    here.at(0.5, here.network.close)
    here.env.run()
    assert (here.rows[0].fate, here.rows[0].wire_bytes) == ("cut", 510_000)
    assert here.network.meters(True)[0] == pytest.approx(510_000)


def test_a_loss_that_is_noticed_within_the_burst():
    """In deterministic mode the mean first loss of 50 % is after two packets, and noticed after another few."""
    here = world(0.001, 8e6, columns={"up_burst": 15_000.0, "loss_up": 0.5}, model=fluid(deterministic=True))
    here.network.send(up(0, 14_480))
    here.env.run()
    constants = TransferModel(deterministic=True)
    lost = tcp.first_loss(constants, 10, 0.5, 0.0)
    start = congestion_avoidance.lossy_start(constants, 30_000.0, 0.002, 1e6, 0.5, lost)
    assert start.until == (lost + congestion_avoidance.FILLED * 1e6 * 0.002 / 1500) * 1500 < 15_000
    slow = congestion_avoidance.limit(constants, 0.002, 0.5, 1e6, start, 30_000 - start.until)
    wait = tcp.syn_wait(constants, 0.5, 0.0)
    assert here.rows[0].wire_bytes == 30_000
    assert here.rows[0].arrived == pytest.approx(0.002 + wait + (30_000 - start.until) / slow + 0.001)


def test_the_naive_model_has_no_bursts():
    here = shaped(10_000, latency=0.0, uplink=8e6, model=NetworkModel())
    here.network.send(up(0, 10**6))
    here.env.run()
    assert here.env.now == pytest.approx(1.0)


def test_tokens_and_credit_of_nothing():
    assert tokens(10.0, 0.0, math.inf) == tokens(0.0, 1e6, math.inf) == tokens(10.0, 1e6, 0.0) == 0.0
    assert tokens(10.0, math.inf, 1.0) == tokens(10.0, 1e6, math.inf) == 10.0
    here = Link(world().env, 1e6, burst=5e3)
    assert credit(1e4, 0.0, [here]) == 0.0
    assert credit(1e4, 1e6, [here]) == pytest.approx(5e3)
    assert credit(1e3, 1e6, [here]) == pytest.approx(1e3)
    with pytest.raises(ValueError, match="burst of -1"):
        Link(here.env, 1e6, burst=-1)
    with pytest.raises(ValueError, match="buffer of -1"):
        Link(here.env, 1e6, buffer=-1)
