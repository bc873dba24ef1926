"""Rows of uploads that are kept back: each is written once, with the fate that was decided, or discarded at the end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsim.clock.unread import Unread
from fedsim.core.record import SERVER, Transfer
from fedsim.learner.batch import Replies
from fedsim.learner.ticket import Reply


def row(client, dst=SERVER, fate="delivered"):
    return Transfer(
        sent=0.0, arrived=1.0, src=client, dst=dst, kind="train", version=0, nbytes=5, wire_bytes=6, fate=fate
    )


def books():
    written = []
    return Unread(SERVER, written.append), written


def test_only_uploads_of_who_was_asked_that_have_arrived_are_kept():
    unread, written = books()
    others = [row(0, dst=3), row(0, fate="cut"), row(2)]
    for one in others:
        unread.moved(one, {0, 1})
    assert written == others
    unread.moved(row(1), {0, 1})
    assert written == others
    unread.closed = True
    unread.moved(row(0), {0, 1})
    assert written == [*others, row(0)]


@given(st.lists(st.sampled_from(["delivered", "late", "discarded", "twice", "unanswered", "open"]), max_size=8))
def test_each_is_written_once_with_its_fate(fates):
    unread, written = books()
    for client, fate in enumerate(fates):
        unread.moved(row(client), {client})
        if fate == "unanswered":
            continue
        unread.answer(client, 100 + client)
        if fate == "twice":
            unread.decide(100 + client, "late")
            unread.decide(100 + client, "delivered")
        elif fate != "open":
            unread.decide(100 + client, fate)
    unread.end()
    unread.end()
    told = {"twice": "late", "unanswered": "discarded", "open": "discarded"}
    found = sorted((one.src, one.fate) for one in written)
    assert found == [(client, told.get(fate, fate)) for client, fate in enumerate(fates)]


class Rows:
    """A wave that notes what it is told."""

    def __init__(self, count):
        self.decided, self.undecided = [], np.ones(count, dtype=bool)

    def decide(self, places, fate):
        self.decided += [(place, fate) for place in places.tolist()]
        self.undecided[places] = False


def test_a_wave_is_notified_of_its_replies():
    (unread, written), wave, later = books(), Rows(3), Rows(2)
    unread.plan(7, wave)
    unread.plan(10, later)
    unread.decide(8, "delivered")
    unread.decide(8, "late")
    clients, tickets = np.array([4, 5, 6]), [None] * 3
    unread.decide_all(Replies(clients, 0, tickets, tickets, np.arange(3), 7).take(np.array([1, 2])), "late")
    unread.decide_all([Reply(5, 0, None, None, ask=8), Reply(3, 0, None, None, ask=11)], "delivered")
    unread.end()
    unread.end()
    assert wave.decided == [(1, "delivered"), (2, "late"), (0, "discarded")]
    assert later.decided == [(1, "delivered"), (0, "discarded")]
    assert not written
