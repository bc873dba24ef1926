"""Effect: something that disturbs transfers, links or clients.

An effect is a frozen dataclass of options and holds no state.  It may shape each transfer before it starts, drive
all the clients from one process beside them, and say how long a busy client stays.  Where effects meet, each adds
to what those before it in the scenario's list have done.  It may also change what chosen clients send, never how much.
"""

import math
from collections.abc import Callable, Generator, Mapping
from typing import ClassVar, Protocol

import numpy as np
import simpy

from fedsim.net.floats import Array
from fedsim.net.node import Nodes
from fedsim.net.service import Service
from fedsim.net.transfer import Transfer

Drive = Generator[simpy.Event, object, None]
Forge = Callable[[Array, np.random.Generator], Array]  # what becomes of an array of floats: same shape, same type


class Shared(Protocol):
    """A link that several clients share."""

    capacity: float  # bytes/s; infinite where nobody shares anything

    def set_capacity(self, capacity: float) -> None:
        """Change the capacity from now on."""
        ...


class Network(Protocol):
    """What an effect may touch: the clients' rows, the server, the shared links by name ("ingress", "egress", ...)."""

    @property
    def nodes(self) -> Nodes:
        """The clients."""
        ...

    @property
    def shared(self) -> Mapping[str, Shared]:
        """The shared links."""
        ...

    @property
    def service(self) -> Service | None:
        """Whether the server is up; None among peers, who have none."""
        ...


class Effect:
    """The contract of the files in `effects/`; every hook may be left out.

    `calm` tells that what it drives changes no rate, slowness or capacity: clients come and go, and no more.
    """

    calm: ClassVar[bool] = False
    on_messages: ClassVar[bool] = False  # True where it has no meaning without messages between clients and others

    def shape(self, transfer: Transfer, rng: np.random.Generator) -> None:
        """Change a transfer once, before it starts: its `jitter`, `loss_up`, `loss_down` or `rtt`.

        `rng` is the transfer's own stream and has all the methods of a Generator; it is made at the first of them.
        """
        return

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return a process that acts on the network's nodes, shared links or server as time goes by, or None.

        It calls `nodes.sleep`, `wake`, `leave`, `scale`, `slow` or `set_rate`, a link's `set_capacity`, or the
        service's `halt` and `resume`.  There is one process beside all the nodes, not one a node, so that idle clients
        stay rows.  Rates whose changes are known beforehand need no process: `nodes.rates.follow` takes their course.
        """
        return None

    def forge(self, clients: int, rng: np.random.Generator) -> Mapping[int, Forge]:
        """Return which of so many clients send something else than what they have computed, and what; asked once.

        The function is given every array of floats of an upload, or of a share between peers, and the client's stream.
        """
        return {}

    def stay(self, rng: np.random.Generator) -> float:
        """Return the seconds of work after which a client that is busy leaves; infinity: it does not."""
        return math.inf
