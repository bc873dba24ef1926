"""Weighted shares: long round trips get less if the model has such a bias."""

import math

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import access, fill, fill_over_time, fluid, rate_of, up, world
from pydantic import TypeAdapter, ValidationError

from fedsim.net.links.link import Link
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.laws import TransferModel

trips = st.floats(1e-3, 0.5) | st.sampled_from([0.01, 0.1])
flows = st.tuples(
    st.floats(0, 20) | st.just(0.0), st.floats(1, 1e7), st.floats(1e4, 1e7) | st.sampled_from([1e5, 1e6]), trips
)
stars = st.lists(flows, min_size=1, max_size=25)


def share(these, capacity):
    """When each flow ends on one link, its weight being one over its round trip."""
    env, ends = simpy.Environment(), {}
    link = Link(env, capacity)

    def join(number, size, ceiling, trip):
        link.join(size, ceiling, lambda flow: ends.__setitem__(number, env.now), 1 / trip)

    for number, (start, *rest) in enumerate(these):
        simpy.Timeout(env, start).callbacks.append(lambda _, number=number, rest=rest: join(number, *rest))
    env.run()
    return [ends[number] for number in range(len(these))]


@settings(max_examples=150, deadline=None)
@given(stars, st.floats(1e6, 1e7))
def test_equals_weighted_progressive_filling(these, capacity):
    """A flow may end an instant (1e-9 s, or of the time) early, and so let another one do so: hence two of them."""
    starts, sizes, ceilings, trips = map(list, zip(*these, strict=True))
    expected = fill_over_time(starts, sizes, ceilings, capacity, 1 / np.array(trips))
    assert share(these, capacity) == pytest.approx(expected.tolist(), rel=2e-9, abs=2e-9)


@given(st.lists(st.tuples(st.floats(1e4, 1e7), trips), max_size=20), st.floats(1e4, 1e7), trips, st.floats(1e6, 1e7))
def test_rates_are_weighted_and_the_one_predicted_is_never_too_high(others, ceiling, trip, capacity):
    link = Link(simpy.Environment(), capacity)
    assert link.rate_if_joined(ceiling, 1 / trip) == pytest.approx(min(ceiling, capacity), rel=1e-15)
    these = [link.join(1e6, other, lambda flow: None, 1 / long) for other, long in others]
    estimate = link.rate_if_joined(ceiling, 1 / trip)
    these.append(link.join(1e6, ceiling, lambda flow: None, 1 / trip))
    assert 0 < estimate <= rate_of(link, these[-1]) * (1 + 1e-9)
    expected = fill([flow.ceiling for flow in these], capacity, [flow.weight for flow in these])
    assert [rate_of(link, flow) for flow in these] == pytest.approx(expected.tolist(), rel=1e-9)
    assert link.load <= capacity * (1 + 1e-9)


def test_shares_go_as_one_over_the_round_trip_with_exponent_one():
    """Without ceilings in the way, as flow-level simulators of the CM02 kind have it."""
    model = fluid(rtt_bias=1.0)
    here = world([0.01, 0.02, 0.05], 8e7, 8e7, 3, server=access(8e6), model=model)
    for client in range(3):
        here.network.send(up(client, 10**8))
    here.env.run(until=10.0)
    weights = np.array([1 / 0.02, 1 / 0.04, 1 / 0.1])
    rates = [rate_of(here.network.shared["ingress"], flow) for client in range(3) for flow in here.flows(client, True)]
    joined_late = rates[2] / rates[0]  # the last joined a link that was full: its queue counts as round trip
    assert rates[1] / rates[0] == pytest.approx(weights[1] / weights[0])
    assert joined_late <= weights[2] / weights[0] * (1 + 1e-9)
    assert sum(rates) == pytest.approx(1e6)


def test_half_an_exponent_is_the_root():
    assert tcp.weight(TransferModel(rtt_bias=0.5), 0.04) == pytest.approx(5.0)
    assert tcp.weight(TransferModel(), 0.04) == 1.0
    assert math.isfinite(tcp.weight(TransferModel(rtt_bias=1.0), 0.0))


def test_equal_weights_of_any_size_change_nothing():
    these = [(0.1 * i, 1e5 * (1 + i % 3), 2e5 * (1 + i % 4), 0.25) for i in range(12)]
    plain = fill_over_time(*zip(*[flow[:3] for flow in these], strict=True), 1e6)
    assert share(these, 1e6) == pytest.approx(plain.tolist(), rel=1e-9)


@pytest.mark.parametrize("bias", [-0.5, math.inf, math.nan])
def test_exponents_that_make_no_sense_are_refused(bias):
    with pytest.raises(ValidationError, match="rtt_bias"):
        TypeAdapter(TransferModel).validate_python({"rtt_bias": bias})
    with pytest.raises(ValueError, match="bbr"):
        TransferModel(rtt_bias=0.5, congestion_control="bbr")


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan])
def test_weights_that_make_no_sense_are_refused(weight):
    with pytest.raises(ValueError, match="weight"):
        Link(simpy.Environment(), 1e6).join(1.0, 1.0, lambda flow: None, weight)
