import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from netlab import Sized, access, cut, down, fluid, rate_of, stall, up, world

from fedsim.net.effect import Effect
from fedsim.net.effects.jitter import Jitter
from fedsim.net.effects.loss import Loss
from fedsim.net.message import Message
from fedsim.net.model import NetworkModel
from fedsim.net.network import ServerAccess
from fedsim.net.tcp import congestion_avoidance
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.congestion_avoidance import Start
from fedsim.net.tcp.fluid import model_named
from fedsim.net.tcp.laws import TransferModel
from fedsim.net.transfer import Lost

MODEL = TransferModel()


def lone(message, **options):
    """Seconds until the client knows, of one message alone; an upload's sender learns of it R/2 after its arrival."""
    here = world(**options)
    here.network.send(message)
    here.env.run(until=1e7)
    (row,) = here.rows
    assert row.fate == "delivered"
    jitter = sum(effect.most for effect in options.get("effects", ()) if isinstance(effect, Jitter))
    return row.arrived + ((2 * here.nodes.latency[0] + jitter) / 2 if message.dst == -1 else 0.0)


@given(
    st.sampled_from([up, down]),
    st.integers(1, 10**8) | st.sampled_from([1, 1448, 14480, 14481]),
    st.floats(1e5, 1e9),
    st.floats(0, 1) | st.just(0.0),
    st.integers(0, 2),
    st.floats(0, 0.05),
)
def test_a_lone_message_takes_its_round_trips_its_stall_and_its_bytes(direction, nbytes, rate, rtt, tls, jitter):
    options = {"latency": rtt / 2, "uplink": rate, "downlink": rate, "model": fluid(tls_rtts=tls)}
    trip, size = rtt + jitter, tcp.wire_size(MODEL, nbytes, 0.0)
    expected = (2 + tls) * trip + stall(MODEL, size, trip, rate / 8) + 8 * size / rate
    seconds = lone(direction(0, nbytes), effects=[Jitter(jitter)], **options)
    assert seconds == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("direction", [up, down])
def test_no_bytes_take_the_handshake_and_the_reply(direction):
    assert lone(direction(0, 0), latency=0.05) == pytest.approx(0.2)
    assert lone(direction(0, 0), latency=0.05, uplink=0.0, downlink=0.0) == pytest.approx(0.2)


def test_without_latency_an_upload_is_there_when_its_bytes_are():
    here = world(latency=0.0)
    delivery = here.network.send(up(0, 14480))
    here.env.run()
    assert here.env.now == pytest.approx(15000 / 1e6)
    assert delivery.value.nbytes == 14480


def test_the_server_has_an_upload_half_a_round_trip_before_the_client_knows():
    here = world(latency=0.5)
    here.network.send(up(0, 14480))
    here.network.send(down(0, 14480))
    here.env.run()
    by_direction = {row.dst: row.arrived for row in here.rows}
    assert by_direction == pytest.approx({-1: 1.5 + 0.015, 0: 2.0 + 0.015})


@pytest.mark.parametrize(("direction", "rate"), [(up, 2e6), (down, 5e6)])
def test_each_direction_has_its_own_rate(direction, rate):
    seconds = lone(direction(0, 1_448_000), latency=0.0, uplink=2e6, downlink=5e6)
    assert seconds == pytest.approx(8 * 1_500_000 / rate)


def test_a_thin_way_back_holds_the_data_up():
    seconds = lone(up(0, 1_448_000), latency=0.0, uplink=1e9, downlink=1e6)
    assert seconds == pytest.approx(8 * 1_500_000 / (1e6 * 2 * 1500 / 52))


@pytest.mark.parametrize("count", [1, 2, 7])
def test_equal_clients_share_the_server(count):
    here = world(latency=0.0, uplink=1e9, downlink=1e9, clients=count, server=access(8e6))
    for client in range(count):
        here.network.send(up(client, 1_448_000))
        here.network.send(down(client, 1_448_000))
    here.env.run()
    assert [row.arrived for row in here.rows] == pytest.approx([1.5 * count] * 2 * count)


def test_flows_of_one_client_share_its_link_and_hand_back_their_part():
    """Two uploads at half the rate each; after the shorter one the longer has it whole."""
    here = world(latency=0.0, uplink=8e6)
    here.network.send(up(0, 1_448_000))
    here.network.send(up(0, 2 * 1_448_000))
    here.env.run()
    assert [row.arrived for row in here.rows] == pytest.approx([3.0, 4.5])


def test_a_message_knows_its_size_on_the_way():
    here = world()
    message = Message(0, -1, "train", {"w": [1.0, 2.0]}, version=3)
    delivery = here.network.send(message)
    assert here.env.run(until=delivery) is message
    (row,) = here.rows
    assert (row.nbytes, row.kind, row.version) == (len(message.encode()), "train", 3)
    assert row.wire_bytes == message.nbytes + 52


def test_rates_change_under_the_bytes():
    here = world(latency=0.0, uplink=8e6)
    here.network.send(up(0, 1_448_000))
    here.at(0.5, lambda: here.nodes.set_rate(0, uplink=0.0))
    here.at(2.5, lambda: here.nodes.set_rate(0, uplink=16e6))
    here.env.run()
    assert here.rows[0].arrived == pytest.approx(2.5 + 0.5)


def test_a_server_without_capacity_and_back():
    here = world(latency=0.0, uplink=8e6, server=access(8e6))
    here.network.send(up(0, 1_448_000))
    here.at(0.5, lambda: here.network.shared["ingress"].set_capacity(0.0))
    here.at(2.0, lambda: here.network.shared["ingress"].set_capacity(1e6))
    here.env.run()
    assert here.rows[0].arrived == pytest.approx(3.0)


CUTS = {
    "handshake": (0.1, 0, "lost"),
    "stall": (0.21, 0, "lost"),
    "bytes": (0.9, None, "cut"),
    "reply": (1.99, 1, "cut"),
}


@pytest.mark.parametrize("how", ["sleep", "leave", "close"])
@pytest.mark.parametrize("phase", CUTS)
def test_a_cut_in_any_phase(how, phase):
    """R = 0.2 s; 100 windows' worth of bytes at 1 MB/s, so that the link has them from 0.2 + stall to about 1.95 s."""
    at, share, fate = CUTS[phase]
    here = world(latency=0.1, uplink=8e6)
    size = 1_500_000
    start = 0.2 + stall(MODEL, size, 0.2, 1e6)
    delivery = here.network.send(up(0, 1_448_000))
    calls = {
        "sleep": lambda: here.nodes.sleep(0),
        "leave": lambda: here.nodes.leave(0),
        "close": here.network.close,
    }
    at = {"reply": start + 1.55}.get(phase, at)
    here.at(at, calls[how])
    with pytest.raises(Lost) as lost:
        here.env.run(until=delivery)
    moved = math.floor((at - start) * 1e6) if share is None else share * size
    assert here.env.now == at
    assert lost.value.moved == pytest.approx(moved, abs=1)
    (row,) = here.rows
    assert (row.fate, row.wire_bytes, row.arrived) == (fate, lost.value.moved, at)
    assert here.nodes.online[0] == (how != "sleep")
    here.env.run()
    assert len(here.rows) == 1


@pytest.mark.parametrize("how", ["sleep", "leave", "close"])
def test_a_cut_after_a_loss(how):
    """The rest then moves at what the window allows."""
    model = fluid(deterministic=True)
    here = world(0.1, 8e6, model=model, columns={"loss_up": 0.01})
    here.network.send(up(0, 1_448_000))
    calls = {
        "sleep": lambda: here.nodes.sleep(0),
        "leave": lambda: here.nodes.leave(0),
        "close": here.network.close,
    }
    size, wait = tcp.wire_size(MODEL, 1_448_000, 0.01), tcp.syn_wait(model.constants, 0.01, 0.0)
    lost = tcp.first_loss(model.constants, 1000, 0.01, 0.0)
    start = congestion_avoidance.lossy_start(MODEL, size, 0.2, 1e6, 0.01, lost)
    slow = congestion_avoidance.limit(MODEL, 0.2, 0.01, 1e6, start, size - start.until)
    here.env.run(until=0.2 + wait + start.idle + start.until / 1e6 + 0.1)
    assert here.network.shared["ingress"].load == pytest.approx(slow)
    calls[how]()
    here.env.run()
    moved = start.until + 0.1 * slow
    assert [(row.fate, row.wire_bytes) for row in here.rows] == [("cut", math.floor(moved))]
    assert here.network.meters(True)[0] == pytest.approx(moved)


def test_all_flows_of_a_client_get_their_part_whenever_one_comes_or_goes():
    """Four uploads that begin and end at different times: at any time each of k has a k-th, and they fill the link."""
    here = world(0.0, 8e6)
    for number in range(4):
        here.at(0.1 * number, here.network.send, up(0, 1_448_000 - 100_000 * number))
    seen = set()
    for tick in range(600):
        here.env.run(until=0.01 * tick + 0.005)
        if flows := here.flows(0, True):
            rates = [rate_of(here.network.shared["ingress"], flow) for flow in flows]
            assert rates == pytest.approx([1e6 / len(rates)] * len(rates))
            seen.add(len(rates))
    assert seen == {1, 2, 3, 4}
    assert len(here.rows) == 4


def test_a_cut_flow_gives_its_share_to_the_others():
    here = world(latency=0.0, uplink=8e6, clients=2, server=access(8e6))
    here.network.send(up(0, 1_448_000))
    here.network.send(up(1, 1_448_000))
    here.at(1.0, lambda: here.nodes.sleep(0))
    here.env.run()
    assert [(row.src, row.fate, row.wire_bytes) for row in here.rows] == [
        (0, "cut", 500_000),
        (1, "delivered", 1_500_000),
    ]
    assert here.rows[1].arrived == pytest.approx(2.0)


def test_a_loss_nobody_waits_for_is_no_failure_and_one_awaited_is_raised():
    here, losses = world(), []

    def wait(delivery):
        try:
            yield delivery
        except Lost as lost:
            losses.append((here.env.now, lost.moved, lost.message.nbytes))

    cut(here.network, here.network.send(up(0, 1000)))
    here.env.process(wait(here.network.send(up(0, 2000))))
    here.at(0.001, lambda: here.nodes.sleep(0))
    here.env.run()
    assert losses == [(0.001, 0, 2000)]
    assert [row.fate for row in here.rows] == ["lost", "lost"]


def test_an_offline_client_loses_messages_at_once():
    here = world()
    here.nodes.sleep(0)
    deliveries = [here.network.send(up(0, 10**6)), here.network.send(down(0, 10**6))]
    assert [(row.fate, row.wire_bytes, row.arrived) for row in here.rows] == [("lost", 0, 0.0)] * 2
    here.nodes.wake(0)
    here.network.send(up(0, 1))
    here.env.run()
    assert [row.fate for row in here.rows] == ["lost", "lost", "delivered"]
    assert not any(delivery.ok for delivery in deliveries)


def test_late_is_the_fate_of_what_arrives_all_the_same():
    here = world()
    arrives, other = here.network.send(up(0, 10**6)), here.network.send(up(0, 10**6))
    arrives.fate = other.fate = "late"
    here.at(0.5, cut, here.network, other)
    here.env.run()
    assert [row.fate for row in here.rows] == ["cut", "late"]
    assert arrives.ok


@pytest.mark.parametrize(("src", "dst"), [(-1, -1), (0, 0), (0, 1), (-1, 5), (5, -1), (-2, -1)])
def test_only_the_server_and_a_client_that_exists_can_talk(src, dst):
    with pytest.raises(ValueError, match="one end must be the server"):
        world(clients=2).network.send(Sized(src, dst, 10))


@dataclass(frozen=True)
class LossyClient(Effect):
    """Loss towards the server, for one client only."""

    client: int
    rate: float

    def shape(self, transfer, rng):
        transfer.loss_up = self.rate * (transfer.client == self.client)


def test_after_the_first_loss_the_rest_has_what_the_window_allows():
    """Without chance: full rate until the mean first loss is noticed, then the mean rate of a window that is cut."""
    model, size = fluid(deterministic=True), tcp.wire_size(MODEL, 4_000_000, 0.01)
    number = tcp.first_loss(model.constants, tcp.packets(MODEL, 4_000_000), 0.01, 0.0)
    top = 10 + number - 1  # packets; slow start has not filled the path yet
    assert top < 2 * 1e6 * 0.1 / 1500
    start, until = Start(0.0, 0.0, 0.0, window=top), (number + top) * 1500
    slow = congestion_avoidance.limit(MODEL, 0.1, 0.01, 1e6, start, size - until)
    assert tcp.steady_rate_of(MODEL, 0.1, 0.01) < slow < 0.7 * top * 1500 / 0.1
    expected = 0.2 + stall(MODEL, until, 0.1, 1e6) + until / 1e6 + (size - until) / slow
    expected += tcp.syn_wait(model.constants, 0.01, 0.0)
    assert lone(up(0, 4_000_000), latency=0.05, model=model, effects=[Loss(up=0.01)]) == pytest.approx(expected)


def test_what_a_lossy_flow_cannot_use_goes_to_the_others():
    """The other has half the link at first, and afterwards what the window leaves.

    By then the other has kept the link full for two round trips, and 0.8 s of queue lengthen the lossy one's, in a
    buffer that is too large to overflow.
    """
    model, loss = fluid(deterministic=True), LossyClient(0, 0.01)
    server = ServerAccess(8e6, 8e6, ingress_buffer=1e6)
    here = world(latency=[0.05, 0.0], uplink=8e6, clients=2, server=server, model=model, effects=[loss])
    here.network.send(up(0, 4_000_000))
    here.network.send(up(1, 1_448_000))
    size, wait = tcp.wire_size(MODEL, 4_000_000, 0.01), tcp.syn_wait(model.constants, 0.01, 0.0)
    lost = tcp.first_loss(model.constants, tcp.packets(MODEL, 4_000_000), 0.01, 0.0)
    start = congestion_avoidance.lossy_start(MODEL, size, 0.1, 5e5, 0.01, lost)
    slow = congestion_avoidance.limit(MODEL, 0.9, 0.01, 1e6, start, size - start.until)
    assert slow < 5e5
    starts = 0.1 + wait + start.idle
    shared = start.until / 5e5  # both at half the rate
    alone = 1_500_000 - starts * 1e6 - start.until
    here.env.run()
    assert here.rows[0].src == 1
    assert here.rows[0].arrived == pytest.approx(starts + shared + alone / (1e6 - slow))


@pytest.mark.parametrize("direction", [up, down])
def test_the_naive_model_is_latency_plus_size_over_bandwidth(direction):
    here = world(
        latency=0.05, uplink=8e6, downlink=8e6, clients=3, server=access(4e6), model=NetworkModel(), effects=[Loss(0.1)]
    )
    for client in range(3):
        here.network.send(direction(client, 10**6))
    here.network.send(direction(0, 0))
    here.env.run()
    assert [row.arrived for row in here.rows] == pytest.approx([0.05] + [2.05] * 3)
    assert [row.wire_bytes for row in here.rows] == [0] + [10**6] * 3


def test_the_naive_model_is_cut_and_slowed_like_any_other():
    here = world(latency=0.0, uplink=8e6, clients=2, model=NetworkModel())
    here.network.send(up(0, 10**6))
    here.network.send(up(1, 10**6))
    here.at(0.25, lambda: here.nodes.sleep(0))
    here.at(0.5, lambda: here.nodes.set_rate(1, uplink=4e6))
    here.env.run()
    assert [(row.arrived, row.wire_bytes) for row in here.rows] == [(0.25, 250_000), (1.5, 10**6)]


def test_models_have_names():
    assert model_named("fluid", MODEL) == fluid()
    assert model_named("naive", MODEL) == NetworkModel()


def test_a_run_without_traffic_ends():
    here = world(clients=1000)
    here.env.run()
    assert here.env.now == 0.0
    assert here.env.scheduled == 0
