"""Measured devices: how far the speeds of phones lie apart, at a level that the user sets.

The quantiles are those of AI Benchmark 3 (float networks on the CPU, January 2020) over the models of the 279 phones
of FLASH that it lists, weighted by how common a model is (`measurements/NOTICES.txt`).  The spread is data; the level
is not, because it depends on framework and model: MNN trains at 1 to 100 GFLOP/s on the same phone.  So that training
goes in proportion to this inference is an assumption.  Not modelled: heat, other work, batteries, GPUs.
"""

from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from fedsim.core import table
from fedsim.core.table import Column

Floats = npt.NDArray[np.float64]
FILE = Path(__file__).parent / "measurements" / "phone_speeds.csv"


@cache
def _table() -> tuple[Floats, Floats]:
    """Return the normal scores of the quantiles, and the logarithms of the speeds over the median."""
    found = table.read(FILE, (Column("quantile"), Column("relative_speed", low=1e-9)))
    scores = [NormalDist().inv_cdf(quantile / 100) for quantile in found["quantile"].tolist()]
    return np.array(scores), np.log(found["relative_speed"])


def phones(count: int, level: float, rng: np.random.Generator) -> Floats:
    """Return the speeds of `count` phones, independently drawn, (count,); `level` is the median phone's.

    They are interpolated linearly in the logarithm against the normal score and held beyond p1 and p99.
    """
    return level * np.exp(np.interp(rng.standard_normal(count), *_table()))
