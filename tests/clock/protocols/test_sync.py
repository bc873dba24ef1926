"""Synchronous rounds, and what all protocols of rounds share: who is asked, and who is waited for."""

from collections import Counter
from dataclasses import dataclass

import pytest
from fake_world import Number, Period, Silent, check_books, lab, trip
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.clock.protocols.sync import Sync
from fedsim.core.errors import ScenarioError
from fedsim.learn.algorithm import Algorithm
from fedsim.net.effect import Effect
from fedsim.net.effects.churn import Churn
from fedsim.net.effects.dropout import Dropout
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


@dataclass(frozen=True)
class NeverStays(Effect):
    """Every busy client leaves at once."""

    def stay(self, rng):
        return 0.01


def test_a_round_lasts_as_long_as_its_slowest_client():
    here = lab(clients=3, latency=[0.1, 0.3, 0.2], rate=[8e4, 8e4, 4e4], speed=[1e6, 1e6, 5e5])
    assert here.run(Sync(rounds=2, clients=3))
    slowest = max(trip(Number(), *numbers) for numbers in [(0.1, 8e4, 1e6), (0.3, 8e4, 1e6), (0.2, 4e4, 5e5)])
    assert [row.time for row in here.updates] == pytest.approx([slowest, 2 * slowest])
    assert [(row.asked, row.folded) for row in here.updates] == [(3, 3)] * 2
    assert here.fates() == {"delivered": 12}
    check_books(here)


@dataclass(frozen=True, eq=False)
class OneStep(Number):
    """Leaves open which exchanges a round has."""

    steps, more = Algorithm.steps, Algorithm.more


def test_rounds_of_the_one_usual_exchange_are_not_asked_for_their_steps():
    plain, named = lab(algorithm=OneStep()), lab(algorithm=Number())
    assert plain.learner.one_step
    assert not named.learner.one_step
    for here in (plain, named):
        assert here.run(Sync(rounds=2, clients=1))
    assert plain.updates == named.updates


def test_replies_are_folded_in_the_order_of_the_clients_whoever_came_first():
    here = lab(clients=3, speed=[1e6, 3e6, 2e6])
    here.run(Sync(rounds=1, clients=3))
    assert here.state["clients"] == ((0, 1, 2),)


def test_every_step_of_a_round_asks_the_same_clients():
    here = lab(clients=6, algorithm=Number(exchanges=("look", "train")))
    here.run(Sync(rounds=3, clients=2))
    assert [row.step for row in here.updates] == ["look", "train"] * 3
    groups = [sorted(group) for group in here.state["clients"]]
    assert groups[0::2] == groups[1::2]
    assert len(set(map(tuple, groups))) > 1
    assert Counter(row.kind for row in here.transfers) == {"look": 12, "train": 12}
    assert here.world.server.version == 6


def test_an_algorithm_without_exchanges_sends_nothing():
    here = lab(algorithm=Number(exchanges=()))
    assert here.run(Sync(rounds=4, clients=1))
    assert here.rows == []
    assert here.world.server.rounds == 4


def test_where_nothing_travels_rounds_take_the_work_alone():
    here = lab(clients=2, algorithm=Silent(), speed=[1e6, 5e5])
    here.run(Sync(rounds=3, clients=2))
    assert [row.time for row in here.updates] == pytest.approx([2.0, 4.0, 6.0])
    assert here.transfers == []


def test_when_all_are_offline_the_round_begins_as_soon_as_one_wakes():
    here = lab(clients=2)
    for client in (0, 1):
        here.nodes.sleep(client)
    here.at(5.0, here.nodes.wake, 1)
    here.at(6.0, here.nodes.wake, 0)
    assert here.run(Sync(rounds=1, clients=2))
    assert here.state["clients"] == ((1,),)
    assert here.updates[0].time == pytest.approx(5.0 + trip(Number()))
    assert [(row.client, row.start, row.end) for row in here.spans if row.what == "offline"] == [(1, 0, 5), (0, 0, 6)]


def test_when_nobody_holds_data_the_round_begins_as_soon_as_some_arrive():
    here = lab(clients=2)
    here.world.clients.has_data[:] = False
    here.at(3.0, here.world.deliver, 1, Period())
    here.at(9.0, here.world.deliver, 0, Period())
    assert here.run(Sync(rounds=1, clients=2))
    assert here.state["clients"] == ((1,),)
    assert here.updates[0].time == pytest.approx(3.0 + trip(Number()))


def test_when_nobody_ever_comes_back_the_clock_stands_still():
    here = lab(clients=2)
    for client in (0, 1):
        here.at(1.0, here.nodes.sleep, client)
    assert not here.run(Sync(rounds=5, clients=2))
    assert [(row.asked, row.folded, row.lost) for row in here.updates] == [(2, 0, 2)]
    assert [(row.what, row.start) for row in here.spans if row.what == "offline"] == [("offline", 1.0)] * 2
    check_books(here)


def test_a_round_without_a_reply_is_noted_and_changes_nothing():
    here = lab(clients=3, effects=[NeverStays()])
    assert here.run(Sync(rounds=4, clients=3))
    assert [(row.asked, row.folded, row.lost, row.late, row.version) for row in here.updates] == [(3, 0, 3, 0, 0)] * 4
    assert here.state == {"model": 0.0, "clients": ()}


@pytest.mark.parametrize(
    ("participation", "clients", "count"), [(0.3, 10, 3), (0.31, 10, 4), (0.01, 10, 1), (1.0, 10, 10), (0.1, 30, 3)]
)
def test_a_fraction_is_rounded_up(participation, clients, count):
    here = lab(clients=clients)
    here.run(Sync(rounds=1, participation=participation))
    assert here.updates[0].asked == count


def test_a_count_is_at_most_all_clients():
    here = lab(clients=3)
    here.run(Sync(rounds=2, clients=7))
    assert [row.asked for row in here.updates] == [3, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either 'participation' (a fraction of the clients) or 'clients' (a count), not both"),
        ({"participation": 0.5, "clients": 2}, "give either 'participation'"),
    ],
)
def test_exactly_one_of_fraction_and_count_is_given(options, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is what is tested
        Sync(rounds=1, **options)
    assert message in str(caught.value)
    with pytest.raises(ScenarioError) as said:
        find.build("protocol", Part(name="sync", options={"rounds": 1, **options}))
    assert message in str(said.value)
    assert str(said.value).startswith("protocol")


@pytest.mark.parametrize(
    "options", [{"rounds": 0}, {"rounds": 2.5}, {"clients": 0}, {"participation": 1.2}, {"participation": 0}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ScenarioError, match=f"protocol.{next(iter(options))}"):
        find.build("protocol", Part(name="sync", options={"rounds": 1, "clients": None, **options}))


def test_the_progress_is_the_share_of_rounds_begun():
    protocol, here = Sync(rounds=4, clients=1), lab()
    seen = []
    done = here.env.process(protocol.run(here.world))
    while not done.processed:
        here.env.step()
        seen.append(protocol.share(here.world))
    assert sorted(set(seen)) == seen[:1] * (seen[0] == 0) + [0.25, 0.5, 0.75, 1.0]
    assert seen == sorted(seen)


disturbances = st.lists(
    st.tuples(st.floats(0, 15), st.integers(0, 4), st.sampled_from(["sleep", "wake", "leave"])), max_size=20
)


@settings(max_examples=60, deadline=None)
@given(disturbances, st.integers(1, 5), st.sampled_from([("train",), ("look", "train")]), st.integers(0, 3))
def test_whatever_happens_asks_and_bytes_are_accounted_for(disturbances, count, steps, seed):
    here = lab(
        5, [0, 0.1, 0.1, 0.4, 0.2], speed=[1e6, 1e7, 4e5, 1e6, 1e6], algorithm=Number(exchanges=steps), seed=seed
    )
    for second, client, what in disturbances:
        here.at(second, getattr(here.nodes, what), client)
    ended = here.run(Sync(rounds=4, clients=count))
    assert ended or not here.world.online()
    check_books(here)
    assert sum(row.asked for row in here.updates) == here.asked
    assert sum(row.late for row in here.updates) == 0
    folded = sum(row.folded for row in here.updates)
    assert sum(row.fate == "delivered" and row.dst == -1 for row in here.transfers) == folded
    assert len(here.updates) == (4 * len(steps) if ended else len(here.updates))


def test_effects_wear_rounds_down_but_never_break_the_books():
    here = lab(clients=20, effects=[Churn(4.0, 2.0), Dropout(0.2)], seed=5)
    assert here.run(Sync(rounds=40, participation=0.5))
    check_books(here)
    assert sum(row.asked for row in here.updates) == here.asked
    assert 0 < sum(row.lost for row in here.updates) < here.asked
    assert {row.what for row in here.spans} == {"train", "offline", "left"}
    assert {"delivered", "cut"} <= set(here.fates())
