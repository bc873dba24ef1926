"""Rates are worked out when they matter, and are those of a clock that steps every client through every change."""

import math
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import Sized, access, down, up, world

from fedsim.net.effects.outage import Outage
from fedsim.net.effects.trace import Trace
from fedsim.net.presence.rates import Follower, RateSchedule
from fedsim.net.topologies.peers import Peers

GAPS = st.lists(st.sampled_from([0.1, 0.3, 0.7, 1.0, 2.9]), min_size=1, max_size=6)


@dataclass(frozen=True)
class Stepped(Trace):
    """The oracle: one process that stops at every change of every client, whether anything moves or not."""

    def _play(self, env, nodes, courses, rng):
        env.process(self._step(env, nodes, courses, rng))

    def _step(self, env, nodes, courses, rng):
        count = len(nodes)
        dealt = rng.integers(len(courses), size=count) if self.assign == "random" else np.arange(count) % len(courses)
        own = [courses[number][0] for number in dealt.tolist()]
        shifts = (rng.random(count) if self.shift else np.zeros(count)).tolist()
        starts = [env.now - shift * courses[number][1] for shift, number in zip(shifts, dealt.tolist(), strict=True)]
        places = [
            max(0, int(np.searchsorted(c.times, env.now - s, side="right")) - 1)
            for c, s in zip(own, starts, strict=True)
        ]
        coming = []
        for client, course in enumerate(own):
            self._set(nodes, client, course.rates[places[client]])
            if (then := self._end(course, places[client])) < math.inf:
                coming.append((starts[client] + then, client))
        heapify(coming)
        while coming:
            time, client = coming[0]
            while env.now < time:
                yield env.timeout(_exactly(env.now, time))
            course, place = own[client], places[client] + 1
            if place == len(course.rates):
                place, starts[client] = 0, starts[client] + course.period
            places[client] = place
            self._set(nodes, client, course.rates[place])
            if (then := self._end(course, place)) < math.inf:
                heapreplace(coming, (starts[client] + then, client))
            else:
                heappop(coming)

    def _set(self, nodes, client, rate):
        nodes.set_rate(client, rate if self.direction != "down" else None, rate if self.direction != "up" else None)

    @staticmethod
    def _end(course, place):
        if place + 1 < len(course.times):
            return course.times[place + 1]
        return course.period if len(course.rates) > 1 else math.inf


def _exactly(now, time):
    delay = time - now
    while now + delay > time:
        delay = math.nextafter(delay, 0.0)
    return delay


@st.composite
def many_traces(draw):
    """Texts of traces: seconds and Mbit/s."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        gaps = draw(GAPS)
        rates = draw(st.lists(st.sampled_from([0, 0.4, 1, 2.5, 9]), min_size=len(gaps), max_size=len(gaps)))
        times = np.cumsum(gaps)
        found.append("".join(f"{time!r} {rate}\n" for time, rate in zip(times.tolist(), rates, strict=True)))
    return found


MESSAGES = st.lists(
    st.tuples(st.floats(0.01, 60.0), st.integers(0, 4), st.booleans(), st.integers(1, 2_000_000)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(
    many_traces(), MESSAGES, st.sampled_from(["down", "up", "both"]), st.booleans(), st.sampled_from([None, 12e6]),
    st.integers(0, 5),
)  # fmt: skip
def test_lazy_rates_are_those_of_the_old_stepping_to_the_last_bit(
    tmp_path_factory, texts, messages, direction, loop, shared, seed
):
    """Rows, meters and rates of a network whose every change happens, against one where only those that matter do."""
    folder = written(tmp_path_factory, texts)
    ends = [(time, up(client, nbytes) if upload else down(client, nbytes)) for time, client, upload, nbytes in messages]
    options = {"trace": folder, "direction": direction, "loop": loop, "least": 2e5}
    server = {} if shared is None else {"server": access(shared)}
    assert seen(Trace(**options), ends, seed, **server) == seen(Stepped(**options), ends, seed, **server)


@settings(max_examples=60, deadline=None)
@given(
    many_traces(), MESSAGES, st.sampled_from(["down", "up", "both"]), st.booleans(), st.sampled_from([None, 2e5]),
    st.integers(0, 5),
)  # fmt: skip
def test_lazy_rates_are_those_of_the_old_stepping_between_peers_too(
    tmp_path_factory, texts, messages, direction, loop, least, seed
):
    """A transfer between peers depends on the rates of both ends, of which each may have several under way."""
    folder = written(tmp_path_factory, texts)
    ends = [
        (time, Sized(client, (client + (1 if ahead else -1)) % 5, nbytes)) for time, client, ahead, nbytes in messages
    ]
    options = {"trace": folder, "direction": direction, "loop": loop, "least": least}
    found = seen(Trace(**options), ends, seed, topology=Peers(graph="ring"))
    assert found == seen(Stepped(**options), ends, seed, topology=Peers(graph="ring"))
    assert len(found[0]) == len(messages)


def written(tmp_path_factory, texts):
    """A folder of these traces."""
    folder = tmp_path_factory.mktemp("traces")
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text)
    return folder


def seen(effect, messages, seed, **options):
    """Rows, meters and rates after 200 s in which these messages were sent, with outages."""
    here = world(clients=5, seed=seed, effects=[effect, Outage(every=20.0, length=3.0, share=0.4)], **options)
    for time, message in messages:
        here.at(time, here.network.send, message)
    here.env.run(until=200.0)
    here.network.close()
    rates = [here.nodes.uplink.tolist(), here.nodes.downlink.tolist()]
    return here.rows, here.network.meters(True).tolist(), here.network.meters(False).tolist(), rates


@settings(max_examples=200, deadline=None)
@given(GAPS, st.floats(0.0, 1.0), st.booleans(), st.lists(st.floats(0.0, 40.0), min_size=1, max_size=10))
def test_a_follower_that_skips_stands_where_one_that_steps_does(gaps, shift, loop, looks):
    times = [0.0, *np.cumsum(gaps).tolist()]
    course = RateSchedule(times, [float(place) for place in range(len(times))], times[-1] + 0.6 if loop else math.inf)
    begin = -shift * (times[-1] + 0.6)
    follower = Follower(course, begin, 0.0, up=True, down=True)
    step = Follower(course, begin, 0.0, up=True, down=True)
    for look in sorted(looks):
        follower.skip(look)
        while step.next <= look:
            step.skip(step.next)
        assert (follower.rate, follower.since, follower.next) == (step.rate, step.since, step.next)
        assert follower.since <= look < follower.next


def test_what_is_idle_costs_the_clock_nothing(tmp_path):
    """A thousand clients whose rates change ten times a second, and one of them that sends for two seconds."""
    (tmp_path / "one.txt").write_text("".join(f"{step / 10} {1 + step % 7}\n" for step in range(100)))
    here = world(clients=1000, effects=[Trace(trace=tmp_path, direction="both")])
    here.at(3.0, lambda: here.network.send(up(7, 1_000_000)))
    here.env.run(until=1000.0)
    assert [row.fate for row in here.rows] == ["delivered"]
    lasted = here.rows[0].arrived - here.rows[0].sent
    assert here.env.scheduled < 12 * lasted + 30
    assert len(set(here.nodes.uplink.tolist())) == 7  # rates that are read have changed all the same


@pytest.mark.parametrize("attended", [False, True])
def test_the_latest_word_counts_whoever_says_it(attended):
    """A course, a rate set directly, and a second course, in one direction."""
    here = world(clients=1)
    rates = here.nodes.rates
    if attended:
        rates.attend(0)
    rates.follow(here.env, 0, RateSchedule([0.0, 10.0, 20.0], [1.0, 2.0, 3.0]), 0.0, up=True, down=False)
    rates.follow(here.env, 0, RateSchedule([15.0], [9.0]), 0.0, up=True, down=False)
    here.at(12.0, here.nodes.set_rate, 0, 7.0)
    expected = {1.0: 1.0, 11.0: 2.0, 13.0: 7.0, 16.0: 9.0, 21.0: 3.0}
    for time, rate in expected.items():
        here.env.run(until=time)
        assert here.nodes.uplink.tolist() == [rate]
        assert here.nodes.downlink.tolist() == [8e6]
