"""What each codec does to the numbers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from fedsim.net import floats
from fedsim.net.codec import compress
from fedsim.net.codecs.bfloat16 import Bfloat16
from fedsim.net.codecs.half import Half
from fedsim.net.codecs.int8 import Int8
from fedsim.net.codecs.rand_k import RandK
from fedsim.net.codecs.top_k import TopK

LENGTH = 50
finite = nps.arrays(np.float32, LENGTH, elements=st.floats(-1e6, 1e6, width=32))
any_value = nps.arrays(np.float32, LENGTH, elements=st.floats(width=32) | st.floats(-1e5, 1e5, width=32))


def rng(seed=0):
    return np.random.default_rng(seed)


def received(codec, array, seed=0, memory=None):
    return compress(codec, array, memory or {}, rng(seed))[1]


# ---- half and bfloat16: torch rounds to the nearest even, too


@settings(deadline=None, max_examples=60)
@given(any_value)
def test_half_rounds_like_torch_and_clips(array):
    back = received(Half(), array)
    clipped = np.where(np.isfinite(array), np.clip(array, -65504, 65504), array)
    assert np.array_equal(back, torch.tensor(clipped).half().float().numpy(), equal_nan=True)
    assert np.array_equal(np.signbit(back), np.signbit(array)) or np.isnan(array).any()


def test_what_half_cannot_hold():
    array = np.array([65519, 65520, -1e9, np.inf, -np.inf, 1e-9, 5e-8, 2049, 2051] + [0] * LENGTH, np.float64)
    back = received(Half(), array)
    assert back.dtype == np.float64
    assert back[:9].tolist() == [65504, 65504, -65504, np.inf, -np.inf, 0, 2**-24, 2048, 2052]


@settings(deadline=None, max_examples=60)
@given(any_value)
def test_bfloat16_rounds_like_torch(array):
    back, expected = received(Bfloat16(), array), torch.tensor(array).bfloat16().float().numpy()
    over = np.isinf(expected) & np.isfinite(array)
    assert np.array_equal(back[~over], expected[~over], equal_nan=True)
    assert np.array_equal(back[over], np.copysign(np.float32(floats.BFLOAT16_MAX), array[over]))


def test_bfloat16_rounds_ties_to_even_and_keeps_infinities_and_not_a_number():
    one, step = 1.0, 2.0**-7
    array = np.array([one + step / 2, one + 3 * step / 2, 3.4e38, -np.inf, np.nan] + [0] * LENGTH, np.float32)
    back = received(Bfloat16(), array)
    assert back[:4].tolist() == [one, one + 2 * step, floats.BFLOAT16_MAX, -np.inf]
    assert np.isnan(back[4])
    assert torch.finfo(torch.bfloat16).max == floats.BFLOAT16_MAX
    every_nan = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF] * LENGTH, np.uint32).view(np.float32)
    assert np.isnan(received(Bfloat16(), every_nan)).all()
    huge = received(Bfloat16(), np.full(LENGTH, -1e300))
    assert (huge == -floats.BFLOAT16_MAX).all()


@settings(deadline=None, max_examples=60)
@given(any_value)
def test_sixteen_bits_hold_what_came_from_them(array):
    for codec in (Half(), Bfloat16()):
        once = received(codec, array)
        assert np.array_equal(received(codec, once), once, equal_nan=True)


# ---- int8


@settings(deadline=None, max_examples=60)
@given(finite, st.integers(0, 99))
def test_int8_is_within_a_step_and_keeps_zeros_and_the_largest(array, seed):
    back, step = received(Int8(), array, seed), float(np.abs(array).max()) / 127
    assert (np.abs(back.astype(float) - array) <= step * (1 + 1e-5) + 1e-300).all()
    assert (back[array == 0] == 0).all()
    largest = np.abs(array).argmax()
    assert back[largest] == array[largest]


def test_int8_is_right_on_average():
    array = rng(1).normal(size=(40, 10)).astype(np.float32)
    array[:2, :2] = [[0.004, 1.0], [-3.7, 0]]
    draws, generator = 400, rng(2)
    backs = np.stack([compress(Int8(), array, {}, generator)[1] for _ in range(draws)]).astype(float)
    step = np.abs(array).max() / 127
    assert (np.abs(backs.mean(0) - array) < 5 * step / 2 / math.sqrt(draws)).all()  # a step's deviation is half at most
    part = array.astype(float) / step % 1
    assert backs.var(0).mean() == pytest.approx((step**2 * part * (1 - part)).mean(), rel=0.1)
    assert abs((backs - array).mean()) < 5 * step / 2 / math.sqrt(draws * array.size)


@pytest.mark.parametrize("name", floats.LETTERS)
def test_int8_of_extremes(name):
    for value in (0.0, torch.finfo(getattr(torch, name)).max, torch.finfo(getattr(torch, name)).tiny):
        array = torch.full((LENGTH,), value, dtype=getattr(torch, name))
        back = received(Int8(), array)
        assert torch.equal(back, array)
    denormal = np.full(4000, 5e-322)
    assert 0 <= received(Int8(), denormal).min() <= received(Int8(), denormal).max() < 1e-307


# ---- top k


@settings(deadline=None, max_examples=60)
@given(nps.arrays(np.float32, (5, 10), elements=st.integers(-4, 4).map(float)), st.floats(0.01, 0.4))
def test_top_k_takes_the_largest_and_of_equal_ones_the_first(array, share):
    count = max(1, round(share * array.size))
    order = sorted(range(array.size), key=lambda i: (-abs(array.flat[i]), i))[:count]
    expected = np.zeros_like(array)
    for i in order:
        expected.flat[i] = array.flat[i]
    for feedback in (True, False):
        encoded, back, _ = compress(TopK(share, feedback=feedback), array, {}, rng())
        assert np.array_equal(back, expected)
        assert encoded[2][0][0] == "5x10"
        assert encoded[2][0][1].tolist() == sorted(order)
        assert encoded[2][0][1].dtype == np.uint32


def test_at_least_one_entry_travels():
    array = np.arange(100.0, dtype=np.float32) - 99.5
    assert np.count_nonzero(received(TopK(1e-9), array)) == 1
    assert received(TopK(1e-9), array)[0] == -99.5
    assert np.count_nonzero(received(RandK(1e-9), array)) == 1


def test_a_large_share_goes_whole():
    array = rng().normal(size=100).astype(np.float32)
    for codec in (TopK(0.5), TopK(1.0), RandK(1.0)):
        encoded, back, memory = compress(codec, array, {}, rng())
        assert back is array
        assert (encoded, memory) == ([array, "", []], {})


# ---- rand k


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_rand_k_scales_to_be_right_on_average(share):
    array = (rng(3).normal(size=200) + 2).astype(np.float32)
    codec, generator, draws = RandK(share, feedback=False), rng(4), 1500
    backs = np.stack([compress(codec, array, {}, generator)[1] for _ in range(draws)]).astype(float)
    count = round(share * 200)
    assert (np.count_nonzero(backs, axis=1) == count).all()
    sent = backs != 0
    assert np.allclose(backs[sent], np.broadcast_to(array * (200 / count), backs.shape)[sent])
    deviation = np.abs(array) * math.sqrt((200 / count - 1) / draws)
    assert (np.abs(backs.mean(0) - array) < 5 * deviation).all()


def test_rand_k_with_feedback_does_not_scale():
    array = (rng(3).normal(size=(20, 10)) + 9).astype(np.float32)
    back = received(RandK(0.1), array)
    assert np.count_nonzero(back) == 20
    assert np.array_equal(back[back != 0], array[back != 0])


def test_rand_k_draws_other_places_for_each_array():
    array = np.ones(200, np.float32)
    first, second = compress(RandK(0.1), [array, array], {}, rng())[1]
    assert not np.array_equal(first, second)


# ---- error feedback

FEEDBACK = pytest.mark.parametrize("codec", [TopK(0.1), RandK(0.1)], ids=repr)


def whole(seed):
    """Whole numbers, many of them equal or zero: sums of them are exact."""
    return rng(seed).integers(-4, 5, (2, 5, 12)) * rng(seed + 1).integers(0, 9, (2, 5, 12))


@FEEDBACK
@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.sampled_from([np.float32, np.float64]))
def test_what_was_received_and_what_is_left_are_what_was_given(codec, steps, kind):
    memory, generator, given_sum, received_sum = {}, rng(), 0, 0
    for seed in steps:
        first, second = whole(seed)
        before = {key: left.copy() for key, left in memory.items()}
        upload = {"update": [torch.tensor(first.astype(kind)), torch.tensor(second.astype(kind))], "samples": 4}
        _, back, after = compress(codec, upload, memory, generator)
        assert all(np.array_equal(memory[key], left) for key, left in before.items())
        memory = after
        given_sum = given_sum + np.stack([first, second])
        received_sum = received_sum + np.stack(back["update"])
        assert back["samples"] == 4
        left = np.stack([memory["/update/0"], memory["/update/1"]])
        assert left.dtype == kind
        assert np.array_equal(received_sum + left, given_sum)  # whole numbers: no rounding


@FEEDBACK
@pytest.mark.parametrize("name", floats.LETTERS)
def test_feedback_keeps_what_rounding_takes(codec, name):
    memory, generator, given_sum, received_sum = {}, rng(), 0.0, 0.0
    for step in range(30):
        array = torch.tensor(rng(step).normal(size=80)).to(getattr(torch, name))
        _, back, memory = compress(codec, array, memory, generator)
        assert back.dtype == array.dtype
        given_sum, received_sum = given_sum + array.double().numpy(), received_sum + back.double().numpy()
    tolerance = 1e-13 if name == "float64" else 1e-5
    assert np.allclose(received_sum + memory[""], given_sum, rtol=0, atol=tolerance)


@FEEDBACK
def test_nothing_is_left_behind_for_ever(codec):
    target = rng(5).normal(size=100).astype(np.float32)
    memory, generator, total = {}, rng(), np.zeros(100)
    for step in range(200):
        update = target if step == 0 else np.zeros_like(target)
        _, back, memory = compress(codec, update, memory, generator)
        total += back
    assert np.array_equal(total, target)
    assert not memory[""].any()


def test_without_feedback_the_small_entries_never_arrive():
    array = np.linspace(1, 2, 100, dtype=np.float32)
    memory, generator, total = {}, rng(), np.zeros(100)
    for _ in range(20):
        _, back, memory = compress(TopK(0.1, feedback=False), array, memory, generator)
        total += back
    assert memory == {}
    assert np.count_nonzero(total) == 10


@FEEDBACK
def test_a_memory_that_does_not_fit_is_dropped_and_one_that_is_not_asked_for_kept(codec):
    left = np.full(60, 1e3, np.float32)
    memory = {"/a": left, "/b": left, "/c": left}
    tree = {"a": np.ones((6, 10), np.float32), "c": np.ones(1, np.float32)}
    _, back, after = compress(codec, tree, memory, rng())
    assert back["a"].max() == 1
    assert sorted(after) == ["/a", "/b"]
    assert after["/b"] is left
    assert after["/a"].shape == (6, 10)


@FEEDBACK
def test_paths_name_one_place(codec):
    array = np.ones(60, np.float32)
    tree = {"a": {"b": array}, "a/b": array, "a~1b": array, "": [array, (array,)]}
    memory = compress(codec, tree, {}, rng())[2]
    assert sorted(memory) == ["//0", "//1/0", "/a/b", "/a~01b", "/a~1b"]


@FEEDBACK
def test_a_sum_that_overflows_is_refused(codec):
    array = np.full(60, 3e38, np.float32)
    memory = compress(codec, array, {}, rng())[2]
    with pytest.raises(ValueError, match="the tree holds values that are not finite"):
        codec.encode(array, memory, rng())
