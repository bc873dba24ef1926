"""Rounds with a deadline: the first replies count, the time is kept, and what comes later is billed and dropped."""

import pytest
from fake_world import Number, check_books, lab, trip
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.clock.protocols.deadline import Deadline
from fedsim.core.errors import ScenarioError
from fedsim.core.record import SERVER
from fedsim.net.effects.dropout import Dropout
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


def test_the_first_replies_count_and_the_rest_is_late():
    here = lab(clients=4, speed=[1e6, 2e6, 4e6, 8e6])
    assert here.run(Deadline(rounds=1, clients=2, wait=100.0, over=2.0))
    assert here.state["clients"] == ((2, 3),)
    (update,) = here.updates
    assert (update.asked, update.folded, update.lost, update.late) == (4, 2, 0, 2)
    assert update.time == pytest.approx(trip(Number(), speed=4e6))


def test_late_replies_arrive_are_billed_and_never_folded():
    here = lab(clients=4, speed=[1e6, 2e6, 4e6, 8e6])
    protocol = Deadline(rounds=1, clients=2, wait=100.0, over=2.0)
    here.env.process(protocol.run(here.world))
    here.run()  # past the protocol's end, until everybody has finished
    ups = sorted((row for row in here.transfers if row.dst == SERVER), key=lambda row: row.arrived)
    assert [(row.src, row.fate) for row in ups] == [(3, "delivered"), (2, "delivered"), (1, "late"), (0, "late")]
    assert all(row.wire_bytes == row.nbytes for row in here.transfers)
    assert here.state["model"] == 1.0
    assert here.world.server.version == 1
    # the late clients did do the work: it is in their memory
    assert [here.memory(client) for client in here.world.clients] == [{"jobs": 1}] * 4
    check_books(here)


@pytest.mark.parametrize("want", [1, 2, 3, 5])
def test_a_tie_does_not_let_more_in_than_wanted(want):
    here = lab(clients=6)
    here.run(Deadline(rounds=2, clients=want, wait=100.0, over=6 / want))
    assert [row.folded for row in here.updates] == [want] * 2
    assert [row.late for row in here.updates] == [6 - want] * 2
    assert here.fates()["late"] == 2 * (6 - want)
    check_books(here)


def test_a_reply_at_the_very_deadline_is_late():
    here = lab(latency=0.25, rate=1e300, speed=2.0**19, work=2.0**20)  # 0.25 + 2 + 0.25 seconds, exactly
    assert here.run(Deadline(rounds=1, clients=1, wait=2.5))
    assert [(row.time, row.folded, row.late) for row in here.updates] == [(2.5, 0, 1)]
    check_books(here)


def test_who_leaves_at_the_very_deadline_is_counted_once():
    here = lab()
    here.at(1.0, here.nodes.leave, 0)
    assert here.run(Deadline(rounds=1, clients=1, wait=1.0))
    (update,) = here.updates
    assert update.asked == 1
    assert update.lost + update.late == 1
    # the leaver's event was scheduled before the deadline's here, and after it there
    there = lab()
    protocol = there.env.process(Deadline(rounds=1, clients=1, wait=1.0).run(there.world))
    there.env.run(until=0.5)
    there.at(1.0, there.nodes.leave, 0)
    there.env.run(until=protocol)
    (update,) = there.updates
    assert update.asked == 1
    assert update.lost + update.late == 1


def test_when_time_is_up_those_that_have_replied_count():
    here = lab(clients=3, speed=[1e5, 1e6, 1e6])
    here.run(Deadline(rounds=1, clients=3, wait=4.0))
    assert [(row.time, row.folded, row.late) for row in here.updates] == [(4.0, 2, 1)]


def test_when_nobody_replies_in_time_the_round_changes_nothing():
    here = lab(clients=2, speed=1e5)
    assert here.run(Deadline(rounds=2, clients=1, wait=4.0))
    assert [(row.time, row.folded, row.late, row.version) for row in here.updates] == [(4.0, 0, 1, 0), (8.0, 0, 1, 0)]
    assert len({row.dst for row in here.transfers if row.src == SERVER}) == 2  # the busy one was not asked again


def test_busy_clients_are_not_asked_again_until_they_have_finished():
    here = lab(clients=2, speed=[1e6, 1e5])
    here.run(Deadline(rounds=8, clients=2, wait=2.0))
    slow = [row.sent for row in here.transfers if row.dst == 1]
    assert len(slow) == 2
    assert slow[1] - slow[0] >= trip(Number(), speed=1e5)
    assert [row.asked for row in here.updates][:3] == [2, 1, 1]
    check_books(here)


def test_when_all_are_busy_the_next_round_waits_for_the_first_to_be_free():
    here = lab(clients=1, speed=1e5)
    here.run(Deadline(rounds=2, clients=1, wait=1.0))
    assert [row.time for row in here.updates] == pytest.approx([1.0, trip(Number(), speed=1e5) + 1.0])


def test_who_replied_to_one_step_is_asked_the_next():
    here = lab(clients=4, speed=[1e6, 2e6, 4e6, 8e6], algorithm=Number(exchanges=("look", "train")))
    here.run(Deadline(rounds=1, clients=2, wait=100.0, over=2.0))
    assert [sorted(group) for group in here.state["clients"]] == [[2, 3], [2, 3]]
    assert [(row.step, row.asked, row.folded, row.late) for row in here.updates] == [
        ("look", 4, 2, 2),
        ("train", 2, 2, 0),
    ]


def test_a_step_that_nobody_answered_ends_the_round():
    here = lab(clients=2, speed=1e5, algorithm=Number(exchanges=("look", "train")))
    assert here.run(Deadline(rounds=1, clients=2, wait=1.0))
    assert [(row.time, row.step) for row in here.updates] == [(1.0, "look")]
    assert here.env.now == 1.0


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("over", 0.9, "at least 1"),
        ("over", float("nan"), "finite"),
        ("over", float("inf"), "finite"),
        ("wait", "0 s", "more than 0"),
        ("wait", "-1 s", "protocol.wait"),
        ("timeout", 3, "no option 'timeout'"),
    ],
)
def test_options_without_meaning_are_refused(option, value, message):
    options = {"rounds": 1, "clients": 1, "wait": "1 s", option: value}
    with pytest.raises(ScenarioError, match=message):
        find.build("protocol", Part(name="deadline", options=options))


numbers = st.lists(st.tuples(st.floats(0, 1), st.floats(1e4, 1e6), st.floats(1e5, 1e7)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    numbers,
    st.floats(0.1, 5),
    st.floats(1, 2),
    st.floats(0, 2e9),
    st.integers(1, 6),
    st.lists(st.tuples(st.floats(0, 15), st.integers(0, 5), st.sampled_from(["sleep", "wake", "leave"])), max_size=12),
)
def test_a_round_never_lasts_longer_than_its_deadline_and_the_servers_work(
    clients, wait, over, server_work, want, disturbances
):
    latency, rate, speed = zip(*clients, strict=True)
    algorithm = Number(server_work=server_work)
    here = lab(len(clients), latency, rate, speed, algorithm, effects=[Dropout(0.1)])
    begun: list[float] = []
    ask = here.world.server.ask

    def noted(client, step="train", beside=None):
        begun.append(here.env.now)
        return ask(client, step, beside)

    here.world.server.ask = noted
    for second, client, what in disturbances:
        if client < len(clients):
            here.at(second, getattr(here.nodes, what), client)
    ended = here.run(Deadline(rounds=4, clients=want, wait=wait, over=over))
    assert ended or not here.world.online()
    starts = sorted(set(begun))
    # a round that began by asking ends in one update, at most `wait` and the server's work later
    for update in here.updates:
        start = max(second for second in starts if second <= update.time)
        assert update.time - start <= wait + server_work / 1e9 + 1e-9
        assert update.folded <= min(want, len(clients))
    check_books(here)
    assert sum(row.asked for row in here.updates) == here.asked == len(begun)
