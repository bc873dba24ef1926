"""The exchanges of a cohort as columns, one row (K,) for each member, written together once all fates are known.

A cohort sends every client of a step its download, has it work, and receives its upload.  There are two kinds, which
fill the columns: `PlannedCohort` (planned.py) computes all passages at once where no link can be full, `EventsCohort`
(events.py) takes them event by event over links that can be.

Not modelled: codecs, and algorithms that send nothing; such clients are asked one by one.
"""

import math
from abc import abstractmethod
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from fedsim.clock.cohort.contract import Cohort
from fedsim.clock.requests import Requests
from fedsim.core.arrays import Ints
from fedsim.learn.replies import Replies, Reply, taken
from fedsim.learner.contract import Payloads
from fedsim.learner.ticket import Ticket
from fedsim.net.message import envelope_size

FATES = np.array(["", "delivered", "late", "discarded", "cut", "lost"])
NONE, DELIVERED, LATE, DISCARDED, CUT, LOST = range(len(FATES))
CODES = {str(name): code for code, name in enumerate(FATES)}
NEVER = -math.inf


class CohortColumns(Cohort):
    """The requests of one step, numbered from `first`; a member is *under way* until its upload has arrived or is cut.

    `work_began` is when the download had arrived, `worked` when the work ended and the upload was sent; `span_end` is
    when the span of the work ends, earlier if it was interrupted, minus infinity without work.  `down_moved` and
    `up_moved` are wire bytes, fates are indices of `FATES`.
    """

    def __init__(self, server: Requests, clients: Sequence[int], step: str, payloads: Payloads) -> None:
        count = len(clients)
        self.server, self.step, self.payloads = server, step, payloads
        self.first_request = server.requested + 1
        server.requested += count
        self.version, self.began = server.version, float(server.env.now)
        self.clients, self.numbers = np.array(clients, dtype=np.int64), [*clients]
        self.place = {client: k for k, client in enumerate(clients)}
        self.downloads = payloads.downloads(server.state, clients, step)
        self.uploads: Sequence[Ticket | None] = [None] * count
        self.envelope = envelope_size(step)
        self.down_bytes = self.envelope + self.downloads.sizes
        self.up_bytes = np.zeros(count, dtype=np.int64)
        self.down_fate = np.full(count, DELIVERED, dtype=np.int8)
        self.up_fate = np.full(count, NONE, dtype=np.int8)
        self.down_end, self.up_end = np.full(count, self.began), np.full(count, self.began)
        self.work_began, self.worked = np.full(count, NEVER), np.full(count, NEVER)
        self.span_end = np.full(count, NEVER)
        self.down_moved, self.up_moved = np.zeros(count), np.zeros(count)
        self.under_way, self.undecided = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
        self.open = True  # whether replies still count
        self.news = server.env.event()  # fires when who waits for replies has to look again
        self.written = False
        server.pending.cohorts[self.first_request] = self

    @abstractmethod
    def wait(self, want: int, before: float) -> Generator[simpy.Event, Any, Ints]:
        """Wait for `want` replies, for at most `before` seconds; return the places of those that count, in order."""

    def first(self, want: int, before: float = math.inf) -> Generator[simpy.Event, Any, Sequence[Reply]]:
        """Wait for the first `want` replies, for at most `before` seconds; return them in order of arrival.

        Clients that have not replied by then are late: their uploads still arrive.
        """
        self.server.clients.join(self.numbers, self)
        self.server.busy.update(self.numbers)
        places = yield from self.wait(want, before)
        downloads, uploads = taken(self.downloads, places), taken(self.uploads, places)
        replies = Replies(self.clients[places], self.version, downloads, uploads, self.first_request + places)
        self.open = False
        self.write()
        return replies

    def resolve(self, places: Ints, fate: str) -> None:
        """Record the fate of replies that are undecided."""
        self.up_fate[places] = CODES[fate]
        self.undecided[places] = False
        if not self.undecided.any():
            self.write()

    def lose(self, k: int) -> None:
        """Count a member as lost, unless the round is over, and free its client."""
        self.server.counts.lost += self.open
        self.server.release([self.numbers[k]])

    def cut_download(self, k: int, moved: int) -> None:
        """Record that a download was cut now, after so many bytes."""
        self.down_end[k], self.down_moved[k] = self.server.env.now, moved
        self.down_fate[k] = CUT if moved else LOST

    def cut_upload(self, k: int, moved: int) -> None:
        """Record that an upload was cut now, after so many bytes."""
        self.up_end[k], self.up_moved[k] = self.server.env.now, moved
        self.up_fate[k] = CUT if moved else LOST

    def drop_job(self, k: int) -> None:
        """Note that a job was interrupted."""
        if (upload := self.uploads[k]) is not None:
            self.payloads.dropped(upload)

    def withdraw_job(self, k: int) -> None:
        """Withdraw a job whose download has not arrived."""
        if (upload := self.uploads[k]) is not None:
            self.payloads.withdrawn(self.numbers[k], upload)

    def write(self) -> None:
        """Write the rows of all members once they are final; none ends later than now."""
        if self.written or self.under_way.any() or self.undecided.any():
            return
        server, now = self.server, self.server.env.now
        assert server.write_cohort is not None
        self.written = True
        downs = {
            "sent": np.full(len(self.clients), self.began), "arrived": np.minimum(self.down_end, now),
            "src": np.full(len(self.clients), server.node), "dst": self.clients, "nbytes": self.down_bytes,
            "wire_bytes": self.down_moved.astype(np.int64), "fate": FATES[self.down_fate],
        }  # fmt: skip
        ups = {
            "sent": np.minimum(self.worked, now), "arrived": np.minimum(self.up_end, now),
            "src": self.clients, "dst": np.full(len(self.clients), server.node), "nbytes": self.up_bytes,
            "wire_bytes": self.up_moved.astype(np.int64), "fate": FATES[self.up_fate],
        }  # fmt: skip
        sent, worked = np.flatnonzero(self.up_fate), np.flatnonzero(self.span_end >= self.began)
        spans = {
            "client": self.clients[worked], "start": self.work_began[worked],
            "end": np.minimum(self.span_end[worked], now), "what": self.payloads.span,
        }  # fmt: skip
        ups = {name: column[sent] for name, column in ups.items()}
        same = {"kind": self.step, "version": self.version}
        server.write_cohort({**downs, **same}, {**ups, **same}, spans, self.work_began[sent])
        del server.pending.cohorts[self.first_request]
