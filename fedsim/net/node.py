"""Nodes: every client as a row of arrays: its delay, access link, losses, presence and slowness.

An idle client costs its row and nothing else.  An effect that holds a client back does so in its own name
(`by`): a client is online while nothing keeps it asleep (`presence`), and its rates (`rates`) and its
slowness are products over all effects, so that several effects on one client do not undo each other.  Not
modelled: delays that change over time, clients with several access links, an inbox (a sender waits on the
delivery).
"""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedsim.core.arrays import Bools, Floats
from fedsim.net.presence.presence import Presence
from fedsim.net.presence.rates import AccessRates, set_factor

Change = Literal["sleep", "wake", "leave", "pace"]
ChangeCallback = Callable[[int, Change], None]
BELOW_ONE = ("loss_up", "loss_down")


class Nodes:
    """K clients, numbered from 0, each a row of: `latency` seconds one way, `uplink` and `downlink` bit/s, `online`.

    Further rows, 0 unless given: `jitter` (the longest extra delay of a packet, in seconds), `loss_up` and
    `loss_down` (of a packet), `up_burst` and `down_burst` (bytes that the token bucket of an idle access link
    lets pass at once). `up_buffer` and `down_buffer` (bytes that queue in front of the access link) are NaN
    if not given, and then derived from the rate.  `slowdown` is how many times longer than usual a client
    computes.
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
        """Take one number per client for each row (optional rows may be one number for all); all clients are online.

        Raises ValueError if a number is negative, infinite or missing, a loss is not below 1, or lengths
        differ.
        """
        self.latency = _column("latency", latency)
        self.rates = AccessRates(_column("uplink", uplink), _column("downlink", downlink))
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
        self.presence = Presence(count, self._on_presence)
        self._asleep: set[tuple[int, int]] = set()  # clients that are kept asleep, and by whom
        self._slow: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._watchers: list[ChangeCallback] = []

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self.latency)

    @property
    def uplink(self) -> Floats:
        """The present rates of all clients towards the network (K,) in bit/s; read only."""
        return self.rates.all(upload=True) if self.rates.followers else self.rates.current[True]

    @property
    def downlink(self) -> Floats:
        """The present rates of all clients from the network (K,) in bit/s; read only."""
        return self.rates.all(upload=False) if self.rates.followers else self.rates.current[False]

    @property
    def online(self) -> Bools:
        """Which clients are online now (K,); read only."""
        return self.presence.online() if self.presence.plans else self.presence.current

    def is_online(self, client: int) -> bool:
        """Return whether a client is online now; for a single client this is faster than `online`."""
        return self.presence.is_online(client)

    def queueing(self, client: int, upload: bool) -> tuple[float | None, float]:
        """Return the buffer (None: derived from the rate) and the token bucket of an access link, in bytes."""
        buffers, bursts = (self.up_buffer, self.up_burst) if upload else (self.down_buffer, self.down_burst)
        buffer = buffers.item(client)
        return None if math.isnan(buffer) else buffer, bursts.item(client)

    def watch(self, callback: ChangeCallback, idle: bool = True) -> None:
        """Call the callback with (client, change) whenever a client changes, in order of registration.

        Without `idle` planned changes of presence may be skipped for clients that are not attended to
        (`presence`).
        """
        self._watchers.append(callback)
        if idle:
            self.presence.notify_all()

    def sleep(self, client: int, by: object = None) -> None:
        """Take a client offline, which cuts all its transfers, until `by` and all others wake it."""
        self._check(client)
        if (client, id(by)) not in self._asleep:
            self._asleep.add((client, id(by)))
            self.presence.keep(client, asleep=True)

    def wake(self, client: int, by: object = None) -> None:
        """Let a client come back online if nothing else keeps it asleep; no effect if it is online."""
        self._check(client)
        if (client, id(by)) in self._asleep:
            self._asleep.remove((client, id(by)))
            self.presence.keep(client, asleep=False)

    def leave(self, client: int) -> None:
        """Let a client leave in the middle of its work: its transfers are cut, it stays online.

        No effect if it is offline.
        """
        self._check(client)
        if self.is_online(client):
            self._notify(client, "leave")

    def set_rate(self, client: int, uplink: float | None = None, downlink: float | None = None) -> None:
        """Change a client's access rates (bit/s; 0 is an outage) at once, also for bytes under way.

        Factors set by `scale` still apply.  Raises ValueError for a rate that is negative or not finite.
        """
        self._check(client)
        self.rates.set(client, uplink, downlink)

    def scale(self, client: int, by: object, *, uplink: float = 1.0, downlink: float = 1.0) -> None:
        """Multiply a client's rates by these factors until the same `by` sets others; 0 is an outage, 1 removes it.

        Raises ValueError for a factor that is negative or not finite.
        """
        self._check(client)
        if not (math.isfinite(uplink + downlink) and min(uplink, downlink) >= 0):
            raise ValueError(f"client {client} cannot have {uplink} and {downlink} times its rates")
        self.rates.scale(client, by, (uplink, downlink))

    def slow(self, client: int, by: object, factor: float = 1.0) -> None:
        """Make a client compute `factor` times longer until the same `by` sets another factor; 1 removes it.

        Raises ValueError for a factor that is not above 0 or not finite.
        """
        self._check(client)
        if not (math.isfinite(factor) and factor > 0):
            raise ValueError(f"client {client} cannot take {factor} times as long")
        set_factor(self._slow, client, by, None if factor == 1 else factor)
        self.slowdown[client] = math.prod(self._slow.get(client, {}).values())
        self._notify(client, "pace")

    def _check(self, client: int) -> None:
        if not 0 <= client < len(self):
            raise IndexError(f"there is no client {client}: they are numbered from 0 to {len(self) - 1}")

    def _on_presence(self, client: int, online: bool) -> None:
        self._notify(client, "wake" if online else "sleep")

    def _notify(self, client: int, what: Change) -> None:
        for callback in self._watchers:
            callback(client, what)


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
