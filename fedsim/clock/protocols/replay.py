"""Replay: recorded transfers start at their recorded times, and nothing is trained.

For network studies, and to validate the simulator against measurements: a row's `sent` is the time at which its
connection is opened, `arrived` the time at which the receiver has the last byte.  `bytes` is the size of the message,
without headers and retransmissions.  Not modelled: dependencies between transfers; a slow one does not delay the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar

import simpy

from fedsim.clock.protocol import Protocol, Steps
from fedsim.clock.world import World
from fedsim.core import table
from fedsim.core.record import SERVER
from fedsim.core.table import Column, FilePath
from fedsim.core.units import LATEST, MOST_BYTES
from fedsim.net.message import Message

COLUMNS = [
    Column("start_s", low=0.0, high=LATEST),
    Column("client", whole=True, low=0),
    Column("direction", choices=("up", "down")),
    Column("bytes", whole=True, low=0, high=MOST_BYTES),
]
Wanted = tuple[float, int, bool, int]


@dataclass(frozen=True, kw_only=True)
class Replay(Protocol):
    """Sends what the table lists: `start_s`, `client`, `direction` (up or down), `bytes`."""

    asks: ClassVar[bool] = False

    transfers: FilePath  # the table of transfers

    def __post_init__(self) -> None:
        """Read the table.  Raises UserError if it is invalid."""
        table.read_lines(self.transfers, COLUMNS)

    def suits(self, clients: int) -> None:
        """Check the table for that many clients.  Raises UserError if it names an unknown client."""
        _transfers(self.transfers, clients)

    def run(self, world: World) -> Steps:
        """Send each transfer at its time, and wait until all have ended."""
        wanted, through = _transfers(self.transfers, len(world.clients)), world.env.event()
        left = len(wanted)

        def ended(_: simpy.Event) -> None:
            nonlocal left
            left -= 1
            if not left:
                through.succeed()

        def send(one: Wanted, _: simpy.Event) -> None:
            client, upload, nbytes = one[1:]
            ends = (client, SERVER) if upload else (SERVER, client)
            world.network.send(Message.sized(*ends, "replay", nbytes)).callbacks.append(ended)

        for one in wanted:  # all scheduled at second 0, so that times equal the table's exactly
            world.env.timeout(one[0]).callbacks.append(partial(send, one))
        yield through

    def share(self, world: World) -> float:
        """Return the current time as a share of the last start time."""
        last = _transfers(self.transfers, len(world.clients))[-1][0]
        return min(1.0, world.env.now / last) if last else 0.0


def _transfers(path: Path, clients: int) -> Sequence[Wanted]:
    """Return the transfers by start time; those of one instant in the table's order."""
    now = path.stat()
    return _read(path, clients, now.st_mtime_ns, now.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, clients: int, changed: int, size: int) -> Sequence[Wanted]:
    # Read again if the table has changed.
    columns, lines = table.read_lines(path, COLUMNS)
    for client, line in zip(columns["client"].tolist(), lines.tolist(), strict=True):
        if client >= clients:
            raise table.fault(path, line, f"client {client}: there are {clients} clients, numbered from 0")
    every = zip(
        columns["start_s"].tolist(), columns["client"].tolist(), (columns["direction"] == "up").tolist(),
        columns["bytes"].tolist(), strict=True,
    )  # fmt: skip
    return sorted(every, key=lambda transfer: transfer[0])
