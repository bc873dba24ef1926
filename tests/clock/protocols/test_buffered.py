"""Updates from a buffer: who is at work, what a stale reply weighs, and what becomes of everybody at the end."""

from dataclasses import dataclass

import pytest
from fake_world import Number, Silent, check_books, lab, trip
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.clock.protocols.buffered import Buffered
from fedsim.core.errors import ScenarioError
from fedsim.core.record import SERVER
from fedsim.net.effects.dropout import Dropout
from fedsim.net.topologies.star import Star
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


@dataclass(frozen=True, eq=False)
class Mixed(Number):
    """Notes what was folded: client, version downloaded, weight."""

    def update(self, state, replies, step):
        new = super().update(state, replies, step)
        folded = [(reply.client, reply.version, reply.weight) for reply in replies]
        return {**new, "folded": [*state.get("folded", []), *folded]}


def test_with_one_client_and_a_buffer_of_one_updates_follow_one_another():
    here = lab(clients=1)
    assert here.run(Buffered(rounds=4, clients=1, buffer=1))
    assert [row.time for row in here.updates] == pytest.approx([trip(Number()) * n for n in (1, 2, 3, 4)])
    # each ask began when the reply before it came in, before that was folded; so did one after the last
    assert [row.staleness for row in here.updates] == [0, 1, 1, 1]
    assert [(row.asked, row.folded, row.late) for row in here.updates] == [(1, 1, 0)] * 3 + [(2, 1, 1)]
    check_books(here)


def test_staleness_and_weights_by_hand():
    # client 0 replies every round trip, client 1 (slow) after three of them and a bit
    fast = trip(Number())
    here = lab(clients=2, speed=[1e6, 1e6 / (1 + 2.5 * fast)], algorithm=Mixed())
    here.run(Buffered(rounds=5, clients=2, buffer=1, staleness="polynomial", a=0.5, rate=0.8))
    folded = here.state["folded"]
    assert [client for client, _, _ in folded] == [0, 0, 0, 1, 0]
    assert [version for _, version, _ in folded] == [0, 0, 1, 0, 2]
    behind = [0, 1, 1, 3, 2]
    assert [row.staleness for row in here.updates] == behind
    assert [weight for _, _, weight in folded] == pytest.approx([0.8 * (1 + tau) ** -0.5 for tau in behind])
    assert here.state["model"] == pytest.approx(sum(weight for _, _, weight in folded))


def test_while_the_server_folds_replies_go_on_arriving_and_clients_being_asked():
    algorithm = Mixed(server_work=4e9)  # four seconds an update
    here = lab(clients=1, algorithm=algorithm)
    here.run(Buffered(rounds=3, clients=1, buffer=1))
    one = trip(algorithm)
    assert [row.time for row in here.updates] == pytest.approx([one + 4, one + 8, one + 12])
    # asked at 0, 1, 2, ... trips: what is folded second had been downloaded before the first fold was through
    assert [version for _, version, _ in here.state["folded"]] == [0, 0, 0]
    # weights follow the version at the moment of folding, not of arrival
    assert [weight for _, _, weight in here.state["folded"]] == pytest.approx([1, 2**-0.5, 3**-0.5])
    downs = [row.sent for row in here.transfers if row.src == SERVER]
    assert downs[:4] == pytest.approx([0, one, 2 * one, 3 * one])
    check_books(here)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"staleness": "constant"}, [1, 1, 1, 1]),
        ({"staleness": "polynomial"}, [1, 2**-0.5, 5**-0.5, 11**-0.5]),
        ({"staleness": "polynomial", "a": 2.0}, [1, 1 / 4, 1 / 25, 1 / 121]),
        ({"staleness": "hinge"}, [1, 1, 1, 1 / 61]),
        ({"staleness": "hinge", "a": 0.5, "b": 1.0}, [1, 1, 1 / 2.5, 1 / 5.5]),
    ],
)
def test_the_discounts_are_those_of_fedasync(options, expected):
    protocol = Buffered(rounds=1, clients=1, buffer=1, **options)
    assert [protocol.discount(behind) for behind in (0, 1, 4, 10)] == pytest.approx(expected)


def test_a_buffer_is_folded_as_soon_as_it_is_full():
    here = lab(clients=4, speed=[1e6, 2e6, 4e6, 8e6], algorithm=Mixed())
    here.run(Buffered(rounds=1, clients=4, buffer=2))
    assert here.state["clients"] == ((2, 3),)
    (update,) = here.updates
    assert update.time == pytest.approx(trip(Number(), speed=4e6))
    # both were asked again when they had replied; all that are at work then are late
    assert (update.asked, update.folded, update.late) == (6, 2, 4)
    check_books(here)


def test_so_many_are_at_work_at_any_time():
    here = lab(clients=9, speed=[10.0**n for n in (5, 5.3, 5.6, 5.9, 6.2, 6.5, 6.8, 5.1, 5.2)])
    protocol, most = Buffered(rounds=30, clients=4, buffer=3), 0
    done = here.env.process(protocol.run(here.world))
    while not done.processed:
        here.env.step()
        most = max(most, len(here.world.server.busy))
        assert here.env.peek() == here.env.now or len(here.world.server.busy) == 4 or done.processed
    assert most == 4


def test_replies_that_are_too_stale_are_discarded_and_billed():
    fast = trip(Number())
    here = lab(clients=2, speed=[1e6, 1e6 / (1 + 2.5 * fast)], algorithm=Mixed())
    here.run(Buffered(rounds=5, clients=2, buffer=1, most_stale=2))
    assert {client for client, _, _ in here.state["folded"]} == {0}
    assert [row.late for row in here.updates] == [0, 0, 0, 1, 2]
    assert here.fates()["discarded"] == 1
    assert [row.fate for row in here.transfers if row.src == 1] == ["discarded"]
    check_books(here)


def test_at_the_end_who_is_at_work_is_late_and_its_bytes_are_billed():
    here = lab(clients=3, speed=[4e6, 1e6, 1e6])
    here.env.process(Buffered(rounds=1, clients=3, buffer=1).run(here.world))
    here.run()  # past the protocol's end
    assert [(row.asked, row.folded, row.late) for row in here.updates] == [(4, 1, 3)]
    assert here.fates()["late"] == here.updates[0].late
    assert here.asked == here.updates[0].asked  # nobody is asked any more
    assert not here.world.server.busy
    check_books(here)


def test_when_nobody_is_available_it_waits_for_the_first_to_come():
    here = lab(clients=2)
    here.nodes.sleep(0)
    here.nodes.sleep(1)
    here.at(7.0, here.nodes.wake, 1)
    assert here.run(Buffered(rounds=1, clients=2, buffer=1))
    assert [row.time for row in here.updates] == pytest.approx([7 + trip(Number())])


def test_where_nothing_travels_updates_still_come():
    here = lab(clients=2, algorithm=Silent(), speed=[1e6, 4e5])
    assert here.run(Buffered(rounds=4, clients=2, buffer=1))
    assert [row.time for row in here.updates] == pytest.approx([1, 2, 2.5, 3])
    assert here.transfers == []


def test_a_buffer_may_be_larger_than_the_number_at_work():
    here = lab(clients=2, speed=[1e6, 2e6])
    assert here.run(Buffered(rounds=2, clients=1, buffer=5))
    assert [row.folded for row in here.updates] == [5, 5]
    check_books(here)


def test_algorithms_with_steps_of_their_own_are_refused():
    protocol = Buffered(rounds=1, clients=1, buffer=1)
    refused = protocol.refuse(Number(exchanges=("look", "train")), Star())
    assert refused is not None
    assert "Number" in refused
    assert "'sync'" in refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"buffer": 0}, "protocol.buffer"),
        ({"staleness": "linear"}, "protocol.staleness"),
        ({"a": -1.0}, "protocol.a: -1.0: must be at least 0"),
        ({"b": 3.0}, "b: has no meaning where staleness is 'polynomial'"),
        ({"staleness": "constant", "a": 1.0}, "a: has no meaning"),
        ({"rate": 0.0}, "rate: 0.0: must be more than 0"),
        ({"most_stale": -1}, "most_stale: -1: must be at least 0"),
        ({"clients": None}, "give either"),
    ],
)
def test_options_without_meaning_are_refused(options, message):
    with pytest.raises(ScenarioError, match=message):
        find.build("protocol", Part(name="buffered", options={"rounds": 1, "clients": 1, "buffer": 1, **options}))


def test_the_progress_goes_from_none_to_all():
    protocol, here = Buffered(rounds=4, clients=1, buffer=1), lab()
    assert protocol.share(here.world) == 0
    here.run(protocol)
    assert protocol.share(here.world) == 1


disturbances = st.lists(
    st.tuples(st.floats(0, 15), st.integers(0, 4), st.sampled_from(["sleep", "wake", "leave"])), max_size=15
)


@settings(max_examples=60, deadline=None)
@given(disturbances, st.integers(1, 5), st.integers(1, 4), st.sampled_from([None, 0, 2]), st.floats(0, 3e9))
def test_whatever_happens_asks_and_bytes_are_accounted_for(disturbances, count, buffer, most_stale, server_work):
    def once():
        here = lab(
            5,
            [0, 0.1, 0.1, 0.4, 0.2],
            speed=[1e6, 1e7, 4e5, 1e6, 1e6],
            algorithm=Mixed(server_work=server_work),
            effects=[Dropout(0.1)],
        )
        for second, client, what in disturbances:
            here.at(second, getattr(here.nodes, what), client)
        return here, here.run(Buffered(rounds=5, clients=count, buffer=buffer, most_stale=most_stale))

    here, ended = once()
    assert ended or not here.world.online()
    check_books(here)
    if ended:
        assert sum(row.asked for row in here.updates) == here.asked
        assert [row.folded for row in here.updates] == [buffer] * 5
    else:
        assert sum(row.asked for row in here.updates) <= here.asked
    assert [row.version for row in here.updates] == list(range(1, len(here.updates) + 1))
    for row, folds in zip(here.updates, range(0, 99, buffer), strict=False):
        batch = here.state["folded"][folds : folds + buffer]
        behind = [row.version - 1 - version for _, version, _ in batch]
        assert row.staleness == pytest.approx(sum(behind) / buffer)
        assert all(
            weight == pytest.approx((1 + tau) ** -0.5) for (_, _, weight), tau in zip(batch, behind, strict=True)
        )
        assert most_stale is None or max(behind) <= most_stale
    assert once()[0].rows == here.rows
