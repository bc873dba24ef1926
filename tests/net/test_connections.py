"""Connections that stay open: no handshake, and no slow start while the window is open."""

import pytest
from netlab import cut, down, fluid, stall, up, world

from fedsim.net.channels.connection import ConnectionPolicy
from fedsim.net.effects.churn import Churn
from fedsim.net.tcp.laws import TransferModel

MODEL = TransferModel()
KEPT = ConnectionPolicy("kept")
NBYTES = 1_448_000
STALL = stall(MODEL, 1_500_000, 0.1, 1e6)
UP, DOWN = 0.05 + 1.5, 0.05 + 0.05 + 1.5  # without handshake and slow start


def times(*sends, clients=1, connections=KEPT, **options):
    """Seconds that each message took, in the order of sending."""
    here = world(0.05, clients=clients, connections=connections, **options)
    for number, (at, message) in enumerate(sends):
        message.version = number
        here.at(at, here.network.send, message)
    here.env.run()
    return [row.arrived - row.sent for row in sorted(here.rows, key=lambda row: row.version)], here


def test_without_kept_connections_every_message_opens_its_own():
    took, _ = times((0, up(0, NBYTES)), (3, up(0, NBYTES)), connections=ConnectionPolicy())
    assert took == pytest.approx([0.1 + STALL + UP] * 2)


@pytest.mark.parametrize(("direction", "warm", "since"), [(up, UP, 0.05), (down, DOWN, 0.1)])
@pytest.mark.parametrize("begin", [0.0, 0.3, 1.1, 123.4, 9876.5, 1e5])
def test_the_next_message_needs_no_handshake_and_soon_no_slow_start(direction, warm, since, begin):
    """A sender idles from its last byte to its next first one; the time-out is 0.3 s, 0.2 s above the round trip.

    An upload's last byte leaves 0.05 s before it arrives, and so does a download's, whose next first byte leaves
    0.05 s after the request.  After exactly the time-out the window is open, however late the clock is.  A time-out
    halves a window of twice the path's 66.7 packets to 66 whole ones, with a gap of 0.0025 s; eight leave ten.
    """
    first, _ = times((begin, direction(0, NBYTES)))
    assert first == pytest.approx([0.1 + STALL + warm])
    end = begin + first[0]
    for idle, seconds in ((0.29, warm), (0.3, warm), (0.31, warm + 0.0025), (2.41, STALL + warm)):
        took, _ = times((begin, direction(0, NBYTES)), (end + idle - since, direction(0, NBYTES)))
        assert took[1] == pytest.approx(seconds)


def test_bbr_does_not_start_anew_after_idling():
    """A second message finds the window of the first, however long ago that was."""
    took, _ = times((0, up(0, NBYTES)), (500.0, up(0, NBYTES)), model=fluid(congestion_control="bbr"))
    assert took[1] == pytest.approx(UP)
    took, _ = times((0, up(0, NBYTES)), (500.0, up(0, NBYTES)))
    assert took[1] == pytest.approx(UP + STALL)


def test_each_sender_idles_by_itself():
    """The server's window opens with its first download; the client's upload after it does not keep it open."""
    took, _ = times((0, up(0, NBYTES)), (2.0, down(0, NBYTES)), (4.0, up(0, NBYTES)), (5.85, down(0, NBYTES)))
    assert took == pytest.approx([0.1 + STALL + UP, STALL + DOWN, UP + STALL, STALL + DOWN])
    both = (0, up(0, NBYTES)), (2.0, down(0, NBYTES)), (3.8, up(0, 14480)), (3.87, down(0, NBYTES))
    assert times(*both)[0][3] == pytest.approx(DOWN)


def test_a_request_is_data_of_the_client_and_does_not_open_its_window():
    """The upload's last byte leaves at 1.8 s: requests until 2.1 s keep the window open, one at 4.3 s is too late."""
    first = (0, up(0, NBYTES))
    for asked, seconds in ((1.95, UP), (2.05, UP), (4.3, STALL + UP)):
        took, _ = times(first, (asked, down(0, 0)), (asked + 0.15, up(0, NBYTES)))
        assert took == pytest.approx([0.1 + STALL + UP, 0.1, seconds])


def test_the_time_out_is_never_below_its_least():
    first, _ = times((0, up(0, NBYTES)), model=fluid(rto_min=1.0))
    took, _ = times((0, up(0, NBYTES)), (first[0] + 0.9, up(0, NBYTES)), model=fluid(rto_min=1.0))
    assert took[1] == pytest.approx(UP)


def test_tls_is_not_repeated():
    took, _ = times((0, up(0, 0)), (5, up(0, 0)), (9, down(0, 0)), model=fluid(tls_rtts=2))
    assert took == pytest.approx([0.3 + 0.05, 0.05, 0.1])


def exchange(connections, *steps, **options):
    """Seconds of a download of each exchange and of the upload that answers it, begun `wait` after it and `at`."""
    here = world(0.05, connections=connections, **options)

    def run():
        for at, wait in steps:
            yield here.env.timeout(at - here.env.now)
            request = here.network.send(down(0, NBYTES))
            yield request
            yield here.env.timeout(wait)
            yield here.network.send(up(0, NBYTES), request)

    here.env.process(run())
    here.env.run()
    return [row.arrived - row.sent for row in here.rows]


def test_a_reply_goes_back_on_the_connection_of_its_request_and_the_next_request_opens_another():
    """The reply needs no handshake, but its sender has sent nothing yet."""
    took = exchange(ConnectionPolicy("exchange"), (0, 1.0), (10, 0.0))
    assert took == pytest.approx([0.1 + STALL + DOWN, STALL + UP] * 2)


def test_a_message_that_answers_nothing_opens_its_own():
    took, _ = times((0, down(0, 0)), (5, up(0, 0)), connections=ConnectionPolicy("exchange"))
    assert took == pytest.approx([0.2, 0.15])


def test_no_reply_goes_back_on_a_connection_that_its_client_has_closed():
    here = world(0.05, connections=ConnectionPolicy("exchange"))
    request = here.network.send(down(0, 0))
    here.at(1.0, lambda: here.nodes.leave(0))
    here.at(2.0, here.network.send, up(0, 0), request)
    here.env.run()
    assert [row.arrived - row.sent for row in here.rows] == pytest.approx([0.2, 0.15])


def test_a_server_that_pushes_waits_for_no_request_once_the_connection_is_open():
    """On a new one the request travels with the last packet of the handshake, whoever wants to send."""
    took, _ = times((0, down(0, 0)), (5, down(0, 0)), (9, up(0, 0)), connections=ConnectionPolicy("kept", "push"))
    assert took == pytest.approx([0.2, 0.05, 0.05])


def test_a_window_that_idling_does_not_close_stays_open():
    took, _ = times((0, up(0, NBYTES)), (900, up(0, NBYTES)), connections=ConnectionPolicy("kept", idle_restart=False))
    assert took == pytest.approx([0.1 + STALL + UP, UP])


def test_who_comes_while_none_is_free_opens_another():
    took, _ = times((0, up(0, 0)), (0, up(0, 0)), (5, up(0, 0)), (5, up(0, 0)), (5, up(0, 0)))
    assert took == pytest.approx([0.15, 0.15, 0.05, 0.05, 0.15])


def test_connections_are_between_two():
    took, _ = times((0, up(0, 0)), (5, up(1, 0)), (5, up(0, 0)), clients=2)
    assert took == pytest.approx([0.15, 0.15, 0.05])


@pytest.mark.parametrize("how", ["sleep", "leave"])
def test_who_goes_closes_all_it_has(how):
    here = world(0.05, connections=KEPT, clients=2)
    for client in (0, 1):
        here.network.send(up(client, 0))
    here.at(1.0, lambda: getattr(here.nodes, how)(0))
    here.at(2.0, lambda: here.nodes.wake(0))
    for client in (0, 1):
        here.at(3.0, here.network.send, up(client, 0))
    here.env.run()
    assert [row.arrived - row.sent for row in here.rows] == pytest.approx([0.15, 0.15, 0.05, 0.15])


@pytest.mark.long
def test_an_idle_client_that_goes_as_planned_closes_all_it_has():
    """Nobody attends to it between its messages, a thousand seconds apart, while it goes and comes every other one."""
    here = world(0.05, connections=KEPT, effects=[Churn(online=1.0, offline=1.0)])
    sent = 0
    for _ in range(50):
        while not here.nodes.online[0]:
            here.env.run(until=here.env.now + 0.01)
        here.network.send(up(0, 0))
        here.env.run(until=(sent := sent + 1) * 1000.0)
    took = [row.arrived - row.sent for row in here.rows if row.fate == "delivered"]
    assert len(took) > 25
    assert took == pytest.approx([0.15] * len(took))


def test_a_message_that_is_cut_takes_its_connection_with_it_and_no_other():
    here = world(0.05, connections=KEPT)
    here.network.send(up(0, 0))
    here.network.send(up(0, 0))
    here.at(1.0, lambda: here.at(1.5, cut, here.network, here.network.send(up(0, NBYTES))))
    for _ in range(2):
        here.at(3.0, here.network.send, up(0, 0))
    here.env.run()
    assert [row.fate for row in here.rows] == ["delivered", "delivered", "cut", "delivered", "delivered"]
    assert [row.arrived - row.sent for row in here.rows[3:]] == pytest.approx([0.05, 0.15])


def test_no_handshake_is_lost_where_there_is_none():
    """Nine of ten handshakes are lost on average; the first waits for them, the second does not."""
    columns = {"loss_down": 0.9}
    took, _ = times((0, up(0, 0)), (5000, up(0, 0)), columns=columns, model=fluid(deterministic=True))
    assert took[0] > 10
    assert took[1] == pytest.approx(0.05)


def test_the_same_seed_gives_the_same_rows():
    sends = [(0.3 * i, (up if i % 3 else down)(i % 2, 10_000 * i)) for i in range(30)]
    columns = {"loss_up": [0.02, 0.0], "jitter": 0.01}
    first, second = (times(*sends, clients=2, columns=columns)[1].rows for _ in range(2))
    assert first == second
