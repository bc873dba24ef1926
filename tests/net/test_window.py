"""The mean course of a window after a loss: against its equation step by step, and against rounds with drawn losses."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from netlab import access, stall, up, world

from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.congestion_avoidance import FILLED, MULTIPLICATIVE_DECREASE, Start, limit, lossy_start
from fedsim.net.tcp.laws import TransferModel

MTU = 1500
CUBIC, RENO, BBR = (TransferModel(congestion_control=name) for name in ("cubic", "reno", "bbr"))


def seconds(model, count, window, loss, trip, pipe):
    """Of `count` packets from a loss in this window on, where the path holds `pipe` packets."""
    start = Start(0.0, 0.0, 0.0, window=window)
    return count * MTU / limit(model, trip, loss, pipe * MTU / trip, start, count * MTU)


def stepwise(power, taken, steady, count, window, loss, trip, pipe, steps=200_000):
    """The same from its equation: W ** power goes to its steady value by a share of the distance with every packet."""
    packets = (np.arange(steps) + 0.5) * count / steps
    left = np.exp(-power * taken * loss * packets)
    windows = (steady**power + (((1 - taken) * window) ** power - steady**power) * left) ** (1 / power)
    return trip * np.mean(1 / np.minimum(windows, pipe)) * count


@pytest.mark.parametrize("window", [5, 30, 300])
@pytest.mark.parametrize("pipe", [7, 20, 50, 1e6])
@pytest.mark.parametrize("count", [1, 100, 3000])
def test_the_course_by_steps(window, pipe, count):
    steady = math.sqrt(1.5 / 0.003)  # 22 packets
    found = seconds(RENO, count, window, 0.003, 0.1, pipe)
    assert found == pytest.approx(stepwise(2.0, 0.5, steady, count, window, 0.003, 0.1, pipe), rel=1e-5)
    steady = 1.054 * (1.0 / 0.001) ** 0.75  # 187 packets; Reno's 39 would be slower
    found = seconds(CUBIC, count, window, 0.001, 1.0, pipe)
    slow = stepwise(4 / 3, 0.3, steady, count, window, 0.001, 1.0, pipe)
    friendly = stepwise(2.0, 0.3, math.sqrt(1500), count, window, 0.001, 1.0, pipe)
    assert found == pytest.approx(min(slow, friendly), rel=1e-5)


def test_cubic_keeps_seven_tenths_and_a_queue_hides_what_it_loses():
    """100 packets' worth of path: 0.7 of 200 still fill it, 0.7 of 80 send 56 a round trip."""
    assert seconds(CUBIC, 50, 200, 1e-3, 0.1, 100) == pytest.approx(50 * 0.1 / 100)
    assert seconds(CUBIC, 50, 80, 1e-3, 0.1, 100) == pytest.approx(50 * 0.1 / 56, rel=0.01)
    assert seconds(RENO, 50, 80, 1e-3, 0.1, 100) == pytest.approx(50 * 0.1 / 40, rel=0.02)


def test_in_the_end_the_rate_is_the_steady_one():
    for model, loss in ((CUBIC, 0.001), (CUBIC, 0.01), (CUBIC, 0.1), (RENO, 0.01), (BBR, 0.1)):
        steady = tcp.steady_rate_of(model, 0.1, loss)
        found = limit(model, 0.1, loss, 1e12, Start(0.0, 0.0, 0.0, window=500.0), 1e12)
        assert found == pytest.approx(steady, rel=1e-3)


def test_a_loss_in_slow_start_is_noticed_a_window_later_and_idles_no_more_from_then_on():
    """Of a window of 10 the fifth packet is lost: 14 more are sent until it is noticed, in the second round."""
    start = lossy_start(CUBIC, 1e6, 0.1, 1e9, 0.01, 5.0)
    assert (start.until, start.window, start.late) == (19 * MTU, 14.0, 0.0)
    assert start.idle == stall(CUBIC, 19 * MTU, 0.1, 1e9) < stall(CUBIC, 1e6, 0.1, 1e9)
    full = lossy_start(CUBIC, 1e7, 0.1, 1e6, 0.001, 900.0)
    assert full.window == FILLED * 1e6 * 0.1 / MTU


def test_a_packet_lost_among_the_last_is_sent_again_a_round_trip_later():
    """The last of 20 packets waits for it a whole trip, the tenth goes a round trip before the last."""
    for packet, late in ((20, 0.1), (19, 0.1 - MTU / 1e6), (10, 0.0)):
        start = lossy_start(CUBIC, 20 * MTU, 0.1, 1e6, 0.01, float(packet))
        assert start.until == math.inf
        assert start.late == pytest.approx(late, abs=1e-12)


@given(
    st.sampled_from([CUBIC, RENO, BBR]), st.floats(1, 1e5), st.floats(1, 1e4), st.floats(1e-4, 0.5),
    st.floats(1e-3, 2), st.floats(1, 1e4), st.floats(1, 2),
)  # fmt: skip
def test_more_loss_or_a_longer_trip_never_makes_the_rest_faster(model, count, window, loss, trip, pipe, more):
    rate = pipe * MTU / trip
    plain = seconds(model, count, window, loss, trip, pipe)
    assert plain >= count * MTU / rate * (1 - 1e-9)
    assert seconds(model, count, window, loss, trip * more, rate * trip * more / MTU) >= plain * (1 - 1e-8)
    if loss > tcp.PFTK_ABOVE or loss * more <= tcp.PFTK_ABOVE:
        assert seconds(model, count, window, min(0.9, loss * more), trip, pipe) >= plain * (1 - 1e-8)


def rounds(count, trip, loss, pipe, rng):
    """Seconds that a new flow of Cubic takes, round by round, with every loss drawn."""
    window, sent, now, slow = 10.0, 0, 0.0, True
    top = began = friendly = regain = 0.0
    while sent + int(window) < count:
        lost = rng.random(int(window)).min() < loss
        sent += int(window)
        took = max(trip, window * trip / pipe)
        now += took
        if lost:
            window = min(1.5 * window, FILLED * pipe) if slow else window  # on average it is lost in mid-round
            top = window if window >= top else window * (1 + MULTIPLICATIVE_DECREASE["cubic"]) / 2
            window = friendly = max(2.0, MULTIPLICATIVE_DECREASE["cubic"] * window)
            slow, began, regain = False, now, ((top - min(top, window)) / 0.4) ** (1 / 3)
        elif slow and 2 * window < FILLED * pipe:
            window *= 2
        else:
            if slow:
                slow, began, top, friendly = False, now, window, window
            friendly += 0.9 / 1.7
            window = max(window, min(1.5 * window, max(friendly, 0.4 * (now + took - began - regain) ** 3 + top)))
            window = min(window, pipe + 80)
    return now + (count - sent) * trip / pipe


@pytest.mark.parametrize(
    ("count", "trip", "loss", "pipe"), [(345, 0.1, 0.005, 42), (3453, 0.1, 0.005, 417), (3453, 0.02, 0.005, 83)]
)
def test_medians_of_flows_are_those_of_rounds_with_drawn_losses(count, trip, loss, pipe):
    rng, rate = np.random.default_rng(0), pipe * MTU / trip
    drawn = np.median([rounds(count, trip, loss, pipe, rng) for _ in range(101)])
    found = []
    for draw in (np.arange(101) + 0.5) / 101:
        size, packet = count * MTU, tcp.first_loss(CUBIC, count, loss, float(draw))
        if packet == math.inf:
            found.append(stall(CUBIC, size, trip, rate) + size / rate)
            continue
        start = lossy_start(CUBIC, size, trip, rate, loss, packet)
        until = min(start.until, size)
        rest = (size - until) / limit(CUBIC, trip, loss, rate, start, size - until) if until < size else 0.0
        found.append(start.idle + until / rate + rest + start.late)
    assert np.median(found) == pytest.approx(drawn, rel=0.12)


def test_after_a_loss_on_a_full_link_a_flow_takes_what_others_leave():
    """Its window was cut at a share of a tenth, 100 kB/s, and allows several of them once the others have gone."""
    here = world(0.01, 8e6, clients=10, server=access(8e6), columns={"loss_up": [0.002] + [0.0] * 9})
    for client in range(10):
        here.network.send(up(client, 3_000_000 if client == 0 else 200_000))
    here.env.run(until=3.0)
    assert len(here.rows) == 9
    (passage,) = here.channel(0, True).passages
    assert passage.limit < math.inf
    assert here.network.shared["ingress"].load > 2.5e5
