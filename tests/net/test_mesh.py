import math
from itertools import pairwise

import numpy as np
import pytest
import simpy
from hypothesis import example, given, settings
from hypothesis import strategies as st
from netlab import rate_of

import fedsim.net.links.mesh as module
from fedsim.net.links.flows import InvariantError
from fedsim.net.links.link import Link
from fedsim.net.links.mesh import Mesh


def fill_paths(ceilings, weights, capacities, crosses):
    """Max–min rates: all rise alike; who meets a ceiling or a full link stops; `crosses` is (flows, links), 0 or 1."""
    ceilings, weights = np.asarray(ceilings, float), np.asarray(weights, float)
    rates, rising = np.zeros(len(ceilings)), ceilings > 0
    while rising.any():
        room = np.maximum(0.0, capacities - rates @ crosses)
        weight = (weights * rising) @ crosses
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(weight > 0, room / weight, np.inf).min(initial=np.inf)
        step = min(step, ((ceilings - rates) / weights)[rising].min())
        rates[rising] += weights[rising] * step
        full = (weight > 0) & (capacities - rates @ crosses <= 1e-12 * np.where(capacities < np.inf, capacities, 0))
        stops = (rates >= ceilings * (1 - 1e-12)) | (crosses[:, full].any(axis=1))
        rising &= ~stops
    return rates


class Oracle:
    """The same flows, all rates being found again from nothing after every event."""

    def __init__(self, flows, capacities, crosses, changes=()):
        self.capacities, self.crosses = np.array(capacities, float), crosses
        starts, sizes, self.ceilings, self.weights = (np.array(column, float) for column in zip(*flows, strict=True))
        self.left, self.ends = sizes.copy(), np.full(len(flows), np.inf)
        here, now, gone = np.zeros(len(flows), bool), 0.0, np.zeros(len(flows), bool)
        todo = sorted([(start, "join", i, 0.0) for i, start in enumerate(starts)] + list(changes), key=lambda c: c[0])
        self.rates = np.zeros(len(flows))
        while True:
            self.rates = np.zeros(len(flows))
            active = np.flatnonzero(here)
            self.rates[active] = fill_paths(
                self.ceilings[active], self.weights[active], self.capacities, crosses[active]
            )
            with np.errstate(divide="ignore", invalid="ignore"):
                through = np.where(self.rates > 0, now + self.left / self.rates, np.inf)
            through[here & (self.left <= 0)] = now
            until = min(todo[0][0] if todo else np.inf, through.min(initial=np.inf))
            if until == np.inf:
                return
            self.left -= self.rates * (until - now)
            done = here & (through <= until * (1 + 1e-13))
            self.ends[done], self.left[done] = until, 0.0
            here &= ~done
            now = until
            while todo and todo[0][0] <= now:
                _, what, number, value = todo.pop(0)
                if what == "join":
                    here[number] = not gone[number]
                elif what == "leave" and here[number]:
                    here[number] = False
                elif what == "ceiling" and here[number]:
                    self.ceilings[number] = value
                elif what == "capacity":
                    self.capacities[number % len(capacities)] = value


class Traffic:
    """Flows (start, size, ceiling, weight) on a mesh, each over the links in its row of `crosses`."""

    def __init__(self, flows, capacities, crosses, changes=(), begin=0.0):
        self.env = simpy.Environment(begin)
        self.mesh = Mesh(self.env)
        self.links = [self.mesh.link(capacity) for capacity in capacities]
        self.pools = [self.mesh.pool([self.links[i] for i in np.flatnonzero(row)]) for row in crosses]
        self.crosses = np.asarray(crosses)
        self.ends, self.active, self.left = {}, {}, {}
        for number, (start, size, ceiling, weight) in enumerate(flows):
            self.at(begin + start, self.join, number, size, ceiling, weight)
        for time, *change in changes:
            self.at(begin + time, self.change, *change)

    def at(self, time, call, *args):
        simpy.Timeout(self.env, time - self.env.now).callbacks.append(lambda _: call(*args))

    def join(self, number, size, ceiling, weight=1.0):
        def done(flow):
            self.ends[number] = self.env.now
            assert self.active.pop(number) is flow

        self.active[number] = self.pools[number].join(size, ceiling, done, weight)

    def change(self, what, number, value):
        if what == "capacity":
            self.links[number % len(self.links)].set_capacity(value)
        elif number in self.active and what == "ceiling":
            self.pools[number].set_ceiling(self.active[number], value)
        elif number in self.active:
            self.left[number] = self.pools[number].leave(self.active.pop(number))

    def rates(self):
        return {number: rate_of(self.pools[number], flow) for number, flow in self.active.items()}

    def run(self):
        self.env.run()
        return [self.ends[number] for number in sorted(self.ends)]


def random_case(seed, links=6, flows=20):
    """A random incidence, with ties, parked flows, flows over no link, and links without end or capacity."""
    rng = np.random.default_rng(seed)
    count, wide = int(rng.integers(1, flows + 1)), int(rng.integers(1, links + 1))
    crosses = (rng.random((count, wide)) < rng.uniform(0.1, 0.7)).astype(int)
    if rng.random() < 0.5:  # many flows over few pools
        crosses = crosses[rng.integers(0, min(count, 4), count)]
    capacities = np.where(rng.random(wide) < 0.5, rng.lognormal(14, 1, wide), rng.choice([1e6, 2e6, np.inf], wide))
    starts = rng.uniform(0, 20, count) * (rng.random(count) < 0.5)
    ceilings = np.where(rng.random(count) < 0.5, rng.lognormal(13, 1.5, count), rng.choice([1e5, 1e6], count))
    weights = rng.choice([1.0, 1.0, 0.5, 3.0], count) if rng.random() < 0.5 else np.ones(count)
    rows = zip(starts, rng.uniform(1, 1e7, count), ceilings, weights, strict=True)
    return [tuple(map(float, row)) for row in rows], capacities, crosses


def random_changes(seed, flows, links, count=12):
    rng = np.random.default_rng(seed)
    changes = []
    for _ in range(count):
        what = str(rng.choice(["leave", "ceiling", "ceiling", "capacity", "capacity"]))
        number = int(rng.integers(0, links if what == "capacity" else flows))
        value = float(rng.choice([0.0, 1e6, rng.lognormal(13, 1.5)]))
        changes.append((float(rng.choice([rng.uniform(0, 30), 5.0])), what, number, value))
    return changes


seeds = st.integers(0, 10**6)


@settings(max_examples=100)
@given(seeds)
def test_flows_end_when_those_of_progressive_filling_do(seed):
    """A flow may end an instant (1e-9 s, or of the time) early, and so let others do so."""
    flows, capacities, crosses = random_case(seed)
    traffic = Traffic(flows, capacities, crosses)
    traffic.run()
    expected = Oracle(flows, capacities, crosses).ends
    assert [traffic.ends[i] for i in range(len(flows))] == pytest.approx(expected.tolist(), rel=3e-9, abs=3e-9)


@settings(max_examples=100)
@given(seeds)
def test_so_they_do_when_flows_leave_and_ceilings_and_capacities_change(seed):
    flows, capacities, crosses = random_case(seed)
    changes = random_changes(seed, len(flows), len(capacities))
    traffic = Traffic(flows, capacities, crosses, changes)
    traffic.env.run(until=1e5)
    oracle = Oracle(flows, capacities, crosses, changes)
    assert set(traffic.ends) == set(np.flatnonzero(np.isfinite(oracle.ends)).tolist())
    for number, end in traffic.ends.items():
        assert end == pytest.approx(oracle.ends[number], rel=1e-8, abs=1e-8)
    for number, left in traffic.left.items():
        assert left == pytest.approx(oracle.left[number], rel=1e-6, abs=1.0)
    assert all(rate == 0 for rate in traffic.rates().values())  # who is here still is held for ever


@settings(max_examples=60)
@given(seeds, st.floats(1e-3, 30))
def test_rates_at_any_instant_are_those_of_progressive_filling_and_max_min(seed, instant):
    flows, capacities, crosses = random_case(seed)
    traffic = Traffic(flows, capacities, crosses, random_changes(seed, len(flows), len(capacities)))
    traffic.env.run(until=instant)
    rates = traffic.rates()
    here = sorted(rates)
    capacities = np.array([link.capacity for link in traffic.links])
    ceilings, weights = (np.array([getattr(traffic.active[i], name) for i in here]) for name in ("ceiling", "weight"))
    found, over = np.array([rates[i] for i in here]), traffic.crosses[np.array(here, int)]
    assert found == pytest.approx(fill_paths(ceilings, weights, capacities, over), rel=1e-9)
    loads = found @ over
    assert [link.load for link in traffic.links] == pytest.approx(loads.tolist(), rel=1e-9)
    assert (loads <= capacities * (1 + 1e-9)).all()
    for number, rate in enumerate(found):
        full = np.flatnonzero(over[number] & (loads >= capacities * (1 - 1e-9)))
        highest = [rate / weights[number] >= (found / weights)[over[:, link] > 0].max() * (1 - 1e-9) for link in full]
        assert rate >= ceilings[number] * (1 - 1e-9) or any(highest)


@settings(max_examples=60)
@given(seeds)
def test_bytes_are_conserved(seed):
    """What the rates between two events add up to is what has gone, but for what ends an instant early."""
    flows, capacities, crosses = random_case(seed)
    traffic = Traffic(flows, capacities, crosses, random_changes(seed, len(flows), len(capacities)))
    carried, spared = 0.0, 1e-3
    while traffic.env.peek() < math.inf:
        rate, before, ended = sum(traffic.rates().values()), traffic.env.now, len(traffic.ends)
        traffic.env.step()
        carried += rate * (traffic.env.now - before)
        spared += rate * 1e-9 * max(1.0, traffic.env.now) * (len(traffic.ends) > ended)
    left = traffic.left | {i: traffic.pools[i].leave(flow) for i, flow in traffic.active.items()}
    assert carried == pytest.approx(sum(flow[1] for flow in flows) - sum(left.values()), rel=1e-9, abs=spared)


@settings(max_examples=60)
@given(seeds)
def test_a_mesh_of_one_link_is_a_link(seed):
    flows, capacities, _ = random_case(seed)
    crosses = np.ones((len(flows), 1), int)
    changes = random_changes(seed, len(flows), 1)
    plain = [(start, size, ceiling, 1.0) for start, size, ceiling, _ in flows]
    mesh = Traffic(plain, capacities[:1], crosses, changes)
    star = Traffic(plain, capacities[:1], crosses, changes)
    link = Link(star.env, capacities[0])
    star.links, star.pools = [link], [link] * len(flows)
    for traffic in (mesh, star):
        traffic.env.run(until=1e5)
    assert set(mesh.ends) == set(star.ends)
    for number, end in star.ends.items():
        assert mesh.ends[number] == pytest.approx(end, rel=1e-9, abs=1e-9)
    for number, left in star.left.items():
        assert mesh.left[number] == pytest.approx(left, rel=1e-9, abs=1e-2)


@settings(max_examples=60)
@given(seeds, st.lists(st.floats(1e-3, 30), min_size=1, max_size=6))
def test_the_only_link_of_a_mesh_has_the_state_of_a_link(seed, instants):
    """Where no ceiling is just what a flow gets: there rounding says whether it is at its ceiling."""
    flows, capacities, _ = random_case(seed)
    odd = np.random.default_rng(seed).uniform(0.9, 1.1, (2, 20))
    flows = [(start, size, ceiling * odd[0, i], weight) for i, (start, size, ceiling, weight) in enumerate(flows)]
    changes = random_changes(seed, len(flows), 1)
    changes = [(time, what, number, value * odd[1, i]) for i, (time, what, number, value) in enumerate(changes)]
    crosses = np.ones((len(flows), 1), int)
    mesh, star = (Traffic(flows, capacities[:1], crosses, changes) for _ in range(2))
    link = Link(star.env, capacities[0], None, 2e5)
    star.links, star.pools = [link], [link] * len(flows)
    meshed = mesh.mesh.link(capacities[0], None, 2e5)
    mesh.links, mesh.pools = [meshed], [mesh.mesh.pool([meshed])] * len(flows)
    for instant in sorted(set(instants)):
        states = []
        for traffic, one in ((mesh, meshed), (star, link)):
            traffic.env.run(until=instant)
            mesh.mesh.settle()
            since = [traffic.pools[i].at_ceiling_since(flow) for i, flow in traffic.active.items()]
            states.append([one.load, one.buffer, one.tokens, one.full_since, one.capacity, *since])
        assert states[0] == pytest.approx(states[1], rel=1e-6, abs=1e-2)


def test_a_break_that_takes_no_time_is_none():
    env = simpy.Environment()
    mesh = Mesh(env)
    link = mesh.link(1e6)
    pool = mesh.pool([link])
    first = pool.join(1e9, 2e6, lambda flow: None)
    env.run(until=5.0)
    pool.leave(first)
    mesh.settle()
    assert (link.load, link.full_since) == (0.0, math.inf)
    pool.join(1e9, 2e6, lambda flow: None)
    mesh.settle()
    assert (link.load, link.full_since) == (1e6, 0.0)


def test_a_pipe_holds_tokens_while_nobody_is_there_and_waits_in_a_buffer():
    env = simpy.Environment()
    mesh = Mesh(env)
    link, wide = mesh.link(1e6, None, 3e5), mesh.link(1e7, 5e4)
    pool = mesh.pool([link, wide])
    assert (link.buffer, wide.buffer, link.tokens, wide.tokens) == (1e5, 5e4, 3e5, 0.0)
    flow = pool.join(1e9, 0.0, lambda flow: None)  # parked, and there all the same
    env.run(until=1.0)
    assert link.tokens == 0.0
    pool.leave(flow)
    pool.join(1e6, 1e6, lambda flow: None)
    env.run(until=2.1)
    assert link.tokens == pytest.approx(1e5)
    for numbers in ((1e6, -1.0, 0.0), (1e6, None, -1.0)):
        with pytest.raises(ValueError, match="negative"):
            mesh.link(*numbers)


@given(seeds)
@settings(max_examples=20)
def test_the_same_flows_end_at_the_same_times_bit_for_bit(seed):
    flows, capacities, crosses = random_case(seed)
    changes = random_changes(seed, len(flows), len(capacities))
    once, again = (Traffic(flows, capacities, crosses, changes) for _ in range(2))
    for traffic in (once, again):
        traffic.env.run(until=1e5)
    assert list(once.ends.items()) == list(again.ends.items())
    assert once.left == again.left


@settings(max_examples=100)
@given(seeds)
@example(7)
def test_the_rate_predicted_is_never_too_high(seed):
    flows, capacities, crosses = random_case(seed)
    traffic = Traffic([(0.0, 1e9, ceiling, weight) for _, _, ceiling, weight in flows], capacities, crosses)
    traffic.env.run(until=1e-3)
    for pool in traffic.pools:
        estimate = pool.rate_if_joined(1e6, 2.0)
        flow = pool.join(1e6, 1e6, lambda flow: None, 2.0)
        assert 0 <= estimate <= rate_of(pool, flow) * (1 + 1e-9)
        pool.leave(flow)


def test_the_rate_predicted_is_right_on_idle_pipes_and_where_others_cannot_use_their_shares():
    mesh = Mesh(simpy.Environment())
    wide, narrow, other = mesh.link(100.0), mesh.link(1.0), mesh.link(2.0)
    assert mesh.pool([wide, narrow]).rate_if_joined(50.0) == 1.0
    for _ in range(30):
        mesh.pool([wide, narrow]).join(1e6, 1e3, lambda flow: None)
    assert mesh.pool([wide]).rate_if_joined(1e3) == 99.0
    assert mesh.pool([wide, other]).rate_if_joined(1e3) == 2.0
    assert mesh.pool([]).rate_if_joined(1e3) == 1e3


def test_three_flows_over_two_pipes():
    """The long flow is held by the narrow link, and the short one beside it on the wide link takes what it leaves."""
    traffic = Traffic([(0.0, 1e6, 1e9, 1.0)] * 3, [2e6, 1e6], np.array([[1, 1], [1, 0], [0, 1]]))
    traffic.env.run(until=0.1)
    assert list(traffic.rates().values()) == pytest.approx([5e5, 1.5e6, 5e5])


def test_two_pipes_of_one_capacity_or_none_both_hold():
    traffic = Traffic(
        [(0.0, 1e6, 1e9, 1.0)] * 2,
        [1e6, 1e6],
        np.ones((2, 2), int),
        [(1.0, "capacity", 0, 0.0), (1.0, "capacity", 1, 0.0), (3.0, "capacity", 1, 1e6), (4.0, "capacity", 0, 1e6)],
    )
    assert traffic.run() == pytest.approx([5.0, 5.0])


def test_flows_far_from_a_change_keep_their_dates_and_are_not_looked_at(monkeypatch):
    """Two links that nothing connects but one that is never full: what happens on one is nothing to the other."""
    env = simpy.Environment()
    mesh = Mesh(env)
    roof, left, right = mesh.link(100.0), mesh.link(1.0), mesh.link(1.0)
    near, far = mesh.pool([left, roof]), mesh.pool([right, roof])
    flow = far.join(1e3, 5.0, lambda flow: None)
    assert rate_of(far, flow) == 1.0
    looked, plain = [], module.fill
    monkeypatch.setattr("fedsim.net.links.mesh.fill", lambda *args: looked.extend(args[0]) or plain(*args))
    near.join(1e3, 5.0, lambda flow: None)
    mesh.settle()
    assert len(looked) == 1


def test_changes_of_one_instant_are_settled_once(monkeypatch):
    count, plain = [], module.fill
    monkeypatch.setattr("fedsim.net.links.mesh.fill", lambda *args: count.append(1) or plain(*args))
    traffic = Traffic([(1.0, 1e6, 1e6, 1.0)] * 50, [1e6], np.ones((50, 1), int))
    assert traffic.run() == pytest.approx([51.0] * 50)
    assert len(count) == 2  # all join; all end


def test_a_pipe_tells_since_when_it_has_been_full():
    traffic = Traffic(
        [(1.0, 2e6, 1e6, 1.0), (2.0, 1e6, 1e6, 1.0), (3.0, 1e6, 5e5, 1.0)], [1e6, 1e7], np.ones((3, 2), int)
    )
    seen = {}
    for time in (0.5, 1.5, 2.5, 4.4, 4.9):
        traffic.at(time, lambda time=time: seen.update({time: [link.full_since for link in traffic.links]}))
    traffic.env.run()
    assert seen == {
        0.5: [math.inf] * 2,
        1.5: [1.0, math.inf],
        2.5: [1.0, math.inf],
        4.4: [1.0, math.inf],
        4.9: [math.inf] * 2,  # the one that is left cannot fill it
    }


def test_an_outage_parks_a_flow_and_its_bytes_wait():
    changes = [(1.0, "ceiling", 0, 0.0), (5.0, "ceiling", 0, 1e6)]
    traffic = Traffic([(0.0, 1e6, 1e6, 1.0)] * 2, [1e6, 2e6], np.ones((2, 2), int), changes)
    traffic.run()
    assert [traffic.ends[0], traffic.ends[1]] == pytest.approx([5.5, 1.5])


@pytest.mark.parametrize("begin", [0.0, 1e6, 1e9, 1e12])
def test_time_does_not_stand_still_at_large_times(begin):
    flows = [(0.1 * i, 1e6 / 3, 1e6 / 7 * (1 + i % 5), 1.0) for i in range(30)]
    crosses = np.array([[1, i % 2, 1 - i % 2] for i in range(30)])
    traffic = Traffic(flows, [1e6, 6e5, 7e5], crosses, begin=begin)
    for _ in range(1000):
        if traffic.env.peek() == math.inf:
            break
        traffic.env.step()
    assert len(traffic.ends) == 30
    assert max(traffic.ends.values()) - begin == pytest.approx(10.0, rel=0.1, abs=1e-8 * begin)


def test_whoever_ends_may_join_again_at_once_and_leaving_after_the_end_is_nothing():
    env = simpy.Environment()
    mesh = Mesh(env)
    pool, ends = mesh.pool([mesh.link(1e6), mesh.link(2e6)]), []

    def again(flow):
        ends.append(env.now)
        assert (pool.leave(flow), pool.leave(flow), rate_of(pool, flow)) == (0.0, 0.0, 0.0)
        pool.set_ceiling(flow, 5e5)
        if len(ends) < 6:
            pool.join(1e6, 1e6, again)

    pool.join(1e6, 1e6, again)
    pool.join(1e6, 1e6, again)
    env.run()
    assert ends == pytest.approx([2.0, 2.0, 4.0, 4.0, 6.0, 6.0, 7.0][: len(ends)])


def test_many_stale_wakes_do_not_pile_up():
    env = simpy.Environment()
    mesh = Mesh(env)
    pool = mesh.pool([mesh.link(1e6), mesh.link(1e6)])
    pool.join(1e9, 1e6, lambda flow: None)
    for i in range(1000):
        flow = pool.join(1e6 - i, 1e6, lambda flow: None)
        mesh.settle()
        pool.leave(flow)
    waiting = 0
    while env.peek() < math.inf:
        env.step()
        waiting += 1
    assert waiting <= 1001 + 2


def test_a_breach_is_reported():
    env = simpy.Environment()
    mesh = Mesh(env)
    link = mesh.link(1e6)
    mesh.pool([link]).join(1e6, 2e6, lambda flow: None)
    mesh.settle()
    (bundle,) = link.bundles
    bundle.level *= 1.01
    with pytest.raises(InvariantError, match="carries"):
        link.check(env.now)


@pytest.mark.parametrize(
    ("nbytes", "ceiling", "weight"),
    [(-1, 1, 1), (math.inf, 1, 1), (math.nan, 1, 1), (1, -1, 1), (1, math.inf, 1), (1, 1, 0), (1, 1, math.inf)],
)
def test_numbers_that_make_no_sense_are_refused(nbytes, ceiling, weight):
    mesh = Mesh(simpy.Environment())
    link = mesh.link(1e6)
    with pytest.raises(ValueError, match="flow"):
        mesh.pool([link]).join(nbytes, ceiling, lambda flow: None, weight)
    with pytest.raises(ValueError, match="capacity"):
        link.set_capacity(-1.0)
    with pytest.raises(ValueError, match="capacity"):
        mesh.link(math.nan)
    with pytest.raises(ValueError, match="twice"):
        mesh.pool([link, link])


def test_random_long_runs_end_in_order_of_time():
    rng = np.random.default_rng(3)
    count = 300
    edges = rng.integers(0, 4, count)
    crosses = np.column_stack([np.ones(count, int), *(edges == e for e in range(4))]).astype(int)
    flows = list(
        zip(
            rng.uniform(0, 50, count),
            rng.exponential(1e5, count),
            rng.lognormal(12, 1, count),
            np.ones(count),
            strict=True,
        )
    )
    capacities = [6e5, 1e5, 2e5, 4e5, 8e5]
    traffic = Traffic(flows, capacities, crosses)
    traffic.run()
    order = list(traffic.ends.values())
    assert all(a <= b for a, b in pairwise(order))
    expected = Oracle(flows, capacities, crosses).ends
    assert [traffic.ends[i] for i in range(count)] == pytest.approx(expected.tolist(), rel=1e-8)
