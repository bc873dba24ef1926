"""What the rows of nodes say of jitter and losses goes into each transfer, as effects do; and each client's meter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import down, fluid, up, world
from test_accounting import CLIENTS, Story, disturbances, effects, sends

from fedsim.core.record import SERVER
from fedsim.net.effects.jitter import Jitter
from fedsim.net.effects.loss import Loss

BOTH = [up(0, 10**6), down(0, 10**6), up(1, 10**6), down(1, 0), up(0, 10**6)]


def rows(messages=BOTH, **options):
    here = world(0.02, clients=2, seed=3, **options)
    for message in messages:
        here.network.send(message)
    here.env.run()
    return here.rows


def test_rows_do_what_effects_do():
    columns = {"jitter": 0.01, "loss_up": 1 / 64, "loss_down": 1 / 128}
    by_effects = rows(effects=[Jitter(0.01), Loss(up=1 / 64, down=1 / 128)])
    assert rows(columns=columns) == by_effects
    assert rows() != by_effects


def test_rows_and_effects_add_up():
    columns = {"jitter": 0.01, "loss_up": 0.2, "loss_down": 0.5}
    both = rows(columns=columns, effects=[Jitter(0.02), Loss(up=0.1)])
    alone = rows(effects=[Jitter(0.01), Jitter(0.02), Loss(up=0.2, down=0.5), Loss(up=0.1)])
    assert [row.arrived for row in both] == pytest.approx([row.arrived for row in alone])


def test_each_client_has_its_own():
    plain = rows()
    mixed = rows(columns={"jitter": [0.0, 0.05], "loss_up": [0.0, 0.05], "loss_down": [0.0, 0.05]})
    own = {client: [row for row in mixed if client in (row.src, row.dst)] for client in (0, 1)}
    assert own[0] == [row for row in plain if 0 in (row.src, row.dst)]
    assert own[1] != [row for row in plain if 1 in (row.src, row.dst)]


def test_a_run_without_losses_draws_nothing():
    asked = []
    here = world(columns={"jitter": 0.01})
    here.network._rng = here.network._draws.of = lambda *name: asked.append(name)
    here.network.send(up(0, 10**6))
    here.env.run()
    assert asked == []


def test_losses_are_drawn_from_each_transfers_own_stream():
    asked = []
    here = world(clients=2, columns={"loss_up": [0.0, 0.1]})
    draws = here.network._draws.of
    here.network._draws.of = lambda *name: asked.append((name, draws(*name))) or asked[-1][1]
    for message in (up(0, 10), up(1, 10), up(1, 10), down(1, 10)):
        here.network.send(message)
    assert [name for name, _ in asked] == [((1, -1), 0), ((1, -1), 1), ((-1, 1), 0)]
    assert len({number for _, drawn in asked for number in drawn}) == 6


@settings(max_examples=50, deadline=None)
@given(st.lists(sends, min_size=1, max_size=15), st.lists(disturbances, max_size=12), effects)
def test_the_meter_counts_what_the_rows_hold(sends, disturbances, effects):
    """Whole bytes are billed, one message's rounded to the nearest or, where it was cut, down."""
    story = Story(sends, disturbances, effects, fluid())
    story.run()
    network = story.world.network
    for client in range(CLIENTS):
        for upload in (True, False):
            own = [row for row in story.world.rows if (row.src, row.dst)[not upload] == client]
            assert all((row.dst == SERVER) == upload for row in own)
            billed = sum(row.wire_bytes for row in own)
            assert network.meters(upload)[client] == pytest.approx(billed, abs=len(own) + 1e-6)


def test_the_meter_starts_at_zero_and_counts_each_direction():
    here = world(clients=2)
    assert [here.network.meters(upload)[client] for client in (0, 1) for upload in (True, False)] == [0.0] * 4
    here.network.send(up(0, 1448))
    here.network.send(down(1, 2896))
    here.env.run()
    got = np.array([[here.network.meters(upload)[client] for upload in (True, False)] for client in (0, 1)])
    assert got == pytest.approx(np.array([[1500, 0], [0, 3000]]))
