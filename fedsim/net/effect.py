"""Effect: something that disturbs transfers, links or clients.

An effect is a frozen dataclass of options and holds no state.  It may shape each transfer before it starts, drive
all the clients from one process beside them, and say how long a busy client stays.  Where effects meet, each adds
to what those before it in the scenario's list have done.
"""

import math
from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np
import simpy

if TYPE_CHECKING:
    from fedsim.net.node import Nodes
    from fedsim.net.transfer import Transfer

Drive = Generator[simpy.Event, object, None]


class Effect:
    """The contract of the files in `effects/`; every hook may be left out."""

    def shape(self, transfer: "Transfer", rng: np.random.Generator) -> None:
        """Change a transfer once, before it starts: its `jitter`, `loss_up`, `loss_down` or `rtt`."""
        return

    def drive(self, env: simpy.Environment, nodes: "Nodes", rng: np.random.Generator) -> Drive | None:
        """Return a process that calls `nodes.sleep`, `wake`, `leave` or `set_rate` as time goes by, or None.

        There is one process beside all the nodes, not one a node, so that idle clients stay rows.
        """
        return None

    def stay(self, rng: np.random.Generator) -> float:
        """Return the seconds of work after which a client that is busy leaves; infinity: it does not."""
        return math.inf
