"""Predict the seconds that fedsim's own network takes for messages over one client's link.

They are those of `net/model.py` (handshake, request, slow start, headers, rate, half a round trip) for a
client that has its link, and the server's, to itself, so that what TCP takes to start is not mistaken for a
low rate.  On kept connections each message starts in the window that the ones before have left; those are
taken one by one, in the order in which they were.

Under losses a message takes what it does in the median: handshakes and first losses are not drawn but stand
at half their probability.

Not modelled: jitter, which ends up in the round trip; acknowledgements that a far slower way back holds up,
so that a rate is what they allow; flows that share a link; a transport's polling, of which the mean is taken,
and its bytes, windows and times by size.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from fedsim.calibrate.measured import Moved
from fedsim.core.arrays import Floats
from fedsim.core.record import SERVER
from fedsim.net.channels.connection import Connection, ConnectionPolicy, Connections
from fedsim.net.draws import Draws
from fedsim.net.model import Messages, NetworkModel
from fedsim.net.tcp.window_reuse import CongestionWindow
from fedsim.net.transfer import Transfer
from fedsim.net.transport import Transport

BITS = 8
MEDIAN = 0.5  # of what is drawn from [0, 1)
LossShares = tuple[float, float]  # shares of packets, up and down
PredictSeconds = Callable[[float, float, float], Floats]  # of (round trip, uplink, downlink)


@dataclass(frozen=True)
class Forward:
    """A network's model, its connections and its transport."""

    model: NetworkModel
    connections: ConnectionPolicy
    transport: Transport

    def of(self, moved: Moved, losses: LossShares = (0.0, 0.0)) -> PredictSeconds:
        """Return a function of round trip (s), uplink and downlink (bit/s): the seconds (n,) of one client's messages.

        `losses` are the shares of packets lost up and down.  Messages that did not arrive whole are NaN.
        """
        if self.connections.kind == "kept":
            return partial(self._on_kept_connections, moved, _steps(moved), losses)
        return partial(self._on_new_connections, moved, losses)

    def _on_new_connections(self, moved: Moved, losses: LossShares, rtt: float, up: float, down: float) -> Floats:
        seconds = np.full(len(moved), math.nan)
        for upload, bandwidth in ((True, up), (False, down)):
            rows = np.flatnonzero((moved.upload == upload) & moved.whole)
            sizes, of = np.unique(moved.nbytes[rows], return_inverse=True)
            same = np.ones(len(sizes))
            lost = losses[0] * same, losses[1] * same
            messages = Messages(sizes, rtt * same, bandwidth / BITS * same, math.inf * same, math.inf, *lost)
            draws = np.full((2, len(sizes)), MEDIAN)
            flow = self.model.uncontended(messages, draws, upload, upload and self.connections.kind == "exchange")
            flowing = flow.part / flow.fast + (flow.size - flow.part) / flow.slow
            seconds[rows] = (flow.before + flowing + flow.late + rtt / 2 + self._delay(upload))[of]
        return seconds

    def _on_kept_connections(
        self, moved: Moved, steps: list[tuple[int, bool]], losses: LossShares, rtt: float, up: float, down: float
    ) -> Floats:
        seconds = np.full(len(moved), math.nan)
        connections, unused = Connections(self.model, self.connections.idle_restart), Draws(0)
        under_way: dict[int, tuple[Connection, Transfer, CongestionWindow | None]] = {}
        for row, arrives in steps:
            if arrives:
                connection, transfer, window = under_way.pop(row)
                connections.give(connection, transfer, float(moved.arrived[row]), window)
                continue
            client, upload = int(moved.client[row]), bool(moved.upload[row])
            ends = (client, SERVER) if upload else (SERVER, client)
            transfer = Transfer(*ends, client, upload, int(moved.nbytes[row]), float(moved.sent[row]), rtt)
            transfer.loss_up, transfer.loss_down = losses
            transfer.handshake_draw = transfer.loss_draw = MEDIAN
            transfer.send_delay, transfer.pushed = self._before(upload), self.connections.request == "push"
            connection = connections.take(transfer)
            if not moved.whole[row]:  # its connection closes with it
                continue
            size, rate, window = self.model.size(transfer), (up if upload else down) / BITS, None
            seconds[row] = self._delay(upload) + self.model.opening(transfer) + self.model.closing(transfer)
            if size:
                start = self.model.start(transfer, size, rate, rate, (), unused)
                part = min(size, start.until)
                seconds[row] += start.idle + part / min(rate, start.limit) + start.late
                if part < size:
                    seconds[row] += (size - part) / self.model.limit(transfer, size - part, rate, start)
                window = self.model.after(transfer, size, start)
            under_way[row] = connection, transfer, window
        return seconds

    def _before(self, upload: bool) -> float:
        return self.transport.before(upload) + (0.0 if upload else self.transport.poll / 2)

    def _delay(self, upload: bool) -> float:
        return self._before(upload) + self.transport.after(upload)


def _steps(moved: Moved) -> list[tuple[int, bool]]:
    """Return the sendings and arrivals of messages in the order of time, arrivals first: (row, whether it arrives)."""
    rows = [(float(moved.sent[row]), 1, row) for row in range(len(moved))]
    rows += [(float(moved.arrived[row]), 0, row) for row in np.flatnonzero(moved.whole).tolist()]
    return [(row, not kind) for _, kind, row in sorted(rows)]
