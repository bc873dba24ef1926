"""Transports: what the programs that carry messages add to the seconds of the links."""

import numpy as np
import pytest
from netlab import access, down, fluid, up, world

from fedsim.core.errors import ScenarioError
from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.topologies.peers import Peers
from fedsim.net.topologies.star import Star
from fedsim.net.topologies.tree import EdgeTree
from fedsim.net.transports.flower_supernodes import FlowerSupernodes
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

FIXED = FlowerSupernodes(poll=0.0)
DOWN, UP = 0.1 + 0.05 + 0.05, 0.1 + 0.05  # handshake, request and last half round trip of an empty message


def rows(*sends, **options):
    """Send at these times; return the rows in the order of sending."""
    here = world(0.05, **options)
    for at, message in sends:
        here.at(at, here.network.send, message)
    here.env.run()
    return sorted(here.rows, key=lambda row: row.sent)


def test_an_exchange_takes_what_each_of_its_parts_takes():
    """Without waits for polls: 0.4 + 6 s more down, 0.3 + 0.4 + 1.1 s more up, and the bytes of the links alone."""
    slow = rows((0, down(0, 100_000)), (9, up(0, 100_000)), transport=FIXED)
    bare = rows((0, down(0, 100_000)), (9, up(0, 100_000)))
    more = [(one.arrived - one.sent) - (other.arrived - other.sent) for one, other in zip(slow, bare, strict=True)]
    assert more == pytest.approx([6.4, 1.8])
    assert [row.wire_bytes for row in slow] == [row.wire_bytes for row in bare]


def test_flowers_own_bytes_are_on_the_wire_of_either_direction():
    own = FlowerSupernodes(poll=0.0, own_down=8000, own_up=21_000)
    more = rows((0, down(0, 100_000)), (9, up(0, 100_000)), transport=own)
    less = rows((0, down(0, 108_000)), (9, up(0, 121_000)), transport=FIXED)
    assert [row.nbytes for row in more] == [100_000] * 2
    assert [row.wire_bytes for row in more] == [n + 52 * -(-n // 1448) for n in (108_000, 121_000)]
    assert [row.arrived for row in more] == [row.arrived for row in less]


def test_a_download_waits_evenly_between_two_polls_and_an_upload_for_none():
    transport = FlowerSupernodes(poll=3.0, start=0.0, reply=0.0, collect=0.0, objects=0.0)
    found = rows(*((10.0 * k, way(0, 0)) for k in range(400) for way in (down, up)), transport=transport)
    waits = np.array([row.arrived - row.sent - DOWN for row in found if row.dst == 0])
    assert ((waits > -1e-9) & (waits < 3.0)).all()
    counts, _ = np.histogram(waits, bins=4, range=(0, 3))
    assert (np.abs(counts - 100) < 40).all()
    assert [row.arrived - row.sent for row in found if row.src == 0] == pytest.approx([UP] * 400)


def test_what_others_are_sent_changes_no_wait_and_the_seed_does():
    def waits(seed, others):
        sends = [(20.0 * k, down(0, 0)) for k in range(5)] + [(20.0 * k + 7, down(1, 0)) for k in range(others)]
        return [row.arrived for row in rows(*sends, clients=2, seed=seed, transport=FlowerSupernodes()) if row.dst == 0]

    assert waits(1, 0) == waits(1, 5)
    assert waits(1, 0) != waits(2, 0)


def test_a_message_that_is_held_takes_no_room_on_its_link_and_is_lost_without_bytes():
    """Two clients on a full link of 8 Mbit/s: the second is held until the first is through."""
    here = world(0.0, clients=2, server=access(8e6), transport=FlowerSupernodes(poll=0.0, objects=4.0, start=0.0))
    here.network.send(down(0, 1_448_000))
    here.env.run(until=1.0)
    here.network.send(down(1, 1_448_000))
    here.at(2.9, here.nodes.leave, 1)
    here.env.run()
    first, second = sorted(here.rows, key=lambda row: row.dst)
    assert first.arrived == pytest.approx(2.0 + 1.5)
    assert (second.fate, second.wire_bytes) == ("lost", 0)


def test_a_queue_counts_from_the_moment_at_which_the_message_is_let_go():
    """The bulk keeps the link full from 9.1 s to 13.2 s: when the small message is sent, not when it is let go."""
    held = FlowerSupernodes(poll=0.0, objects=0.0, start=0.0, collect=0.0, reply=9.0)
    here = world(0.01, clients=2, server=access(8e6), transport=held)
    here.network.send(up(0, 4_000_000))
    here.at(11.0, here.network.send, up(1, 1000))
    here.env.run()
    small = next(row for row in here.rows if row.src == 1)
    assert small.arrived - small.sent == pytest.approx(9.0 + 0.02 + 0.01 + 1052 / 1e6)


def test_a_connection_idles_until_the_message_is_let_go_and_from_its_last_byte_on():
    """Of a time-out of 1.1 s the hand-overs, 0.1 s before and 0.1 s after, leave 0.9 s between two messages.

    After one the window is half of twice the path's 66.7 packets, 66 whole ones, with a gap of 0.0025 s.
    """
    held = FlowerSupernodes(poll=0.0, objects=0.0, start=0.0, reply=0.1, collect=0.1)
    options = {"connections": ConnectionPolicy("kept"), "transport": held, "model": fluid(rto_min=1.0)}
    end = rows((0, up(0, 1_448_000)), **options)[0].arrived
    soon, late = (rows((0, up(0, 1_448_000)), (end + wait, up(0, 1_448_000)), **options)[1] for wait in (0.84, 0.91))
    assert soon.arrived - soon.sent == pytest.approx(0.2 + 0.05 + 1.5)
    assert late.arrived - late.sent == pytest.approx(0.2 + 0.05 + 1.5 + 0.0025)


@pytest.mark.parametrize(
    ("topology", "asks", "why"),
    [
        (Star(), True, None),
        (Star(), False, "asks none"),
        (EdgeTree(edges=2, uplink=1e6, downlink=1e6, latency=0.01), True, "star"),
        (Peers(graph="ring"), True, "star"),
    ],
)
def test_supernodes_need_one_server_that_asks(topology, asks, why):
    reason = FlowerSupernodes().refuse(topology, asks)
    assert reason is None if why is None else why in reason


def test_each_is_found_by_its_name():
    assert find.names("transport") == ["flower_supernodes", "grpc", "tcp"]
    built = find.build("transport", Part(name="flower_supernodes", options={"poll": "500 ms", "start": "0 s"}))
    assert built == FlowerSupernodes(poll=0.5, start=0.0)
    assert find.build("transport", Part(name="tcp")).plain
    with pytest.raises(ScenarioError, match="has no unit"):
        find.build("transport", Part(name="flower_supernodes", options={"poll": 3}))
