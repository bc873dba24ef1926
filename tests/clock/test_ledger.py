"""The ledger stops a run whose rows cannot be true, and says what broke."""

from dataclasses import replace

import numpy as np
import pytest
import simpy

from fedsim.clock.ledger import Ledger
from fedsim.core.errors import UserError
from fedsim.core.record import SERVER, SpanRow, TransferRow, UpdateRow
from fedsim.net.links.flows import InvariantError

DOWN = TransferRow(0.0, 1.0, SERVER, 0, "train", 0, 100, 110, "delivered")
UP = TransferRow(2.0, 3.0, 0, SERVER, "train", 0, 50, 55, "delivered")
FOLDED = UpdateRow(3.0, 1, "train", 1, 1, 0, 0, 0.0)


class Meter:
    """What has moved, by (client, upload)."""

    def __init__(self, **moved):
        self.moved = {(int(key[-1]), key.startswith("up")): value for key, value in moved.items()}

    def meters(self, upload):
        return np.array([self.moved.get((client, upload), 0.0) for client in range(2)])


def ledger(prepares=frozenset(), now=10.0, clients=2, **moved):
    env = simpy.Environment()
    env.run(until=now)
    return Ledger(env, Meter(**moved), clients, prepares)


def test_books_that_balance_pass_and_are_reported_by_their_parts():
    books = ledger(down0=110.0, up0=75.0)
    for row in (DOWN, UP, replace(DOWN), replace(UP, sent=4.0, arrived=4.5, wire_bytes=20, fate="cut", kind="share")):
        books.see(row)
    with pytest.raises(
        InvariantError, match="client 0, down: 110 bytes moved, the rows say delivered 200, repeated 20"
    ):
        books.close()
    books = ledger(down0=110.0, up0=55.0 + 20)
    for row in (DOWN, UP, replace(UP, sent=4.0, arrived=4.0, wire_bytes=20, fate="cut", kind="share")):
        books.see(row)
    books.close()
    assert books.summary() == {"delivered": 150, "repeated": 15, "cut": 20, "late": 0, "discarded": 0}


def test_more_than_the_tables_can_sum_is_refused():
    much = 2**61
    books = ledger(down0=2.0 * much, down1=much)
    for client, asked in ((0, 0.0), (1, 0.5), (0, 0.6)):
        books.see(replace(DOWN, sent=asked, dst=client, nbytes=much, wire_bytes=much))
    with pytest.raises(UserError, match=r"6\.92e\+18 bytes have moved, more than the tables can sum"):
        books.close()


def test_a_byte_that_moved_and_stands_in_no_row_is_found():
    books = ledger(down0=110.0, up0=55.0)
    books.see(DOWN)
    with pytest.raises(InvariantError, match="client 0, up: 55 bytes moved, the rows say delivered 0"):
        books.close()
    books.see(UP)
    books.close()
    books = ledger(down0=110.0, up0=58.0)
    books.see(DOWN)
    books.see(UP)
    with pytest.raises(InvariantError, match="client 0, up: 58 bytes moved"):
        books.close()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([UP], "reply was sent before its request"),
        ([DOWN, replace(UP, sent=0.5)], "reply was sent before its request"),
        ([DOWN, UP, replace(UP, sent=2.5)], "reply was sent before its request"),  # one request, two replies
        ([replace(DOWN, arrived=11.0)], "later than now"),
        ([replace(DOWN, sent=1.5)], "ends before it was sent"),
        ([replace(DOWN, wire_bytes=99)], "arrived although 99 moved"),
        ([replace(DOWN, nbytes=-1)], "fewer than no bytes"),
        ([replace(DOWN, fate="cut", wire_bytes=-1)], "fewer than no bytes"),
        ([SpanRow(0, 1.0, 3.0, "train"), SpanRow(0, 2.0, 4.0, "train")], "did two jobs at once"),
        ([SpanRow(0, 3.0, 1.0, "train")], "did two jobs at once"),
        ([replace(FOLDED, asked=2)], "does not add up"),
        ([FOLDED, replace(FOLDED, version=3)], "does not add up"),
        ([replace(FOLDED, folded=0, lost=1)], "does not add up"),
    ],
)
def test_what_cannot_be_true_is_a_breach(rows, message):
    books = ledger()
    for row in rows[:-1]:
        books.see(row)
    with pytest.raises(InvariantError, match=message):
        books.see(rows[-1])


def test_what_only_prepares_counts_no_update():
    books = ledger({"offer"})
    books.see(replace(FOLDED, step="offer", version=0))
    books.see(replace(FOLDED, version=1))
    with pytest.raises(InvariantError, match="does not add up"):
        books.see(replace(FOLDED, step="offer", version=2))


def test_rows_that_are_written_late_find_their_own_requests():
    books = ledger()
    again = replace(DOWN, sent=5.0, arrived=6.0)
    for row in (DOWN, again, replace(UP, sent=7.0, arrived=8.0), UP):  # the first reply is folded last
        books.see(row)


def test_time_does_not_run_backwards():
    env = simpy.Environment()
    books = Ledger(env, Meter(), 1)
    env.run(until=5.0)
    books.see(SpanRow(0, 1.0, 2.0, "offline"))
    env._now = 4.0
    with pytest.raises(InvariantError, match=r"the clock went back from 5\.0 s to 4\.0 s"):
        books.see(SpanRow(0, 1.0, 2.0, "offline"))


def test_two_clients_and_two_directions_are_kept_apart():
    books = ledger(down0=110.0, up1=110.0)
    books.see(replace(DOWN, src=1, kind="share"))  # from one client to another: both links carry it
    books.close()
    books = ledger(down0=110.0)
    books.see(replace(DOWN, src=1, kind="share"))
    with pytest.raises(InvariantError, match="client 1, up: 0 bytes moved"):
        books.close()


def wave(**changes):
    """Two clients' exchanges as columns: the second is cut on its way up."""
    downs = {
        "sent": [0.0, 0.0], "arrived": [1.0, 2.0], "src": [SERVER] * 2, "dst": [0, 1], "nbytes": [100, 100],
        "wire_bytes": [110, 120], "fate": ["delivered"] * 2,
    }  # fmt: skip
    ups = {
        "sent": [3.0, 3.0], "arrived": [4.0, 4.0], "src": [0, 1], "dst": [SERVER] * 2, "nbytes": [50, 50],
        "wire_bytes": [55, 20], "fate": ["late", "cut"],
    }  # fmt: skip
    spans = {"client": [0, 1], "start": [1.0, 2.0], "end": [3.0, 3.0]}
    tables = {"downs": downs, "ups": ups, "spans": spans}
    for key, value in changes.items():
        table, column = key.split("__")
        tables[table][column] = value
    return [{name: np.array(column) for name, column in table.items()} for table in tables.values()]


def test_a_wave_is_entered_as_its_rows_would_be():
    books = ledger(down0=110.0, down1=120.0, up0=55.0, up1=20.0)
    books.see_cohort(*wave(), np.array([1.0, 2.0]))
    books.close()
    assert books.summary() == {"delivered": 200, "repeated": 35, "cut": 20, "late": 50, "discarded": 0}


@pytest.mark.parametrize(
    ("changes", "asked", "message"),
    [
        ({"ups__arrived": [4.0, 11.0]}, [1.0, 2.0], "a cohort has an impossible message"),
        ({"downs__sent": [1.5, 0.0]}, [1.0, 2.0], "a cohort has an impossible message"),
        ({"downs__wire_bytes": [99, 120]}, [1.0, 2.0], "a cohort has an impossible message"),
        ({"downs__nbytes": [-1, 100]}, [1.0, 2.0], "a cohort has an impossible message"),
        ({}, [1.0, 3.5], "client 1 sent a reply before its request"),
        ({"spans__client": [0, 0]}, [1.0, 2.0], "did two jobs at once"),
    ],
)
def test_a_wave_that_cannot_be_true_is_found(changes, asked, message):
    books = ledger(down0=110.0, down1=120.0, up0=55.0, up1=20.0)

    def enter():
        books.see_cohort(*wave(**changes), np.array(asked))
        books.close()

    with pytest.raises(InvariantError, match=message):
        enter()
