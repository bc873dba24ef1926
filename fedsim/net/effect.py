"""Effect: something that disturbs transfers, links or clients.

An effect is a frozen dataclass of options and holds no state.  It may change each transfer before it starts,
drive all clients from one process beside them, limit how long a busy client stays, and replace what chosen
clients send by other values of the same size.  Several effects add up: each applies to what those before it
in the scenario's list have left.
"""

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import simpy

from fedsim.core.arrays import Array, Ints, Strings
from fedsim.core.errors import UserError
from fedsim.net.node import Nodes
from fedsim.net.transfer import Transfer

Drive = Generator[simpy.Event, object, None]
Forge = Callable[[Array, np.random.Generator], Array]  # replaces an array of floats by one of the same shape and type


@dataclass(frozen=True, eq=False)
class Traits:
    """Where K clients are, and what they hold.

    `held` returns how many training nodes of each of C labels each client has, (K, C).  It is None if clients
    hold nothing, and called only when a run begins, since before that the data need not have been loaded.
    """

    country: Strings  # (K,), "" where unknown
    held: Callable[[], Ints] | None = None


def unknown(count: int) -> Traits:
    """Return the traits of clients of which nothing is known."""
    return Traits(np.full(count, "", dtype="U2"))


Halted = Callable[[int], None]  # called with the number of updates between the checkpoints to return to
Resumed = Callable[[], None]


class ServerStatus:
    """Whether the server is up: at first, and whenever no effect halts it; watchers are notified of both.

    `intervals` are the distances of checkpoints to keep, in updates.  Not modelled: edge aggregators that go
    down (they keep running without the server), and a server that is slow rather than down.
    """

    def __init__(self) -> None:
        """Start up, without watchers."""
        self.intervals: set[int] = set()
        self._halting: set[int] = set()
        self._watchers: list[tuple[Halted, Resumed]] = []

    @property
    def up(self) -> bool:
        """Whether nothing halts it now."""
        return not self._halting

    def watch(self, halted: Halted, resumed: Resumed = lambda: None) -> None:
        """Call `halted` whenever it is halted and `resumed` when it is up again; watchers in order of registration."""
        self._watchers.append((halted, resumed))

    def halt(self, by: object, interval: int) -> None:
        """Stop the server, which returns to its last checkpoint of this interval, until `by` resumes it."""
        self._halting.add(id(by))
        for halted, _ in self._watchers:
            halted(interval)

    def resume(self, by: object) -> None:
        """Let the server come up again if nothing else halts it."""
        self._halting.discard(id(by))
        if self.up:
            for _, resumed in self._watchers:
                resumed()


class Shared(Protocol):
    """A link that several clients share."""

    capacity: float  # bytes/s; infinite if unlimited

    def set_capacity(self, capacity: float) -> None:
        """Change the capacity from now on."""


class Network(Protocol):
    """What an effect may change: the clients' rows, the server, the shared links by name ("ingress", "egress", ...)."""

    @property
    def nodes(self) -> Nodes:
        """The clients."""

    @property
    def shared(self) -> Mapping[str, Shared]:
        """The shared links."""

    @property
    def server_status(self) -> ServerStatus | None:
        """Whether the server is up; None among peers, which have no server, and for effects that do not halt it."""

    @property
    def traits(self) -> Traits:
        """Where the clients are and what they hold."""


HOOKS = {"shape": "shapes", "drive": "drives", "stay": "limits_stay", "forge": "forges"}  # methods, and flags


class Effect:
    """The contract of the files in `effects/`: `shape`, `drive`, `forge` and `stay`, of which a class overrides some.

    A class declares the first three flags; the others say which of the methods it overrides, and are set for
    it.
    """

    changes_presence_only: ClassVar[bool] = False  # its `drive` changes no rate, pace or capacity
    halts_server: ClassVar[bool] = False  # its `drive` halts the server (`network.server_status`)
    on_messages: ClassVar[bool] = False  # has no meaning without messages between clients and others
    shapes: ClassVar[bool] = False
    drives: ClassVar[bool] = False
    limits_stay: ClassVar[bool] = False
    forges: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Note which hooks the class overrides."""
        super().__init_subclass__()
        for hook, flag in HOOKS.items():
            setattr(cls, flag, getattr(cls, hook) is not getattr(Effect, hook))

    def shape(self, transfer: Transfer, rng: np.random.Generator) -> None:
        """Change a transfer once, before it starts: its `propagation`, `jitter`, `loss_up` or `loss_down`.

        `rng` is the transfer's own stream; it behaves like a Generator and is created when it is first used.
        """
        return

    def drive(self, env: simpy.Environment, network: Network, rng: np.random.Generator) -> Drive | None:
        """Return a process that acts on the network's nodes, shared links or server over time, or None.

        It calls `nodes.sleep`, `wake`, `leave`, `scale`, `slow` or `set_rate`, a link's `set_capacity`, or
        `halt` and `resume` of the server's status.  There is one process for all nodes, not one per node, so
        that idle clients remain rows.  Rates that are known to change at certain times need no process: see
        `nodes.rates.follow`.
        """
        return None

    def forge(self, clients: int, rng: np.random.Generator) -> Mapping[int, Forge]:
        """Return the clients, out of so many, that send forged values, each with its function; called once.

        The function is given every array of floats of an upload, or of a share between peers, and the
        client's stream.
        """
        return {}

    def stay(self, rng: np.random.Generator) -> float:
        """Return the seconds of work after which a busy client leaves; infinity if it does not."""
        return math.inf


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
