"""Who is there to be asked, and how those who are asked are drawn."""

import numpy as np
import pytest
from fake_world import lab

from fedsim.clock.world import Streams
from fedsim.core import seeds


def test_available_are_those_online_with_data_and_free():
    here = lab(clients=5)
    here.nodes.sleep(1)
    here.world.clients.has_data[2] = False
    here.world.server.ask(3)
    assert here.world.online() == [0, 2, 3, 4]
    assert here.world.available() == [0, 4]
    assert here.world.sample(9) == [0, 4]
    assert all(isinstance(client, int) for client in here.world.sample(2))


def test_whoever_is_back_can_be_asked_again():
    here = lab(clients=2)
    here.nodes.sleep(0)
    assert here.world.online() == [1]
    here.nodes.wake(0)
    assert here.world.online() == [0, 1]


def test_sampling_depends_on_the_seed_alone():
    def draws(seed):
        here = lab(clients=20, seed=seed)
        return [here.world.sample(5) for _ in range(10)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_other_draws_do_not_disturb_the_sampling():
    one, two = lab(clients=20), lab(clients=20)
    two.world.rng("something else").random(100)
    assert [one.world.sample(5) for _ in range(5)] == [two.world.sample(5) for _ in range(5)]


def test_everybody_available_is_drawn_equally_often_and_nobody_twice():
    here, rounds, count = lab(clients=12), 6000, 4
    here.nodes.sleep(0)
    here.nodes.sleep(7)
    hits = np.zeros(12)
    pairs = np.zeros((12, 12))
    for _ in range(rounds):
        drawn = here.world.sample(count)
        assert drawn == sorted(set(drawn))
        assert len(drawn) == count
        hits[drawn] += 1
        pairs[np.ix_(drawn, drawn)] += 1
    assert hits[[0, 7]].tolist() == [0, 0]
    free = [c for c in range(12) if c not in (0, 7)]
    share = count / 10
    sd = (share * (1 - share) / rounds) ** 0.5
    assert hits[free] / rounds == pytest.approx(share, abs=5 * sd)
    together = share * (count - 1) / 9
    off = pairs[np.ix_(free, free)][~np.eye(10, dtype=bool)] / rounds
    assert off == pytest.approx(together, abs=5 * (together * (1 - together) / rounds) ** 0.5)


def test_a_named_stream_goes_on_where_it_stands_and_is_independent_of_others():
    streams = Streams(7)
    first = streams("a").random(3)
    streams("b").random(5)
    second = streams("a").random(3)
    assert np.concatenate([first, second]).tolist() == seeds.generator(7, "a").random(6).tolist()
    assert seeds.generator(7, "b").random(3).tolist() != first.tolist()
    assert Streams(8)("a").random(3).tolist() != first.tolist()
