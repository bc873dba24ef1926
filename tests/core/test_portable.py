"""Elementary functions agree with NumPy to rounding, beyond their ranges too, and with the C library to the bit."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedsim.core import portable

NUMBERS = st.lists(st.floats(-800, 800) | st.sampled_from([0.0, -1.0, math.inf, 1e308]), max_size=6)
ODD = np.array([0.0, -0.0, 1.0, -1.0, -2.0, math.inf, -math.inf, math.nan, 1e308, 5e-324, 710.0])


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "expm1", "cbrt", "arctan"])
@given(NUMBERS)
def test_functions_are_numpys(name, numbers):
    with np.errstate(all="ignore"):
        for given_ in (np.array(numbers), ODD, ODD.reshape(11, 1)):
            found, wanted = getattr(portable, name)(given_), getattr(np, name)(given_)
            assert found.shape == wanted.shape
            np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-300, equal_nan=True)


@pytest.mark.parametrize("exponent", [0.5, 2.0, 0.75, 4 / 3, 0.0, -1.0, 700.0])
@given(st.lists(st.floats(0, 1e300), max_size=6))
@example([1.160777160775696e16])
@example([6.0972327006581496e16])
def test_powers_are_numpys(exponent, numbers):
    with np.errstate(all="ignore"):
        given_ = np.array([*numbers, 0.0, math.inf])
        np.testing.assert_allclose(portable.power(given_, exponent), given_**exponent, rtol=1e-13, atol=1e-300)
        each = np.full(len(given_), exponent)
        np.testing.assert_array_equal(portable.power(given_, each), portable.power(given_, exponent))


def test_values_are_the_c_librarys():
    numbers = np.random.default_rng(0).uniform(0.01, 30, 20_000)
    for name in ("exp", "log", "log1p", "expm1", "cbrt"):
        function = getattr(math, name)
        assert getattr(portable, name)(numbers).tolist() == [function(number) for number in numbers.tolist()]
    assert portable.power(numbers, 0.75).tolist() == [math.pow(number, 0.75) for number in numbers.tolist()]
