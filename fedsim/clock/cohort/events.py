"""EventsCohort: the exchanges of a cohort over server links that can be full, event by event but without processes.

A member takes the steps of a single request (requests.py): passage down, work, passage up.  Its passages are those of
`net/channels/channel.py` on the network's own links, so that they share them with whatever else is under way, and every
change of a client takes effect at its moment.  Times, bytes and fates are exactly those of single requests; what is
saved is what a request costs beside them: a process and its events, messages, deliveries, channels and single rows.

Not modelled: effects that change rates, paces or transfers (`Planner.supports_cohorts`).
"""

import math
from collections.abc import Generator, Sequence
from typing import Any, cast

import numpy as np
import simpy

from fedsim.clock.cohort.columns import LATE, CohortColumns
from fedsim.clock.cohort.contract import UNFINISHED
from fedsim.clock.requests import Requests
from fedsim.core.arrays import Ints
from fedsim.learner.contract import Payloads
from fedsim.learner.ticket import Ticket
from fedsim.net.channels.channel import Passage


class EventsCohort(CohortColumns):
    """A cohort whose members proceed one step at a time."""

    def __init__(self, server: Requests, clients: Sequence[int], step: str, payloads: Payloads) -> None:
        super().__init__(server, clients, step, payloads)
        count = len(clients)
        self.env, self.planner = server.env, server.network.planner
        self.paces: list[float] = server.clients.paces(self.clients).tolist()
        self.draws: dict[bool, list[tuple[float, float]]] = {
            upload: [(first, second) for first, second in self.planner.draws(self.clients, upload).T.tolist()]
            for upload in (False, True)
        }
        self.passages: list[Passage | None] = [None] * count  # under way; None while a member works
        self.jobs: list[Ticket | None] = [None] * count
        self.uploads = self.jobs
        self.operations: list[float] | None = None  # of jobs that begin all at once
        self.left, self.want = count, count
        self.replied: list[int] = []  # the places of those who have replied, in order of arrival
        self.over, self.unnoticed = False, 0  # whether time is up; uploads that came too late before `wait` noticed

    def wait(self, want: int, before: float) -> Generator[simpy.Event, Any, Ints]:
        """Wait for `want` replies, for at most `before` seconds; return the places of those that count, in order."""
        self.want = want
        self._send_downloads()
        self._check()
        over: simpy.Event = self.news
        if before != math.inf:
            timer = self.env.timeout(before)
            timer.callbacks.append(self._end_time)
            over = self.news | timer
        yield over
        if not over.processed:  # resumed by a loop over this generator
            raise RuntimeError(UNFINISHED)
        self.server.counts.late += self.left + self.unnoticed
        return np.array(self.replied, dtype=np.int64)

    def ended(self, client: int) -> bool:
        """Return False: a member whose upload has arrived has left the cohort."""
        return False

    def catch_up(self, client: int) -> None:
        """Do nothing: the client's memory is updated when its work ends."""

    def renew(self, client: int) -> None:
        """Do nothing: the client works on the data of the moment at which its download arrives."""

    def cut(self, client: int) -> None:
        """End this client's exchange: it has gone to sleep or left."""
        k = self.place[client]
        self._break_off(k, dropped=True)
        self.lose(k)
        self._check()
        self.write()

    def end(self) -> None:
        """End the exchanges under way, in the order in which their passages have begun."""
        for k in sorted(np.flatnonzero(self.under_way).tolist(), key=self.worked.__getitem__):
            self._break_off(k, dropped=False)
        self.write()

    def _send_downloads(self) -> None:
        """Send the downloads; begin all jobs where it makes no difference when."""
        learner = self.server.learner
        if not learner.learns and self.payloads is learner:
            uploads, operations = learner.work(self.numbers, self.step, self.downloads)
            self.up_bytes = self.envelope + learner.sizes(self.numbers, uploads)
            self.uploads, self.operations = uploads, operations.tolist()
        for client, nbytes in zip(self.numbers, self.down_bytes.tolist(), strict=True):
            self._send(client, False, nbytes)

    def _send(self, client: int, upload: bool, nbytes: int) -> None:
        k, arrived = self.place[client], self._received if upload else self._reached
        self.passages[k] = passage = self.planner.passage(client, upload, nbytes, self.draws[upload][k], arrived)
        passage.begin()

    def _reached(self, passage: Passage) -> None:
        """Begin a member's work: its download has arrived."""
        client, now = passage.transfer.client, self.env.now
        k = self.place[client]
        self.passages[k] = None
        self.down_end[k] = self.work_began[k] = now
        self.down_moved[k] = round(passage.size)
        if self.operations is None:
            uploads, (operations,) = self.payloads.work([client], self.step, [self.downloads[k]])
            self.jobs[k] = uploads[0]
        else:
            operations = self.operations[k]
        timer = simpy.Timeout(self.env, float(operations) / self.paces[k], k)
        timer.callbacks.append(self._finished)

    def _finished(self, timer: simpy.Event) -> None:
        """Send a member's upload: its work is done, unless it was interrupted."""
        k = cast(int, timer.value)
        if not self.under_way[k]:
            return
        client = self.numbers[k]
        upload = self.uploads[k]
        assert upload is not None
        self.payloads.done([client], [upload])
        self.span_end[k] = self.worked[k] = self.env.now
        if self.operations is None:
            self.up_bytes[k] = self.envelope + self.payloads.size(client, upload)
        self._send(client, True, int(self.up_bytes[k]))

    def _received(self, passage: Passage) -> None:
        """End a member's exchange: its upload has arrived."""
        k = self.place[passage.transfer.client]
        self.up_end[k], self.up_moved[k], self.up_fate[k] = self.env.now, round(passage.size), LATE
        counts = self.open and not self.over and len(self.replied) < self.want
        if counts:
            self.undecided[k] = True
            self.replied.append(k)
        else:
            self.unnoticed += self.open
        self._remove(k)
        self.server.release_one(passage.transfer.client)
        self._check()
        if not counts:
            self.write()

    def _remove(self, k: int) -> None:
        self.under_way[k], self.passages[k] = False, None
        self.left -= 1

    def _break_off(self, k: int, dropped: bool) -> None:
        """End a member in its present phase: download, work (the job is dropped unless the run ends) or upload."""
        passage = self.passages[k]
        self._remove(k)
        if passage is None:
            self.span_end[k] = self.env.now
            if dropped:
                self.drop_job(k)
        elif passage.transfer.upload:
            self.cut_upload(k, math.floor(passage.cut()))
        else:
            self.cut_download(k, math.floor(passage.cut()))
            if self.operations is not None:
                self.withdraw_job(k)

    def _end_time(self, _: simpy.Event) -> None:
        self.over = True  # what arrives in the same instant is late

    def _check(self) -> None:
        """Wake who waits for replies once there are enough, or no more to come."""
        if (len(self.replied) >= self.want or not self.left) and not self.news.triggered:
            self.news.succeed()
