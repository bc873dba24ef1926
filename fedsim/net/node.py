"""Nodes: every client as a row of arrays: its delay, its access link, its losses, whether it is online, how slowed.

An idle client costs its row and nothing else.  Whoever holds a client back (an effect) says so in its own name
(`by`): a client is online while nobody keeps it asleep (`presence`), and its rates (`rates`) and its slowness are
products over all of them, so that several effects on one client do not undo one another.  Not modelled: delays that
change over time, a client with several access links, an inbox (whoever sends waits on the delivery).
"""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from fedsim.net.presence import Presence
from fedsim.net.rates import Rates

Change = Literal["sleep", "wake", "leave", "pace"]
Watcher = Callable[[int, Change], None]
T = TypeVar("T")
Floats = npt.NDArray[np.float64]
BELOW_ONE = ("loss_up", "loss_down")


class Nodes:
    """K clients, numbered from 0, each a row of: `latency` seconds one way, `uplink` and `downlink` bit/s, `online`.

    Further rows, 0 unless given: `jitter` (the longest extra delay of a packet, in seconds), `loss_up` and `loss_down`
    (of a packet), `up_burst` and `down_burst` (bytes that the token bucket of an idle access link lets pass at once).
    `up_buffer` and `down_buffer` (bytes that queue before the access link) are NaN where not given, and then follow
    from the rate.  `slowdown` tells how many times longer than usual a client computes.
    """

    def __init__(
        self,
        latency: npt.ArrayLike,
        uplink: npt.ArrayLike,
        downlink: npt.ArrayLike,
        *,
        jitter: npt.ArrayLike = 0.0,
        loss_up: npt.ArrayLike = 0.0,
        loss_down: npt.ArrayLike = 0.0,
        up_burst: npt.ArrayLike = 0.0,
        down_burst: npt.ArrayLike = 0.0,
        up_buffer: npt.ArrayLike = math.nan,
        down_buffer: npt.ArrayLike = math.nan,
    ) -> None:
        """Take one number a client each (the optional ones may be one for all); all are online.

        Raises ValueError where a number is negative, infinite or missing, where a loss is not below 1, or where the
        lengths differ.
        """
        self.latency = _column("latency", latency)
        self.rates = Rates(_column("uplink", uplink), _column("downlink", downlink))
        if not len(self.latency) == len(self.uplink) == len(self.downlink):
            counts = f"{len(self.latency)} latencies, {len(self.uplink)} uplinks, {len(self.downlink)} downlinks"
            raise ValueError(f"each client needs one of each, not {counts}")
        count = len(self.latency)
        self.jitter = _column("jitter", jitter, count)
        self.loss_up = _column("loss_up", loss_up, count)
        self.loss_down = _column("loss_down", loss_down, count)
        self.up_burst = _column("up_burst", up_burst, count)
        self.down_burst = _column("down_burst", down_burst, count)
        self.up_buffer = _column("up_buffer", up_buffer, count, missing=True)
        self.down_buffer = _column("down_buffer", down_buffer, count, missing=True)
        self.slowdown: Floats = np.ones(count)
        self.presence = Presence(count, self._moved)
        self._bits: dict[int, int] = {}  # a bit for each that has kept a client asleep
        self._asleep: npt.NDArray[np.uint64] = np.zeros(count, dtype=np.uint64)
        self._slow: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._watchers: list[Watcher] = []

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self.latency)

    @property
    def uplink(self) -> Floats:
        """The present rates of all clients towards the network (K,) in bit/s; to be read only."""
        return self.rates.all(upload=True)

    @property
    def downlink(self) -> Floats:
        """The present rates of all clients from the network (K,) in bit/s; to be read only."""
        return self.rates.all(upload=False)

    @property
    def online(self) -> npt.NDArray[np.bool_]:
        """Who is online now (K,); to be read only."""
        return self.presence.online()

    def is_online(self, client: int) -> bool:
        """Return whether a client is online now; of one client this is quicker than `online`."""
        return self.presence.is_online(client)

    def watch(self, callback: Watcher, idle: bool = True) -> None:
        """Have the callback called at the moment with (client, what has happened); first come, first told.

        Without `idle` it need not be told who goes and comes as planned while nobody attends to it (`presence`).
        """
        self._watchers.append(callback)
        if idle:
            self.presence.hear_all()

    def watch_rates(self, callback: Callable[[int], None]) -> None:
        """Have the callback called with the client whose rates have changed.

        Changes of a course (`rates`) are not told of a client over whose links nothing moves.
        """
        self.rates.watch(callback)

    def sleep(self, client: int, by: object = None) -> None:
        """Take a client offline, which cuts all its transfers; it stays so until `by` and all others wake it."""
        self._check(client)
        if not self._asleep[client] & (bit := self._bit(by)):
            self._asleep[client] |= bit
            self.presence.keep(client, asleep=True)

    def wake(self, client: int, by: object = None) -> None:
        """Let a client come back online, where nobody else keeps it asleep; nothing happens if it is online."""
        self._check(client)
        if self._asleep[client] & (bit := self._bit(by)):
            self._asleep[client] &= ~bit
            self.presence.keep(client, asleep=False)

    def leave(self, client: int) -> None:
        """Let a client leave in the middle of its work: its transfers are cut, it stays online.

        Nothing happens if it is offline.
        """
        self._check(client)
        if self.is_online(client):
            self._tell(client, "leave")

    def set_rate(self, client: int, uplink: float | None = None, downlink: float | None = None) -> None:
        """Change a client's access rates (bit/s; 0 is an outage), at once also for the bytes under way.

        What `scale` has said goes on to apply.  Raises ValueError for a rate that is negative or not finite.
        """
        self._check(client)
        self.rates.set(client, uplink, downlink)

    def scale(self, client: int, by: object, uplink: float = 1.0, downlink: float = 1.0) -> None:
        """Multiply a client's rates by these factors until the same `by` says otherwise; 0 is an outage, 1 undoes.

        Raises ValueError for a factor that is negative or not finite.
        """
        self._check(client)
        if not (math.isfinite(uplink + downlink) and min(uplink, downlink) >= 0):
            raise ValueError(f"client {client} cannot have {uplink} and {downlink} times its rates")
        self.rates.scale(client, by, (uplink, downlink))

    def slow(self, client: int, by: object, factor: float = 1.0) -> None:
        """Make a client compute `factor` times longer until the same `by` says otherwise; 1 undoes.

        Raises ValueError for a factor that is not above 0 or not finite.
        """
        self._check(client)
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"client {client} cannot take {factor} times as long")
        _note(self._slow, client, by, None if factor == 1 else factor)
        self.slowdown[client] = math.prod(self._slow.get(client, {}).values())
        self._tell(client, "pace")

    def _check(self, client: int) -> None:
        if not 0 <= client < len(self):
            raise IndexError(f"there is no client {client}: they are numbered from 0 to {len(self) - 1}")

    def _bit(self, by: object) -> np.uint64:
        number = self._bits.setdefault(id(by), len(self._bits))
        if number > 63:
            raise ValueError("more than 64 effects take clients offline")
        return np.uint64(1 << number)

    def _moved(self, client: int, online: bool) -> None:
        self._tell(client, "wake" if online else "sleep")

    def _tell(self, client: int, what: Change) -> None:
        for callback in self._watchers:
            callback(client, what)


def _note(table: defaultdict[int, dict[int, T]], client: int, by: object, value: T | None) -> None:
    if value is None:
        table[client].pop(id(by), None)
        if not table[client]:
            del table[client]
    else:
        table[client][id(by)] = value


def _column(name: str, values: npt.ArrayLike, count: int | None = None, missing: bool = False) -> Floats:
    column = np.array(values, dtype=np.float64, ndmin=1)
    if count is not None and column.shape == (1,):
        column = np.repeat(column, count)
    sound = (column >= 0) & np.isfinite(column) | (np.isnan(column) & missing)
    if column.ndim != 1 or not sound.all() or (count is not None and len(column) != count):
        raise ValueError(f"{name} must be one finite number a client, none of them negative")
    if name in BELOW_ONE and (column >= 1).any():
        raise ValueError(f"{name} must be below 1")
    return column
