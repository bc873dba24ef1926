import math
from itertools import pairwise

import numpy as np
import pytest
import simpy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from netlab import fill, fill_over_time, rate_of

from fedsim.net.links.heap import LazyHeap
from fedsim.net.links.link import Link

rates = st.floats(1e4, 1e7) | st.sampled_from([1e4, 1e5, 2e5, 1e6])
sizes = st.floats(1, 1e7) | st.sampled_from([1e5, 1e6])
starts = st.floats(0, 20) | st.sampled_from([0.0, 0.0, 1.0])
stars = st.lists(st.tuples(starts, sizes, rates), min_size=1, max_size=25)
capacities = st.floats(1e6, 1e7) | st.sampled_from([1e6, 2e6, math.inf])


class Traffic:
    """Flows with their starts, sizes and ceilings on one link; `ends` fills as the clock runs."""

    def __init__(self, flows, capacity, begin=0.0):
        self.env = simpy.Environment(begin)
        self.link = Link(self.env, capacity)
        self.ends, self.active = {}, {}
        for number, (start, size, ceiling) in enumerate(flows):
            self.at(begin + start, self.join, number, size, ceiling)

    def at(self, time, call, *args):
        simpy.Timeout(self.env, time - self.env.now).callbacks.append(lambda _: call(*args))

    def join(self, number, size, ceiling):
        def done(flow):
            self.ends[number] = self.env.now
            assert self.active.pop(number) is flow

        self.active[number] = self.link.join(size, ceiling, done)

    def leave(self, number):
        return self.link.leave(self.active.pop(number))

    def run(self):
        self.env.run()
        return [self.ends[number] for number in sorted(self.ends)]

    def rates(self):
        return [rate_of(self.link, flow) for flow in self.active.values()]


def close(a, b):
    return a == pytest.approx(b, rel=1e-9, abs=1e-9)


@settings(max_examples=200)
@given(stars, capacities)
@example([(0.0, 1e6, 1e6 / 3)] * 3, 1e6)
@example([(0.0, 1e6, 0.1e6)] * 10 + [(1.0, 5e5, 1e6)] * 3, 1e6)
def test_equals_progressive_filling(flows, capacity):
    """A flow may end an instant (1e-9 s, or of the time) early, and so let another one do so: hence two of them."""
    ends = Traffic(flows, capacity).run()
    expected = fill_over_time(*map(list, zip(*flows, strict=True)), capacity).tolist()
    assert ends == pytest.approx(expected, rel=2e-9, abs=2e-9)


@pytest.mark.parametrize("seed", range(50))
def test_equals_progressive_filling_on_random_stars(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 26))
    begins = rng.uniform(0, 20, count) * (rng.random(count) < 0.5)
    flows = list(zip(begins, rng.uniform(1, 1e7, count), rng.lognormal(13, 1.5, count), strict=True))
    ends = Traffic(flows, 3e6).run()
    assert ends == pytest.approx(fill_over_time(*zip(*flows, strict=True), 3e6).tolist(), rel=1e-9)


@given(stars, capacities, st.lists(st.floats(0, 60), min_size=1, max_size=5))
def test_max_min_certificate_at_any_instant(flows, capacity, instants):
    traffic = Traffic(flows, capacity)
    for instant in sorted(instants):
        if instant > traffic.env.now:
            traffic.env.run(until=instant)
        now = traffic.rates()
        full = sum(now) >= capacity * (1 - 1e-9)
        for flow, rate in zip(traffic.active.values(), now, strict=True):
            at_ceiling = rate >= flow.ceiling * (1 - 1e-9)
            assert at_ceiling or (full and rate >= max(now) * (1 - 1e-9))


changes = st.tuples(
    st.floats(0, 30), st.sampled_from(["leave", "ceiling", "capacity"]), st.integers(0, 24), st.floats(0, 5e6)
)


def apply(traffic, left, change):
    _, what, number, value = change
    if what == "capacity":
        traffic.link.set_capacity(value)
    elif number in traffic.active and what == "ceiling":
        traffic.link.set_ceiling(traffic.active[number], value)
    elif number in traffic.active:
        left[number] = traffic.leave(number)


@settings(max_examples=150)
@given(stars, st.floats(1e6, 1e7), st.lists(changes, max_size=12))
def test_bytes_are_conserved_and_the_capacity_is_kept(flows, capacity, todo):
    """What the rates between two events add up to is what has gone, whatever is changed meanwhile.

    A flow may end an instant early, and is then spared what it would have sent in it.
    """
    traffic, left, carried, spared = Traffic(flows, capacity), {}, 0.0, 1e-3
    for change in todo:
        traffic.at(change[0], apply, traffic, left, change)
    while traffic.env.peek() < math.inf:
        flow_rate, before, ended = sum(traffic.rates()), traffic.env.now, len(traffic.ends)
        assert flow_rate <= traffic.link.capacity * (1 + 1e-9) + 1e-6
        traffic.env.step()
        carried += flow_rate * (traffic.env.now - before)
        spared += flow_rate * 1e-9 * max(1.0, traffic.env.now) * (len(traffic.ends) > ended)
    left |= {number: traffic.link.leave(flow) for number, flow in traffic.active.items()}
    gone = sum(size for _, size, _ in flows) - sum(left.values())
    assert carried == pytest.approx(gone, rel=1e-9, abs=spared)


@given(stars, st.floats(1e6, 1e7), st.lists(changes, max_size=12))
def test_rates_after_changes_are_those_of_progressive_filling(flows, capacity, todo):
    traffic, left = Traffic(flows, capacity), {}
    for change in todo:
        traffic.at(change[0], apply, traffic, left, change)
    traffic.env.run(until=31)
    ceilings = [flow.ceiling for flow in traffic.active.values()]
    assert close(traffic.rates(), fill(ceilings, traffic.link.capacity).tolist())


def test_four_clients_on_25_megabits():
    traffic = Traffic([(0.0, 1e6, mbit * 1e6 / 8) for mbit in (2, 5, 20, 50)], 25e6 / 8)
    traffic.env.run(until=1e-6)
    assert close(traffic.rates(), [mbit * 1e6 / 8 for mbit in (2, 5, 9, 9)])


@given(st.integers(1, 40), st.permutations(range(12)))
def test_equal_flows_end_together_in_any_order(count, order):
    assert close(Traffic([(0.0, 1e6, 1e6)] * count, 1e6).run(), [float(count)] * count)
    flows = [(0.0, 1e5 * (1 + i % 3), 2e5 * (1 + i % 4)) for i in range(12)]
    plain, permuted = Traffic(flows, 1e6).run(), Traffic([flows[i] for i in order], 1e6).run()
    assert close([plain[i] for i in order], permuted)


@pytest.mark.parametrize(("ceiling", "seconds"), [(5e5, 2.0), (1e6, 1.0), (4e6, 1.0)])
def test_a_single_flow_below_at_and_above_the_capacity(ceiling, seconds):
    assert close(Traffic([(0.0, 1e6, ceiling)], 1e6).run(), [seconds])


def test_an_unlimited_link_gives_everyone_their_ceiling_and_the_clock_stays_a_number():
    traffic = Traffic([(0.0, 1e6, 1e6), (0.0, 1e6, 5e5), (1.0, 1e6, 1e6)], math.inf)
    assert traffic.link.leave(traffic.link.join(7.0, 1.0, lambda flow: None)) == 7.0  # dt = 0 at level infinity
    assert close(traffic.run(), [1.0, 2.0, 2.0])


def test_the_clock_starts_afresh_when_no_flow_is_free():
    """After bytes by the quadrillion a few bytes still take what they take on a fresh link."""
    traffic = Traffic([(0.0, 1e15, 2e15), (0.0, 1e15, 2e15), (3.0, 1.3, 2e3)], 1e15)
    traffic.at(2.5, lambda: traffic.link.set_capacity(1e3))
    assert traffic.run() == pytest.approx([2.0, 2.0, 3.0013], abs=1e-8)


def test_the_sum_starts_afresh_when_no_flow_is_capped():
    traffic = Traffic([(0.0, 1e15, 1e15 / 3), (0.0, 0.31, 0.1), (5.0, 1.3, 2e3)], 1e15)
    traffic.at(4.5, lambda: traffic.link.set_capacity(1e3))
    assert traffic.run() == pytest.approx([3.0, 3.1, 5.0013], abs=1e-8)
    assert traffic.link.load == 0.0


@pytest.mark.parametrize("begin", [0.0, 1e6, 1e9, 1e12])
def test_time_does_not_stand_still_at_large_times(begin):
    """The tolerance at completion grows with the time; else the wake-up would be armed for ever at one instant."""
    flows = [(0.1 * i, 1e6 / 3, 1e6 / 7 * (1 + i % 5)) for i in range(30)]
    traffic = Traffic(flows, 1e6, begin)
    for _ in range(1000):
        if traffic.env.peek() == math.inf:
            break
        traffic.env.step()
    assert len(traffic.ends) == 30
    late = max(traffic.ends.values()) - begin
    assert late == pytest.approx(10.0, rel=0.05, abs=1e-8 * begin)


def test_a_flow_of_no_bytes_ends_at_once_but_not_on_a_parked_one():
    assert Traffic([(2.0, 0.0, 1e6), (2.0, 0.0, 5e6)], 1e6).run() == [2.0, 2.0]


def test_an_outage_parks_a_flow_and_its_bytes_wait():
    traffic = Traffic([(0.0, 1e6, 1e6), (0.0, 1e6, 1e6)], 1e6)
    traffic.at(1.0, lambda: traffic.link.set_ceiling(traffic.active[0], 0.0))
    traffic.at(5.0, lambda: traffic.link.set_ceiling(traffic.active[0], 1e6))
    assert close(traffic.run(), [5.5, 1.5])


@pytest.mark.parametrize("ceiling", [5e-324, 2.2e-308, 1e-12])
def test_a_ceiling_next_to_nothing_is_an_outage(ceiling):
    """No flow ends at such a rate, and the date on which it would is no number to reckon with."""
    traffic = Traffic([(0.0, 1e6, ceiling), (0.0, 1e6, 1e6)], 1e6)
    traffic.at(2.0, lambda: traffic.link.set_ceiling(traffic.active[0], 1e6))
    traffic.at(2.5, lambda: traffic.link.set_ceiling(traffic.active[0], ceiling))
    traffic.at(3.5, lambda: traffic.link.set_ceiling(traffic.active[0], 1e6))
    assert close(traffic.run(), [4.0, 1.0])


def test_a_flow_that_joins_parked_moves_once_its_ceiling_rises():
    traffic = Traffic([(0.0, 1e6, 0.0)], 1e6)
    traffic.at(3.0, lambda: traffic.link.set_ceiling(traffic.active[0], 5e5))
    assert close(traffic.run(), [5.0])


def test_a_link_without_capacity_holds_all_flows_until_it_has_some():
    traffic = Traffic([(0.0, 1e6, 1e6), (0.0, 1e6, 2e5)], 1e6)
    traffic.at(1.0, lambda: traffic.link.set_capacity(0.0))
    traffic.at(3.0, lambda: traffic.link.set_capacity(2e6))
    assert close(traffic.run(), [3.2, 7.0])
    idle = Traffic([(0.0, 1e6, 1e6)], 0.0)
    assert idle.run() == []
    assert idle.link.leave(idle.active[0]) == 1e6


@pytest.mark.parametrize(("capacity", "end"), [(1e6, 3.5), (4e6, 2.5), (math.inf, 2.5), (5e5, 5.5)])
def test_a_change_of_capacity_levels_again(capacity, end):
    traffic = Traffic([(0.0, 2e6, 1e6)] * 2, 1e6)
    traffic.at(1.0, lambda: traffic.link.set_capacity(2e6))
    traffic.at(1.5, lambda: traffic.link.set_capacity(capacity))
    assert close(traffic.run(), [end, end])


def test_leaving_returns_what_had_not_gone_and_frees_its_share():
    traffic = Traffic([(0.0, 1e6, 1e6), (0.0, 1e6, 3e5)], 1e6)
    left = []
    traffic.at(0.5, lambda: left.append(traffic.leave(0)))
    assert close(traffic.run(), [1e6 / 3e5])
    assert close(left, [1e6 - 0.5 * 7e5])


def test_leaving_after_the_end_is_nothing():
    env = simpy.Environment()
    link = Link(env, 1e6)
    flow = link.join(1e6, 1e6, lambda flow: None)
    env.run()
    assert (link.leave(flow), link.leave(flow), rate_of(link, flow)) == (0.0, 0.0, 0.0)
    link.set_ceiling(flow, 5e5)
    assert env.peek() == math.inf


def test_whoever_ends_may_join_again_at_once():
    env = simpy.Environment()
    link, ends = Link(env, 1e6), []

    def again(flow):
        ends.append(env.now)
        if len(ends) < 6:
            link.join(1e6, 1e6, again)

    link.join(1e6, 1e6, again)
    link.join(1e6, 1e6, again)
    env.run()
    assert close(ends, [2.0, 2.0, 4.0, 4.0, 6.0, 6.0, 7.0][: len(ends)])


@given(st.lists(rates, max_size=20), rates, st.floats(1e6, 1e7))
def test_the_rate_predicted_is_never_too_high_and_right_when_idle(ceilings, ceiling, capacity):
    env = simpy.Environment()
    link = Link(env, capacity)
    assert link.rate_if_joined(ceiling) == min(ceiling, capacity)
    for other in ceilings:
        link.join(1e6, other, lambda flow: None)
    estimate = link.rate_if_joined(ceiling)
    flow = link.join(1e6, ceiling, lambda flow: None)
    assert 0 < estimate <= rate_of(link, flow) * (1 + 1e-9)


@pytest.mark.parametrize(("nbytes", "ceiling"), [(-1, 1), (math.inf, 1), (math.nan, 1), (1, -1), (1, math.inf)])
def test_numbers_that_make_no_sense_are_refused(nbytes, ceiling):
    link = Link(simpy.Environment(), 1e6)
    with pytest.raises(ValueError, match="flow"):
        link.join(nbytes, ceiling, lambda flow: None)
    with pytest.raises(ValueError, match="capacity"):
        link.set_capacity(-1.0)
    with pytest.raises(ValueError, match="capacity"):
        Link(simpy.Environment(), math.nan)


class Item:
    stamp = 0


@given(st.lists(st.floats(0, 10), max_size=300), st.integers(1, 5))
def test_the_heap_skips_stale_entries_and_stays_small(keys, every):
    heap, live = LazyHeap(), []
    for number, key in enumerate(keys):
        item = Item()
        heap.push(key, item, len(live))
        if number % every:
            item.stamp += 1
        else:
            live.append(key)
        assert len(heap._entries) <= 2 * len(live) + 70
    out = []
    while top := heap.top():
        out.append(top[0])
        top[1].stamp += 1
    assert out == sorted(live)


def test_many_stale_wakes_do_not_pile_up():
    """Flows that come and are cut again leave no more than one event each behind."""
    env = simpy.Environment()
    link = Link(env, 1e6)
    link.join(1e9, 1e6, lambda flow: None)
    for i in range(1000):
        link.leave(link.join(1e6 - i, 1e6, lambda flow: None))
    waiting = 0
    while env.peek() < math.inf:
        env.step()
        waiting += 1
    assert waiting <= 1001 + 1


def test_random_long_runs_end_in_order_of_time():
    rng = np.random.default_rng(3)
    flows = list(zip(rng.uniform(0, 50, 400), rng.exponential(1e5, 400), rng.lognormal(12, 1, 400), strict=True))
    traffic = Traffic(flows, 1e6)
    traffic.run()
    order = list(traffic.ends.values())
    assert all(a <= b for a, b in pairwise(order))
    assert close(traffic.run(), fill_over_time(*map(list, zip(*flows, strict=True)), 1e6).tolist())
