"""Names for the types of NumPy arrays.  The shape is said where an array is used."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Strings = npt.NDArray[np.str_]
