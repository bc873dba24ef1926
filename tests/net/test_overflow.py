"""A queue that overflows ends slow start: all flows then have about equal windows, and long round trips crawl."""

import numpy as np
import pytest
import simpy
from netlab import access, cut, fluid, stall, up, world

from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.links.link_meter import LinkMeter, overflow
from fedsim.net.network import ServerAccess
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.laws import TransferModel

MODEL = TransferModel()
SHORT, LONG = 0.02, 0.3
NBYTES = 500_000


def shared(capacity, buffer, rtts=(), full=True):
    link = LinkMeter(simpy.Environment(), capacity, buffer)
    for rtt in rtts:
        link.cross(rtt)
    link.note_full(full, 0.0)
    return link


def top(*numbers):
    """The window in packets at which a flow notices an overflow."""
    return overflow(*numbers) / MODEL.mtu


def test_the_window_at_which_a_queue_overflows():
    """A share of 100 packets a second, at the others' mean trip of 0.06 s and a queue of 0.1 s: 16 packets.

    If the others do not saturate the link, the flow fills the queue at its own 0.3 s: 40 packets.
    """
    link = shared(1.5e6, 150_000.0)
    assert top(150_000.0, 6.25e6, LONG, [link]) == np.inf  # nobody else
    link.cross(0.02)
    link.cross(0.1)
    assert top(150_000.0, 6.25e6, LONG, [link]) == pytest.approx(16)
    unlimited, empty = shared(np.inf, 1.0, (0.02, 0.1)), shared(1.5e6, 150_000.0, (0.02, 0.1), full=False)
    assert top(150_000.0, 6.25e6, LONG, [link, unlimited]) == pytest.approx(16)
    assert top(150_000.0, 6.25e6, LONG, [empty]) == pytest.approx(40)
    link.cross(0.1, -1)
    assert top(150_000.0, 6.25e6, LONG, [link]) == pytest.approx(12)
    link.cross(0.02, -1)
    assert (link.crossing, link.rtts) == (0, 0.0)


def test_a_queue_that_is_short_for_the_path_overflows_with_four_times_its_room():
    """Packets of 1500 bytes: 30 kB of buffer and 15 kB of a bucket hold 30."""
    link = LinkMeter(simpy.Environment(), 1.5e6, 30_000.0, 15_000.0)
    assert top(1.5e6, 6.25e6, LONG, [link]) == pytest.approx(4 * 30)  # alone; the path holds 300
    assert top(1.5e6, 6.25e6, 0.12, [link]) == np.inf  # and here 120
    assert top(1.4e6, 6.25e6, LONG, [link]) == np.inf  # something else limits it
    link.opening = 4_500_000  # three that could each use all of it
    assert top(1.5e6, 6.25e6, LONG, [link]) == pytest.approx(4 * 10)
    assert top(0.5e6, 0.75e6, LONG, [link]) == np.inf  # nobody moves yet
    link.cross(LONG)
    assert top(0.5e6, 0.75e6, LONG, [link]) == pytest.approx(4 * 5)
    assert top(0.375e6, 6.25e6, LONG, [link]) == pytest.approx(4 * 7.5)
    link.note_full(True, 0.0)
    assert top(0.375e6, 6.25e6, SHORT, [link]) == pytest.approx(4 * 7.5)
    assert top(0.375e6, 6.25e6, SHORT, [shared(1.5e6, 30_000.0, (0.02,))]) == pytest.approx(250 * 0.04)


def test_a_flow_alone_crawls_where_the_queue_is_short_for_the_path():
    """2 MB over 20 Mbit/s and 150 ms, where 31 kB fit into queue and bucket: Linux takes 4.0 to 5.2 s, not 1.2 s."""
    took = []
    for buffer, own in ((15_000.0, 100e6), (250_000.0, 100e6), (15_000.0, 20e6)):  # the last sends no faster
        server = ServerAccess(20e6, 20e6, buffer, buffer, 16_000.0, 16_000.0)
        here = world(0.075, own, 100e6, server=server, model=fluid(deterministic=True))
        here.network.send(up(0, 2_000_000))
        here.env.run()
        took.append(here.rows[0].arrived)
    top, mtu, wire = 4 * 31_000 / MODEL.mtu, MODEL.mtu, tcp.wire_size(MODEL, 2_000_000, 0.0)
    first = (top - 10 + 1) + top  # packets until the loss is noticed
    start = 0.15 + stall(MODEL, first * mtu, 0.15, 2.5e6) + first * mtu / 2.5e6
    sent = (wire / mtu - first) * (np.arange(10_000) + 0.5) / 10_000
    windows = np.minimum(((0.7 * top) ** (4 / 3) + 0.4 * 1.054 ** (4 / 3) * 0.15 * sent) ** 0.75, 250)
    assert took[0] == pytest.approx(start + (wire / mtu - first) * np.mean(0.15 / windows) + 0.075, rel=5e-3)
    assert took[1:] == pytest.approx([0.15 + stall(MODEL, wire, 0.15, 2.5e6) + wire / 2.5e6 + 0.075] * 2, abs=0.01)


@pytest.mark.parametrize("buffer", [15_000.0, 250_000.0])
def test_who_starts_together_fills_a_short_queue_together(buffer):
    """Four times 2 MB over 20 Mbit/s and 150 ms: Linux takes 6.1 to 8.8 s with 15 kB of queue."""
    server = ServerAccess(20e6, 20e6, buffer, buffer, 16_000.0, 16_000.0)
    here = world(0.075, 100e6, 100e6, 4, server=server, model=fluid(deterministic=True))
    for client in range(4):
        here.network.send(up(client, 2_000_000))
    here.env.run()
    took = [row.arrived for row in here.rows]
    assert (min(took) > 6 and max(took) < 9.5) if buffer < 20_000 else max(took) < 4.5
    assert here.network.shared["ingress"].opening == 0


@pytest.mark.parametrize(("at", "opening"), [(0.0, True), (0.1, True), (0.3, True), (0.45, False), (5.0, False)])
@pytest.mark.parametrize("nbytes", [0, 100_000])
def test_a_message_starts_until_it_moves_or_is_cut(at, opening, nbytes):
    """A handshake of 0.15 s, then 0.26 s of slow start and 0.1 s on the link; without bytes the first alone."""
    here = world(0.075, 100e6, server=access(8e6))
    link = here.network.shared["ingress"]
    sent = here.network.send(up(0, nbytes))
    if at:
        here.env.run(at)
    assert link.opening == 1_000_000 * (opening and (nbytes > 0 or at < 0.15))
    cut(here.network, sent)
    assert link.opening == 0
    here.env.run()
    assert link.opening == 0


def arrivals(trips, nbytes=NBYTES, kind="fresh", rounds=1, seed=0, **constants):
    """Seconds of each client's uploads, all sent at once every minute over a server link of 20 Mbit/s."""
    here = world(
        np.array(trips) / 2,
        50e6,
        50e6,
        len(trips),
        server=access(20e6),
        connections=ConnectionPolicy(kind),
        model=fluid(**constants),
        seed=seed,
    )
    for number in range(rounds):
        for client in range(len(trips)):
            message = up(client, nbytes)
            message.version = number
            here.at(60.0 * number, here.network.send, message)
    here.env.run()
    rows = sorted(here.rows, key=lambda row: (row.version, row.src))
    return np.reshape([row.arrived - row.sent for row in rows], (rounds, len(trips))), here


def test_a_long_round_trip_crawls_on_a_link_that_others_have_left():
    """By hand: windows of 10 and 20 packets, of which 0.7 remain and grow by Cubic's law; Linux takes 6.4 to 8.2 s."""
    took, _ = arrivals([SHORT] * 9 + [LONG], deterministic=True)
    share, mtu = 20e6 / 8 / 10, MODEL.mtu
    top = share * (SHORT + 0.1) / mtu
    assert top == pytest.approx(20)
    first = (top - 10 + 1) + top  # packets until the loss is noticed
    start = LONG + stall(MODEL, first * mtu, LONG, share) + first * mtu / share
    packets = tcp.wire_size(MODEL, NBYTES, 0.0) / mtu - first
    sent = packets * (np.arange(10_000) + 0.5) / 10_000
    windows = ((0.7 * top) ** (4 / 3) + 0.4 * 1.054 ** (4 / 3) * LONG * sent) ** 0.75
    assert took[0, -1] == pytest.approx(start + packets * np.mean(LONG / windows) + LONG / 2, rel=1e-3)
    assert 5.5 < took[0, -1] < 8.2
    assert max(took[0, :-1]) < 2.2


@pytest.mark.parametrize("trip", [0.02, 0.1, 0.2])
def test_equal_round_trips_share_alike_as_ever(trip):
    took, here = arrivals([trip] * 10, deterministic=True)
    wire = 10 * tcp.wire_size(MODEL, NBYTES, 0.0) / 2.5e6
    assert took.max() - took.min() < 1e-9
    assert took.max() == pytest.approx(wire + 1.5 * trip + stall(MODEL, 5e5, trip, 2.5e6), abs=2 * trip + 0.1)
    assert here.env.scheduled < 60


def test_chance_leaves_a_flow_half_to_one_and_a_half_of_that_window():
    """Linux took 6.4 to 8.2 s in a few repetitions; the others hardly notice."""
    took = np.array([arrivals([SHORT] * 9 + [LONG], seed=seed)[0][0] for seed in range(20)])
    mean = arrivals([SHORT] * 9 + [LONG], deterministic=True)[0][0, -1]
    assert took[:, -1].min() < mean < took[:, -1].max()
    assert np.median(took[:, -1]) == pytest.approx(mean, rel=0.1)
    assert np.ptp(took[:, -1]) > 0.25 * mean
    assert np.ptp(took[:, :-1].max(axis=1)) < 0.1
    assert len(set(took[:, -1])) == 20


def test_bbr_and_small_messages_do_not_crawl():
    assert arrivals([SHORT] * 9 + [LONG], congestion_control="bbr")[0].max() < 2.6
    assert arrivals([SHORT] * 9 + [LONG], nbytes=30_000)[0].max() < 1.5


def beside_a_bulk_flow(kind="kept", uplink=50e6, **constants):
    """Seconds of 500 kB under BBR over a server link of 20 Mbit/s that another client keeps full."""
    seed = constants.pop("seed", 0)
    here = world(
        np.full(2, SHORT / 2), np.array([50e6, uplink]), 50e6, 2, server=access(20e6),
        connections=ConnectionPolicy(kind), model=fluid(congestion_control="bbr", **constants), seed=seed,
    )  # fmt: skip
    here.at(0.0, here.network.send, up(1, NBYTES))
    here.at(10.0, here.network.send, up(0, 40_000_000))
    here.at(20.0, here.network.send, up(1, NBYTES))
    here.env.run()
    row = here.rows[1]
    assert (row.src, row.sent) == (1, 20.0)
    return row.arrived - row.sent


@pytest.mark.parametrize(("uplink", "share"), [(50e6, 10e6), (2e6, 2e6)])
def test_a_kept_connection_of_bbr_may_lose_half_of_its_share_of_a_full_link(uplink, share):
    """Or of what its own link carries; one that is left with more than that gains nothing, as the others stay."""
    sending = tcp.wire_size(MODEL, NBYTES, 0.0) * 8 / share
    took = np.array([beside_a_bulk_flow(uplink=uplink, seed=seed) for seed in range(30)])
    mean = beside_a_bulk_flow(uplink=uplink, deterministic=True)
    assert mean == pytest.approx(sending, rel=0.1)
    assert took.min() == pytest.approx(mean, rel=1e-9)
    assert 8 <= np.isclose(took, mean).sum() <= 22
    assert mean + 0.7 * sending < took.max() < mean + sending
    assert len(set(took.round(9))) > 8


def test_nothing_is_drawn_for_a_new_connection_of_bbr():
    assert len({beside_a_bulk_flow("fresh", seed=seed) for seed in range(5)}) == 1


def test_a_kept_connection_remembers_an_overflow():
    """Alone in the second round the long round trip is slower than at first, and crawls up to where it was."""
    here = world(
        np.array([SHORT] * 9 + [LONG]) / 2,
        50e6,
        50e6,
        10,
        server=access(20e6),
        connections=ConnectionPolicy("kept"),
    )
    for client in range(10):
        here.network.send(up(client, NBYTES))
    here.env.run()
    here.network.send(up(9, NBYTES))
    begun = here.env.now
    here.env.run()
    fresh, _ = arrivals([LONG])
    assert here.env.now - begun > 1.5 * fresh[0, 0]
