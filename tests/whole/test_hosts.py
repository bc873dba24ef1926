"""What an ask takes, and what becomes of it when the client leaves: closed forms on a network without sharing."""

import math
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from fake_world import Number, Period, Silent, check_books, download_bytes, lab, trip, upload_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core.record import SERVER
from fedsim.net.effect import Effect

SPEED_FAST, SPEED_SLOW = 1e7, 1e5  # operations a second


@dataclass(frozen=True)
class LeavesAfter(Effect):
    """Every busy client leaves after so many seconds."""

    seconds: float

    def stay(self, rng):
        return self.seconds


def fold(here, asks, step="train"):
    """A process that waits for asks and folds what they bring."""
    yield here.env.all_of(asks)
    yield from here.world.server.update([ask.value for ask in asks if ask.value is not None], step)


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0, 2),
    st.floats(1e3, 1e9),
    st.floats(1e3, 1e9),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.floats(0, 1e9),
)
def test_an_exchange_takes_latencies_bytes_over_rate_and_work_over_speed(latency, rate, speed, down, up, server_work):
    algorithm = Number(down=down, up=up, server_work=server_work)
    here = lab(latency=latency, rate=rate, speed=speed, algorithm=algorithm)
    ask = here.world.server.ask(0)
    here.env.process(fold(here, [ask]))
    here.run()
    exchange = trip(algorithm, latency, rate, speed)
    (update,) = here.updates
    assert update.time == pytest.approx(exchange + server_work / 1e9)
    assert (update.version, update.folded, here.state["model"]) == (1, 1, 1.0)
    first, second = here.transfers
    assert (first.src, first.dst, first.nbytes, first.fate) == (SERVER, 0, download_bytes(algorithm), "delivered")
    assert (second.src, second.dst, second.nbytes, second.fate) == (0, SERVER, upload_bytes(algorithm), "delivered")
    assert second.arrived == pytest.approx(exchange)
    span, *served = here.spans
    assert (span.client, span.what) == (0, "train")
    assert [(one.client, one.what) for one in served] == [(SERVER, "serve")] * bool(server_work)
    assert sum(one.end - one.start for one in served) == pytest.approx(server_work / 1e9)
    assert span.start == pytest.approx(first.arrived)
    assert span.end - span.start == pytest.approx(1e6 / speed)
    check_books(here)


@pytest.mark.parametrize(("cores", "ends"), [(1, [2.0, 4.0]), (2, [2.0, 2.0])])
def test_updates_queue_for_the_servers_cores(cores, ends):
    here = lab(clients=2, algorithm=Number(server_work=2e9), cores=cores)
    asks = [here.world.server.ask(client) for client in (0, 1)]
    for ask in asks:
        here.env.process(fold(here, [ask]))
    here.run()
    arrived = trip(Number())
    assert [row.time for row in here.updates] == pytest.approx([arrived + end for end in ends])
    assert [row.version for row in here.updates] == [1, 2]
    assert here.state["model"] == 2.0  # the second update builds on the first


def test_a_reply_tells_the_version_it_started_from_and_what_was_sent():
    here = lab(clients=2, speed=[SPEED_FAST, SPEED_SLOW])
    fast, slow = (here.world.server.ask(client) for client in (0, 1))
    here.env.process(fold(here, [fast]))
    here.run()
    assert here.world.server.version == 1
    assert slow.value.version == 0
    assert here.value(slow.value.download)["model"] == 0.0
    assert {row.version for row in here.transfers} == {0}


def test_a_client_works_on_what_it_held_when_it_began():
    here = lab()
    here.world.server.ask(0)
    here.at(0.8, here.world.clients.arrive, 0, Period(1, "later"))  # training lasts from 0.2 s to 1.2 s
    here.run()
    (promise,) = here.backend.promises
    assert (promise.job.period, promise.job.data) == (0, "data")
    client = here.learner.clients[0]
    assert (client.period, client.data) == (1, "later")


def test_work_is_done_as_late_as_possible_and_memory_goes_from_job_to_job():
    here = lab()
    for _ in range(3):
        ask = here.world.server.ask(0)
        here.env.run(until=ask)
    assert [promise.filled["jobs"] for promise in here.backend.promises] == [1, 2, 3]
    assert here.memory(0) == {"jobs": 3}
    assert len({promise.job.seed for promise in here.backend.promises}) == 3


@pytest.mark.parametrize("what", ["sleep", "leave"])
def test_who_leaves_in_the_middle_of_training_is_lost_and_leaves_no_trace(what):
    here = lab()
    first = here.world.server.ask(0)
    here.env.run(until=first)
    before = dict(here.memory(0))
    start = here.env.now
    ask = here.world.server.ask(0)
    # somebody else's need of a value may have had the work done before the client leaves
    here.at(start + 0.4, lambda: here.backend.promises[1].value())
    here.at(start + 0.5, getattr(here.nodes, what), 0)
    here.env.process(fold(here, [first, ask]))
    here.run()
    assert ask.value is None
    assert [promise.cancelled for promise in here.backend.promises] == [False, True]
    assert here.memory(0) == before == {"jobs": 1}
    span = [row for row in here.spans if row.what == "train"][1]
    assert span.end == start + 0.5
    assert span.start == pytest.approx(start + 0.1 + 8 * download_bytes(Number()) / 8e4)
    assert [(row.folded, row.lost) for row in here.updates] == [(1, 1)]
    # the first reply's upload counts although the same client was asked again before it was folded
    assert here.fates() == {"delivered": 3}
    offline = [row for row in here.spans if row.what == "offline"]
    assert [row.start for row in offline] == ([start + 0.5] if what == "sleep" else [])


@pytest.mark.parametrize(("second", "direction"), [(0.05, "down"), (1.3, "up")])
def test_a_transfer_that_breaks_off_is_cut_with_the_bytes_that_had_moved(second, direction):
    here = lab()
    ask = here.world.server.ask(0)
    here.at(second, here.nodes.sleep, 0)
    here.run()
    assert ask.value is None
    row = here.transfers[-1]
    assert (row.fate, row.arrived, row.dst) == ("cut", second, 0 if direction == "down" else SERVER)
    assert row.wire_bytes == math.floor((second - row.sent) * 1e4 + 1e-6)
    assert 0 < row.wire_bytes < row.nbytes
    assert len(here.transfers) == (1 if direction == "down" else 2)
    # the upload is lost, not the work
    assert here.memory(0) == ({} if direction == "down" else {"jobs": 1})


def test_asking_a_sleeping_client_costs_nothing_and_ends_at_once():
    here = lab()
    here.nodes.sleep(0)
    ask = here.world.server.ask(0)
    here.env.process(fold(here, [ask]))
    here.run()
    assert ask.value is None
    assert [(row.fate, row.wire_bytes, row.arrived) for row in here.transfers] == [("lost", 0, 0.0)]
    assert [(row.time, row.folded, row.lost, row.version) for row in here.updates] == [(0.0, 0, 1, 0)]


def test_effects_make_a_busy_client_leave_and_it_stays_online():
    here = lab(effects=[LeavesAfter(0.7)])
    ask = here.world.server.ask(0)
    here.run()
    assert ask.value is None
    assert here.world.online() == [0]
    assert [(row.what, row.end) for row in here.spans] == [("left", 0.7), ("train", 0.7)]


def test_a_client_that_is_through_before_it_would_leave_stays():
    here = lab(effects=[LeavesAfter(5.0)])
    ask = here.world.server.ask(0)
    here.run()
    assert ask.value is not None
    assert [row.what for row in here.spans] == ["train"]


def test_a_reply_that_nobody_waits_for_is_late_whether_it_has_arrived_or_not():
    here = lab(clients=2, speed=[SPEED_FAST, SPEED_SLOW])
    server = here.world.server
    asks = [server.ask(client) for client in (0, 1)]
    here.env.run(until=2.0)  # the fast one has replied, the slow one is at work
    for ask in asks:
        server.close(ask)
        server.close(ask)  # closing twice counts once
    here.env.process(server.update([]))
    here.run()
    assert [(row.asked, row.folded, row.lost, row.late) for row in here.updates] == [(2, 0, 0, 2)]
    assert Counter((row.dst == SERVER, row.fate) for row in here.transfers) == {
        (False, "delivered"): 2,
        (True, "late"): 2,
    }
    assert server.version == 0
    assert here.state == {"model": 0.0, "clients": ()}
    check_books(here)


def test_an_ask_that_was_lost_is_not_late_as_well():
    here = lab()
    server = here.world.server
    ask = server.ask(0)
    here.at(0.5, here.nodes.sleep, 0)
    while not ask.triggered:
        here.env.step()
    assert not ask.processed
    server.close(ask)
    here.env.process(server.update([]))
    here.run()
    assert [(row.asked, row.lost, row.late) for row in here.updates] == [(1, 1, 0)]


def test_a_client_at_work_cannot_be_asked_again():
    here = lab(clients=3)
    here.world.server.ask(1)
    assert here.world.available() == [0, 2]
    with pytest.raises(ValueError, match="client 1 is still at work"):
        here.world.server.ask(1)
    here.run()
    assert here.world.available() == [0, 1, 2]


def test_an_update_wakes_its_observers_before_the_protocol_goes_on():
    here, order = lab(), []

    def observer():
        while True:
            version = yield here.world.server.updated
            order.append(("observer", version))

    def protocol():
        for _ in range(2):
            ask = here.world.server.ask(0)
            yield ask
            yield from here.world.server.update([ask.value])
            order.append(("protocol", here.world.server.version))
        yield from here.world.server.update([])  # nothing folded: nobody is told

    here.env.process(observer())
    here.env.process(protocol())
    here.run()
    assert order == [("observer", 1), ("protocol", 1), ("observer", 2), ("protocol", 2)]


def test_where_nothing_travels_an_ask_takes_the_work_alone():
    here = lab(algorithm=Silent(), speed=SPEED_SLOW)
    ask = here.world.server.ask(0)
    here.env.process(fold(here, [ask]))
    here.run()
    assert here.transfers == []
    assert ask.value.version == 0
    assert [(row.time, row.folded) for row in here.updates] == [(pytest.approx(10.0), 1)]


def test_what_is_open_at_the_end_is_written_too():
    here = lab(clients=3, speed=[SPEED_FAST, SPEED_SLOW, SPEED_SLOW], latency=[0.1, 0.1, 1.9])
    for client in range(3):
        here.world.server.ask(client)
    here.env.run(until=2.0)
    here.nodes.sleep(0)
    here.env.run(until=2.05)
    here.world.end()
    assert {(row.client, row.what, row.end) for row in here.spans} >= {(1, "train", 2.05), (0, "offline", 2.05)}
    assert here.fates() == {"delivered": 3, "discarded": 1}  # nobody has folded client 0's reply


def test_simulated_time_does_not_depend_on_the_host():
    rows = []
    for nap in (0.0, 0.05):
        here = lab(clients=2, nap=nap)
        asks = [here.world.server.ask(client) for client in (0, 1)]
        here.env.process(fold(here, asks))
        here.run()
        rows.append(here.rows)
    assert rows[0] == rows[1]


moments = st.tuples(st.floats(0, 8), st.integers(0, 3), st.sampled_from(["sleep", "wake", "leave"]))


@settings(max_examples=60, deadline=None)
@given(st.lists(moments, max_size=15), st.lists(st.tuples(st.floats(0, 6), st.integers(0, 3)), min_size=1, max_size=10))
def test_every_ask_ends_and_every_byte_is_in_one_row(disturbances, wishes):
    here, asks = lab(clients=4, latency=[0.0, 0.1, 0.5, 0.1], speed=[1e6, 1e7, 1e6, 4e5]), []

    def wish(client):
        if client not in here.world.server.busy:
            asks.append(here.world.server.ask(client))

    for second, client, what in disturbances:
        here.at(second, getattr(here.nodes, what), client)
    for second, client in wishes:
        here.at(second, wish, client)
    here.run()
    assert all(ask.processed for ask in asks)
    assert not here.world.server.busy
    check_books(here)
    replied = sum(ask.value is not None for ask in asks)
    assert sum(row.dst == SERVER and row.fate == "discarded" for row in here.transfers) == replied
    assert sum(here.memory(client).get("jobs", 0) for client in here.world.clients) == sum(
        not promise.cancelled for promise in here.backend.promises
    )


def test_the_middle_of_the_library_needs_no_torch():
    code = "import sys, fake_world as fake; here = fake.lab(); here.world.server.ask(0); here.run(); "
    code += "assert here.fates(); assert 'torch' not in sys.modules"
    folder = Path(__file__).resolve().parents[1] / "support"
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, check=False).returncode == 0
