"""Whatever happens, each message ends in one row, and the rows' bytes are those that moved."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import access, cut, down, fluid, up, world

from fedsim.core.record import SERVER
from fedsim.net.effects.churn import Churn
from fedsim.net.effects.jitter import Jitter
from fedsim.net.effects.loss import Loss
from fedsim.net.model import NetworkModel
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.laws import TransferModel
from fedsim.net.transfer import Lost

CLIENTS = 4
times, clients = st.floats(0, 20), st.integers(0, CLIENTS - 1)
sends = st.tuples(times, st.sampled_from([up, down]), clients, st.integers(0, 3_000_000))
disturbances = st.one_of(
    st.tuples(times, st.sampled_from(["sleep", "wake", "leave"]), clients),
    st.tuples(times, st.just("rate"), clients, st.sampled_from([0.0, 1e5, 8e6, 1e9])),
    st.tuples(times, st.just("capacity"), st.booleans(), st.sampled_from([0.0, 1e5, 1e6, math.inf])),
    st.tuples(times, st.sampled_from(["abort", "late"]), st.integers(0, 30)),
)
FASTEST = 1e9 / 8  # bytes/s; each of a transfer's two stretches may end 1e-9 of the time early
effects = st.sampled_from([(), (Loss(0.02),), (Loss(0.3, down=0.0), Jitter(0.05)), (Churn(5.0, 2.0), Loss(0.001))])


class Story:
    """A world in which messages are sent and disturbed; `outcomes` is what the deliveries said."""

    def __init__(self, sends, disturbances, effects, model, seed=0):
        options = {"server": access(6e6), "effects": effects, "model": model}
        self.world = world(0.05, [1e6, 4e6, 8e6, 8e6], 8e6, CLIENTS, seed, **options)
        self.deliveries, self.outcomes = [], []
        for time, direction, client, nbytes in sends:
            self.world.at(time, self.send, direction(client, nbytes))
        for time, what, *rest in disturbances:
            self.world.at(time, getattr(self, what), *rest)

    def run(self):
        self.world.env.run(until=25)
        self.world.network.close()
        self.world.env.run(until=25.001)
        return self.world.rows

    def send(self, message):
        delivery = self.world.network.send(message)
        self.deliveries.append(delivery)
        self.world.env.process(self.wait(message, delivery))

    def wait(self, message, delivery):
        try:
            got = yield delivery
        except Lost as lost:
            self.outcomes.append((message.src, message.dst, message.nbytes, lost.moved))
        else:
            assert got is message
            self.outcomes.append((message.src, message.dst, message.nbytes, None))

    def sleep(self, client):
        self.world.nodes.sleep(client)

    def wake(self, client):
        self.world.nodes.wake(client)

    def leave(self, client):
        self.world.nodes.leave(client)

    def rate(self, client, rate):
        self.world.nodes.set_rate(client, uplink=rate, downlink=rate / 2)

    def capacity(self, upwards, capacity):
        self.world.network.shared["ingress" if upwards else "egress"].set_capacity(capacity)

    def abort(self, number):
        if number < len(self.deliveries):
            cut(self.world.network, self.deliveries[number])

    def late(self, number):
        if number < len(self.deliveries):
            self.deliveries[number].fate = "late"


def integrate(story):
    """Run the story, adding up the rates of both links between events; return bytes up and down."""
    env, network, carried = story.world.env, story.world.network, Counter()
    end = env.timeout(25)
    while not end.processed:
        rates = {up: link.load for up, link in ((True, network.shared["ingress"]), (False, network.shared["egress"]))}
        before = env.now
        env.step()
        for upwards, rate in rates.items():
            carried[upwards] += rate * (env.now - before)
    return carried


@settings(max_examples=100, deadline=None)
@given(
    st.lists(sends, min_size=1, max_size=20),
    st.lists(disturbances, max_size=20),
    effects,
    st.sampled_from([fluid(), fluid(congestion_control="bbr"), fluid(deterministic=True), NetworkModel()]),
)
def test_every_message_ends_in_one_row_that_agrees_with_its_delivery(sends, disturbances, effects, model):
    story = Story(sends, disturbances, effects, model)
    rows = story.run()
    assert len(rows) == len(sends)
    recorded = [(row.src, row.dst, row.nbytes, row.wire_bytes if row.fate in ("cut", "lost") else None) for row in rows]
    assert Counter(recorded) == Counter(story.outcomes)
    assert [row.arrived for row in rows] == sorted(row.arrived for row in rows)
    for row in rows:
        loss = 1 - math.prod(1 - getattr(e, "up" if row.dst == SERVER else "down") for e in as_both(effects))
        whole = row.nbytes if model == NetworkModel() else tcp.wire_size(TransferModel(), row.nbytes, loss)
        assert row.sent <= row.arrived <= 25
        if row.fate in ("delivered", "late"):
            assert row.wire_bytes == round(whole)
        elif row.fate == "cut":
            assert 0 < row.wire_bytes <= whole
        else:
            assert (row.fate, row.wire_bytes) == ("lost", 0)


def as_both(effects):
    """The losses among the effects, each with the loss of both directions."""
    losses = [effect for effect in effects if isinstance(effect, Loss)]
    pick = [(e.rate if e.up is None else e.up, e.rate if e.down is None else e.down) for e in losses]
    return [Loss(up=up, down=down) for up, down in pick]


@settings(max_examples=60, deadline=None)
@given(st.lists(sends, min_size=1, max_size=15), st.lists(disturbances, max_size=12), effects)
def test_the_rows_hold_the_bytes_that_the_links_have_carried(sends, disturbances, effects):
    story = Story(sends, disturbances, effects, fluid())
    carried = integrate(story)
    story.world.network.close()
    for upwards in (True, False):
        billed = sum(row.wire_bytes for row in story.world.rows if (row.dst == SERVER) == upwards)
        assert billed == pytest.approx(carried[upwards], abs=len(sends) * (1 + 2 * FASTEST * 25e-9))


@settings(max_examples=25, deadline=None)
@given(st.lists(sends, min_size=1, max_size=15), st.lists(disturbances, max_size=12), effects, st.integers(0, 5))
def test_the_same_seed_gives_the_same_rows_bit_for_bit(sends, disturbances, effects, seed):
    first, second = (Story(sends, disturbances, effects, fluid(), seed).run() for _ in range(2))
    assert first == second


def test_another_seed_gives_other_rows():
    story = [(0.0, up, client, 1_000_000) for client in range(CLIENTS)]
    assert len({tuple(Story(story, [], (Loss(0.05),), fluid(), seed).run()) for seed in range(5)}) == 5


def test_what_one_transfer_draws_does_not_depend_on_others():
    """On a link without limits a lossy transfer takes the same whatever else is sent; the next takes another time."""
    alone = world(clients=3, effects=[Loss(0.05)])
    alone.network.send(up(1, 500_000))
    alone.env.run()
    among = world(clients=3, effects=[Loss(0.05)])
    for message in (up(0, 1), down(1, 10), up(1, 500_000), up(2, 10**6)):
        among.network.send(message)
    among.env.run()
    among.network.send(up(1, 500_000))
    among.env.run()
    ours = [row for row in among.rows if row.nbytes == 500_000]
    assert ours[0] == alone.rows[0]
    assert ours[1].arrived - ours[1].sent != ours[0].arrived - ours[0].sent


@pytest.mark.long
def test_thirty_thousand_transfers_take_at_most_six_events_each():
    count = 30_000
    rng = np.random.default_rng(0)
    rates = rng.lognormal(np.log(8e6), 1.0, count)
    here = world(0.02, rates, rates, count, server=access(8e8))
    starts, sizes = np.cumsum(rng.exponential(1e-3, count)), rng.exponential(95_000, count)

    def feed():
        for client in range(count):
            yield here.env.timeout(starts[client] - here.env.now)
            here.network.send(up(client, int(sizes[client])))

    here.env.process(feed())
    here.env.run()
    assert Counter(row.fate for row in here.rows) == {"delivered": count}
    assert (here.env.scheduled - count - 2) / count <= 6
