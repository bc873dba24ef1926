"""What a transfer draws: two numbers by its name, and a stream that is made only where an effect draws from it."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from netlab import up, world

from fedsim.core import seeds
from fedsim.core.errors import UserError
from fedsim.net.effect import Effect
from fedsim.net.effects.loss import Loss


@dataclass(frozen=True)
class Fading(Effect):
    """Draws a delay for each transfer, in two parts."""

    def shape(self, transfer, rng):
        transfer.propagation += rng.exponential(0.1) + rng.random()


def test_uniforms_go_by_seed_and_keys_alone():
    def drawn(seed, *keys):
        return seeds.uniforms(seed, *map(np.array, keys), count=2)

    both = drawn(3, [1, 2], [0, -1])
    assert both.shape == (2, 2)
    assert np.array_equal(both[:, 1:], drawn(3, [2], [-1]))
    others = [drawn(3, [2], [-1]), drawn(4, [2], [-1]), drawn(3, [-1], [2]), drawn(3, [2], [0]), drawn(3, [2])]
    assert len({number for pair in others for number in pair.ravel().tolist()}) == 10


@given(st.integers(0, 2**62), st.lists(st.tuples(st.integers(-9, 9), st.integers(-1, 2**62)), min_size=1, max_size=5))
def test_a_row_drawn_alone_is_that_of_many(seed, rows):
    many = seeds.uniforms(seed, *np.array(rows).T, count=2)
    assert many.T.tolist() == [seeds.row_of_uniforms(seed, *row, count=2) for row in rows]


@given(st.integers(0, 2**62), st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=5))
def test_integers_of_many_rows_are_those_of_each(seed, rows):
    drawn = seeds.of_jobs(seed, [client for client, _ in rows], [job for _, job in rows])
    assert drawn == [seeds.integer(seed, "job", *row) for row in rows]


def test_uniforms_are_even_and_independent():
    numbers = np.arange(20_000)
    pairs = seeds.uniforms(0, numbers // 100 - 1, numbers % 100, count=2).T
    assert pairs.min() >= 0
    assert pairs.max() < 1
    counts = np.histogram2d(*pairs.T, bins=5, range=[(0, 1), (0, 1)])[0]
    assert ((counts - 800) ** 2 / 800).sum() < 52  # chi-square with 24 degrees of freedom, 1 in 1000


@pytest.mark.parametrize("effects", [[], [Loss(0.01)]])
def test_no_stream_is_made_where_no_effect_draws(effects):
    here = world(effects=effects)
    here.network._rng = lambda name: pytest.fail(f"a stream was made for {name}")
    here.network.send(up(0, 1000))
    here.env.run()
    assert len(here.rows) == 1


def test_an_effect_draws_from_each_transfers_own_stream():
    asked, here = [], world(latency=0.0, effects=[Fading()])
    rng = here.network._rng
    here.network._rng = lambda name: (asked.append(name), rng(name))[1]
    here.network.send(up(0, 0))
    here.network.send(up(0, 0))
    here.env.run()
    assert asked == ["transfer/0/-1/0", "transfer/0/-1/1"]
    streams = [rng(name) for name in asked]
    assert [row.arrived for row in here.rows] == pytest.approx(
        sorted(1.5 * (stream.exponential(0.1) + stream.random()) for stream in streams)
    )


@dataclass(frozen=True)
class Setting(Effect):
    """Sets one of a transfer's numbers."""

    name: str = "propagation"
    value: float = 0.0

    def shape(self, transfer, rng):
        setattr(transfer, self.name, self.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("propagation", -5.0), ("jitter", -0.1), ("loss_up", 1.5), ("loss_up", 1.0), ("loss_down", -0.1)],
)
def test_a_number_that_no_message_can_have_is_refused_with_the_effects_name(name, value):
    here = world(effects=[Setting(name, value)])
    with pytest.raises(UserError, match=r"Setting\.shape leaves a delay below 0 s or a loss outside of \[0, 1\): .*"):
        here.network.send(up(0, 1000))


@pytest.mark.parametrize(
    ("name", "value"), [("propagation", 0.0), ("jitter", 3.0), ("loss_up", 0.0), ("loss_up", 0.99)]
)
def test_numbers_at_the_ends_are_not_refused(name, value):
    world(effects=[Setting(name, value)]).network.send(up(0, 1000))
