import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedsim.core import units

POSITIVE = st.floats(1e-9, 1e15, allow_nan=False)
ALL = [pytest.param(d, id=d.name) for d in units.DIMENSIONS]


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        (units.SECONDS, "50 ms", 0.05),
        (units.SECONDS, "10 min", 600.0),
        (units.SECONDS, "0.25 s", 0.25),
        (units.SECONDS, 0, 0.0),
        (units.BYTES, "0", 0.0),
        (units.SECONDS, "300us", 0.0003),
        (units.SECONDS, "3 µs", 3e-6),
        (units.RATE, "10 Mbit/s", 10e6),
        (units.RATE, "1 MB/s", 8e6),
        (units.RATE, "1 KiB/s", 8192.0),
        (units.BYTES, "64 kB", 64_000.0),
        (units.BYTES, "2 GiB", 2.0**31),
        (units.FLOPS, "2 GFLOP/s", 2e9),
        (units.FREQUENCY, "0.5 per hour", 0.5 / 3600),
        (units.FREQUENCY, "2/min", 2 / 60),
        (units.FREQUENCY, "0.01/s", 0.01),
    ],
)
def test_texts_mean_si_values(dimension, text, value):
    assert dimension.parse(text) == value


@pytest.mark.parametrize("dimension", ALL)
@given(value=POSITIVE)
def test_a_value_written_as_text_reads_back_exactly(dimension, value):
    assert dimension.parse(dimension.text(value)) == value


@given(number=st.integers(1, 10**6), dimension=st.sampled_from(units.DIMENSIONS), pick=st.randoms())
def test_the_same_quantity_in_two_units_is_the_same_float(number, dimension, pick):
    first, second = pick.choice(sorted(dimension.units)), pick.choice(sorted(dimension.units))
    other = number * dimension.units[first] / dimension.units[second]
    if other.denominator == 1:
        assert dimension.parse(f"{number} {first}") == dimension.parse(f"{other.numerator} {second}")


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [
        (units.SECONDS.parse, "50 Mbit/s", "'Mbit/s' is a unit of rate (units of a time: s, ms"),
        (units.RATE.parse, "10 mbit/s", "did you mean 'Mbit/s'?"),
        (units.RATE.parse, "10 MB", "did you mean 'MB/s'?"),
        (units.RATE.parse, "0 bit/s", "more than zero"),
        (units.RATE.parse, "-5 bit/s", "more than zero"),
        (units.RATE.parse, 0, "more than zero"),
        (units.SECONDS.parse, 50, "50 has no unit: write '50 s' or '50 ms'"),
        (units.SECONDS.parse, "0.05", "'0.05' has no unit: write '0.05 s' or '0.05 ms'"),
        (units.RATE.parse, 5, "write '5 Mbit/s' or '5 kbit/s'"),
        (units.nbytes, 1000, "write '1000 B' or '1 kB'"),
        (units.FLOPS.parse, 1e9, "1000000000.0 has no unit: write '1000000000.0 FLOP/s' or '1 GFLOP/s'"),
        (units.BYTES.parse, "600000", "'600000' has no unit: write '600000 B' or '600 kB'"),
        (units.RATE.parse, 20, "20 has no unit: write '20 Mbit/s' or '20 kbit/s'"),
        (units.FREQUENCY.parse, 2, "write '2 /s' or '2 /min'"),
        (units.SECONDS.draw, "uniform(10, 50 ms)", "'10' has no unit"),
        (units.SECONDS.draw, 0.05, "0.05 has no unit"),
        (units.clock, "poisson(10)", "'10' has no unit"),
        (units.amount, 2.5, "whole number"),
        (units.SECONDS.parse, "-1 s", "zero or more"),
        (units.SECONDS.parse, "fast", "write a number with a unit"),
        (units.SECONDS.parse, True, "write a number with a unit"),
        (units.SECONDS.parse, float("nan"), "must be finite"),
        (units.fraction, 1.3, "between 0 and 1"),
        (units.fraction, 30, "did you mean '30 %'?"),
        (units.fraction, "3 s", "it has no unit 's'"),
        (units.count, 0, "at least 1"),
        (units.count, 2.5, "whole number"),
        (units.count, False, "not a count"),
        (units.nbytes, "0.5 B", "not a whole number of bytes"),
        (units.nbytes, "2000000 GB", "too large for a size: write 1,000,000 GB at most"),
        (units.every, 20, "write '20 updates' or '20 s'"),
        (units.every, "0 updates", "at least 1"),
        (units.every, "0 s", "more than zero"),
        (units.every, "5 rounds", "write '20 updates' or '10 min'"),
        (units.SECONDS.draw, "lognorml(1 s, 1)", "did you mean 'lognormal'?"),
        (units.SECONDS.draw, "lognormal(1 s)", "is written lognormal(median, sigma)"),
        (units.SECONDS.draw, "lognormal(1 s, -1)", "is not a sigma"),
        (units.SECONDS.draw, "lognormal(1 s, 2 s)", "is not a sigma"),
        (units.SECONDS.draw, "uniform(2 s, 1 s)", "uniform(1 s, 2 s)"),
        (units.SECONDS.draw, "choice()", "is written choice"),
        (units.RATE.draw, "normal(5 ms, 1 ms)", "is a unit of time"),
        (units.RATE.draw, units.SECONDS.draw("5 ms"), "'5 ms' is not a rate"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_mend(read, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(value)


@st.composite
def draws(pick):
    dimension = pick(st.sampled_from(units.DIMENSIONS))
    a, b = sorted([pick(POSITIVE), pick(POSITIVE)])
    kind = pick(st.sampled_from(["constant", *units.DISTRIBUTIONS]))
    values = {"constant": (a,), "exponential": (a,), "lognormal": (a, pick(st.floats(0, 5))), "choice": (b, a, b)}
    return dimension, units.Draw(kind, values.get(kind, (a, b)), dimension.base)


@given(draws())
def test_a_draw_written_as_text_reads_back_exactly(drawn):
    dimension, draw = drawn
    assert dimension.draw(str(draw)) == draw


@given(draws(), st.integers(0, 50), st.integers(0, 2**32))
def test_samples_are_as_many_as_wanted_and_never_negative(drawn, size, seed):
    sample = drawn[1].sample(np.random.default_rng(seed), size)
    assert sample.shape == (size,)
    assert sample.dtype == np.float64
    assert (sample >= 0).all()


@pytest.mark.parametrize(
    ("text", "median", "low", "high"),
    [
        ("3 s", 3, 3, 3),
        ("lognormal(2 s, 0.5)", 2, 0, np.inf),
        ("uniform(1 s, 3 s)", 2, 1, 3),
        ("normal(5 s, 1 s)", 5, 0, np.inf),
        ("exponential(1 s)", np.log(2), 0, np.inf),
        ("choice(1 s, 2 s, 9 s)", 2, 1, 9),
    ],
)
def test_samples_follow_their_distribution(text, median, low, high):
    sample = units.SECONDS.draw(text).sample(np.random.default_rng(0), 40_001)
    assert np.median(sample) == pytest.approx(median, rel=0.02)
    assert sample.min() >= low
    assert sample.max() <= high


def test_a_normal_far_in_the_negative_is_drawn_again_not_clipped():
    sample = units.SECONDS.draw("normal(0 s, 1 s)").sample(np.random.default_rng(0), 20_000)
    assert (sample > 0).all()
    assert sample.mean() == pytest.approx(np.sqrt(2 / np.pi), rel=0.02)


def test_annotated_types_parse_and_dump():
    assert TypeAdapter(units.Every).validate_python("20 updates") == units.Updates(20)
    assert TypeAdapter(units.Every).dump_python(600.0, mode="json") == "10 min"
    assert TypeAdapter(units.Bytes).dump_python(2**30, mode="json") == "1 GiB"
    assert TypeAdapter(units.Fraction).validate_python("30 %") == 0.3
    assert TypeAdapter(units.SecondsDraw).dump_python(units.SECONDS.draw("50 ms"), mode="json") == "50 ms"


@pytest.mark.parametrize(
    ("one", "other"),
    [("50 ms", 0.05), ("30 %", 0.3), ("1 min", "60 s"), (1, 1.0), ("lognormal(1 s, 1)", "lognormal(1000 ms, 1.0)")],
)
def test_equal_meanings_have_one_canonical_form(one, other):
    assert units.canonical({"key": [one]}) == units.canonical({"key": [other]})


@pytest.mark.parametrize(
    ("one", "other"), [("power", "fedavg"), ("1 update", 1), (True, 1), (None, 0), ("1 s", "1 ms")]
)
def test_different_meanings_differ(one, other):
    assert json.dumps(units.canonical(one)) != json.dumps(units.canonical(other))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20 updates", units.Updates(20)),
        ("10 min", 600.0),
        ("poisson(10 min)", units.Draw("exponential", (600.0,), "s")),
        ("exponential(600 s)", units.Draw("exponential", (600.0,), "s")),
        ("lognormal(10 min, 0.5)", units.Draw("lognormal", (600.0, 0.5), "s")),
        ("uniform(5 min, 15 min)", units.Draw("uniform", (300.0, 900.0), "s")),
    ],
)
def test_a_clock_is_a_stretch_or_a_draw_of_gaps(text, value):
    adapter = TypeAdapter(units.Clock)
    assert adapter.validate_python(text) == value
    assert adapter.validate_python(adapter.dump_python(value, mode="json")) == value
    assert isinstance(value, float) or adapter.validate_python(value) == value  # a bare number could be updates


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (20, "write '20 updates' or '20 s'"),
        ("poisson(0 s)", "all its gaps would be zero"),
        ("lognormal(0 s, 1)", "all its gaps would be zero"),
        ("choice(0 s, 0 s)", "all its gaps would be zero"),
        ("poisson(2 updates)", "not a unit known here"),
        ("poisson()", "poisson is written poisson(mean)"),
        ("poison(1 s)", "did you mean 'poisson'?"),
        ("uniforme(1 s, 2 s)", "did you mean 'uniform'?"),
        (units.RATE.draw("1 Mbit/s"), "is not a time"),
    ],
)
def test_what_is_no_clock_is_refused_with_the_mend(value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        units.clock(value)


def test_clocks_that_mean_the_same_make_the_same_point():
    assert units.canonical("poisson(10 min)") == units.canonical("exponential(600 s)")
    assert units.canonical("poisson(10 min)") != units.canonical("10 min")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1e999 s", "'1e999' is not a time: it is too large"),
        ("1e999999999 s", "'1e999999999' is not a time: it is too large"),
        (10**500, "'1e400' is not a time: it is too large"),
        ("1e308 d", "'1e308 d' is not a time: it is too large"),
        ("9" * 5000, f"'{'9' * 20}' is not a time: it is too large"),
    ],
)
def test_numbers_beyond_a_floats_range_are_refused_at_once(value, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        units.SECONDS.parse(value)


def test_numbers_too_small_for_a_float_are_zero():
    assert units.SECONDS.parse("1e-999999999 s") == 0.0


def test_a_sigma_beyond_a_floats_range_is_refused():
    with pytest.raises(ValueError, match="is not a sigma: it is the spread of the logarithm, 20 at most"):
        units.SECONDS.draw("lognormal(1 s, 21)")
