"""Plans: closed formulas for a whole cohort say what the network does event by event."""

import math

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core import seeds
from fedsim.core.record import SERVER
from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.effects.churn import Churn
from fedsim.net.effects.congestion import Congestion
from fedsim.net.effects.loss import Loss
from fedsim.net.message import Message
from fedsim.net.model import NetworkModel
from fedsim.net.network import ServerAccess, SimulatedNetwork
from fedsim.net.node import Nodes
from fedsim.net.tcp.fluid import Fluid
from fedsim.net.tcp.laws import TransferModel
from fedsim.net.transports.flower_supernodes import FlowerSupernodes
from fedsim.net.transports.grpc import Grpc
from fedsim.net.transports.tcp import Tcp

rates = st.floats(1e4, 1e9)
clients = st.lists(
    st.tuples(st.floats(0, 1), rates, rates, st.floats(0, 0.1), st.sampled_from([0, 0, 0.001, 0.1]), st.floats(0, 0.2)),
    min_size=1, max_size=6,
)  # fmt: skip
models = st.sampled_from(
    [
        NetworkModel(),
        *(Fluid(TransferModel(congestion_control=cc, tls_rtts=tls)) for cc, tls in [("cubic", 0), ("bbr", 1)]),
    ]
)

carriers = st.sampled_from(
    [Tcp(), Tcp(), FlowerSupernodes(own_up=9000), Grpc(poll=1.0), Grpc(window=4000, overhead=9),
     Grpc(window=30_000, renewed="bytes", settings_rtts=3), Grpc(window=40_000)]
)  # fmt: skip


def network(rows, model=Fluid(), server=ServerAccess(), **options):  # noqa: B008
    latency, up, down, jitter, loss_up, loss_down = np.array(rows).T
    nodes = Nodes(latency, up, down, jitter=jitter, loss_up=loss_up, loss_down=loss_down)
    env, log = simpy.Environment(), []
    net = SimulatedNetwork(
        env, nodes, rng=lambda name: seeds.generator(0, name), record=log.append, model=model, server=server, **options
    )
    return env, net, log


@given(
    clients, models, st.lists(st.integers(0, 3_000_000), min_size=6, max_size=6), st.booleans(), st.floats(0, 9),
    carriers, st.sampled_from(["fresh", "exchange"]),
)  # fmt: skip
def test_a_plan_tells_what_the_network_does(rows, model, sizes, upload, start, transport, kind):
    """A download, or an upload whose connection is new."""
    connections = ConnectionPolicy("fresh" if upload else kind)
    env, net, log = network(rows, model, transport=transport, connections=connections)
    if start:
        env.run(until=start)
    everybody = np.arange(len(rows))
    messages = [Message.sized(*((k, SERVER) if upload else (SERVER, k)), "x", sizes[k]) for k in everybody.tolist()]
    leg = network(rows, model, transport=transport, connections=connections)[1].planner.plan(
        everybody, np.full(len(rows), start), np.array(sizes[: len(rows)]), upload
    )
    for message in messages:
        net.send(message)
    env.run()
    client = (lambda row: row.src) if upload else (lambda row: row.dst)
    found = sorted(log, key=client)
    assert [row.arrived for row in found] == pytest.approx(leg.arrives.tolist(), rel=1e-9, abs=1e-9)
    assert [row.wire_bytes for row in found] == np.rint(leg.size).astype(int).tolist()


@pytest.mark.parametrize(("window", "waits"), [(4000, True), (40_000, False)])
@pytest.mark.parametrize("upload", [True, False])
def test_a_plan_waits_for_room_as_the_network_does(window, waits, upload):
    """For 4 kB, less than a first window of TCP, and not for 40 kB, which slow start takes as long to send."""
    rows, found = [(0.05, 80e6, 80e6, 0, 0, 0), (0.2, 8e6, 8e6, 0, 0, 0)], []
    for transport in (Grpc(), Grpc(window=window)):
        env, net, log = network(rows, transport=transport)
        for k in range(2):
            net.send(Message.sized(*((k, SERVER) if upload else (SERVER, k)), "x", 300_000))
        env.run()
        leg = network(rows, transport=transport)[1].planner.plan(np.arange(2), np.zeros(2), np.full(2, 300_000), upload)
        assert leg.arrives.tolist() == pytest.approx(sorted(row.arrived for row in log), rel=1e-12)
        found.append(leg.arrives)
    assert (found[1] > found[0] + 0.09).tolist() == [waits, waits]
    assert waits or found[1].tolist() == found[0].tolist()


@given(clients, st.integers(1, 3_000_000), st.booleans(), st.floats(0, 1))
def test_what_has_moved_is_what_the_network_tells_of_a_cut(rows, nbytes, upload, share):
    everybody = np.arange(len(rows))
    leg = network(rows)[1].planner.plan(everybody, np.zeros(len(rows)), np.full(len(rows), nbytes), upload)
    env, net, log = network(rows)
    now = float(leg.arrives[0]) * share
    net.send(Message.sized(*((0, SERVER) if upload else (SERVER, 0)), "x", nbytes))
    if now > 0:
        env.run(until=now)
    net.close()
    whole = log[0].fate == "delivered"
    assert whole or leg.moved(0, now) == pytest.approx(log[0].wire_bytes, abs=2 + 1e-6 * nbytes)


def test_another_row_can_be_put_in():
    _, net, _ = network([(0.1, 1e6, 1e6, 0, 0, 0)] * 3)
    leg = net.planner.plan(np.arange(3), np.zeros(3), np.array([10, 20, 30]), True)
    leg.put(1, net.planner.plan(np.array([1]), np.array([5.0]), np.array([40]), True))
    assert leg.arrives[1] > 5 > leg.arrives[2] > leg.arrives[0]


FAST = [(0.1, 8e6, 8e6, 0, 0, 0)] * 3


@pytest.mark.parametrize(
    ("options", "many", "alone", "fits"),
    [
        ({}, 3, False, True),
        ({"server": ServerAccess(ingress=30e6)}, 3, False, True),
        ({"server": ServerAccess(ingress=20e6)}, 2, True, True),
        ({"server": ServerAccess(ingress=20e6)}, 2, False, False),  # the third might join
        ({"server": ServerAccess(ingress=16e6)}, 2, True, False),  # just full
        ({"server": ServerAccess(egress=15e6)}, 2, True, False),
        ({"server": ServerAccess(ingress=1.0), "model": NetworkModel()}, 3, False, True),
        ({"server": ServerAccess(ingress_burst=9.0)}, 1, True, False),
        ({"connections": ConnectionPolicy("kept")}, 1, True, False),
        ({"connections": ConnectionPolicy("exchange"), "transport": FlowerSupernodes()}, 1, True, True),
        ({"connections": ConnectionPolicy("exchange"), "transport": Grpc(window=9, renewed="bytes")}, 1, True, True),
        ({"connections": ConnectionPolicy("kept"), "transport": Grpc()}, 1, True, False),
        ({"effects": [Churn(online=9.0, offline=9.0)]}, 1, True, True),
        ({"effects": [Loss(rate=0.1)]}, 1, True, False),
        ({"effects": [Congestion(load=0.5)], "server": ServerAccess(ingress=1e12)}, 1, True, False),
    ],
)
def test_only_what_nobody_can_hold_up_is_planned(options, many, alone, fits):
    _, net, _ = network(FAST, **options)
    assert net.planner.fits(np.arange(many), alone) == fits


def test_a_token_bucket_is_not_planned():
    env = simpy.Environment()
    nodes = Nodes([0.1], [1e6], [1e6], up_burst=9.0)
    net = SimulatedNetwork(env, nodes, rng=lambda name: seeds.generator(0, name), record=lambda row: None)
    assert not net.planner.fits(np.arange(1), True)
    assert math.isinf(net.shared["ingress"].capacity)
