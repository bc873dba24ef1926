"""Nodes: every client as a row of arrays: its delay, its access rates, whether it is online.

An idle client costs its row and nothing else.  Not modelled: delays that change over time, a client with
several access links, an inbox (whoever sends waits on the delivery).
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Watcher = Callable[[int, str], None]
Floats = npt.NDArray[np.float64]


class Nodes:
    """K clients, numbered from 0: `latency` (K,) seconds one way, `uplink` and `downlink` (K,) bit/s, `online` (K,)."""

    def __init__(self, latency: npt.ArrayLike, uplink: npt.ArrayLike, downlink: npt.ArrayLike) -> None:
        """Take one number a client each; all are online.

        Raises ValueError where a number is negative, infinite or missing, or where the lengths differ.
        """
        self.latency = _column("latency", latency)
        self.uplink = _column("uplink", uplink)
        self.downlink = _column("downlink", downlink)
        if not len(self.latency) == len(self.uplink) == len(self.downlink):
            counts = f"{len(self.latency)} latencies, {len(self.uplink)} uplinks, {len(self.downlink)} downlinks"
            raise ValueError(f"each client needs one of each, not {counts}")
        self.online: npt.NDArray[np.bool_] = np.ones(len(self.latency), dtype=bool)
        self._watchers: list[Watcher] = []
        self._rate_watchers: list[Callable[[int], None]] = []

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self.latency)

    def watch(self, callback: Watcher) -> None:
        """Have the callback called after the fact with (client, "sleep" | "wake" | "leave"); first come, first told."""
        self._watchers.append(callback)

    def watch_rates(self, callback: Callable[[int], None]) -> None:
        """Have the callback called with the client whose rates have changed."""
        self._rate_watchers.append(callback)

    def sleep(self, client: int) -> None:
        """Take a client offline, which cuts all its transfers; nothing happens if it is offline already."""
        if self._is_online(client):
            self.online[client] = False
            self._tell(client, "sleep")

    def wake(self, client: int) -> None:
        """Bring a client back online; nothing happens if it is online already."""
        if not self._is_online(client):
            self.online[client] = True
            self._tell(client, "wake")

    def leave(self, client: int) -> None:
        """Let a client leave in the middle of its work: its transfers are cut, it stays online.

        Nothing happens if it is offline.
        """
        if self._is_online(client):
            self._tell(client, "leave")

    def set_rate(self, client: int, uplink: float | None = None, downlink: float | None = None) -> None:
        """Change a client's access rates (bit/s; 0 is an outage), at once also for the bytes under way.

        Raises ValueError for a rate that is negative or not finite.
        """
        self._check(client)
        for name, rate, column in (("uplink", uplink, self.uplink), ("downlink", downlink, self.downlink)):
            if rate is not None:
                if not (math.isfinite(rate) and rate >= 0):
                    raise ValueError(f"{name} of client {client} is {rate}: it must be finite and not negative")
                column[client] = rate
        for callback in self._rate_watchers:
            callback(client)

    def _check(self, client: int) -> None:
        if not 0 <= client < len(self):
            raise IndexError(f"there is no client {client}: they are numbered from 0 to {len(self) - 1}")

    def _is_online(self, client: int) -> bool:
        self._check(client)
        return bool(self.online[client])

    def _tell(self, client: int, what: str) -> None:
        for callback in self._watchers:
            callback(client, what)


def _column(name: str, values: npt.ArrayLike) -> Floats:
    column = np.array(values, dtype=np.float64, ndmin=1)
    if column.ndim != 1 or not np.isfinite(column).all() or (column < 0).any():
        raise ValueError(f"{name} must be one finite number a client, none of them negative")
    return column
