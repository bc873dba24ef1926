"""Two tiers: what an edge does with its clients, what the cloud makes of its edges, and who is left out."""

from dataclasses import dataclass

import pytest
from fake_links import BACKBONE, HOP, tree
from fake_pull import Long, Pull
from fake_world import Number, Period, Silent, check_books, download_bytes, lab
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.clock.protocols.hierarchical import Hierarchical
from fedsim.clock.protocols.sync import Sync
from fedsim.core.errors import ScenarioError
from fedsim.core.record import SERVER
from fedsim.net.effects.dropout import Dropout
from fedsim.net.message import Message
from fedsim.net.topologies.star import Star
from fedsim.net.topologies.tree import EdgeTree
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

EDGES = [SERVER - 1, SERVER - 2, SERVER - 3]  # their node numbers


def world(edge_of, **options):
    options.setdefault("algorithm", Pull(by_examples=True))
    return lab(clients=len(edge_of), links=tree(edge_of), edges=max(edge_of) + 1, **options)


def hop(model=0.0):
    """Seconds of a share between edge and cloud."""
    return HOP + 8 * Message(SERVER, EDGES[0], "share", {"model": model}, 0).nbytes / BACKBONE


def trip(speed=1e6):
    up = Message(
        0, SERVER, "train", {"update": 0.0, "samples": 1, "ballast": Pull().download({"model": 0}, 0, "")["ballast"]}
    )
    return 0.2 + 8 * (download_bytes(Pull()) + up.nbytes) / 8e4 + 1e6 / speed


@pytest.mark.parametrize("edge_of", [[0, 0, 1, 1], [0, 1, 1, 1], [1, 0, 2, 1], [0, 0, 0, 0]])
def test_with_one_edge_round_and_everybody_it_is_plain_averaging(edge_of):
    here, flat = world(edge_of), lab(clients=4, algorithm=Pull(by_examples=True))
    assert here.run(Hierarchical(rounds=3, participation=1.0))
    assert flat.run(Sync(rounds=3, participation=1.0))
    assert here.state["model"] == pytest.approx(flat.state["model"], rel=1e-12)
    assert [(row.version, row.asked, row.folded) for row in here.updates] == [(1, 4, 4), (2, 4, 4), (3, 4, 4)]
    check_books(here)


def test_two_edge_rounds_by_hand():
    here = world([0, 1, 1])
    here.run(Hierarchical(rounds=1, edge_rounds=2, participation=1.0))
    one = 0.5 + (1 - 0.5) / 2  # 0 -> 1/2 -> 3/4, of one example
    goal = (2 * 2 + 3 * 3) / 5
    two = goal / 2 + (goal - goal / 2) / 2  # of five
    assert here.state["model"] == pytest.approx((one * 1 + two * 5) / 6)
    assert [(row.version, row.asked, row.folded, row.staleness) for row in here.updates] == [(1, 6, 6, 0.0)]
    assert [edge.rounds for edge in here.world.edges] == [2, 2]


def test_a_round_takes_the_way_down_the_slowest_edge_and_the_way_up():
    here = world([0, 0, 1], speed=[1e6, 5e5, 4e6])
    here.run(Hierarchical(rounds=2, edge_rounds=3, participation=1.0))
    one = 2 * hop() + 3 * trip(5e5)
    assert [row.time for row in here.updates] == pytest.approx([one, 2 * one])
    between = [row for row in here.transfers if row.kind == "share"]
    assert {(row.src, row.dst) for row in between} == {(SERVER, e) for e in EDGES[:2]} | {
        (e, SERVER) for e in EDGES[:2]
    }
    assert len(between) == 8
    assert {row.dst for row in here.transfers if row.src >= 0} == set(EDGES[:2])
    assert {row.version for row in here.transfers if row.sent < one - 1e-6} == {0}
    assert {row.version for row in here.transfers if row.sent > one - 1e-6} == {1}


def test_each_edge_asks_a_share_of_its_own_clients_and_one_at_least():
    here = world([0] * 10 + [1] * 3 + [2])
    here.run(Hierarchical(rounds=4, participation=0.25))
    assert [row.asked for row in here.updates] == [3 + 1 + 1] * 4
    for row in here.transfers:
        if row.src < SERVER and row.dst >= 0:
            assert row.src == here.network.layout.edge_of(row.dst)


def test_the_cloud_takes_its_time_to_merge():
    here, plain = world([0, 1], algorithm=Long(up=8000)), world([0, 1], algorithm=Pull(up=8000))
    for one in (here, plain):
        one.run(Hierarchical(rounds=1, participation=1.0))
    longer = 2 * 8 * (here.transfers[0].nbytes - plain.transfers[0].nbytes) / BACKBONE
    assert here.updates[0].time - plain.updates[0].time == pytest.approx(longer + 2 * 4000 / 1e9, rel=1e-9)


def test_an_edge_that_has_nobody_holds_up_nobody_and_weighs_nothing():
    here = world([0, 0, 1, 1])
    here.nodes.sleep(2)
    here.nodes.sleep(3)
    assert here.run(Hierarchical(rounds=2, edge_rounds=2, participation=1.0))
    goal = (1 + 2 * 2) / 3
    assert here.state["model"] == pytest.approx(goal * (1 - 0.5**4))
    assert [(row.asked, row.folded) for row in here.updates] == [(4, 4)] * 2
    assert not [row for row in here.transfers if row.src == EDGES[1]]
    check_books(here)


def test_an_edge_whose_clients_are_all_lost_sends_nothing():
    here = world([0, 1])
    here.at(1.0, here.nodes.leave, 1)
    here.run(Hierarchical(rounds=1, participation=1.0))
    assert here.state["model"] == pytest.approx(0.5)
    assert [(row.asked, row.folded, row.lost) for row in here.updates] == [(2, 1, 1)]


def test_when_all_are_away_the_round_begins_when_the_first_is_there():
    here = world([0, 1])
    for client in (0, 1):
        here.nodes.sleep(client)
        here.at(5.0 + client, here.nodes.wake, client)
    here.run(Hierarchical(rounds=1, participation=1.0))
    assert here.transfers[0].arrived - hop() == pytest.approx(5.0)
    assert [(row.asked, row.folded) for row in here.updates] == [(1, 1)]


def test_a_round_that_brings_nothing_is_noted_and_changes_nothing():
    here = world([0, 1])
    for client in (0, 1):
        here.at(1.0, here.nodes.leave, client)
    here.run(Hierarchical(rounds=1, participation=1.0))
    assert [(row.version, row.asked, row.folded, row.lost) for row in here.updates] == [(0, 2, 0, 2)]
    assert here.state == Pull().start()


def test_an_edge_that_is_late_is_left_out_and_billed():
    here = world([0, 0, 1], speed=[1e6, 1e6, 1e5])
    here.env.process(Hierarchical(rounds=2, participation=1.0, wait=5.0).run(here.world))
    here.run()
    assert [row.time for row in here.updates] == pytest.approx([5.0, 5.0 + 2 * hop() + trip()])
    assert [(row.asked, row.folded, row.late) for row in here.updates] == [(3, 2, 1), (2, 2, 0)]
    assert here.fates()["late"] == 1
    assert not here.world.server.busy
    assert here.state["model"] == pytest.approx(5 / 3 * (1 - 0.25))
    check_books(here)


def test_an_edge_that_is_late_on_its_way_up_has_folded_in_vain():
    here = world([0, 1], speed=[1e6, 4e6])
    here.env.process(Hierarchical(rounds=1, participation=1.0, wait=hop() + trip() + hop() / 2).run(here.world))
    here.run()
    assert [(row.asked, row.folded, row.late) for row in here.updates] == [(2, 1, 1)]
    assert here.state["model"] == pytest.approx(1.0)  # client 1 alone
    assert [row.fate for row in here.transfers if row.src == EDGES[0] and row.dst == SERVER] == ["late"]
    check_books(here)


def test_an_edge_that_is_folding_when_the_time_is_up_keeps_its_state():
    here = world([0, 1], speed=[1e6, 4e6], algorithm=Pull(server_work=2e8, by_examples=True))
    here.env.process(Hierarchical(rounds=2, participation=1.0, wait=hop() + trip() + 0.1).run(here.world))
    here.run()
    assert [(row.asked, row.folded, row.late) for row in here.updates] == [(2, 1, 1)] * 2
    assert here.value(here.world.edges[0].state)["model"] == pytest.approx(1.0)  # the cloud's share of the second round
    assert here.state["model"] == pytest.approx(1.5)
    assert [row.fate for row in here.transfers if row.dst == EDGES[0] and row.src == 0] == ["late"] * 2
    check_books(here)


def test_masses_of_nothing_are_equal():
    @dataclass(frozen=True, eq=False)
    class Massless(Pull):
        def mass(self, reply):
            return 0

        def update(self, state, replies, step):
            return {**state, "model": state["model"] + replies[0].client + 1}

    here = world([0, 1], algorithm=Massless())
    here.run(Hierarchical(rounds=1, participation=1.0))
    assert here.state["model"] == pytest.approx(1.5)


def test_what_does_not_fit_is_refused():
    protocol = Hierarchical(rounds=1, clients=1)
    assert "'tree'" in (protocol.refuse(Number(), Star()) or "")
    two = EdgeTree(edges=2, uplink=1e6, downlink=1e6, latency=0.01)
    assert protocol.refuse(Silent(), two) is not None
    assert "steps of its own" in (protocol.refuse(Number(), two) or "")  # the fake has its own
    with pytest.raises(ScenarioError, match="wait: 0: must be more"):
        find.build("protocol", Part(name="hierarchical", options={"rounds": 1, "clients": 1, "wait": 0}))


def test_the_progress_goes_from_none_to_all():
    protocol, here = Hierarchical(rounds=4, clients=1), world([0, 1])
    assert protocol.share(here.world) == 0
    here.run(protocol)
    assert protocol.share(here.world) == 1


disturbances = st.lists(
    st.tuples(st.floats(0, 15), st.integers(0, 4), st.sampled_from(["sleep", "wake", "leave"])), max_size=15
)


@settings(max_examples=80, deadline=None)
@given(disturbances, st.floats(0.1, 1), st.integers(1, 3), st.sampled_from([None, 1.0, 2.5, 6.0]), st.floats(0, 2e9))
def test_whatever_happens_asks_and_bytes_are_accounted_for(disturbances, share, edge_rounds, wait, server_work):
    def once():
        here = world(
            [0, 1, 1, 0, 2],
            latency=[0, 0.1, 0.1, 0.4, 0.2],
            speed=[1e6, 1e7, 4e5, 1e6, 1e6],
            effects=[Dropout(0.1)],
            algorithm=Pull(server_work=server_work, by_examples=True),
        )
        for client in here.world.clients:
            here.world.clients.arrive(client, Period(1))
        for second, client, what in disturbances:
            here.at(second, getattr(here.nodes, what), client)
        protocol = Hierarchical(rounds=3, edge_rounds=edge_rounds, participation=share, wait=wait)
        return here, here.run(protocol)

    here, ended = once()
    assert ended or not here.world.online()
    check_books(here)
    if ended:
        assert sum(row.asked for row in here.updates) == here.asked
        assert len(here.updates) == 3
    if wait is None:
        assert sum(row.late for row in here.updates) == 0
        mixed = sum(row.folded for row in here.updates)
        folded = sum(row.fate == "delivered" and row.dst in EDGES and row.src >= 0 for row in here.transfers)
        assert mixed == folded if ended else mixed <= folded
    assert once()[0].rows == here.rows
