"""Rows of uploads that are kept back: each is written once, with the fate that was decided, or discarded at the end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.clock.requests import PendingUploads
from fedsim.core.record import SERVER, TransferRow
from fedsim.learn.replies import Replies, Reply


def row(client, dst=SERVER, fate="delivered"):
    return TransferRow(
        sent=0.0, arrived=1.0, src=client, dst=dst, kind="train", version=0, nbytes=5, wire_bytes=6, fate=fate
    )


def books():
    written = []
    return PendingUploads(SERVER, written.append), written


def test_only_uploads_of_who_was_asked_that_have_arrived_are_kept():
    pending, written = books()
    others = [row(0, dst=3), row(0, fate="cut"), row(2)]
    for one in others:
        pending.moved(one, {0, 1})
    assert written == others
    pending.moved(row(1), {0, 1})
    assert written == others
    pending.closed = True
    pending.moved(row(0), {0, 1})
    assert written == [*others, row(0)]


@given(st.lists(st.sampled_from(["delivered", "late", "discarded", "twice", "unanswered", "open"]), max_size=8))
def test_each_is_written_once_with_its_fate(fates):
    pending, written = books()
    for client, fate in enumerate(fates):
        pending.moved(row(client), {client})
        if fate == "unanswered":
            continue
        pending.answer(client, 100 + client)
        if fate == "twice":
            pending.resolve(100 + client, "late")
            pending.resolve(100 + client, "delivered")
        elif fate != "open":
            pending.resolve(100 + client, fate)
    pending.end()
    pending.end()
    told = {"twice": "late", "unanswered": "discarded", "open": "discarded"}
    found = sorted((one.src, one.fate) for one in written)
    assert found == [(client, told.get(fate, fate)) for client, fate in enumerate(fates)]


class Rows:
    """A wave that notes what it is told."""

    def __init__(self, count):
        self.decided, self.undecided = [], np.ones(count, dtype=bool)

    def resolve(self, places, fate):
        self.decided += [(place, fate) for place in places.tolist()]
        self.undecided[places] = False


def test_a_wave_is_notified_of_its_replies():
    (pending, written), wave, later = books(), Rows(3), Rows(2)
    pending.cohorts[7] = wave
    pending.cohorts[10] = later
    pending.resolve(8, "delivered")
    pending.resolve(8, "late")
    clients, tickets = np.array([4, 5, 6]), [None] * 3
    pending.resolve_all(Replies(clients, 0, tickets, tickets, 7 + np.arange(3)).take(np.array([1, 2])), "late")
    pending.resolve_all([Reply(5, 0, None, None, ask=8), Reply(3, 0, None, None, ask=11)], "delivered")
    pending.end()
    pending.end()
    assert wave.decided == [(1, "delivered"), (2, "late"), (0, "discarded")]
    assert later.decided == [(1, "delivered"), (0, "discarded")]
    assert not written
