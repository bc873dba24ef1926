"""Peers without a server: when they work, what they send, and what they make of what they receive."""

from functools import partial

import pytest
from fake_links import Links, complete, ring
from fake_pull import Long, Pull
from fake_world import Number, Period, Silent, check_books, lab
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.clock.protocols.gossip import Gossip
from fedsim.clock.protocols.sync import Sync
from fedsim.core.errors import ScenarioError
from fedsim.net.effects.dropout import Dropout
from fedsim.net.message import Message
from fedsim.net.topologies.peers import Peers
from fedsim.net.topologies.star import Star
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


def models(here):
    return [state["model"] for state in here.states()]


def moving(algorithm=None, latency=0.1, rate=8e4):
    """Seconds of one share from peer to peer."""
    algorithm = algorithm or Pull()
    return 2 * latency + 8 * Message(0, 1, "share", algorithm.share({"model": 0.0}), 0).nbytes / rate


@pytest.mark.parametrize("weights", ["equal", "metropolis"])
def test_one_round_of_equal_peers_that_all_receive_from_all_is_averaging(weights):
    peers, flat = lab(clients=5, algorithm=Pull(), links=complete(5)), lab(clients=5, algorithm=Pull())
    assert peers.run(Gossip(rounds=1, weights=weights))
    assert flat.run(Sync(rounds=1, participation=1.0))
    assert models(peers) == pytest.approx([flat.state["model"]] * 5)
    assert [(row.time, row.version, row.folded, row.staleness) for row in peers.updates] == [
        (pytest.approx(1 + moving()), version, 1, 0.0) for version in (1, 2, 3, 4, 5)
    ]
    check_books(peers)


def test_a_round_takes_work_folding_the_slowest_transfer_and_mixing():
    algorithm = Long(up=4000, server_work=5e5)
    here = lab(3, [0.1, 0.3, 0.1], [8e4, 8e4, 4e4], algorithm=algorithm, links=ring(3))
    here.run(Gossip(rounds=1))
    size = 8 * Message(0, 1, "share", algorithm.share({"model": 0.0}), 0).nbytes
    pair = {(0, 1): 0.4 + size / 8e4, (0, 2): 0.2 + size / 4e4, (1, 2): 0.4 + size / 4e4}
    ends = {0: max(pair[0, 1], pair[0, 2]), 1: max(pair[0, 1], pair[1, 2]), 2: max(pair[0, 2], pair[1, 2])}
    # a multiply-add for each of the numbers (half a flop a byte) of its own share and those that have come
    come = {0: 2, 1: 2, 2: 2}
    expected = sorted(1 + 0.5 + ends[peer] + (1 + come[peer]) * 2000 / 1e6 for peer in ends)
    assert [row.time for row in here.updates] == pytest.approx(expected)
    assert {row.what for row in here.spans} == {"train", "mix"}
    assert [row.end - row.start for row in here.spans if row.what == "train"] == pytest.approx([1.0] * 3)


def test_staleness_and_weights_by_hand():
    # peer 1 is so fast that it has done its third round when peer 0 has done its first
    here = lab(clients=2, speed=[1e6, 1e7], latency=0.0, algorithm=Pull(), links=complete(2))
    here.run(Gossip(rounds=3))
    step = 0.1 + moving(latency=0.0)
    assert [row.time for row in here.updates][:3] == pytest.approx([step, 2 * step, 3 * step])
    # the fast one has heard nobody in its rounds; the slow one mixes its newest share once, and then no more
    assert here.states()[1]["model"] == pytest.approx(2 * (1 - 0.5**3))
    first = (0.5 + 2 * (1 - 0.5**3)) / 2
    assert here.states()[0]["model"] == pytest.approx(1 + (first - 1) / 4)
    assert [row.staleness for row in here.updates] == [0.0] * 6  # who is ahead is not behind


def test_who_is_behind_makes_stale():
    here = lab(clients=2, speed=[1e6 / 2.5, 1e6], latency=0.0, rate=1e9, algorithm=Pull(), links=complete(2))
    here.run(Gossip(rounds=4))
    # peer 1 ends its rounds at 1, 2, 3, 4; peer 0's first share is there at 2.5, and mixed in peer 1's third round
    told = [(round(row.time, 2), row.staleness) for row in here.updates]
    assert told[:4] == [(1.0, 0.0), (2.0, 0.0), (2.5, 0.0), (3.0, 2.0)]


def test_metropolis_weights_by_hand():
    star = partial(Links, near=[(1, 2, 3), (0,), (0,), (0,)])
    here = lab(clients=4, algorithm=Pull(), links=star)
    here.run(Gossip(rounds=1, weights="metropolis"))
    own = [0.5, 1.0, 1.5, 2.0]
    expected = [sum(own) / 4] + [0.75 * one + 0.25 * own[0] for one in own[1:]]
    assert models(here) == pytest.approx(expected)
    assert sum(models(here)) == pytest.approx(sum(own))  # the mean over all peers is kept


def test_every_share_goes_to_every_neighbour_with_the_senders_round():
    here = lab(clients=5, algorithm=Pull(), links=ring(5))
    here.run(Gossip(rounds=2))
    assert sorted((row.src, row.dst, row.version) for row in here.transfers) == sorted(
        (peer, (peer + side) % 5, round_) for peer in range(5) for side in (-1, 1) for round_ in (0, 1)
    )
    assert {row.kind for row in here.transfers} == {"share"}
    assert here.fates() == {"delivered": 20}


def test_neighbours_that_sleep_are_lost_at_once_and_the_rest_is_mixed():
    here = lab(clients=3, algorithm=Pull(), links=complete(3))
    here.nodes.sleep(2)
    here.at(50.0, here.nodes.wake, 2)
    assert here.run(Gossip(rounds=1))
    assert [(row.dst, row.fate, row.wire_bytes) for row in here.transfers if row.fate != "delivered"] == [
        (2, "lost", 0)
    ] * 2
    assert models(here) == pytest.approx([0.75, 0.75, 1.5])  # peer 2 has heard nobody when it is through
    assert here.updates[-1].time == pytest.approx(51.0 + moving())


def test_a_peer_begins_when_it_is_online_and_holds_data():
    here = lab(clients=3, algorithm=Pull(), links=complete(3))
    here.world.clients.has_data[1] = False
    here.at(4.0, here.world.deliver, 1, Period())
    here.nodes.sleep(2)
    here.at(8.0, here.nodes.wake, 2)
    assert here.run(Gossip(rounds=1))
    assert sorted((row.start, row.client) for row in here.spans if row.what == "train") == [(0, 0), (4, 1), (8, 2)]


def test_who_sleeps_in_mid_work_has_lost_the_round_and_goes_on_with_the_next():
    here = lab(clients=2, algorithm=Pull(), links=complete(2))
    here.at(0.5, here.nodes.sleep, 0)
    here.at(3.0, here.nodes.wake, 0)
    assert here.run(Gossip(rounds=2))
    assert (here.updates[0].time, here.updates[0].lost, here.updates[0].version) == (0.5, 1, 0)
    assert [(row.asked, row.folded, row.lost) for row in here.updates[1:]] == [(1, 1, 0)] * 3
    assert here.memory(0) == {"jobs": 1}
    assert [row.start for row in here.spans if row.what == "train" and row.client == 0] == [0.0, 3.0]


def test_who_sleeps_while_sending_keeps_its_state_and_mixes_later():
    here = lab(clients=2, algorithm=Pull(), links=complete(2))
    here.at(1.1, here.nodes.sleep, 0)  # both are sending
    here.at(1.2, here.nodes.wake, 0)
    here.run(Gossip(rounds=1))
    assert models(here) == [0.5, 1.0]
    assert here.fates() == {"lost": 2}
    assert [(row.folded, row.lost) for row in here.updates] == [(1, 0)] * 2


def test_who_sleeps_while_mixing_has_the_shares_still():
    algorithm = Long(up=2_000_000)  # mixing two takes two seconds
    here = lab(clients=2, rate=1e9, latency=0.0, algorithm=algorithm, links=complete(2))
    here.at(1.5, here.nodes.leave, 0)
    here.run(Gossip(rounds=2))
    # peer 1 mixes 0.5 and 1.0; peer 0 trains on 0.5 and mixes 1.0 in its second round, before anything newer has come
    after = 0.5 + (1 - 0.5) / 2
    assert here.states()[0]["model"] == pytest.approx((after + 1.0) / 2)


def test_when_a_peer_never_comes_back_the_clock_stands_still():
    here = lab(clients=2, algorithm=Pull(), links=complete(2))
    here.at(0.5, here.nodes.sleep, 0)
    assert not here.run(Gossip(rounds=2))
    assert here.states()[1] is not None
    check_books(here)


def test_what_does_not_fit_is_refused():
    protocol = Gossip(rounds=1)
    assert "'peers'" in (protocol.refuse(Number(), Star()) or "")
    assert "Silent sends nothing" in (protocol.refuse(Silent(), Peers(graph="ring")) or "")
    assert "steps of Number" in (protocol.refuse(Number(), Peers(graph="ring")) or "")  # the fake has its own
    assert Sync(rounds=1, clients=1).refuse(Number(), Peers(graph="ring"))
    with pytest.raises(ScenarioError, match=r"protocol\.weights"):
        find.build("protocol", Part(name="gossip", options={"rounds": 1, "weights": "unequal"}))


def test_the_progress_is_the_share_of_rounds_begun():
    protocol, here, seen = Gossip(rounds=2), lab(clients=3, speed=[1e6, 2e6, 3e6], algorithm=Pull(), links=ring(3)), []
    done = here.env.process(protocol.run(here.world))
    while not done.processed:
        here.env.step()
        seen.append(protocol.share(here.world))
    assert seen == sorted(seen)
    assert set(seen[2:]) <= {0.5, 4 / 6, 5 / 6, 1.0}
    assert seen[-1] == 1


disturbances = st.lists(
    st.tuples(st.floats(0, 15), st.integers(0, 4), st.sampled_from(["sleep", "wake", "leave"])), max_size=15
)


@settings(max_examples=80, deadline=None)
@given(disturbances, st.integers(1, 4), st.sampled_from(["equal", "metropolis"]), st.floats(0, 1e6))
def test_whatever_happens_rounds_and_bytes_are_accounted_for(disturbances, rounds, weights, server_work):
    def once():
        here = lab(
            5,
            [0, 0.1, 0.1, 0.4, 0.2],
            speed=[1e6, 1e7, 4e5, 1e6, 1e6],
            algorithm=Long(up=3000, server_work=server_work),
            effects=[Dropout(0.1)],
            links=ring(5),
        )
        for second, client, what in disturbances:
            here.at(second, getattr(here.nodes, what), client)
        return here, here.run(Gossip(rounds=rounds, weights=weights))

    here, ended = once()
    assert ended or len(here.world.online()) < 5
    check_books(here)
    assert all((row.asked, row.folded + row.lost, row.late) == (1, 1, 0) for row in here.updates)
    if ended:
        assert len(here.updates) == 5 * rounds
        assert not here.world.clients.busy.any()
    assert all(0 <= row.staleness < rounds for row in here.updates)
    assert all(0 <= model <= 5 for model in models(here))
    assert once()[0].rows == here.rows
