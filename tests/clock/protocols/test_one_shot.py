"""One round with everybody: asked as they come, once, and folded once."""

import pytest
from fake_world import SERVER_SPEED, Number, Period, Silent, check_books, lab, trip
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.clock.protocols.one_shot import OneShot
from fedsim.core.errors import ScenarioError
from fedsim.core.record import SERVER
from fedsim.net.effects.dropout import Dropout
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


def test_everybody_is_asked_once_and_folded_in_one_update():
    here = lab(clients=4, speed=[1e6, 2e6, 4e6, 5e5])
    assert here.run(OneShot())
    assert [(row.time, row.asked, row.folded) for row in here.updates] == [
        (pytest.approx(trip(Number(), speed=5e5)), 4, 4)
    ]
    assert here.state["clients"] == ((0, 1, 2, 3),)
    check_books(here)


def test_each_is_asked_as_soon_as_it_comes_online_and_holds_data():
    here = lab(clients=3)
    here.nodes.sleep(1)
    here.at(5.0, here.nodes.wake, 1)
    here.world.clients.has_data[2] = False
    here.at(9.0, here.world.deliver, 2, Period())
    assert here.run(OneShot())
    assert [row.sent for row in here.transfers if row.src == SERVER] == [0.0, 5.0, 9.0]
    assert [row.time for row in here.updates] == pytest.approx([9 + trip(Number())])
    check_books(here)


def test_it_waits_for_as_many_as_are_enough():
    here = lab(clients=5, speed=[1e6, 2e6, 4e6, 5e5, 8e6])
    here.run(OneShot(enough=0.5))  # 2.5 of them: three
    (update,) = here.updates
    assert here.state["clients"] == ((1, 2, 4),)
    assert update.time == pytest.approx(trip(Number(), speed=2e6))
    assert (update.asked, update.folded, update.late) == (5, 3, 2)
    check_books(here)


def test_however_few_are_enough_one_is_waited_for():
    here = lab(clients=3, speed=[1e6, 2e6, 1e5])
    here.run(OneShot(enough=1e-12))
    assert [(row.asked, row.folded) for row in here.updates] == [(3, 1)]


def test_it_waits_as_long_as_wait_says():
    here = lab(clients=3, speed=[1e6, 1e6, 1e5])
    here.nodes.sleep(0)
    here.run(OneShot(wait=4.0))
    assert [(row.time, row.asked, row.folded, row.late) for row in here.updates] == [(4.0, 2, 1, 1)]
    check_books(here)


def test_when_the_time_is_up_and_nobody_has_replied_nothing_changes():
    here = lab(clients=2)
    for client in (0, 1):
        here.nodes.sleep(client)
    assert here.run(OneShot(wait=4.0))
    assert [(row.time, row.asked, row.version) for row in here.updates] == [(4.0, 0, 0)]


def test_who_is_lost_is_not_asked_again_and_nobody_waits_for_it():
    here = lab(clients=2)
    here.at(1.0, here.nodes.leave, 0)
    assert here.run(OneShot())
    assert [(row.asked, row.folded, row.lost) for row in here.updates] == [(2, 1, 1)]
    check_books(here)


def test_who_is_lost_is_asked_again_where_wanted():
    here = lab(clients=2)
    here.at(1.0, here.nodes.leave, 0)
    here.at(0.5, here.nodes.sleep, 1)
    here.at(8.0, here.nodes.wake, 1)
    assert here.run(OneShot(retry=True))
    assert [row.sent for row in here.transfers if row.src == SERVER] == [0.0, 0.0, 1.0, 8.0]
    assert [(row.asked, row.folded, row.lost) for row in here.updates] == [(4, 2, 2)]
    check_books(here)


def test_a_share_or_a_number_of_all_clients_is_wanted_whether_online_or_not():
    here = lab(clients=10)
    for client in range(10):
        here.nodes.sleep(client)
        here.at(1.0 + client, here.nodes.wake, client)
    assert here.run(OneShot(participation=0.25))
    assert [(row.asked, row.folded) for row in here.updates] == [(3, 3)]
    assert {row.dst + 1 for row in here.transfers if row.src == SERVER} == {
        row.sent for row in here.transfers if row.src == SERVER
    }
    again = lab(clients=10)
    again.run(OneShot(clients=4))
    assert [row.asked for row in again.updates] == [4]


def test_when_nobody_comes_any_more_the_clock_stands_still():
    here = lab(clients=2)
    here.nodes.sleep(1)
    assert not here.run(OneShot())
    assert here.updates == []
    check_books(here)


def test_steps_are_gone_through_in_order_with_those_who_replied():
    here = lab(clients=3, algorithm=Number(exchanges=("look", "train")))
    here.at(1.0, here.nodes.leave, 1)
    assert here.run(OneShot())
    assert here.state["clients"] == ((0, 2), (0, 2))
    assert [(row.step, row.asked, row.lost) for row in here.updates] == [("look", 3, 1), ("train", 2, 0)]
    assert here.updates[1].time == pytest.approx(2 * trip(Number()), abs=1e-3)


def test_where_nothing_travels_it_takes_the_work_alone():
    here = lab(clients=2, algorithm=Silent(), speed=[1e6, 5e5])
    assert here.run(OneShot())
    assert [row.time for row in here.updates] == pytest.approx([2.0])


def told(updates):
    """What each update was made of."""
    return [(row.version, row.asked, row.folded, row.lost, row.late, row.staleness) for row in updates]


def test_late_replies_are_folded_one_update_each_where_wanted():
    speeds = [1e6, 8e6, 4e6, 5e5]
    here = lab(clients=4, speed=speeds)
    assert here.run(OneShot(enough=0.5, late="fold"))
    assert [row.time for row in here.updates] == pytest.approx([trip(Number(), speed=s) for s in (4e6, 1e6, 5e5)])
    assert told(here.updates) == [(1, 2, 2, 0, 0, 0), (2, 1, 1, 0, 0, 1), (3, 1, 1, 0, 0, 2)]
    assert here.state["clients"] == ((1, 2), (0,), (3,))
    assert here.state["model"] == pytest.approx(1 + 1 / 3 + 1 / 4)  # each weighs as one of those so far
    assert here.fates() == {"delivered": 8}
    check_books(here)


def test_those_that_come_while_the_server_folds_are_one_update():
    # the first fold takes 3 s, in which two more arrive; theirs takes as long, in which the last one does
    algorithm = Number(server_work=3 * SERVER_SPEED)
    here = lab(clients=4, speed=[4e6, 1e6, 8e5, 2e5], algorithm=algorithm)
    assert here.run(OneShot(enough=1e-9, late="fold"))
    first = trip(algorithm, speed=4e6) + 3
    assert [row.time for row in here.updates] == pytest.approx([first, first + 3, first + 6])
    assert here.state["clients"] == ((0,), (1, 2), (3,))
    assert here.state["model"] == pytest.approx(1 + 2 / 3 + 1 / 4)
    check_books(here)


def test_after_the_time_is_up_nobody_else_is_asked_and_those_at_work_are_folded():
    here = lab(clients=3, speed=[1e6, 1e5, 1e6])
    here.nodes.sleep(2)
    here.at(5.0, here.nodes.wake, 2)
    assert here.run(OneShot(wait=4.0, late="fold"))
    assert [row.time for row in here.updates] == pytest.approx([4.0, trip(Number(), speed=1e5)])
    assert told(here.updates) == [(1, 1, 1, 0, 0, 0), (2, 1, 1, 0, 0, 1)]
    assert {row.dst for row in here.transfers if row.src == SERVER} == {0, 1}


def test_where_nobody_is_in_time_the_first_late_reply_weighs_in_full():
    here = lab(clients=2, speed=[1e5, 2e5])
    assert here.run(OneShot(wait=2.0, late="fold"))
    assert told(here.updates) == [(0, 0, 0, 0, 0, 0), (1, 1, 1, 0, 0, 0), (2, 1, 1, 0, 0, 1)]
    assert here.state["model"] == pytest.approx(1 + 1 / 2)


@pytest.mark.parametrize("leaves", [5.0, 7.0])
def test_who_is_lost_after_all_is_reported_in_the_last_row(leaves):
    here = lab(clients=3, speed=[1e6, 1e5, 2e5])
    here.at(leaves, here.nodes.leave, 1)
    assert here.run(OneShot(wait=4.0, late="fold", retry=True))
    assert sum(row.asked for row in here.updates) == here.asked == 3
    assert (sum(row.folded for row in here.updates), sum(row.lost for row in here.updates)) == (2, 1)
    assert here.updates[-1].time == pytest.approx(max(leaves, trip(Number(), speed=2e5)))
    check_books(here)


def test_late_replies_to_a_step_before_the_last_are_dropped():
    here = lab(clients=3, speed=[1e6, 2e6, 5e5], algorithm=Number(exchanges=("look", "train")))
    assert here.run(OneShot(enough=0.5, late="fold"))
    look = trip(Number())
    assert told(here.updates) == [(1, 3, 2, 0, 1, 0), (2, 1, 1, 0, 0, 0), (3, 1, 1, 0, 0, 1)]
    assert [row.time for row in here.updates] == pytest.approx(
        [look, look + trip(Number(), speed=2e6), look + trip(Number())], abs=1e-3
    )
    assert here.state["clients"] == ((0, 1), (1,), (0,))
    assert [row.fate for row in here.transfers if row.src == 2] == ["late"]
    check_books(here)


def test_the_progress_counts_the_late_ones_that_are_waited_for():
    protocol, seen = OneShot(wait=2.5, late="fold"), []
    here = lab(clients=4, speed=[2e6, 1e6, 2e5, 1e5])
    here.nodes.sleep(1)
    done = here.env.process(protocol.run(here.world))
    while not done.processed:
        here.env.step()
        seen.append((here.env.now, protocol.share(here.world)))
    shares = [share for _, share in seen]
    assert shares == sorted(shares)
    assert set(shares) == {0, 1 / 4, 1 / 3, 2 / 3, 1}
    assert all(share < 1 for now, share in seen if now < trip(Number(), speed=1e5) - 1e-9)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"enough": 0}, "enough: 0: must be more than 0"),
        ({"wait": 0}, "wait: 0: must be more than 0"),
        ({"participation": 0.5, "clients": 2}, "give either"),
        ({"participation": 0}, "participation: 0: must be more than 0"),
        ({"rounds": 2}, "no option 'rounds'"),
        ({"late": "keep"}, "late"),
    ],
)
def test_options_without_meaning_are_refused(options, told):
    with pytest.raises(ScenarioError, match=told):
        find.build("protocol", Part(name="one_shot", options=options))


def test_the_progress_is_the_share_that_has_had_its_turn():
    protocol, here, seen = OneShot(), lab(clients=4, speed=[1e6, 2e6, 4e6, 5e5]), []
    done = here.env.process(protocol.run(here.world))
    while not done.processed:
        here.env.step()
        seen.append(protocol.share(here.world))
    assert sorted(set(seen)) == [0, 0.25, 0.5, 0.75, 1]
    assert seen == sorted(seen)


disturbances = st.lists(
    st.tuples(st.floats(0, 15), st.integers(0, 4), st.sampled_from(["sleep", "wake", "leave"])), max_size=15
)


@settings(max_examples=80, deadline=None)
@given(
    disturbances,
    st.integers(1, 5),
    st.floats(0.01, 1),
    st.sampled_from([None, 2.0, 6.0]),
    st.booleans(),
    st.sampled_from([("train",), ("look", "train")]),
    st.sampled_from(["drop", "fold"]),
)
def test_whatever_happens_asks_and_bytes_are_accounted_for(disturbances, count, enough, wait, retry, steps, late):
    def once():
        here = lab(
            5,
            [0, 0.1, 0.1, 0.4, 0.2],
            speed=[1e6, 1e7, 4e5, 1e6, 1e6],
            algorithm=Number(exchanges=steps),
            effects=[Dropout(0.2)],
        )
        for second, client, what in disturbances:
            here.at(second, getattr(here.nodes, what), client)
        return here, here.run(OneShot(clients=count, enough=enough, wait=wait, retry=retry, late=late))

    here, ended = once()
    check_books(here)
    assert ended or (wait is None and len(here.world.online()) < 5)
    if late == "drop":
        assert len(here.updates) <= len(steps)
    elif len(steps) == 1:
        assert not any(row.late for row in here.updates)
    if ended:
        assert sum(row.asked for row in here.updates) == here.asked
        assert here.updates[0].folded <= -(-count * enough // 1)
        assert wait is None or late == "fold" or all(row.time <= wait * len(steps) for row in here.updates)
    if not retry:
        asked = [row.dst for row in here.transfers if row.src == SERVER and row.kind == steps[0]]
        assert len(asked) == len(set(asked)) <= count
    assert once()[0].rows == here.rows
