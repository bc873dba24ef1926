"""gRPC: frames on the wire, round trips of a channel, flow control and hand-over, by hand and for every draw."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from netlab import down, fluid, up, world

from fedsim.core.errors import ScenarioError
from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.model import NetworkModel
from fedsim.net.tcp import window_reuse
from fedsim.net.tcp.window_reuse import CongestionWindow
from fedsim.net.topologies.peers import Peers
from fedsim.net.topologies.star import Star
from fedsim.net.topologies.tree import EdgeTree
from fedsim.net.transports.grpc import Grpc
from fedsim.net.transports.tcp import Tcp
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

BARE = Grpc(call=0.0, per_megabyte=0.0, overhead=0)
OPEN = ConnectionPolicy("kept", "push", idle_restart=False)
FRAMED, IN_PACKETS = 1 + 9 / 16384, 1500 / 1448  # of data in full frames, and of that in full packets
sizes = st.integers(0, 3_000_000)


def rows(*sends, latency=0.05, **options):
    """Send one message after the other has arrived; return the rows in that order."""
    here = world(latency, **options)

    def sending():
        for message in sends:
            yield here.network.send(message)

    here.env.process(sending())
    here.env.run()
    return here.rows


def seconds(*sends, **options):
    return [row.arrived - row.sent for row in rows(*sends, **options)]


@pytest.mark.parametrize(
    ("nbytes", "carried"), [(0, 14), (1, 15), (16379, 16393), (16380, 16403), (1_000_000, 1_000_000 + 5 + 62 * 9)]
)
def test_a_message_has_a_prefix_and_a_header_for_each_frame(nbytes, carried):
    assert BARE.carried(nbytes, True) == carried
    assert Grpc(overhead=70).carried(nbytes, False) == carried + 70


@given(sizes, sizes, st.integers(0, 999), st.integers(16384, 2**24 - 1))
def test_more_bytes_are_more_on_the_wire_and_none_is_lost(one, other, overhead, frame):
    transport = Grpc(overhead=overhead, frame=frame)
    few, many = (transport.carried(nbytes, True) for nbytes in sorted((one, other)))
    assert few <= many
    assert few >= min(one, other) + 14 + overhead
    assert transport.carried(np.array([one, other]), True).tolist() == [
        transport.carried(nbytes, True) for nbytes in (one, other)
    ]


@given(
    sizes, st.floats(0, 0.2), st.booleans(), st.sampled_from([fluid(), fluid(congestion_control="bbr"), NetworkModel()])
)
def test_frames_are_on_the_wire_and_in_the_meter_but_not_in_the_message(nbytes, loss, upload, model):
    here = world(0.05, columns={"loss_up": loss, "loss_down": loss}, transport=Grpc(), model=model)
    here.network.send((up if upload else down)(0, nbytes))
    here.env.run()
    (row,) = here.rows
    assert row.nbytes == nbytes
    assert row.wire_bytes >= Grpc().carried(nbytes, upload) > nbytes
    assert row.wire_bytes == pytest.approx(here.network.meters(upload)[0], abs=0.5)


def test_a_new_channel_takes_a_round_trip_more_and_an_open_one_none():
    options = {"connections": OPEN}
    bare = seconds(up(0, 1000), up(0, 1000), **options)
    ours = seconds(up(0, 1000), up(0, 1000), transport=BARE, **options)
    assert [one - other for one, other in zip(ours, bare, strict=True)] == pytest.approx([0.1 + 14e-6, 14e-6])
    twice = seconds(up(0, 1000), transport=Grpc(call=0.0, per_megabyte=0.0, overhead=0, settings_rtts=2))
    assert twice[0] - ours[0] == pytest.approx(0.1)


def test_hand_over_takes_seconds_a_message_and_a_byte_at_both_ends():
    slow = seconds(down(0, 500_000), transport=Grpc(call=0.2, per_megabyte=0.6, overhead=0))
    assert slow[0] - seconds(down(0, 500_000), transport=BARE)[0] == pytest.approx(0.2 + 0.3)


def test_a_client_may_poll():
    waits = np.array(seconds(*[down(0, 0)] * 200, transport=Grpc(poll=2.0), connections=OPEN))[1:]
    assert 0.05 < waits.min() < 0.2
    assert 1.9 < waits.max() < 2.06
    assert waits.mean() == pytest.approx(1.05, abs=0.2)


@pytest.mark.parametrize("kind", ["fresh", "kept"])
def test_the_estimators_window_limits_nobody(kind):
    options = {"connections": ConnectionPolicy(kind), "latency": 0.2, "uplink": 1e9}
    wide = Grpc(call=0.0, per_megabyte=0.0, overhead=0, window=2**31)
    messages = [up(0, 9_000_000)] * 2
    assert seconds(*messages, transport=BARE, **options) == seconds(*messages, transport=wide, **options)


def test_a_message_waits_once_for_room_where_its_sender_could_send_more():
    """At 10 MB/s and 100 ms, the sender's window open: 64 KiB, then a wait until the first packet is answered."""
    options = {"connections": OPEN, "uplink": 80e6}
    fixed = Grpc(call=0.0, per_megabyte=0.0, overhead=0, window=65536)
    free, waited = (
        seconds(up(0, 3_000_000), up(0, 600_000), transport=transport, **options)[1] for transport in (BARE, fixed)
    )
    first = 65536 * FRAMED * IN_PACKETS
    assert waited - free == pytest.approx(0.1 + (1500 - first) / 10e6)


@pytest.mark.parametrize("messages", [[up(0, 900_000)], [up(0, 0), up(0, 900_000)]])
def test_slow_start_takes_as_long_as_that_wait(messages):
    """On a new connection, and on one that has carried a packet."""
    options = {"uplink": 80e6, "latency": 0.05, "connections": OPEN}
    fixed = Grpc(call=0.0, per_megabyte=0.0, overhead=0, window=65536)
    assert seconds(*messages, transport=fixed, **options) == seconds(*messages, transport=BARE, **options)


def test_a_window_that_grows_slowly_pauses_between_its_rounds():
    """Five packets, then by a packet a round at most: 60 kB at 10 MB/s and 100 ms take five pauses."""
    constants = fluid(congestion_control="reno").constants
    slow = window_reuse.pause(constants, 60_000, 0.1, 1e7, CongestionWindow(5.0, 5.0))
    found = window_reuse.start(constants, 60_000, 0.1, 1e7, 0.0, math.inf, CongestionWindow(5.0, 5.0))
    assert slow == pytest.approx(found.idle + 60_000 / found.limit - 60_000 / 1e7)
    assert 0.49 < slow < 0.5


def test_a_message_has_room_a_mebibyte_ahead():
    """Over 2 s and 100 MB/s the rest of 30 MB moves at a mebibyte and a window a round trip."""
    fixed = Grpc(call=0.0, per_megabyte=0.0, overhead=0, window=65536)
    size = BARE.carried(30_000_000, True)
    options = {"latency": 1.0, "uplink": 8e8, "connections": OPEN, "transport": fixed}
    second = seconds(up(0, 30_000_000), up(0, 30_000_000), **options)[1]
    wire = size + 52 * math.ceil(size / 1448)
    rate = (65536 + 2**20) * FRAMED * IN_PACKETS / 2.0
    first = 65536 * FRAMED * IN_PACKETS
    assert second == pytest.approx(1.0 + wire / rate + max(0.0, 2.0 + (1500 - first) / rate), rel=1e-6)


def test_a_window_renewed_as_bytes_are_read_is_a_rate():
    """64 KiB over 100 ms, although the link could carry 10 MB/s."""
    fixed = Grpc(call=0.0, per_megabyte=0.0, overhead=0, window=65536, renewed="bytes")
    options = {"uplink": 80e6, "connections": OPEN, "transport": fixed}
    second = seconds(up(0, 3_000_000), up(0, 3_000_000), **options)[1]
    size = BARE.carried(3_000_000, True)
    wire = size + 52 * math.ceil(size / 1448)
    assert second == pytest.approx(0.05 + wire / (65536 * FRAMED * IN_PACKETS / 0.1))


@given(
    st.integers(1, 5_000_000), st.integers(1000, 2_000_000), st.floats(1e-3, 0.5), st.floats(1e5, 1e9), st.booleans(),
    st.sampled_from([0.0, 0.0, 0.001, 0.05]), st.sampled_from(["cubic", "bbr"]),
)  # fmt: skip
def test_no_rate_is_above_a_window_a_round_trip(nbytes, window, latency, rate, upload, loss, control):
    fixed = Grpc(window=window, renewed="bytes")
    columns = {"loss_up": loss, "loss_down": loss}
    options = {"latency": latency, "uplink": rate, "downlink": rate, "columns": columns}
    message = (up if upload else down)(0, nbytes)
    for connections in (ConnectionPolicy(), OPEN):
        took = seconds(message, message, transport=fixed, connections=connections,
                       model=fluid(congestion_control=control), **options)  # fmt: skip
        assert min(took) * (1 + 1e-9) >= nbytes / window * 2 * latency


@given(
    st.integers(1, 5_000_000), st.integers(1000, 2_000_000), st.floats(1e-3, 0.5), st.floats(1e5, 1e9),
    st.sampled_from(["message", "bytes"]),
)  # fmt: skip
def test_no_window_makes_a_message_faster(nbytes, window, latency, rate, renewed):
    options = {"latency": latency, "uplink": rate, "connections": OPEN}
    free, fixed = (
        seconds(up(0, nbytes), up(0, nbytes), transport=transport, **options)
        for transport in (Grpc(), Grpc(window=window, renewed=renewed))
    )
    assert all(one >= other * (1 - 1e-9) for one, other in zip(fixed, free, strict=True))


def test_without_anything_of_its_own_it_is_tcp():
    """But for the prefix and the frame of an empty message."""
    plain = Grpc(call=0.0, per_megabyte=0.0, overhead=0, settings_rtts=0)
    assert seconds(up(0, 0), transport=plain) == pytest.approx(seconds(up(0, 14), transport=Tcp()))


@pytest.mark.parametrize(
    ("transport", "topology", "asks", "why"),
    [
        (Grpc(), Star(), True, None),
        (Grpc(), Star(), False, None),
        (Grpc(), EdgeTree(edges=2, uplink=1e6, downlink=1e6, latency=0.01), True, None),
        (Grpc(), Peers(graph="ring"), True, "'star' or 'tree'"),
        (Grpc(poll=1.0), Star(), False, "leave out poll"),
        (Grpc(poll=1.0), Star(), True, None),
    ],
)
def test_a_channel_needs_a_server_and_a_poll_something_to_ask_for(transport, topology, asks, why):
    reason = transport.refuse(topology, asks)
    assert reason is None if why is None else why in reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"call": 3}, "has no unit"),
        ({"call": "-1 s"}, "zero or more"),
        ({"frame": "1 kB"}, "must be at least 16384"),
        ({"frame": "1 GB"}, "must be at most 16777215"),
        ({"window": "0 B"}, "must be at least 1"),
        ({"renewed": "bytes"}, "give a window"),
        ({"renewed": "never", "window": "1 kB"}, "renewed"),
        ({"settings_rtts": -1}, "0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ScenarioError, match=message):
        find.build("transport", Part(name="grpc", options=options))


@pytest.mark.parametrize("field", ["call", "per_megabyte", "poll"])
def test_seconds_are_finite(field):
    with pytest.raises(ScenarioError, match=f"{field}: .*must be finite"):
        find.build("transport", Part(name="grpc", options={field: math.inf}))


def test_it_is_built_from_its_options():
    options = {"window": "64 KiB", "renewed": "bytes", "overhead": "1 kB", "poll": "2 s"}
    built = find.build("transport", Part(name="grpc", options=options))
    assert built == Grpc(window=65536, renewed="bytes", overhead=1000, poll=2.0)
