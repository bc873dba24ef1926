"""Lone: many messages at once, none of which is hindered by another, as a model takes and returns them; and access."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedsim.net.transfer import PLAIN, Terms

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Access(NamedTuple):
    """The links of a client's flow in bytes/s: its own, the reverse one, the server's; `flows` share its own."""

    rate: float
    reverse: float
    server: float
    flows: int


class Rows(NamedTuple):
    """K unhindered messages, each a row (K,): bytes, round trip in seconds with mean jitter, bytes/s, losses.

    `server` is the rate of the slowest link that they share, in bytes/s, `terms` those of their transport.
    """

    nbytes: Ints
    trip: Floats
    rate: Floats
    reverse: Floats
    server: float
    loss_up: Floats
    loss_down: Floats
    terms: Terms = PLAIN


class Lone(NamedTuple):
    """How K unhindered messages proceed, each a row (K,).

    `size` wire bytes start `before` seconds after the sending at the rate `fast` (bytes/s).  After the first `part`
    bytes a loss is noticed, if there is one, and the rest is sent at the rate `slow`.  The message arrives `late`
    seconds after what its last byte takes.
    """

    before: Floats
    size: Floats
    part: Floats
    fast: Floats
    slow: Floats
    late: Floats
