import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from netlab import stall
from pydantic import TypeAdapter, ValidationError

from fedsim.net.tcp.laws import (
    BBR_IGNORES,
    PFTK_ABOVE,
    SHORTEST_RTT,
    UNSETTLED,
    TransferModel,
    ack_ceiling,
    first_loss,
    packets,
    slow_start,
    stalls,
    standing_queue,
    steady_rate,
    steady_rate_of,
    syn_wait,
    timeout,
    weight,
    wire_size,
)

MODEL, MEAN = TransferModel(), TransferModel(deterministic=True)
losses = st.floats(1e-4, 0.4)
draws = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(("nbytes", "count"), [(0, 0), (1, 1), (1448, 1), (1449, 2), (14480, 10), (14481, 11)])
def test_packets_and_wire_size(nbytes, count):
    assert packets(MODEL, nbytes) == count
    assert wire_size(MODEL, nbytes, 0.0) == nbytes + 52 * count
    assert wire_size(MODEL, nbytes, 0.5) == 2 * (nbytes + 52 * count)


def test_stall_by_hand():
    """At 10 Mbit/s and 100 ms 83.3 packets are under way: windows of 10, 20, 40 and 80 leave gaps, 160 do not."""
    packet = 1500 / 1.25e6
    gaps = [0.1 + packet - window * packet for window in (10, 20, 40, 80)]
    assert stall(MODEL, 1e9, 0.1, 1.25e6) == pytest.approx(sum(gaps))
    assert stall(MODEL, 30 * 1500 + 1, 0.1, 1.25e6) == pytest.approx(sum(gaps[:2]))
    assert stall(MODEL, 30 * 1500, 0.1, 1.25e6) == pytest.approx(gaps[0])
    assert stall(MODEL, 10 * 1500, 0.1, 1.25e6) == 0.0


def test_no_stall_without_a_rate_or_a_round_trip():
    assert stall(MODEL, 1e9, 0.1, 0.0) == 0.0
    assert stall(MODEL, 1e9, 0.0, 1e9) == 0.0
    assert stall(MODEL, 0.0, 0.1, 1e6) == 0.0


@given(st.floats(1, 1e8), st.floats(0, 1), st.floats(1e3, 1e9), st.floats(0, 1))
def test_the_start_never_makes_a_faster_link_slower(size, trip, rate, more):
    def seconds(r):
        return stall(MODEL, size, trip, r) + size / r

    assert seconds(rate * (1 + more)) <= seconds(rate) * (1 + 1e-12)


def test_acknowledgements_allow_57_7_times_the_reverse_rate():
    assert ack_ceiling(MODEL, 1e6) == pytest.approx(57.7e6, rel=1e-3)


def test_loss_ceilings_by_hand():
    def packets_a_trip(name, loss, trip=0.1):
        return steady_rate_of(TransferModel(congestion_control=name), trip, loss) * trip / 1500

    assert packets_a_trip("reno", 0.01) == pytest.approx(math.sqrt(150))
    assert packets_a_trip("cubic", 0.01) == pytest.approx(math.sqrt(150))
    assert packets_a_trip("cubic", 1e-4) == pytest.approx(1.054 * 1000**0.75)
    assert packets_a_trip("bbr", 0.05) == math.inf
    pftk = 0.1 / (0.1 * math.sqrt(0.2 / 3) + 0.2 * 3 * math.sqrt(0.3 / 8) * 0.1 * 1.32)
    assert [packets_a_trip(name, 0.1) for name in ("reno", "cubic", "bbr")] == pytest.approx([pftk] * 3)


@given(st.sampled_from(["cubic", "reno", "bbr"]), losses, losses, st.floats(1e-3, 2), st.floats(1e-3, 2))
def test_more_loss_or_a_longer_trip_never_raises_the_ceiling(name, loss, other, trip, longer):
    model = TransferModel(congestion_control=name)
    low, high = sorted([loss, other])
    assert steady_rate_of(model, trip, high) <= steady_rate_of(model, trip, low) * (1 + 1e-12)
    assert steady_rate_of(model, trip + longer, loss) <= steady_rate_of(model, trip, loss) * (1 + 1e-12)


@pytest.mark.parametrize("loss", [0.001, 0.03, 0.3])
def test_the_first_loss_is_geometric(loss):
    """Equally spaced draws give each number its share of them."""
    draws = (np.arange(20_000) + 0.5) / 20_000
    numbers = np.array([first_loss(MODEL, 10**9, loss, float(draw)) for draw in draws])
    for count in (1, 2, 10, 100):
        assert np.mean(numbers <= count) == pytest.approx(1 - (1 - loss) ** count, abs=1e-4)
    assert numbers.mean() == pytest.approx(1 / loss, rel=0.01)


def test_a_loss_after_the_last_packet_is_none():
    assert first_loss(MODEL, 5, 0.01, 0.9) == math.inf
    assert first_loss(MODEL, 10**6, 0.01, 0.0) == 1
    assert first_loss(MODEL, 5, 0.0, 0.5) == math.inf
    assert first_loss(MODEL, 0, 0.5, 0.0) == math.inf


@given(st.integers(1, 5000), losses)
def test_the_mean_first_loss_is_the_sum_over_all_packets(count, loss):
    packets_sent = 1 + sum((1 - loss) ** i for i in range(1, count + 1))
    expected = packets_sent if packets_sent <= count else math.inf
    assert first_loss(MEAN, count, loss, 0.0) == pytest.approx(expected)


def test_lost_handshakes_double_their_wait_up_to_the_longest():
    tries = [0.6, 0.4, 0.2, 0.1, 0.001]  # 1 - draw: a handshake is lost as often as 0.5 to a power is above that
    waits = [syn_wait(MODEL, 0.5, 1 - left) for left in tries]
    assert waits == [0.0, 1.0, 3.0, 7.0, 1 + 2 + 4 + 8 + 16 + 32 + 64 + 120 + 120]
    assert syn_wait(TransferModel(syn_rto=0.5), 0.5, 0.7) == 0.5
    assert syn_wait(MODEL, 0.0, 0.9) == 0.0


@pytest.mark.parametrize("lost", [0.01, 0.28, 0.6, 0.9])
def test_the_mean_wait_is_the_mean_over_all_draws(lost):
    counts = [n for n in range(1000) if lost**n > 1e-12]
    by_count = [syn_wait(MODEL, lost, 1 - lost ** (n + 0.5)) * lost**n * (1 - lost) for n in counts]
    assert syn_wait(MEAN, lost, 0.0) == pytest.approx(sum(by_count), rel=1e-6)


@given(losses, losses, draws)
def test_more_loss_never_means_a_shorter_wait_or_a_later_loss(loss, other, draw):
    low, high = sorted([loss, other])
    for model in (MODEL, MEAN):
        assert syn_wait(model, high, draw) >= syn_wait(model, low, draw) * (1 - 1e-12)
        assert first_loss(model, 1000, high, draw) <= first_loss(model, 1000, low, draw) * (1 + 1e-12)


def test_constants_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="no 'vegas'; there are cubic, reno, bbr"):
        TransferModel(congestion_control="vegas")
    with pytest.raises(ValueError, match=r"^rto_max is 0.5: it must be at least syn_rto \(1.0\)$"):
        TransferModel(rto_max=0.5)
    for name, value in (("mtu", 0), ("syn_rto", 0.0), ("syn_rto", math.nan), ("rto_max", math.inf), ("tls_rtts", -1),
                        ("queue_trips", math.nan), ("queue_share", -1), ("queue_trips", -1), ("bbr_queue_packets", -1),
                        ("short_packets", -1), ("rto_min", -1)):  # fmt: skip
        with pytest.raises(ValidationError, match=rf"(?m)^{name}$"):
            TypeAdapter(TransferModel).validate_python({name: value})


def or_none(some):
    return st.one_of(st.just(0.0), some)


@given(
    st.sampled_from(["cubic", "reno", "bbr"]),
    st.lists(st.tuples(or_none(st.floats(1e-6, 100)), or_none(st.floats(1e-9, 0.9))), min_size=1, max_size=40),
)
@example("cubic", [(0.1, PFTK_ABOVE)])
@example("reno", [(0.1, PFTK_ABOVE)])
@example("bbr", [(0.1, BBR_IGNORES)])
def test_one_ceiling_and_many_agree_to_the_last_bit(control, rows):
    """A message may be sent alone or in a cohort, and its times must not depend on which."""
    model, (trips, rates) = TransferModel(congestion_control=control), np.array(rows).T
    assert steady_rate(model, trips, rates).tolist() == [steady_rate_of(model, *row) for row in rows]


sizes = st.one_of(or_none(st.floats(1, 1e8)), st.sampled_from([windows * 15000.0 for windows in (1, 3, 7, 15)]))


@given(st.lists(st.tuples(sizes, or_none(st.floats(1e-6, 10)), st.floats(1e3, 1e9)), min_size=1, max_size=20))
@example([(1500.0, 0.01, 1.5e6), (15000.0, 0.1, 1e9), (15000.1, 0.1, 1e9), (0.0, 1.0, 1e6), (1e6, 0.009, 1.5e6)])
def test_one_stall_and_many_agree_to_the_last_bit(rows):
    size, trip, rate = np.array(rows).T
    assert stalls(MODEL, size, trip, rate).tolist() == [stall(MODEL, *row) for row in rows]


def test_what_comes_after_the_last_gap_of_slow_start_is_what_the_windows_before_left():
    left = 1e6 - (10 + 20 + 40 + 80) * 1500
    assert slow_start(MODEL, 1e6, 0.1, 1.25e6) == (stall(MODEL, 1e6, 0.1, 1.25e6), left)
    assert slow_start(MODEL, 15_000, 0.1, 1.25e6) == (0.0, 15_000)


def test_queues_weights_and_time_outs_by_hand():
    bbr = TransferModel(congestion_control="bbr", bbr_queue_packets=2.0)
    other = TransferModel(queue_share=0.5, queue_trips=3.0)
    assert [standing_queue(bbr, buffer, 1e4, 0.1) for buffer in (1500.0, 5000.0)] == [0.15, 0.3]
    assert [standing_queue(other, buffer, 1e4, 0.1) for buffer in (2e3, 2e4)] == [0.1, pytest.approx(0.3)]
    biased = TransferModel(rtt_bias=1.0)
    assert [weight(model, 0.25) for model in (MODEL, biased)] == [1.0, 4.0]
    assert weight(biased, 0.0) == weight(biased, 1e-9) == pytest.approx(1 / SHORTEST_RTT)
    assert [timeout(MODEL, trip, 0.0) for trip in (0.0, 0.1, 1.0)] == [0.2, pytest.approx(0.3), 3.0]
    assert [timeout(MODEL, 1.0, rounds) for rounds in (UNSETTLED, UNSETTLED + 1, math.inf)] == [3.0, 1.2 + 1.35, 1.2]


def test_bbr_paces_its_first_window():
    """Ten packets go in pairs at 2 / ln 2 windows a round trip, less a percent, unless the path is slower."""
    bbr, trip = TransferModel(congestion_control="bbr"), 0.1
    pair = 2 * trip * math.log(2) / 20 / 0.99  # seconds
    fast = 1e15
    for count, pairs in ((1, 0), (2, 0), (3, 1), (10, 4)):
        assert slow_start(bbr, count * 1500, trip, fast)[0] == pytest.approx(pairs * pair, abs=1e-9)
    idle, left = slow_start(bbr, 11 * 1500, trip, fast)
    assert (idle, left) == (pytest.approx(trip), pytest.approx(1500))
    assert slow_start(bbr, 10 * 1500, trip, 1500 / pair * 2) == (0.0, 15_000)
    assert slow_start(bbr, 10 * 1500, trip, 0.0) == (0.0, 15_000)
    assert slow_start(bbr, 0.0, trip, 1e6) == (0.0, 0.0)


def paced_packets(count, trip, rate):
    """Seconds until the last packet of BBR's start-up has left the path, packet by packet, at `rate` packets/s."""
    window, now, free, left, pace = 10, 0.0, 0.0, 0.0, 0.99 * 20 / math.log(2) / trip
    sent = delivered = flying = 0
    acks, last = [], 0.0  # when each arrives, what had been delivered when its packet was sent, and when that was
    while sent < count:
        at = max(now, free)
        if flying < window and (not acks or at <= acks[0][0]):
            now, two = at, min(2, window - flying, count - sent)
            for _ in range(two):
                left = max(at, left) + 1 / rate
                acks.append((left + trip, delivered, last))
            sent, flying, free = sent + two, flying + two, at + two / pace
        else:
            at, before, since = acks.pop(0)
            now, last = max(now, at), max(now, at)
            delivered, flying, window = delivered + 1, flying - 1, window + 1
            pace = max(pace, 0.99 * 2 / math.log(2) * (delivered - before) / (last - since))
    return left


@pytest.mark.parametrize("pipe", [8, 42, 83, 167, 833])
@pytest.mark.parametrize("count", [1, 7, 11, 30, 50, 100, 200, 400, 1000, 3453])
def test_the_start_of_bbr_against_packets_on_a_path_that_is_full_at_times(pipe, count):
    bbr, trip = TransferModel(congestion_control="bbr"), 0.1
    rate = 1500 * pipe / trip
    found = slow_start(bbr, count * 1500, trip, rate)[0] + count * 1500 / rate
    assert found == pytest.approx(paced_packets(count, trip, pipe / trip), abs=0.08 * trip)
