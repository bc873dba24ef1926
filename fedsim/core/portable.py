"""Elementary functions of arrays whose values do not depend on the processor.

NumPy computes logarithms, exponentials and powers of arrays with the widest instructions that the processor
has, and with AVX-512 they differ in the last bit from those without.  Simulated time must not, so here every
number goes through the C library, some ten times slower.  Beyond a function's range values are those of
NumPy: infinite, or NaN.

With `kernels.py`, which does the same for torch, this is what is promised: the same tables on every x86-64
processor with AVX2 and FMA (x86-64-v3: Intel since 2013, AMD since 2015), with the same versions of the
libraries and of the C library.  Without those instructions the C library rounds otherwise, and so do other C
libraries and architectures; there, values differ by rounding.  NumPy's products of matrices round by
processor too, and no table hangs on one: sums are written out.  Single sums, products, quotients and square
roots are exact to the last bit anyway.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fedsim.core.arrays import Array, Floats


def exp(numbers: npt.ArrayLike) -> Floats:
    """Return e to the power of each number; infinity where that is too large."""
    return _each(math.exp, numbers)


def log(numbers: npt.ArrayLike) -> Floats:
    """Return natural logarithms: of zero minus infinity, of negative numbers NaN."""
    return _each(math.log, numbers, pole=0.0)


def log2(numbers: npt.ArrayLike) -> Floats:
    """Return logarithms to base 2 of numbers above zero."""
    return _each(math.log2, numbers)


def log1p(numbers: npt.ArrayLike) -> Floats:
    """Return the logarithms of one plus each number."""
    return _each(math.log1p, numbers, pole=-1.0)


def expm1(numbers: npt.ArrayLike) -> Floats:
    """Return e to the power of each number, less one."""
    return _each(math.expm1, numbers)


def cbrt(numbers: npt.ArrayLike) -> Floats:
    """Return cubic roots."""
    return _each(math.cbrt, numbers)


def arctan(numbers: npt.ArrayLike) -> Floats:
    """Return arcs of the tangent."""
    return _each(math.atan, numbers)


def power(numbers: npt.ArrayLike, exponents: float | Array) -> Floats:
    """Return numbers, none below zero, to the power of one exponent or of one each."""
    if isinstance(exponents, float | int) and exponents in (0.5, 1.0, 2.0):  # exact in NumPy
        return np.asarray(numbers, dtype=np.float64) ** exponents
    given, wanted = np.broadcast_arrays(np.asarray(numbers, np.float64), np.asarray(exponents, np.float64))
    pairs = zip(given.ravel().tolist(), wanted.ravel().tolist(), strict=True)
    return np.array([_power(*pair) for pair in pairs], dtype=np.float64).reshape(given.shape)


def _each(function: Callable[[float], float], numbers: npt.ArrayLike, pole: float = math.nan) -> Floats:
    given = np.asarray(numbers, dtype=np.float64)
    listed = given.ravel().tolist()
    try:
        values = [function(number) for number in listed]
    except (OverflowError, ValueError):
        values = [_beyond(function, number, pole) for number in listed]
    return np.array(values, dtype=np.float64).reshape(given.shape)


def _beyond(function: Callable[[float], float], number: float, pole: float) -> float:
    """Return the value of a function that falls to minus infinity at its pole, and has none below it."""
    try:
        return function(number)
    except OverflowError:
        return math.inf
    except ValueError:
        return -math.inf if number == pole else math.nan


def _power(number: float, exponent: float) -> float:
    if number == 0 and exponent < 0:
        return math.inf
    if exponent == 0.5 and number >= 0:
        return math.sqrt(number)  # rounded correctly, as in NumPy; a power need not be
    if exponent == 2:
        return number * number
    try:
        return math.pow(number, exponent)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan
