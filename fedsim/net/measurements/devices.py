"""Devices: how far the speeds of phones lie apart, at a level that the user sets, and the peaks of four classes.

The quantiles are those of AI Benchmark 3 (float networks on the CPU, January 2020) over the models of the 279
phones of FLASH that it lists, weighted by how common a model is (`tables/NOTICES.txt`).  The spread is data;
the level is not, because it depends on framework and model: MNN trains at 1 to 100 GFLOP/s on the same phone.
So that training goes in proportion to this inference is an assumption.  Not modelled: heat, other work,
batteries, GPUs.

A class has the peak of one model in float32, of which training reaches a share that the user sets (a Redmi
Note 8 about 1 %: 2.27 GFLOP/s under DL4J).  Phones are spread around it as above; the others are all alike.

* phone: Adreno 630 of the Snapdragon 845, 727 GFLOP/s (Wikipedia, Adreno).
* laptop: Intel Iris Xe with 96 execution units, 768 lanes at 1.1 GHz, 1.69 TFLOP/s (topcpu.net).
* jetson: Orin Nano, 1,024 cores at 625 MHz, 1.28 TFLOP/s (NVIDIA, data sheet).
* server: A100, 19.5 TFLOP/s (NVIDIA, data sheet).
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np

from fedsim.core import portable, table
from fedsim.core.arrays import Floats, Strings
from fedsim.core.table import Column
from fedsim.net.measurements.profiles import divided

PEAKS: Mapping[str, float] = {"phone": 0.727e12, "laptop": 1.69e12, "jetson": 1.28e12, "server": 19.5e12}  # FLOP/s
FILE = Path(__file__).parent / "tables" / "phone_speeds.csv"


@cache
def _table() -> tuple[Floats, Floats]:
    """Return the normal scores of the quantiles, and the logarithms of the speeds over the median."""
    columns = table.read(FILE, (Column("quantile"), Column("relative_speed", low=1e-9)))
    scores = [NormalDist().inv_cdf(quantile / 100) for quantile in columns["quantile"].tolist()]
    return np.array(scores), portable.log(columns["relative_speed"])


def phones(count: int, level: float, rng: np.random.Generator) -> Floats:
    """Return the speeds of `count` phones, independently drawn, (count,); `level` is the median phone's.

    They are interpolated linearly in the logarithm against the normal score and held beyond p1 and p99.
    """
    return level * portable.exp(np.interp(rng.standard_normal(count), *_table()))


def assigned(shares: Mapping[str, float], count: int, rng: np.random.Generator) -> Strings:
    """Return the class of each of `count` devices, assigned at random in the given shares.

    Raises ValueError for shares that do not add up to 1.
    """
    return np.array([*shares])[divided(shares, count, rng, "device classes")]


def of_classes(classes: Strings, efficiency: float, rng: np.random.Generator) -> Floats:
    """Return the speeds of devices of these classes at that share of their peaks; a phone's has the phones' spread."""
    spread = phones(len(classes), 1.0, rng)
    peaks = np.array([PEAKS[name] for name in classes.tolist()], dtype=np.float64)
    return efficiency * peaks * np.where(classes == "phone", spread, 1.0)
