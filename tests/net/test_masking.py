"""Messages of secure aggregation: their bytes by the papers' formulas, and when a sum can be had."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core import wire
from fedsim.net import masking
from fedsim.net.masking import Masking

KEY = SHARE = 32  # a_K and a_S of Bonawitz et al., section 7


def whole(count):
    return list(range(count))


@pytest.mark.parametrize("count", [2, 5, 60])
def test_a_client_moves_what_the_paper_counts(count):
    """Bonawitz et al., section 7.1: 2 n a_K + (5 n - 4) a_S + m log2 R, and what seals and numbers the shares."""
    others, numbers = count - 1, 1000
    bare = {
        "keys": [masking.answer("keys", None), masking.keys_of(others)],
        "shares": [masking.sealed(others), masking.sealed(others)],
        "unmask": [masking.answer("unmask", masking.alive(others, others))],
    }
    moved = sum(wire.array_bytes(tree) for trees in bare.values() for tree in trees)
    moved += Masking().vector(numbers, count)
    known = others * masking.NUMBER + 2 * others * (masking.SEAL + 2 * masking.NUMBER)  # who, and what encryption adds
    by_paper = 2 * count * KEY + (5 * count - 4) * SHARE + math.ceil(numbers * (32 + math.ceil(math.log2(count))) / 8)
    assert moved == by_paper + known


def test_the_reply_to_keys_is_a_sealed_share_for_each():
    assert wire.array_bytes(masking.answer("shares", masking.keys_of(7))) == 7 * (64 + 8 + 28)


def test_with_few_neighbours_a_client_moves_the_same_however_many_there_are():
    options, rng = Masking(neighbours=4), np.random.default_rng(0)
    for count in (10, 500):
        graph = options.graph(whole(count), rng)
        assert {len(others) for others in graph.values()} == {4}
        assert all(one in graph[other] and one != other for one, others in graph.items() for other in others)
    drawn = [options.graph(whole(10), np.random.default_rng(seed)) for seed in (0, 1)]
    assert drawn[0] != drawn[1]
    assert options.graph(whole(4), rng) == Masking().graph(whole(4), rng)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 30), st.floats(0, 1), st.data())
def test_with_all_for_neighbours_more_than_the_threshold_must_be_left(count, threshold, data):
    options = Masking(threshold=threshold)
    graph = options.graph(whole(count), np.random.default_rng(0))
    left = data.draw(st.lists(st.integers(0, count - 1), unique=True))
    enough = len(left) >= max(2, math.floor(threshold * count + 1e-9) + 1)
    assert options.holds(graph, whole(count), left) == enough


def test_one_neighbourhood_that_is_gone_is_enough_to_lose_the_sum():
    graph = {one: [(one - 1) % 10, (one + 1) % 10] for one in range(10)}
    options = Masking(neighbours=2)
    assert options.holds(graph, whole(10), [0, 1, 3, 4, 6, 7, 9])
    assert not options.holds(graph, whole(10), [2, 3, 4, 5, 6, 7, 8])  # of 9, 0 and 1 nobody knows both halves


def test_a_sum_over_one_client_is_never_had():
    graph = Masking(threshold=0.0).graph([5], np.random.default_rng(0))
    assert not Masking(threshold=0.0).holds(graph, [5], [5])


@pytest.mark.parametrize(("clients", "bits"), [(1, 32), (2, 33), (3, 34), (4, 34), (5, 35), (1024, 42)])
def test_a_masked_number_has_room_for_the_sum(clients, bits):
    assert Masking().vector(8000, clients) == 1000 * bits


def test_numbers_are_those_in_arrays_and_single_ones():
    tree = {"update": {"a": np.zeros((3, 4)), "b": [np.zeros(5), 1.0]}, "samples": 7}
    assert masking.numbers(tree) == 12 + 5 + 1 + 1
