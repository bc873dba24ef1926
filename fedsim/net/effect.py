"""Effect: something that disturbs transfers, links or clients.

An effect is a frozen dataclass of options and holds no state.  It may change each transfer before it starts, drive all
clients from one process beside them, limit how long a busy client stays, and replace what chosen clients send by other
values of the same size.  Several effects add up: each applies to what those before it in the scenario's list have left.
"""

import math
from collections.abc import Callable, Generator, Mapping
from typing import ClassVar, Protocol

import numpy as np
import simpy

from fedsim.core.errors import UserError
from fedsim.net.floats import Array
from fedsim.net.node import Nodes
from fedsim.net.service import Service
from fedsim.net.traits import Traits
from fedsim.net.transfer import Transfer

Drive = Generator[simpy.Event, object, None]
Forge = Callable[[Array, np.random.Generator], Array]  # replaces an array of floats by one of the same shape and type


class Shared(Protocol):
    """A link that several clients share."""

    capacity: float  # bytes/s; infinite if unlimited

    def set_capacity(self, capacity: float) -> None:
        """Change the capacity from now on."""
        ...


class Network(Protocol):
    """What an effect may change: the clients' rows, the server, the shared links by name ("ingress", "egress", ...)."""

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
        """Whether the server is up; None among peers, which have no server."""
        ...

    @property
    def traits(self) -> Traits:
        """Where the clients are and what they hold."""
        ...


class Effect:
    """The contract of the files in `effects/`.

    Every hook is optional, and a class declares those that it overrides: `shapes = True` for `shape`, and likewise
    `drives`, `limits_stay` and `forges`.  `check_hooks` refuses an override that is not declared, because it would
    never be called.
    """

    shapes: ClassVar[bool] = False  # overrides `shape`
    drives: ClassVar[bool] = False  # overrides `drive`
    limits_stay: ClassVar[bool] = False  # overrides `stay`
    forges: ClassVar[bool] = False  # overrides `forge`
    calm: ClassVar[bool] = False  # its `drive` takes clients on and offline, but changes no rate, pace or capacity
    on_messages: ClassVar[bool] = False  # has no meaning without messages between clients and others

    def shape(self, transfer: Transfer, rng: np.random.Generator) -> None:
        """Change a transfer once, before it starts: its `jitter`, `loss_up`, `loss_down` or `rtt`.

        `rng` is the transfer's own stream; it behaves like a Generator and is created when it is first used.
        """
        return

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return a process that acts on the network's nodes, shared links or server over time, or None.

        It calls `nodes.sleep`, `wake`, `leave`, `scale`, `slow` or `set_rate`, a link's `set_capacity`, or the
        service's `halt` and `resume`.  There is one process for all nodes, not one per node, so that idle clients
        remain rows.  Rates that are known to change at certain times need no process: see `nodes.rates.follow`.
        """
        return None

    def forge(self, clients: int, rng: np.random.Generator) -> Mapping[int, Forge]:
        """Return the clients, out of so many, that send forged values, each with its function; called once.

        The function is given every array of floats of an upload, or of a share between peers, and the client's stream.
        """
        return {}

    def stay(self, rng: np.random.Generator) -> float:
        """Return the seconds of work after which a busy client leaves; infinity if it does not."""
        return math.inf


HOOKS = {"shape": "shapes", "drive": "drives", "stay": "limits_stay", "forge": "forges"}  # methods, and declarations


SHORTEST = 1e-6  # seconds of a spell or a period: changes that come faster would keep the clock from going on
PERIODS = ("every", "length", "online", "offline", "on", "off", "day")


def check_times(effect: Effect) -> None:
    """Raise UserError if the effect changes something so often that a run would hardly go on."""
    rate = getattr(effect, "rate", None)
    times = {name: getattr(effect, name, None) for name in PERIODS}
    times |= {"rate": 1 / rate} if isinstance(rate, float) and rate > 0 else {}
    for name, seconds in times.items():
        if isinstance(seconds, int | float) and 0 < seconds < SHORTEST:
            what = f"option '{name}' stands for {seconds:g} s at a time"
            raise UserError(f"{type(effect).__name__.lower()}: {what}; {SHORTEST:g} s is the least")


def check_hooks(effect: Effect) -> None:
    """Raise UserError if an effect's class does not declare exactly the hooks that it overrides."""
    kind = type(effect)
    for hook, flag in HOOKS.items():
        overrides = getattr(kind, hook) is not getattr(Effect, hook)
        if overrides and not getattr(kind, flag):
            raise UserError(
                f"{kind.__name__} ({kind.__module__}) overrides '{hook}' but does not declare it, so it would never be "
                f"called; add the line '{flag} = True' to the class"
            )
        if getattr(kind, flag) and not overrides:
            raise UserError(
                f"{kind.__name__} ({kind.__module__}) declares '{flag} = True' but does not override '{hook}'; define "
                "the method, or remove the line"
            )
