"""Byzantine: some clients send forged values, of the same size and at the same time as the true ones."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsim.core.arrays import Array
from fedsim.core.errors import UserError
from fedsim.core.units import Fraction, Positive
from fedsim.net.effect import Effect, Forge

FACTORS = {"sign_flip": 1.0, "scaled": 10.0, "noise": 1.0}


@dataclass(frozen=True)
class Byzantine(Effect):
    """Some clients always multiply what they send by -factor or by factor, add noise to it, or send NaN.

    They are a drawn share of all clients, or those of a list.  `noise` adds to each number a normal one whose
    standard deviation is factor times the array's root mean square.  The attack applies to the arrays of
    floats of the difference in an upload, or to all those of an upload without a difference; counts and
    weights stay.  Peers send whole models, which are forged in the same way.  Not modelled: attackers that
    know of each other or of the honest clients, that lie about their counts or sizes, or that change over
    time.
    """

    on_messages: ClassVar[bool] = True

    attack: Literal["sign_flip", "scaled", "noise", "nan"]  # what these clients do to their values
    share: Fraction | None = None  # of the clients, rounded, that forge
    clients: tuple[int, ...] | None = None  # or the numbers of these clients
    factor: Positive | None = None  # if not given, 1 for sign_flip and noise, 10 for scaled

    def __post_init__(self) -> None:
        """Raise ValueError for options that exclude each other or have no meaning."""
        if (self.share is None) == (self.clients is None):
            raise ValueError("byzantine: give either 'share' (of the clients) or 'clients' (a list of their numbers)")
        if self.factor is not None and self.attack == "nan":
            raise ValueError("byzantine: option 'factor' has no meaning for the attack 'nan'; leave it out")

    def forge(self, clients: int, rng: np.random.Generator) -> Mapping[int, Forge]:
        """Return who forges and how.  Raises UserError for a client that does not exist."""
        return dict.fromkeys(self._chosen(clients, rng), self._forged)

    def _chosen(self, clients: int, rng: np.random.Generator) -> list[int]:
        if self.clients is None:
            assert self.share is not None
            return sorted(rng.choice(clients, round(self.share * clients), replace=False).tolist())
        for client in self.clients:
            if not 0 <= client < clients:
                raise UserError(f"byzantine: there is no client {client}: they are numbered from 0 to {clients - 1}")
        return sorted(set(self.clients))

    def _forged(self, array: Array, rng: np.random.Generator) -> Array:
        if self.attack == "nan":
            return np.full_like(array, math.nan)
        factor = FACTORS[self.attack] if self.factor is None else self.factor
        if self.attack == "noise":
            rms = math.sqrt(float(np.mean(np.square(array, dtype=np.float64)))) if array.size else 0.0
            return np.asarray(array + rng.normal(0.0, factor * rms, array.shape), array.dtype)
        with np.errstate(over="ignore"):  # what is too large for its type becomes infinite, and will be refused
            return np.asarray(array * array.dtype.type(-factor if self.attack == "sign_flip" else factor))
