"""Section 4 of the model: where flows have kept a link full for 2 RTT, others wait in its buffer."""

import math

import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import access, cut, down, fluid, stall, up, world

from fedsim.net.links.link import Link
from fedsim.net.links.link_meter import default_buffer, standing_queue
from fedsim.net.model import NetworkModel
from fedsim.net.network import ServerAccess
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.laws import TransferModel

MODEL = TransferModel()
BULK, PROBE = 10**8, 10_000
WIRE = tcp.wire_size(MODEL, PROBE, 0.0)


def behind(direction, nbytes=PROBE, at=5.0, clients=1, bulk=1, **options):
    """Seconds until the client knows, of a message sent while others have bulk under way since 0."""
    here = world(0.01, clients=clients, **options)
    for number in range(bulk):
        here.network.send(direction(number % clients, BULK))
    here.at(at, here.network.send, direction(clients - 1, nbytes))
    while not any(row.nbytes == nbytes for row in here.rows):
        here.env.step()
    return here.env.now - at + (0.01 if direction is up else 0.0)


def test_the_queue_of_each_congestion_control():
    """0.1 s of buffer at 1 MB/s: Cubic and Reno keep 85 % of it, at most 8 RTT; BBR ten packets at most."""
    for name, buffer, rtt, seconds in [
        ("cubic", 1e5, 0.02, 0.085),
        ("reno", 1e5, 0.02, 0.085),
        ("cubic", 1e5, 0.01, 0.08),
        ("bbr", 1e5, 0.02, 0.015),
        ("bbr", 1e4, 1.0, 0.01),
        ("cubic", 1e5, 0.0, 0.0),
    ]:
        assert tcp.standing_queue(TransferModel(congestion_control=name), buffer, 1e6, rtt) == pytest.approx(seconds)


@pytest.mark.parametrize("direction", [up, down])
@pytest.mark.parametrize(("name", "queue"), [("cubic", 0.085), ("reno", 0.085), ("bbr", 0.015)])
def test_a_few_packets_behind_a_bulk_flow_take_two_trips_two_queues_and_their_bytes(direction, name, queue):
    """At 8 Mbit/s the default buffer is 100 kB, or 100 ms; half of the rate is the probe's."""
    seconds = behind(direction, model=fluid(congestion_control=name))
    assert seconds == pytest.approx(2 * 0.02 + 2 * queue + WIRE / 5e5, rel=1e-9)


def test_a_buffer_that_is_told_counts():
    for direction in (up, down):
        columns = {"up_buffer": 20_000, "down_buffer": 50_000}
        queue = 0.85 * (0.02 if direction is up else 0.05)
        assert behind(direction, columns=columns) == pytest.approx(0.04 + 2 * queue + WIRE / 5e5)
    server = ServerAccess(8e6, 8e6, ingress_buffer=40_000, egress_buffer=60_000)
    for direction, buffer in ((up, 0.04), (down, 0.06)):
        seconds = behind(direction, clients=2, uplink=1e9, downlink=1e9, server=server)
        assert seconds == pytest.approx(0.04 + 2 * 0.85 * buffer + WIRE / 5e5)


def test_the_default_buffer():
    assert (default_buffer(1e5), default_buffer(1e7)) == (64_000, 1e6)


def test_a_flow_of_more_than_70_packets_waits_in_the_handshake_and_the_start_only():
    nbytes = 71 * 1448
    start = stall(MODEL, tcp.wire_size(MODEL, nbytes, 0.0), 0.105, 5e5)
    assert start > 0
    assert behind(up, nbytes) == pytest.approx(0.105 + start + 71 * 1500 / 5e5 + 0.02)
    short = tcp.wire_size(MODEL, nbytes - 1448, 0.0)
    start = stall(MODEL, short, 0.105, 5e5)
    assert behind(up, nbytes - 1448) == pytest.approx(0.105 + start + short / 5e5 + 0.02 + 0.085)


def test_queues_of_the_path_add_up():
    """The probe's own access link is kept full by one flow, the server's link by it and another's."""
    here = world(0.01, [8e6, 8e6], 8e6, 2, server=access(16e6))
    for client in (0, 1):
        here.network.send(up(client, BULK))
    here.at(5.0, here.network.send, up(1, PROBE))
    while len(here.rows) < 1:
        here.env.step()
    access_queue, server_queue = 0.85 * 0.1, 0.85 * 0.1
    assert here.env.now - 5.0 == pytest.approx(0.03 + 2 * (access_queue + server_queue) + WIRE / 5e5)


@pytest.mark.parametrize("at", [0.0, 0.03, 0.07])
def test_nobody_waits_before_a_link_has_been_full_for_two_round_trips(at):
    """The bulk flow joins at 0.02 s + its stall of 9.5 ms, so at 0.07 s the link has been full for 40.5 ms."""
    joins = 0.02 + stall(MODEL, 1e9, 0.02, 1e6)
    assert joins == pytest.approx(0.0265)
    alone = behind(up, nbytes=0, at=at)
    assert alone == pytest.approx(0.04 + (0.085 if at == 0.07 else 0.0))


def test_whoever_fills_a_link_alone_does_not_wait():
    here = world(0.01)
    here.network.send(up(0, BULK))
    here.env.run()
    wire = tcp.wire_size(MODEL, BULK, 0.0)
    assert here.rows[0].arrived == pytest.approx(0.03 + stall(MODEL, wire, 0.02, 1e6) + wire / 1e6)


def test_a_link_that_is_not_full_and_one_without_limit_hold_nobody_up():
    assert behind(up, clients=2, server=access(16e6)) == pytest.approx(0.04 + WIRE / 1e6)  # full once both move
    assert behind(up, clients=2) == pytest.approx(0.04 + WIRE / 1e6)
    columns = {"loss_up": 0.02}  # losses hold the bulk flow below its access rate
    assert behind(up, nbytes=0, model=fluid(deterministic=True), columns=columns) < 0.04 + 0.03


def test_the_naive_model_has_no_queues():
    assert behind(up, model=NetworkModel()) == pytest.approx(0.02 + PROBE / 1e6)


def test_flows_that_come_and_go_keep_an_access_link_full():
    """Three uploads end one by one and a fourth is cut; the link has been full since the first began."""
    here = world(0.01)
    for nbytes in (10**6, 10**6, 3 * 10**6):
        here.network.send(up(0, nbytes))
    fourth = here.network.send(up(0, 10**7))
    here.at(0.5, cut, here.network, fourth)
    channel = here.channel(0, True)
    here.env.run(until=0.1)
    began = channel.full_since
    assert 0.02 < began < 0.1
    for until in (0.6, 2.9, 3.5, 4.9):
        here.env.run(until=until)
        assert channel.full_since == began
    assert len(here.rows) == 3
    here.env.run()
    assert channel.full_since == math.inf


def test_a_flow_below_its_ceiling_ends_the_spell_of_its_access_link():
    here = world(0.0, [8e6, 8e6], 8e6, 2, server=access(12e6))
    here.network.send(up(0, BULK))
    channel = here.channel(0, True)
    here.at(1.0, here.network.send, up(1, 10**6))
    here.env.run(until=0.5)
    assert (channel.full_since, here.network.shared["ingress"].full_since) == (0.0, math.inf)
    here.env.run(until=1.5)
    assert (channel.full_since, here.network.shared["ingress"].full_since) == (math.inf, 1.0)
    here.env.run(until=3.0)
    ended = here.rows[0].arrived
    assert (channel.full_since, here.network.shared["ingress"].full_since) == (ended, math.inf)


def test_a_lower_rate_that_flows_then_fill_is_full_from_then_on():
    """Acknowledgements hold the upload at 577 kB/s of 1 MB/s until the uplink is no faster than that."""
    here = world(0.0, 8e6, 80e3)
    here.network.send(up(0, BULK))
    channel = here.channel(0, True)
    here.at(1.0, lambda: here.nodes.set_rate(0, uplink=4e6))
    here.env.run(until=0.9)
    assert channel.full_since == math.inf
    here.env.run(until=2.0)
    assert channel.full_since == 1.0
    here.nodes.set_rate(0, uplink=0.0)
    assert channel.full_since == math.inf


def full_link():
    env = simpy.Environment()
    link = Link(env, 1e6)
    assert link.full_since == math.inf
    return env, link


def test_a_break_that_takes_no_time_is_none():
    env, link = full_link()
    flow = link.join(1e9, 1e6, lambda flow: None)
    env.run(until=3.0)
    link.set_ceiling(flow, 5e5)
    assert link.full_since == math.inf
    link.join(1e9, 5e5, lambda flow: None)
    assert link.full_since == 0.0
    link.set_ceiling(flow, 4e5)
    env.run(until=4.0)
    link.set_ceiling(flow, 5e5)
    assert link.full_since == 4.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 3), st.sampled_from([0.0, 2e5, 5e5, 1e6, 3e6])), min_size=1, max_size=20))
def test_a_link_tells_since_when_its_load_has_been_its_capacity(changes):
    """Against a diary of the load after every change."""
    env, link = full_link()
    flow, since = link.join(1e12, 1e6, lambda flow: None), 0.0
    link.join(1e12, 3e5, lambda flow: None)
    for wait, ceiling in changes:
        env.run(until=env.now + wait)
        link.set_ceiling(flow, ceiling)
        since = math.inf if link.load < link.capacity * (1 - 1e-9) else min(since, env.now)
        assert link.full_since == since


def test_a_link_without_capacity_is_not_full():
    env, link = full_link()
    link.join(1e6, 1e6, lambda flow: None)
    link.set_capacity(0.0)
    assert link.full_since == math.inf
    assert standing_queue(MODEL, [link], 0.0, env.now + 1) == 0.0


@pytest.mark.parametrize(("packets", "windows"), [(10, 0), (36, 2.6), (110, 10), (500, 10)])
def test_a_flow_of_bbr_does_not_yield_for_ten_round_trips(packets, windows):
    """Beside it a new one brings an initial window through in each, behind two queues of ten packets, or 15 ms."""
    nbytes, trip = packets * 1448, 0.02 + 2 * 0.015
    seconds = behind(up, nbytes, model=fluid(congestion_control="bbr"))
    waits = windows * (trip - 10 * 1500 / 5e5)
    last = 0.015 if packets <= 70 else 0.0  # a short flow's last bytes
    assert seconds == pytest.approx(2 * 0.02 + 0.015 + max(0.0, waits) + packets * 1500 / 5e5 + last, rel=1e-9)
