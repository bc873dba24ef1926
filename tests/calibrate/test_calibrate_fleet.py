"""Links of several clients: what one does not tell comes from the others, or is marked; a full server is noticed."""

from dataclasses import replace

import numpy as np
import pytest
from fitted_links import FRESH, moved, together, with_seconds

from fedsim.calibrate import fleet_fit
from fedsim.calibrate.fit import DOWN, RTT, UP
from fedsim.calibrate.fleet_fit import ASSUMED, GIVEN, KNOWN, LEAST, POOLED, ROUGH, SHARED
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.laws import TransferModel

SEVERAL = (500, 100_000, 2_000_000)
WIDE = {True: np.inf, False: np.inf}
LINKS = [(0.04, 5e6, 20e6), (0.06, 8e6, 10e6), (0.1, 2e6, 30e6)]


def fitted(messages, clients, known=None, server=WIDE):
    nothing = np.full((clients, 3), np.nan) if known is None else known
    return fleet_fit.fitted(FRESH, messages, server, nothing, np.zeros((clients, 2)))


def three():
    return [moved(link, SEVERAL, client=client) for client, link in enumerate(LINKS)]


def test_all_are_told_apart():
    found = fitted(together(*three()), 3)
    assert found.values == pytest.approx(np.array(LINKS), rel=1e-3)
    assert found.marks == [("", "", "")] * 3
    assert not found.congested.any()


def test_a_client_without_messages_is_the_median_of_the_others():
    found = fitted(together(*three()), 5)
    assert found.values[4] == pytest.approx([0.06, 5e6, 20e6], rel=1e-3)
    assert found.marks[3] == (POOLED,) * 3


def test_a_client_with_one_size_takes_the_round_trip_of_the_others_and_its_own_rates():
    odd = moved((0.06, 1e6, 4e6), [50_000], client=3)
    found = fitted(together(*three(), odd), 4)
    assert found.marks[3] == (POOLED, ROUGH, GIVEN)
    assert found.values[3] == pytest.approx((0.06, 1e6, 4e6), rel=0.01)


def test_a_pooled_value_never_explains_the_messages_worse():
    odd = moved((0.005, 50e6, 80e6), [50_000], client=3)  # far from the others: 60 ms are more than its messages took
    messages = together(*three(), odd)
    found = fitted(messages, 4)
    assert found.marks[3][RTT] == POOLED
    off = np.abs(found.predicted(FRESH, messages) / messages.seconds - 1)
    assert off.max() < 0.02


def test_without_others_one_size_gives_an_assumed_round_trip():
    messages = moved((0.06, 1e6, 4e6), [50_000])
    found = fitted(messages, 1)
    assert found.marks == [(ASSUMED, ROUGH, GIVEN)]
    assert found.predicted(FRESH, messages) == pytest.approx(messages.seconds, rel=0.01)


def test_without_others_short_messages_give_the_lowest_rate():
    messages = moved((0.06, 1e9, 1e9), [100, 300, 900])
    found = fitted(messages, 1)
    assert found.marks == [("", LEAST, LEAST)]
    assert 1e3 < found.values[0, UP] < 1e9
    assert found.predicted(FRESH, messages) == pytest.approx(messages.seconds, rel=0.03)


def test_known_values_are_not_fitted():
    known = np.full((1, 3), np.nan)
    known[0, RTT] = 0.06
    found = fitted(moved((0.06, 1e6, 4e6), [50_000]), 1, known)
    assert found.marks == [(KNOWN, "", "")]
    assert found.values[0] == pytest.approx((0.06, 1e6, 4e6), rel=1e-3)
    known[0, UP] = 1.1e6
    found = fitted(moved((0.06, 1e6, 4e6), [50_000]), 1, known)
    assert found.marks == [(KNOWN, KNOWN, "")]
    assert found.values[0, UP] == 1.1e6


def at_once(clients, size, seconds):
    """Uploads of all clients at the same moment, and one of each alone."""
    rows = [moved((0.04, 10e6, 10e6), [500, size], client=client) for client in range(clients)]
    joint = together(*rows)
    last = joint.upload & (joint.nbytes == size) & (joint.sent == joint.sent.max())
    others = with_seconds(joint, np.where(last, seconds, joint.seconds))
    shift = np.where(last, 0.0, others.client * 20.0)  # all but the last ones by themselves
    return replace(others, sent=others.sent + shift, arrived=others.arrived + shift), last


@pytest.mark.long
def test_messages_that_the_servers_link_held_up_are_left_out():
    messages, held = at_once(4, 1_000_000, 9.0)
    narrow = {True: 20e6, False: np.inf}
    found = fitted(messages, 4, server=narrow)
    assert found.congested[held].all()
    assert not found.congested[~held].any()
    assert found.values == pytest.approx(np.tile((0.04, 10e6, 10e6), (4, 1)), rel=0.01)
    assert not fitted(messages, 4, server={True: 200e6, False: np.inf}).congested.any()


def test_one_message_after_the_other_does_not_fill_the_servers_link():
    rows = [moved((0.04, 10e6, 10e6), [1_000_000], ways=[True], repeats=1, client=client) for client in range(2)]
    ends = [(0.0, 1.0), (1.0, 2.0)]
    joint = together(
        *(replace(row, sent=np.array([a]), arrived=np.array([b])) for row, (a, b) in zip(rows, ends, strict=True))
    )
    values, server = np.tile((0.04, 10e6, 10e6), (2, 1)), {True: 12e6, False: np.inf}
    assert not fleet_fit.congestion(joint, values, server).any()
    assert fleet_fit.congestion(replace(joint, arrived=np.array([1.1, 2.0])), values, server).all()


def test_a_client_whose_messages_were_all_held_up_is_marked():
    rows = [moved((0.04, 3e6, 10e6), [500, 1_000_000], client=client) for client in range(4)]
    found = fitted(together(*rows), 4, server={True: 10e6, False: np.inf})
    assert {marks[UP] for marks in found.marks} == {SHARED}
    assert {marks[DOWN] for marks in found.marks} == {""}


def test_losses_are_what_moved_beyond_headers():
    constants, sent = TransferModel(), three()[0]
    for loss in (0.0, 0.01, 0.2):
        wire = np.round(tcp.wire_size(constants, sent.nbytes, np.full(len(sent), loss) * sent.upload)).astype(np.int64)
        assert fleet_fit.lost(constants, replace(sent, wire=wire), 2) == pytest.approx(
            np.array([[loss, 0.0], [0.0, 0.0]]), abs=1e-6
        )
    assert not fleet_fit.lost(constants, replace(sent, wire=0 * sent.wire), 2).any()
