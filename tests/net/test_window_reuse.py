"""Windows that connections keep: what a message leaves, and how the next one starts in it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from netlab import fluid, stall, up, world

from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.congestion_avoidance import FILLED, lossy_start
from fedsim.net.tcp.laws import TransferModel
from fedsim.net.tcp.window_reuse import CongestionWindow, after, idled, start

MTU = 1500
CUBIC, RENO, BBR = (TransferModel(congestion_control=name) for name in ("cubic", "reno", "bbr"))


def test_a_new_window_starts_as_without_a_connection():
    for size, trip, rate in ((1e6, 0.1, 1e6), (3e5, 0.02, 1e7), (15_000.0, 0.3, 1e5)):
        found = start(CUBIC, size, trip, rate, 0.0, math.inf, CongestionWindow(10.0))
        assert (found.idle, found.burst, found.until, found.limit) == (
            *tcp.slow_start(CUBIC, size, trip, rate), math.inf, math.inf,
        )  # fmt: skip
        for packet in (1.0, 5.0, size / MTU):
            found, fresh = (start(CUBIC, size, trip, rate, 0.01, packet, CongestionWindow(10.0)),
                            lossy_start(CUBIC, size, trip, rate, 0.01, packet))  # fmt: skip
            assert tuple(found) == pytest.approx(tuple(fresh))


def test_beyond_its_threshold_a_window_grows_round_by_round():
    """Windows of 10, 15, and one that 15 packets have raised; what is sent then needs no gap."""
    raised = math.sqrt(15**2 + 0.9 * 15)  # Reno's growth is faster here than Cubic's
    for count, idle, crawl in ((9, 0, 0), (10, 0, 0), (11, 1, 0), (25, 1, 0), (26, 1, 1), (41, 1, 2)):
        assert 25 + raised < 41
        found = start(CUBIC, count * MTU, 0.1, 1e12, 0.0, math.inf, CongestionWindow(10.0, 15.0))
        assert found.idle == pytest.approx(0.1 * idle)
        assert count * MTU / found.limit == pytest.approx(0.1 * crawl, abs=1e-6)
    far = (200 ** (4 / 3) + 0.4 * 1.054 ** (4 / 3) * 1.0 * 200) ** 0.75  # Cubic's is at a trip of a second
    assert after(CUBIC, 200 * MTU, 1.0, 0.0, start(CUBIC, 3e5, 1.0, 1e9, 0.0, math.inf, CongestionWindow(200.0, 1.0)),
                 CongestionWindow(200.0, 1.0)) == CongestionWindow(pytest.approx(far), 1.0)  # fmt: skip


def test_a_window_that_fills_the_path_limits_nothing():
    """66.7 packets are under way at 1 MB/s and 0.1 s."""
    for window in (CongestionWindow(68.0, 1.0), CongestionWindow(500.0), CongestionWindow(67.7, math.inf)):
        found = start(CUBIC, 1e7, 0.1, 1e6, 0.0, math.inf, window)
        assert (found.idle, found.limit, found.burst) == (0.0, math.inf, 1e7)


def test_what_a_message_leaves():
    """Twice what was sent at once, up to twice the path; 0.7 of it after a loss."""

    def left(count, packet=math.inf, window=CongestionWindow(10.0), model=CUBIC, loss=0.01):  # noqa: B008
        begun = start(model, count * MTU, 0.1, 1e6, loss, packet, window)
        return after(model, count * MTU, 0.1, loss, begun, window)

    pipe = 1e6 * 0.1 / MTU
    assert left(7) == CongestionWindow(14.0)
    assert left(500) == CongestionWindow(FILLED * pipe)
    assert left(20, 20.0) == CongestionWindow(pytest.approx(0.7 * 29), pytest.approx(0.7 * 29))
    assert left(20, 20.0, model=RENO) == CongestionWindow(pytest.approx(0.5 * 29), pytest.approx(0.5 * 29))
    assert left(20, 20.0, model=BBR) == CongestionWindow(30.0, rate=pytest.approx(9.95, rel=0.01))
    assert left(500, model=BBR) == CongestionWindow(FILLED * pipe, rate=pytest.approx(pipe))  # no more than passes
    cut = 0.7 * 14
    assert left(20, 5.0, loss=1e-6) == CongestionWindow(
        pytest.approx(math.sqrt(cut**2 + 0.9), rel=1e-3), pytest.approx(cut)
    )
    assert left(10**6, 5.0).cwnd == pytest.approx(math.sqrt(150), rel=1e-3)  # the steady window


def test_every_time_out_of_an_idle_time_halves_the_window_and_three_quarters_are_the_threshold():
    assert idled(CUBIC, CongestionWindow(100.0, 40.0), 0) == CongestionWindow(100.0, 40.0)
    assert idled(CUBIC, CongestionWindow(100.0), 1) == CongestionWindow(50.0, math.inf)
    assert idled(CUBIC, CongestionWindow(100.0, 40.0), 3) == CongestionWindow(12.0, 75.0)
    assert idled(CUBIC, CongestionWindow(100.0, 40.0), 4) == CongestionWindow(10.0, 75.0)
    assert idled(CUBIC, CongestionWindow(50.0, 40.0), 10**6) == CongestionWindow(10.0, 40.0)
    assert idled(CUBIC, CongestionWindow(5.0, 5.0), 2) == CongestionWindow(5.0, 5.0)


def test_a_message_leaves_a_window_that_its_repetition_fits_into():
    """Linux 6.18 over 100 to 300 ms, as TCP_INFO reads: 10 + 35, 10 + 207 after a first message of so many packets.

    Every packet has grown the window that the message had to wait for.  One that fits into its first window at once
    makes it twice its own length at most: 2 * 35 after a second one of 35.
    """

    def left(count, window=CongestionWindow(10.0)):  # noqa: B008
        begun = start(CUBIC, count * MTU, 0.3, 5e6, 0.0, math.inf, window)
        return after(CUBIC, count * MTU, 0.3, 0.0, begun, window).cwnd

    assert (left(35), left(138), left(207), left(690)) == (45, 148, 217, 700)
    assert (left(1), left(7), left(10)) == (10, 14, 20)
    assert left(35, CongestionWindow(22.0)) == 57
    assert left(35, CongestionWindow(45.0)) == 70
    assert left(138, CongestionWindow(148.0)) == 276
    assert left(15, CongestionWindow(10.0, 16.0)) == 16
    assert left(20, CongestionWindow(100.0, 50.0)) == 100


@given(st.integers(1, 300), st.floats(0.05, 0.5))
def test_a_message_is_never_slower_right_after_one_of_the_same_size(count, trip):
    """What is read from Linux, see above; over links that are never full."""
    window = CongestionWindow(10.0)
    begun = start(CUBIC, count * MTU, trip, 1e9, 0.0, math.inf, window)
    again = start(CUBIC, count * MTU, trip, 1e9, 0.0, math.inf, after(CUBIC, count * MTU, trip, 0.0, begun, window))
    assert again.idle == 0.0


def test_time_outs_shrink_as_linux_s_do():
    """TCP_INFO's rto on Linux 6.18 between messages of so many packets over 0.3 s, to its clock's 4 ms and a tenth."""
    seen = {7: (0.908, 0.844, 0.760, 0.696, 0.648), 35: (0.764, 0.652, 0.588), 20: (0.844, 0.696, 0.612)}
    for count, read in seen.items():
        rounds = {7: 1, 35: 2, 20: 2}[count]
        total = {7: 1, 35: 3, 20: 2}[count]
        for told in read:
            assert tcp.timeout(CUBIC, 0.3, total) == pytest.approx(told, abs=0.004 + 0.1 * (told - 0.5))
            total += rounds


windows = st.builds(CongestionWindow, st.floats(1, 500), st.just(math.inf) | st.floats(1, 500))


@given(st.sampled_from([CUBIC, RENO, BBR]), st.floats(1, 1e7), st.floats(0, 1), st.floats(1e4, 1e9), windows,
       st.floats(1, 3))  # fmt: skip
def test_a_larger_window_is_never_slower(model, size, trip, rate, window, more):
    def seconds(window):
        begun = start(model, size, trip, rate, 0.0, math.inf, window)
        return begun.idle + size / min(rate, begun.limit)

    larger = window._replace(cwnd=window.cwnd * more, ssthresh=window.ssthresh * more)
    pair = trip / 14 if model is BBR else 0.0  # of packets, the first of which new flows send at once
    assert seconds(larger) <= seconds(window) * (1 + 1e-9) + 1e-12 + pair
    assert seconds(window._replace(ssthresh=math.inf)) <= seconds(window) * (1 + 1e-9) + 1e-12


def uploads(kind, seed, **model):
    """Seconds of six uploads of 500 kB, 40 s apart, over 10 Mbit/s and 0.3 s with 0.5 % loss."""
    columns = {"loss_up": 0.005}
    here = world(0.15, 10e6, 10e6, columns=columns, connections=ConnectionPolicy(kind), seed=seed, model=fluid(**model))
    for number in range(6):
        message = up(0, 500_000)
        message.version = number
        here.at(40.0 * number, here.network.send, message)
    here.env.run()
    return [row.arrived - row.sent for row in sorted(here.rows, key=lambda row: row.version)]


def test_under_loss_a_kept_connection_slows_down_and_new_ones_do_not():
    """Linux: from 1.1 to 5.1 s in six rounds; the steady rate would take 4.7 s."""
    kept, new = (np.median([uploads(kind, seed) for seed in range(15)], axis=0) for kind in ("kept", "fresh"))
    steady = tcp.wire_size(CUBIC, 500_000, 0.005) / tcp.steady_rate_of(CUBIC, 0.3, 0.005)
    assert kept[-1] == pytest.approx(steady, rel=0.15)
    assert kept[-1] > 2 * kept[0]
    assert max(new) < 1.3 * min(new)


def test_a_small_message_leaves_a_small_window():
    """Twenty packets of window after ten: the next message needs fewer rounds than a new one, and yet some."""
    here = world(0.05, connections=ConnectionPolicy("kept"))
    for number, (at, nbytes) in enumerate([(0.0, 14_480), (0.3, 1_448_000)]):
        message = up(0, nbytes)
        message.version = number
        here.at(at, here.network.send, message)
    here.env.run()
    twenty = stall(TransferModel(initial_window=20), 1_500_000, 0.1, 1e6)
    assert here.rows[1].arrived - 0.3 == pytest.approx(twenty + 1.5 + 0.05)
