"""Messages over trees and between peers: closed forms, equality with the star, and random traffic."""

from functools import partial
from unittest import mock

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import Sized, World, access, cut, down, fluid, rate_of, stall, up

from fedsim.core import seeds
from fedsim.core.record import SERVER
from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.effects.jitter import Jitter
from fedsim.net.effects.loss import Loss
from fedsim.net.links import link_meter
from fedsim.net.model import NetworkModel
from fedsim.net.network import SimulatedNetwork
from fedsim.net.node import Nodes
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.fluid import Fluid
from fedsim.net.tcp.laws import TransferModel
from fedsim.net.topologies.peers import Peers
from fedsim.net.topologies.star import Star
from fedsim.net.topologies.tree import EdgeTree
from fedsim.net.topology import edge_node
from fedsim.net.transfer import Lost

MODEL = TransferModel()
EDGE = edge_node(0)
RING = Peers(graph="ring")


def world(topology, latency=0.01, uplink=8e6, downlink=8e6, clients=3, seed=0, rows=None, **options):
    """As in netlab, with further rows of the clients in `rows`."""
    env, log = simpy.Environment(), []
    columns = [np.broadcast_to(np.asarray(value, float), clients) for value in (latency, uplink, downlink)]
    nodes = Nodes(*columns, **(rows or {}))
    network = SimulatedNetwork(
        env, nodes, rng=partial(seeds.generator, seed), record=log.append, topology=topology, **options
    )
    return World(env, nodes, network, log)


def tree(edges=1, uplink=8e6, downlink=8e6, latency=0.02, **options):
    return EdgeTree(edges=edges, uplink=uplink, downlink=downlink, latency=latency, **options)


def arrival(message, topology, **options):
    here = world(topology, **options)
    here.network.send(message)
    here.env.run(until=1e6)
    (row,) = here.rows
    assert row.fate == "delivered"
    return row.arrived


def lone(nbytes, trip, rate):
    """Seconds of a lone message, from the client's side: 2R + stall + W/r."""
    size = tcp.wire_size(MODEL, nbytes, 0.0)
    return 2 * trip + stall(MODEL, size, trip, rate / 8) + 8 * size / rate


rates = st.floats(1e5, 1e9)


@settings(max_examples=60)
@given(st.integers(1, 10**7), st.floats(0, 0.3), st.floats(0, 0.3), rates, rates, rates, rates)
def test_a_lone_message_over_a_tree_goes_at_the_rate_of_its_slowest_link(nbytes, near, far, own, edge, ingress, server):
    shape = tree(uplink=edge, downlink=edge, latency=far, ingress=ingress, egress=ingress)
    options = {"latency": near, "uplink": own, "downlink": own, "server": access(server)}
    trip, slowest = 2 * (near + far), min(own, edge, ingress, server)
    # shorter queues would overflow with the bursts of slow start
    with mock.patch.object(link_meter, "BUFFER_SECONDS", 10.0):
        assert arrival(up(0, nbytes), shape, **options) == pytest.approx(
            lone(nbytes, trip, slowest) - trip / 2, rel=1e-9
        )
        assert arrival(down(0, nbytes), shape, **options) == pytest.approx(lone(nbytes, trip, slowest), rel=1e-9)
        trip, slowest = 2 * near, min(own, ingress)
        leg = lone(nbytes, trip, slowest)
        assert arrival(Sized(0, EDGE, nbytes), shape, **options) == pytest.approx(leg - trip / 2, rel=1e-9)
        assert arrival(Sized(EDGE, 0, nbytes), shape, **options) == pytest.approx(leg, rel=1e-9)
        trip, slowest = 2 * far, min(edge, server)
        leg = lone(nbytes, trip, slowest)
        assert arrival(Sized(EDGE, SERVER, nbytes), shape, **options) == pytest.approx(leg - trip / 2, rel=1e-9)
        assert arrival(Sized(SERVER, EDGE, nbytes), shape, **options) == pytest.approx(leg, rel=1e-9)


@settings(max_examples=40)
@given(st.integers(1, 10**7), st.floats(0, 0.3), st.floats(0, 0.3), rates, rates, st.floats(0, 0.05))
def test_a_lone_message_between_peers_goes_at_the_lower_of_uplink_and_downlink(nbytes, a, b, out, into, jitter):
    options = {"latency": [a, b, 9.0], "uplink": [out, 1e9, 1e9], "downlink": [1e9, into, 1e9]}
    trip = 2 * (a + b) + 3 * jitter
    arrived = arrival(Sized(0, 1, nbytes), RING, rows={"jitter": [jitter, 2 * jitter, 1.0]}, **options)
    assert arrived == pytest.approx(lone(nbytes, trip, min(out, into)) - trip / 2, rel=1e-9)


def ends(here, *messages):
    """When each message arrives, all sent at once."""
    for message in messages:
        here.network.send(message)
    here.env.run(until=1e6)
    return {(row.src, row.dst): row.arrived for row in here.rows if row.fate == "delivered"}


def test_two_peers_that_send_to_one_neighbour_share_its_downlink():
    size = tcp.wire_size(MODEL, 10**6, 0.0)
    times = ends(world(RING, 0.0, 80e6, 8e6), Sized(0, 1, 10**6), Sized(2, 1, 10**6), Sized(0, 2, 10**6))
    assert times == pytest.approx({(0, 1): 2 * size / 1e6, (2, 1): 2 * size / 1e6, (0, 2): size / 1e6}, rel=1e-9)


def test_what_one_neighbour_cannot_take_the_others_get():
    """Three messages share an uplink of 3 MB/s; one of them gets 0.5 at its narrow end, the others 1.25 each."""
    here = world(RING, 0.0, 24e6, [8e9, 4e6, 8e9, 8e9], clients=4)
    here.nodes.set_rate(0, uplink=24e6)
    for other in (1, 3):
        here.network.send(Sized(0, other, 10**6))
    here.env.run(until=0.1)
    assert [here.network._links.between(0, other).pool.load for other in (1, 3)] == [0.5e6, 2.5e6]


def test_relayed_uploads_share_the_uplink_of_their_edge_and_no_other():
    size = tcp.wire_size(MODEL, 10**6, 0.0)
    shape = tree(edges=2, uplink=8e6, latency=0.0)
    times = ends(world(shape, 0.0, 80e6, clients=4), up(0, 10**6), up(1, 10**6), up(2, 10**6), Sized(3, -3, 10**6))
    seconds = {(0, -1): 2 * size / 1e6, (1, -1): 2 * size / 1e6, (2, -1): size / 1e6, (3, -3): size / 1e7}
    assert times == pytest.approx(seconds, rel=1e-9)


def test_flows_of_one_client_share_its_access_link_wherever_they_go():
    """Half of 1 MB/s each, to the edge and to the server, though the edge's uplink hardly takes anything."""
    size = tcp.wire_size(MODEL, 10**6, 0.0)
    times = ends(world(tree(uplink=8e5, latency=0.0), 0.0), up(0, 10**6), Sized(0, EDGE, 10**6))
    assert times[0, EDGE] == pytest.approx(2 * size / 1e6, rel=1e-9)
    assert times[0, SERVER] == pytest.approx(size / 1e5, rel=1e-9)


def test_the_naive_model_takes_the_slowest_link_and_shares_nothing():
    naive = {"model": NetworkModel(), "latency": 0.01, "server": access(16e6)}
    times = ends(
        world(tree(uplink=4e6, downlink=2e6), **naive),
        up(0, 10**6), up(1, 10**6), down(0, 10**6), Sized(EDGE, SERVER, 10**6), Sized(0, EDGE, 10**6),
    )  # fmt: skip
    assert times == pytest.approx(
        {(0, -1): 2.03, (1, -1): 2.03, (-1, 0): 4.03, (EDGE, SERVER): 2.02, (0, EDGE): 1.01}, rel=1e-9
    )
    times = ends(
        world(RING, 0.01, [8e6, 2e6, 8e6], 4e6, model=NetworkModel()),
        Sized(0, 1, 10**6),
        Sized(2, 1, 10**6),
        Sized(1, 0, 10**6),
    )
    assert times == pytest.approx({(0, 1): 2.02, (2, 1): 2.02, (1, 0): 4.02}, rel=1e-9)


@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("how", ["sleep", "leave"])
def test_either_end_of_a_message_between_peers_can_cut_it(who, how):
    here = world(RING, 0.0)
    delivery = here.network.send(Sized(0, 1, 10**6))
    other = here.network.send(Sized(2, 1 - who, 10**5))
    here.at(0.5, lambda: getattr(here.nodes, how)(who))
    here.env.run(until=100)
    row = next(row for row in here.rows if row.src == 0)
    both = round(tcp.wire_size(MODEL, 10**5, 0.0))  # of the other message, which has shared the downlink of client 1
    assert (row.fate, row.arrived) == ("cut", 0.5)
    assert row.wire_bytes == pytest.approx(500_000 - (both if who == 0 else 0), abs=1)
    assert isinstance(delivery.value, Lost)
    assert other.ok
    metered = [here.network.meters(True)[0], here.network.meters(False)[1]]
    assert metered[0] == pytest.approx(row.wire_bytes, abs=1)
    assert sum(row.wire_bytes for row in here.rows if row.dst == 1) == pytest.approx(metered[1], abs=2)


def test_a_message_to_a_peer_that_is_asleep_is_lost_at_once():
    here = world(RING)
    here.nodes.sleep(1)
    for ends in ((0, 1), (1, 0)):
        here.network.send(Sized(*ends, 10))
    assert [(row.fate, row.wire_bytes) for row in here.rows] == [("lost", 0)] * 2


def test_edges_are_always_there_and_clients_can_sleep():
    here = world(tree())
    here.nodes.sleep(0)
    sent = [Sized(EDGE, SERVER, 10), Sized(SERVER, EDGE, 10), Sized(EDGE, 0, 10), Sized(0, EDGE, 10), up(0, 10)]
    for message in sent:
        here.network.send(message)
    here.env.run()
    assert {(row.src, row.dst): row.fate for row in here.rows} == {
        (EDGE, SERVER): "delivered", (SERVER, EDGE): "delivered", (EDGE, 0): "lost", (0, EDGE): "lost", (0, -1): "lost"
    }  # fmt: skip


def test_a_change_of_a_peers_rate_reaches_what_it_sends_and_receives():
    size = tcp.wire_size(MODEL, 10**6, 0.0)
    here = world(RING, 0.0)
    here.at(0.5, lambda: here.nodes.set_rate(1, uplink=16e6, downlink=0.8e6))
    here.at(1.5, lambda: here.nodes.set_rate(1, downlink=8e6))
    times = ends(here, Sized(0, 1, 10**6), Sized(1, 2, 10**6))
    assert times == pytest.approx({(0, 1): 1.5 + (size - 0.6e6) / 1e6, (1, 2): size / 1e6}, rel=1e-9)


def test_those_that_share_a_peers_link_share_what_becomes_of_it():
    size = tcp.wire_size(MODEL, 10**6, 0.0)
    here = world(RING, 0.0, 80e6)
    here.at(1.0, lambda: here.nodes.set_rate(1, downlink=4e6))
    times = ends(here, Sized(0, 1, 10**6), Sized(2, 1, 10**6))
    assert times == pytest.approx(dict.fromkeys(times, 1.0 + (2 * size - 1e6) / 0.5e6), rel=1e-9)


def test_losses_of_both_ends_strike_independently():
    rows = {"loss_up": [0.01, 0.02, 0.0], "loss_down": [0.03, 0.04, 0.0]}
    shape = {"rows": rows, "effects": [Loss(up=0.005, down=0.001), Jitter(0.01)], "model": fluid(deterministic=True)}
    here = world(RING, **shape)
    here.network.send(Sized(0, 1, 10**5))
    (passage,) = here.network.under_way
    there = 1 - (1 - 0.01) * (1 - 0.005) * (1 - 0.04) * (1 - 0.001)
    back = 1 - (1 - 0.02) * (1 - 0.005) * (1 - 0.03) * (1 - 0.001)
    assert passage.transfer.loss == pytest.approx(there, rel=1e-12)
    assert passage.transfer.loss_down == pytest.approx(back, rel=1e-12)
    assert passage.transfer.jitter == pytest.approx(0.02)
    here.env.run(until=1e3)
    assert here.rows[0].wire_bytes == round(tcp.wire_size(MODEL, 10**5, passage.transfer.loss))


def test_nothing_is_lost_between_an_edge_and_the_server():
    here = world(tree(), effects=[Loss(rate=0.5), Jitter(1.0)])
    here.network.send(Sized(EDGE, SERVER, 10**5))
    (passage,) = here.network.under_way
    assert (passage.transfer.loss_up, passage.transfer.loss_down, passage.transfer.jitter) == (0.0, 0.0, 0.0)
    assert passage.transfer.propagation == 0.04


def test_a_short_message_waits_behind_those_that_keep_a_link_of_its_path_full():
    """The bulk of one client fills the edge's uplink: others that cross it wait Q, those that do not do not."""

    def seconds(message, bulk):
        here = world(tree(latency=0.0), 0.01, 80e6, clients=3)
        if bulk:
            here.network.send(up(0, 10**8))
        here.at(5.0, lambda: here.network.send(message))
        here.env.run(until=30)
        (row,) = (row for row in here.rows if row.nbytes == 10**4)
        return row.arrived - row.sent

    queue = tcp.standing_queue(MODEL, max(64e3, 1e5), 1e6, 0.02)
    assert queue > 0.01
    assert seconds(up(1, 10**4), bulk=True) > seconds(up(1, 10**4), bulk=False) + 2 * queue
    assert seconds(Sized(1, EDGE, 10**4), bulk=True) == pytest.approx(seconds(Sized(1, EDGE, 10**4), bulk=False))


def test_an_idle_edges_link_and_a_peers_bucket_let_a_burst_pass():
    plain, burst = (world(RING, 0.0, rows={"up_burst": b, "down_burst": b}) for b in (0.0, 2e5))
    saved = ends(plain, Sized(0, 1, 10**6))[0, 1] - ends(burst, Sized(0, 1, 10**6))[0, 1]
    assert saved == pytest.approx(0.2, rel=1e-9)


def test_names_of_links_edges_and_neighbours():
    trees = world(tree(edges=2), clients=4).network
    names = [f"edge {edge} {link}" for edge in (0, 1) for link in ("ingress", "uplink", "downlink", "egress")]
    assert list(trees.shared) == ["ingress", "egress", *names]
    assert (trees.layout.edges, trees.layout.edge_of(3), trees.layout.neighbours(0)) == (2, -3, ())
    assert trees.shared["edge 1 uplink"].capacity == 1e6
    ring = world(RING, clients=5).network
    assert (ring.shared, ring.layout.edges, ring.layout.neighbours(0)) == ({}, 0, (1, 4))
    star = world(Star()).network
    assert (list(star.shared), star.layout.edges, star.layout.neighbours(0)) == (["ingress", "egress"], 0, ())
    for network in (ring, star):
        with pytest.raises(ValueError, match="no edge aggregator"):
            network.layout.edge_of(0)


@pytest.mark.parametrize(("topology", "src", "dst"), [(tree(), 0, 1), (RING, 0, SERVER), (RING, 1, 1), (tree(), 0, -3)])
def test_where_there_is_no_way_nothing_can_be_sent(topology, src, dst):
    here = world(topology)
    with pytest.raises(ValueError, match=f"'train' cannot be sent: there is no route from {src} to {dst}"):
        here.network.send(Sized(src, dst, 10))
    assert here.rows == []


def test_an_effect_can_throttle_an_edges_link():
    size = tcp.wire_size(MODEL, 10**6, 0.0)
    here = world(tree(latency=0.0), 0.0, 80e6)
    here.at(0.5, lambda: here.network.shared["edge 0 uplink"].set_capacity(0.0))
    here.at(2.5, lambda: here.network.shared["edge 0 uplink"].set_capacity(1e6))
    assert ends(here, up(0, 10**6))[0, SERVER] == pytest.approx(2 + size / 1e6, rel=1e-9)


# Random traffic


def routes_of(layout):
    nodes = [SERVER, *range(layout.clients), *(edge_node(edge) for edge in range(layout.edges))]
    found = []
    for src in nodes:
        for dst in nodes:
            try:
                layout.route(src, dst)
            except ValueError:
                continue
            found.append((src, dst))
    return found


def random_topology(rng, clients):
    kind = rng.integers(4)
    if kind < 2:
        rates = rng.lognormal(np.log(8e6), 1, 4)
        limits = {"ingress": rates[2], "egress": rates[3]} if rng.random() < 0.5 else {}
        assign = str(rng.choice(["contiguous", "round_robin", "random"]))
        return tree(int(rng.integers(1, min(4, clients) + 1)), rates[0], rates[1], 0.01, assign=assign, **limits)
    return RING if kind == 2 else Peers(graph="erdos_renyi", p=0.7)


def traffic(seed, topology=None, model=None, clients=None, connections=None, before_end=None):
    """Let random messages go, some aborted, while clients sleep, leave and change their rates."""
    rng = np.random.default_rng(seed)
    clients = clients or int(rng.integers(2, 8))
    topology = topology or random_topology(rng, clients)
    rows = {"jitter": 0.005, "loss_up": rng.uniform(0, 0.01, clients), "loss_down": rng.uniform(0, 0.01, clients)}
    if rng.random() < 0.3:
        rows |= {"up_burst": 3e4, "down_burst": 3e4}
    here = world(
        topology, rng.uniform(0, 0.05, clients), rng.lognormal(np.log(8e6), 1, clients),
        rng.lognormal(np.log(16e6), 1, clients), clients, seed, rows,
        server=access(float(rng.choice([1e7, 1e8]))), effects=[Jitter(0.002), Loss(0.001)],
        model=model or Fluid(), connections=connections or ConnectionPolicy("kept" if rng.random() < 0.5 else "fresh"),
    )  # fmt: skip
    network, sent = here.network, []
    possible = routes_of(network.layout)

    def send(number, nbytes, aborted):
        delivery = network.send(Sized(*possible[number % len(possible)], nbytes, version=len(sent)))
        sent.append(delivery)
        if aborted:
            here.at(here.env.now + aborted, cut, network, delivery)

    for _ in range(30):
        time = float(rng.choice([rng.uniform(0, 10), rng.integers(0, 5)]))
        aborted = float(rng.exponential(1.0)) if rng.random() < 0.2 else 0.0
        here.at(time, send, int(rng.integers(10**6)), int(rng.choice([0, 10**3, rng.exponential(5e5)])), aborted)
    for _ in range(8):
        client, time = int(rng.integers(clients)), float(rng.uniform(0, 15))
        what = rng.choice(["sleep", "leave", "rate", "rate", "outage"])
        if what == "sleep":
            here.at(time, here.nodes.sleep, client)
            here.at(time + 1.0, here.nodes.wake, client)
        elif what == "leave":
            here.at(time, here.nodes.leave, client)
        else:
            new = rng.lognormal(np.log(8e6), 1, 2) if what == "rate" else (0.0, 0.0)
            here.at(time, here.nodes.set_rate, client, float(new[0]), float(new[1]))
            here.at(time + 2.0, here.nodes.set_rate, client, 8e6, 8e6)
    for time in rng.uniform(0, 12, 5):
        here.at(time, before_end or (lambda here: None), here)
    here.env.run(until=200.0)
    network.close()
    return here, sent


seeds_drawn = st.integers(0, 10**6)


@settings(max_examples=60)
@given(seeds_drawn, st.sampled_from([None, NetworkModel()]))
def test_every_message_ends_in_one_row_and_the_meters_agree_with_the_rows(seed, model):
    here, sent = traffic(seed, model=model)
    assert sorted(row.version for row in here.rows) == list(range(len(sent)))
    assert all(delivery.triggered for delivery in sent)
    assert here.network.under_way == {}
    assert [here.network._channels.of(client) for client in range(len(here.nodes))] == [[]] * len(here.nodes)
    for client in range(len(here.nodes)):
        for upload in (True, False):
            of = [row.wire_bytes for row in here.rows if (row.src if upload else row.dst) == client]
            assert here.network.meters(upload)[client] == pytest.approx(sum(of), rel=1e-9, abs=len(of))


@settings(max_examples=40)
@given(seeds_drawn)
def test_equal_seeds_give_equal_logs(seed):
    assert repr(traffic(seed)[0].rows) == repr(traffic(seed)[0].rows)


def hold_certificate(here):
    """Each flow is at its ceiling, or on a full link on which none is faster; no link carries too much."""
    network, found = here.network, []
    for passage in network.under_way:
        if passage._moving:
            flow, route = passage.channel._flows[passage], passage.route
            found.append((flow.ceiling, rate_of(route.pool, flow), route.links, passage.channel))
    loads, fastest = {}, {}
    for _, rate, links, _ in found:
        for link in links:
            loads[link] = loads.get(link, 0.0) + rate
            fastest[link] = max(fastest.get(link, 0.0), rate)
    for link, load in loads.items():
        assert load <= link.capacity * (1 + 1e-9)
        assert load == pytest.approx(link.load, rel=1e-9, abs=1e-6)
    for ceiling, rate, links, _ in found:
        full = [link for link in links if loads[link] >= link.capacity * (1 - 1e-9)]
        assert rate >= ceiling * (1 - 1e-9) or any(rate >= fastest[link] * (1 - 1e-9) for link in full)
    if not network.layout.neighbours(0):
        for client in range(len(here.nodes)):
            for channel in network._channels.of(client):
                assert sum(rate for _, rate, _, own in found if own is channel) <= channel.capacity * (1 + 1e-9)


@settings(max_examples=60)
@given(seeds_drawn)
def test_rates_are_max_min_fair_at_any_instant(seed):
    traffic(seed, before_end=hold_certificate)


@settings(max_examples=40)
@given(seeds_drawn, st.booleans())
def test_a_tree_of_one_edge_without_latency_is_a_star(seed, narrow):
    """Where the edge's own links are wide it is the star; where the server's are, the edge's stand for them."""
    rate = 2e7
    server, own = (None, rate) if narrow else (rate, 1e12)
    found = []
    for topology, limit in ((Star(), rate), (tree(1, own, own, 0.0), server)):
        found.append(plain_traffic(seed, topology, limit))
    star, other = found
    assert [(row.src, row.dst, row.version, row.fate) for row in star] == [
        (row.src, row.dst, row.version, row.fate) for row in other
    ]
    assert [row.arrived for row in star] == pytest.approx([row.arrived for row in other], rel=1e-7)


def plain_traffic(seed, topology, limit):
    rng = np.random.default_rng(seed)
    columns = rng.uniform(0, 0.05, 5), rng.lognormal(np.log(8e6), 1, 5), rng.lognormal(np.log(16e6), 1, 5)
    here = world(
        topology, *columns, 5, server=access(limit), connections=ConnectionPolicy("kept" if seed % 2 else "fresh")
    )
    for number in range(25):
        client, nbytes = int(rng.integers(5)), int(rng.exponential(5e5))
        message = Sized(*((client, SERVER) if rng.random() < 0.5 else (SERVER, client)), nbytes, version=number)
        here.at(float(rng.uniform(0, 8)), here.network.send, message)
    here.env.run()
    return sorted(here.rows, key=lambda row: row.version)
