"""Forward: the seconds that fedsim's own network takes for messages over one client's link.

They are those of `net/model.py` (handshake, request, slow start, headers, rate, half a round trip) for a client that
has its link, and the server's, to itself, so that what TCP takes to start is not mistaken for a low rate.  On kept
connections each message starts in the window that the ones before have left; those are taken one by one, in the order
in which they were.

Under losses a message takes what it does in the median: handshakes and first losses are not drawn but stand at half
their probability.

Not modelled: jitter, which ends up in the round trip; acknowledgements that a far slower way back holds up, so that a
rate is what they allow; flows that share a link; a transport's polling, of which the mean is taken, and its bytes,
windows and times by size.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedsim.calibrate.measured import Floats, Moved
from fedsim.core.record import SERVER
from fedsim.net.connecting import Connecting
from fedsim.net.connection import Connection, Connections
from fedsim.net.draws import Draws
from fedsim.net.kept import Window
from fedsim.net.lone import Rows
from fedsim.net.model import Model
from fedsim.net.transfer import Transfer
from fedsim.net.transport import Transport

BITS = 8
MEDIAN = 0.5  # of what is drawn from [0, 1)
Losses = tuple[float, float]  # shares of packets, up and down
Seconds = Callable[[float, float, float], Floats]  # of (round trip, uplink, downlink)


@dataclass(frozen=True)
class Forward:
    """A network's model, its connections and its transport."""

    model: Model
    connecting: Connecting
    transport: Transport

    def of(self, moved: Moved, losses: Losses = (0.0, 0.0)) -> Seconds:
        """Return a function of round trip (s), uplink and downlink (bit/s): the seconds (n,) of one client's messages.

        `losses` are the shares of packets lost up and down.  Messages that did not arrive whole are NaN.
        """
        if self.connecting.keeps:
            steps = _steps(moved)
            return lambda trip, up, down: self._in_turn(moved, steps, losses, trip, up, down)
        return lambda trip, up, down: self._each(moved, losses, trip, up, down)

    def _each(self, moved: Moved, losses: Losses, trip: float, up: float, down: float) -> Floats:
        found = np.full(len(moved), math.nan)
        for upload, own in ((True, up), (False, down)):
            rows = np.flatnonzero((moved.upload == upload) & moved.whole)
            if not len(rows):
                continue
            sizes, of = np.unique(moved.nbytes[rows], return_inverse=True)
            same = np.ones(len(sizes))
            lost = losses[0] * same, losses[1] * same
            access = Rows(sizes, trip * same, own / BITS * same, math.inf * same, math.inf, *lost)
            draws = np.full((2, len(sizes)), MEDIAN)
            lone = self.model.lone(access, draws, upload, upload and self.connecting.on_open)
            flowing = lone.part / lone.fast + (lone.size - lone.part) / lone.slow
            found[rows] = (lone.before + flowing + lone.late + trip / 2 + self._delay(upload))[of]
        return found

    def _in_turn(
        self, moved: Moved, steps: list[tuple[int, bool]], losses: Losses, trip: float, up: float, down: float
    ) -> Floats:
        found = np.full(len(moved), math.nan)
        connections, unused = Connections(self.model, self.connecting.idle_restart), Draws(0)
        under_way: dict[int, tuple[Connection, Transfer, Window | None]] = {}
        for row, arrives in steps:
            if arrives:
                connection, transfer, window = under_way.pop(row)
                connections.give(connection, transfer, float(moved.arrived[row]), window)
                continue
            client, upload = int(moved.client[row]), bool(moved.upload[row])
            ends = (client, SERVER) if upload else (SERVER, client)
            transfer = Transfer(*ends, client, upload, int(moved.nbytes[row]), float(moved.sent[row]), trip)
            transfer.loss_up, transfer.loss_down = losses
            transfer.handshake_draw = transfer.loss_draw = MEDIAN
            transfer.held, transfer.pushed = self._before(upload), self.connecting.request == "push"
            connection = connections.take(transfer)
            if not moved.whole[row]:  # its connection closes with it
                continue
            size, rate, window = self.model.size(transfer), (up if upload else down) / BITS, None
            found[row] = self._delay(upload) + self.model.opening(transfer) + self.model.closing(transfer)
            if size:
                start = self.model.start(transfer, size, rate, rate, (), unused)
                part = min(size, start.until)
                found[row] += start.idle + part / min(rate, start.limit) + start.late
                if part < size:
                    found[row] += (size - part) / self.model.limit(transfer, size - part, rate, start)
                window = self.model.after(transfer, size, start)
            under_way[row] = connection, transfer, window
        return found

    def _before(self, upload: bool) -> float:
        return self.transport.before(upload) + (0.0 if upload else self.transport.polling() / 2)

    def _delay(self, upload: bool) -> float:
        return self._before(upload) + self.transport.after(upload)


def _steps(moved: Moved) -> list[tuple[int, bool]]:
    """Return the sendings and arrivals of messages in the order of time, arrivals first: (row, whether it arrives)."""
    rows = [(float(moved.sent[row]), 1, row) for row in range(len(moved))]
    rows += [(float(moved.arrived[row]), 0, row) for row in np.flatnonzero(moved.whole).tolist()]
    return [(row, not kind) for _, kind, row in sorted(rows)]
