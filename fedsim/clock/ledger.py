"""The ledger: checks the books of a run while it runs; the first row that does not balance stops the run.

For each client and direction, the bytes metered on its access link must equal those of the transfers' rows:
delivered, repeated (headers and retransmissions of what arrived), cut, late and discarded.  In addition, time never
runs backwards, nothing arrives before it was sent, no reply is sent before its request has arrived, no client does two
jobs at once, and every ask is folded, lost, late or refused.  Each row takes constant time.  That no link carries more
than its capacity is checked by the links themselves (`net/links/`).

Not checked: an algorithm's arithmetic, and bytes that belong to no message (handshakes, background traffic).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Set
from typing import Any, Protocol

import numpy as np
import simpy

from fedsim.core.arrays import Floats
from fedsim.core.errors import UserError
from fedsim.core.record import Recorder, Row, SpanRow, TransferRow, UpdateRow
from fedsim.net.links.flows import InvariantError

ONE_WAY = ("share", "replay", "repartition")  # kinds of messages that are not replies
ARRIVED = ("delivered", "late", "discarded")
ROUNDED = 1.0  # bytes by which a row may differ from the meter: rows hold whole bytes
LARGEST = 2.0**62  # bytes of a run; the tables' sums have 63 bits
PARTS = ("delivered", "repeated", "cut", "late", "discarded")


class Meter(Protocol):
    """What the ledger reads from the network: the wire bytes that have moved."""

    def meters(self, upload: bool) -> Floats:
        """Return the wire bytes (K,) that have gone over each client's access link in this direction."""


class Reader(Protocol):
    """What sees each row before it is recorded."""

    def see(self, row: Row) -> None:
        """Take a row."""


class RowFeed:
    """The rows of a run, which its readers see in the order of their subscription before they are recorded."""

    def __init__(self, recorder: Recorder) -> None:
        """Record only."""
        self._recorder = recorder
        self._readers: list[Reader] = []

    def subscribe(self, reader: Reader) -> None:
        """Let a reader see each row from now on."""
        self._readers.append(reader)

    def add(self, row: Row) -> None:
        """Pass a row on."""
        for reader in self._readers:
            reader.see(row)
        self._recorder.add(row)

    def add_cohort(
        self, downs: Mapping[str, Any], ups: Mapping[str, Any], spans: Mapping[str, Any], asked: Floats
    ) -> None:
        """Pass on the rows of a cohort, which a ledger alone reads; see `Ledger.see_cohort`."""
        for reader in self._readers:
            if isinstance(reader, Ledger):
                reader.see_cohort(downs, ups, spans, asked)
        self._recorder.extend(TransferRow, downs)
        self._recorder.extend(TransferRow, ups)
        self._recorder.extend(SpanRow, spans)


class Ledger:
    """Checks each row as it is written, and the totals at the end of a run."""

    def __init__(self, env: simpy.Environment, network: Meter, clients: int, prepares: Set[str] = frozenset()) -> None:
        """Keep the books of that many clients; steps in `prepares` count no update."""
        self._env, self._network, self._prepares = env, network, prepares
        self.totals = {upload: {part: np.zeros(clients) for part in PARTS} for upload in (True, False)}
        self._rows = {upload: np.zeros(clients, dtype=np.int64) for upload in (True, False)}
        # (server, client): the arrival times of downloads not answered yet, in order
        self._requests: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        self._busy_until = np.zeros(clients)
        self._work: list[tuple[Any, Any, Any]] = []  # of cohorts: clients, starts, ends
        self._version = 0
        self._now = 0.0

    def see(self, row: Row) -> None:
        """Enter a row.  Raises InvariantError if it is impossible."""
        now = self._env.now
        if now < self._now:
            raise InvariantError(f"the clock went back from {self._now} s to {now} s")
        self._now = now
        if isinstance(row, TransferRow):
            self._transfer(row)
        elif isinstance(row, SpanRow) and row.what == "train":
            if row.start < self._busy_until[row.client] or row.end < row.start:
                raise InvariantError(
                    f"client {row.client} did two jobs at once: {row} before {self._busy_until[row.client]} s"
                )
            self._busy_until[row.client] = row.end
        elif isinstance(row, UpdateRow):
            counts = row.folded > 0 and row.step not in self._prepares
            if row.asked != row.folded + row.lost + row.late + row.refused or row.version - self._version != counts:
                raise InvariantError(f"an update does not add up after version {self._version}: {row}")
            self._version = row.version

    def see_cohort(
        self, downs: Mapping[str, Any], ups: Mapping[str, Any], spans: Mapping[str, Any], asked: Floats
    ) -> None:
        """Enter the transfers and work of a cohort as columns; `asked` are the arrival times of the uploads' requests.

        Each client is in it once.  Raises InvariantError if a row is impossible.
        """
        now = self._env.now
        for rows, client, upload in ((downs, downs["dst"], False), (ups, ups["src"], True)):
            sent, arrived = rows["sent"], rows["arrived"]
            nbytes, wire = rows["nbytes"], rows["wire_bytes"]
            own = {fate: rows["fate"] == fate for fate in ARRIVED}
            whole = np.logical_or.reduce([*own.values()])
            wrong = ~((sent <= arrived) & (arrived <= now)) | (whole & (wire < nbytes)) | (nbytes < 0) | (wire < 0)
            if wrong.any():
                first = {name: column[wrong][0] for name, column in rows.items() if isinstance(column, np.ndarray)}
                raise InvariantError(f"at {now} s a cohort has an impossible message: {first}")
            parts = self.totals[upload]
            self._rows[upload][client] += 1
            parts["cut"][client[~whole]] += wire[~whole]
            parts["repeated"][client[whole]] += (wire - nbytes)[whole]
            for fate, rows_ in own.items():
                parts[fate][client[rows_]] += nbytes[rows_]
        if (early := ups["sent"] < asked).any():
            raise InvariantError(f"client {ups['src'][early][0]} sent a reply before its request had arrived")
        # Cohorts are entered out of order when a late reply ends one, so their work is checked at the end.
        self._work.append((spans["client"], spans["start"], spans["end"]))

    def close(self) -> None:
        """Compare the rows with the bytes moved over each client's link.

        Raises InvariantError if they differ, and UserError if there are more than the tables can sum.
        """
        self._check_work()
        if (total := sum(self.summary().values())) > LARGEST:
            raise UserError(
                f"{total:.3g} bytes have moved, more than the tables can sum ({LARGEST:.3g}); "
                "make messages smaller, or rounds or clients fewer"
            )
        for upload, parts in self.totals.items():
            moved = self._network.meters(upload)
            recorded = np.sum([*parts.values()], axis=0)
            wrong = np.flatnonzero(np.abs(moved - recorded) > ROUNDED * self._rows[upload] + 1e-9 * moved)
            if len(wrong):
                client, way = wrong[0], "up" if upload else "down"
                sums = ", ".join(f"{name} {part[client]:.0f}" for name, part in parts.items())
                raise InvariantError(f"client {client}, {way}: {moved[client]:.0f} bytes moved, the rows say {sums}")

    def _check_work(self) -> None:
        """Check that no client of a cohort did two jobs at once."""
        if not self._work:
            return
        client, start, end = (np.concatenate(columns) for columns in zip(*self._work, strict=True))
        order = np.lexsort((end, start, client))
        client, start, end = client[order], start[order], end[order]
        twice = (client[1:] == client[:-1]) & (start[1:] < end[:-1] * (1 - 1e-12))
        if twice.any() or (end < start).any():
            raise InvariantError(f"client {client[1:][twice][:1]} did two jobs at once")

    def summary(self) -> Mapping[str, float]:
        """Return the bytes of each part, over all clients and both directions."""
        return {part: float(sum(parts[part].sum() for parts in self.totals.values())) for part in PARTS}

    def _transfer(self, row: TransferRow) -> None:
        if not row.sent <= row.arrived <= self._now:
            raise InvariantError(f"at {self._now} s a message ends before it was sent, or later than now: {row}")
        if row.nbytes < 0 or row.wire_bytes < 0:
            raise InvariantError(f"a message of fewer than no bytes: {row}")
        whole = row.fate in ARRIVED
        if whole and row.wire_bytes < row.nbytes:
            raise InvariantError(f"a message of {row.nbytes} bytes arrived although {row.wire_bytes} moved: {row}")
        if row.src >= 0:
            self._enter(row, row.src, True, whole)
        if row.dst >= 0:
            self._enter(row, row.dst, False, whole)
        if row.kind not in ONE_WAY:
            self._answers(row)

    def _enter(self, row: TransferRow, client: int, upload: bool, whole: bool) -> None:
        parts = self.totals[upload]
        self._rows[upload][client] += 1
        if not whole:
            parts["cut"][client] += row.wire_bytes
            return
        parts["repeated"][client] += row.wire_bytes - row.nbytes
        parts[row.fate][client] += row.nbytes

    def _answers(self, row: TransferRow) -> None:
        """Check that each reply answers a request that had arrived before the reply was sent."""
        if row.dst >= 0:
            if row.fate == "delivered":
                self._requests[row.src, row.dst].append(row.arrived)
            return
        open_requests = self._requests[row.dst, row.src]
        last = bisect_right(open_requests, row.sent)  # rows may be written much later, after further requests
        if not last:
            raise InvariantError(f"a reply was sent before its request had arrived: {row}")
        del open_requests[last - 1]
