"""PlannedCohort: the exchanges of a cohort computed at once, where no link can be full.

Download, work and upload of every client come from closed formulas (`net/plan.py`).  Events are scheduled only where a
process could notice the difference: when enough clients have replied, when time is up, when a late upload arrives, and
when a client goes to sleep, leaves, or receives data before its download has arrived.  Times equal those of single
requests up to rounding; bytes and fates are the same.

Not modelled: links that can be full, which are events.py's.
"""

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from fedsim.clock.cohort.columns import CUT, DELIVERED, DISCARDED, LATE, LOST, NEVER, CohortColumns
from fedsim.clock.cohort.contract import UNFINISHED
from fedsim.clock.requests import Requests
from fedsim.core.arrays import Ints
from fedsim.learn.replies import taken
from fedsim.learner.contract import Payloads


class PlannedCohort(CohortColumns):
    """A cohort whose members' times are known when it begins."""

    def __init__(self, server: Requests, clients: Sequence[int], step: str, payloads: Payloads) -> None:
        super().__init__(server, clients, step, payloads)
        self.planner, sent = server.network.planner, np.full(len(clients), self.began)
        self.uploads, operations = payloads.work(clients, step, self.downloads)
        self.up_bytes = self.envelope + payloads.sizes(clients, self.uploads)
        self.down = self.planner.plan(self.clients, sent, self.down_bytes, upload=False)
        self.worked = self.down.arrives + operations / server.clients.paces(self.clients)
        self.up = self.planner.plan(self.clients, self.worked, self.up_bytes, upload=True)
        self.down_moved, self.up_moved = np.rint(self.down.size), np.rint(self.up.size)
        self.work_began, self.down_end = self.down.arrives.copy(), self.down.arrives.copy()
        self.span_end, self.up_end = self.worked.copy(), self.up.arrives.copy()
        self.taken = np.zeros(len(clients), dtype=bool)  # whose jobs have updated the client's memory
        self.want = len(clients)

    def wait(self, want: int, before: float) -> Generator[simpy.Event, Any, Ints]:
        """Wait for `want` replies, for at most `before` seconds; return the places of those that count, in order."""
        self.want = want
        due = yield from self._wait(self.server.env.now + before)
        arrived = np.flatnonzero(self.under_way & (self.up.arrives <= due))
        arrived = arrived[np.argsort(self.up.arrives[arrived], kind="stable")]
        self.undecided[arrived[:want]] = True
        self._arrive(arrived[:want], DELIVERED)
        self._arrive(arrived[want:], LATE)
        self.server.counts.late += len(arrived[want:]) + int(self.under_way.sum())
        self.want = 1
        if self.under_way.any():
            self.server.env.process(self._follow())
        return arrived[:want]

    def ended(self, client: int) -> bool:
        """Return whether this client's upload has arrived by now, even if not processed yet."""
        return bool(self.up.arrives[self.place[client]] <= self.server.env.now)

    def catch_up(self, client: int) -> None:
        """Update the client's memory if it has finished its job by now."""
        k = self.place[client]
        if self.worked[k] <= self.server.env.now:
            self._take(np.array([k]))

    def renew(self, client: int) -> None:
        """Note that the client has just received data, on which it works if its download has not arrived yet."""
        k, server = self.place[client], self.server
        if server.env.now >= self.down.arrives[k]:
            return
        self.withdraw_job(k)
        upload, operations = self.payloads.work([client], self.step, [self.downloads[k]])
        self.uploads = [*self.uploads[:k], *upload, *self.uploads[k + 1 :]]
        self.up_bytes[k] = self.envelope + self.payloads.sizes([client], upload)[0]
        self.planner.take_back(client, upload=True)
        row, last = slice(k, k + 1), self._due()
        self.worked[k] = self.down.arrives[k] + (operations / server.clients.paces(self.clients[row]))[0]
        self.up.put(k, self.planner.plan(self.clients[row], self.worked[row], self.up_bytes[row], upload=True))
        self.up_moved[k] = round(float(self.up.size[k]))
        self.span_end[k], self.up_end[k] = self.worked[k], self.up.arrives[k]
        self._wake(last)

    def cut(self, client: int) -> None:
        """End this client's exchange: it has gone to sleep or left."""
        if self.ended(client):
            return
        last, k = self._due(), self.place[client]
        self._break_off(k)
        self.lose(k)
        self._wake(last)
        self.write()

    def end(self) -> None:
        """End the exchanges under way; uploads that have arrived but were not processed are discarded."""
        for k in np.flatnonzero(self.under_way).tolist():
            if self.up.arrives[k] <= self.server.env.now:
                self._arrive(np.array([k]), DISCARDED)
            else:
                self._break_off(k)
        self.write()

    def write(self) -> None:
        """Write the rows of all members once they are final, and count what the access links have carried."""
        before = self.written
        super().write()
        if self.written and not before:
            cut = (self.down_fate == CUT) | (self.down_fate == LOST)
            self.planner.carried[False][self.clients] += np.where(cut, self.down_moved, self.down.size)
            sent = np.flatnonzero(self.up_fate)
            cut = ((self.up_fate == CUT) | (self.up_fate == LOST))[sent]
            moved = np.where(cut, self.up_moved[sent], self.up.size[sent])
            self.planner.carried[True][self.clients[sent]] += moved

    def _due(self) -> float:
        """Return when as many as wanted will have replied, or all that still can."""
        coming = self.up.arrives[self.under_way]
        if not len(coming):
            return self.server.env.now
        nth = min(self.want, len(coming)) - 1
        return float(coming.max() if nth == len(coming) - 1 else np.partition(coming, nth)[nth])

    def _wait(self, until: float = math.inf) -> Generator[simpy.Event, Any, float]:
        """Wait until enough have replied or time is up; return that time, without rounding by the environment."""
        env = self.server.env
        while (due := min(self._due(), until)) > env.now:
            self.news, through = env.event(), env.timeout(due - env.now)
            yield through | self.news
            if through.processed:
                break
            if not self.news.processed:  # resumed by a loop over this generator, for ever
                raise RuntimeError(UNFINISHED)
        return due

    def _follow(self) -> Generator[simpy.Event, Any, None]:
        """Process late uploads as they arrive."""
        while self.under_way.any():
            due = yield from self._wait()
            self._arrive(np.flatnonzero(self.under_way & (self.up.arrives <= due)), LATE)
            self.write()

    def _wake(self, last: float) -> None:
        """Wake the waiting process if its time has changed from `last`."""
        if self._due() != last and not self.news.triggered:
            self.news.succeed()

    def _arrive(self, places: Ints, fate: int) -> None:
        """Process uploads that have arrived."""
        self.under_way[places] = False
        self.up_fate[places] = fate
        self._take(places)
        self.server.release(self.clients[places].tolist())

    def _take(self, places: Ints) -> None:
        """Update the memory of these members' clients with their jobs, which have ended, unless that is done."""
        fresh = places[~self.taken[places]]
        self.taken[fresh] = True
        self.payloads.done(self.clients[fresh].tolist(), taken(self.uploads, fresh))

    def _break_off(self, k: int) -> None:
        """End a member in its present phase: download, work or upload."""
        now = self.server.env.now
        self.under_way[k] = False
        if now >= self.worked[k]:
            self._take(np.array([k]))
            self.cut_upload(k, math.floor(self.up.moved(k, now)))
            return
        self.planner.take_back(self.numbers[k], upload=True)
        if now >= self.down.arrives[k]:
            self.span_end[k] = now
            self.drop_job(k)
        else:
            self.span_end[k] = NEVER
            self.withdraw_job(k)
            self.cut_download(k, math.floor(self.down.moved(k, now)))
