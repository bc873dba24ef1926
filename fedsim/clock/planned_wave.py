"""PlannedWave: the asks of a cohort computed at once, where no link can be full.

`server.py` runs one ask event by event; here download, work and upload of every client come from closed formulas
(`net/plan.py`).  Events are scheduled only where a process could notice the difference: when enough clients have
replied, when time is up, when a late upload arrives, and when a client goes to sleep, leaves, or receives data before
its download has arrived.  Times equal those of single asks up to rounding; bytes and fates are the same.

Not modelled: links that can be full, which are `shared_wave.py`'s.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.clock.wave import CUT, DELIVERED, DISCARDED, EVER, LATE, LOST, Home, Legs, Wave
from fedsim.learner.ticket import Reply


class PlannedWave(Wave):
    """A wave whose members' times are known when it begins."""

    def __init__(
        self, home: Home, clients: Sequence[int], step: str, number: int, beside: Mapping[int, Any] | None = None
    ) -> None:
        """Plan the exchanges of these clients."""
        super().__init__(home, clients, step, number, beside)
        count = len(clients)
        self._uploads, operations = home.clients.start(clients, step, self._downloads)
        self._up_bytes = self._overhead + home.uploads_bytes(clients, step, self._uploads, self._beside)
        planner, sent = home.network.planner, np.full(count, self.began)
        self._down = planner.plan(self._clients, sent, self._down_bytes, upload=False)
        self._worked = self._down.arrives + home.clients.seconds(self._clients, operations)
        self._up = planner.plan(self._clients, self._worked, self._up_bytes, upload=True)
        self._under_way, self._taken = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
        self._down_fate = np.zeros(count, dtype=np.int8)
        self._down_moved, self._up_moved = np.rint(self._down.size), np.rint(self._up.size)
        self._down_end, self._span_end, self._up_end = (
            times.copy() for times in (self._down.arrives, self._worked, self._up.arrives)
        )  # when each phase really ended
        self._want = count
        self._news = home.env.event()

    def first(self, want: int, before: float = EVER) -> Generator[simpy.Event, Any, Sequence[Reply]]:
        """Wait for the first `want` replies, for at most `before` seconds; return them in order of arrival.

        Clients that have not replied by then are late: their uploads still arrive.
        """
        self._want, until = want, self._home.env.now + before
        due = yield from self._wait(until)
        arrived = np.flatnonzero(self._under_way & (self._up.arrives <= due))
        arrived = arrived[np.argsort(self._up.arrives[arrived], kind="stable")]
        self.undecided[arrived[:want]] = True
        self._arrive(arrived[:want], DELIVERED)
        replies = self._replies_of(arrived[:want])
        self._arrive(arrived[want:], LATE)
        self._home.note(late=len(arrived[want:]) + int(self._under_way.sum()))
        self._open, self._want = False, 1
        if self._under_way.any():
            self._home.env.process(self._follow())
        self._post()
        return replies

    def ended(self, client: int) -> bool:
        """Return whether this client's upload has arrived by now, even if not processed yet."""
        return bool(self._up.arrives[self._place[client]] <= self._home.env.now)

    def catch_up(self, client: int) -> None:
        """Update the client's memory if it has finished its job by now."""
        k = self._place[client]
        if self._worked[k] <= self._home.env.now:
            self._take([k])

    def renew(self, client: int) -> None:
        """Note that the client has just received data, on which it works if its download has not arrived yet."""
        k, home = self._place[client], self._home
        if home.env.now >= self._down.arrives[k]:
            return
        self._withdraw(k)
        fresh, operations = home.clients.start([client], self._step, [self._downloads[k]])
        self._uploads = [*self._uploads[:k], *fresh, *self._uploads[k + 1 :]]
        self._up_bytes[k] = self._up_size(k)
        home.network.planner.take_back(client, upload=True)
        one, last = self._clients[k : k + 1], self._due()
        self._worked[k] = self._down.arrives[k] + home.clients.seconds(one, operations)[0]
        self._up.put(k, home.network.planner.plan(one, self._worked[k : k + 1], self._up_bytes[k : k + 1], upload=True))
        self._up_moved[k] = round(float(self._up.size[k]))
        self._span_end[k], self._up_end[k] = self._worked[k], self._up.arrives[k]
        self._wake(last)

    def cut(self, client: int) -> None:
        """End this client's exchange: it has gone to sleep or left."""
        if self.ended(client):
            return
        last, k = self._due(), self._place[client]
        self._break_off(k)
        self._home.note(lost=int(self._open))
        self._home.release([client])
        self._wake(last)
        self._post()

    def end(self) -> None:
        """End the exchanges under way; uploads that have arrived but were not processed are discarded."""
        for k in np.flatnonzero(self._under_way).tolist():
            if self._up.arrives[k] <= self._home.env.now:
                self._arrive(np.array([k]), DISCARDED)
            else:
                self._break_off(k)
        self._post()

    def _due(self) -> float:
        """Return when as many as wanted will have replied, or all that still can."""
        coming = self._up.arrives[self._under_way]
        if not len(coming):
            return self._home.env.now
        nth = min(self._want, len(coming)) - 1
        return float(coming.max() if nth == len(coming) - 1 else np.partition(coming, nth)[nth])

    def _wait(self, until: float = EVER) -> Generator[simpy.Event, Any, float]:
        """Wait until enough have replied or time is up; return that time, without rounding by the environment."""
        env = self._home.env
        while (due := min(self._due(), until)) > env.now:
            self._news, through = env.event(), env.timeout(due - env.now)
            yield through | self._news
            if through.processed:
                break
        return due

    def _follow(self) -> Generator[simpy.Event, Any, None]:
        """Process late uploads as they arrive."""
        while self._under_way.any():
            due = yield from self._wait()
            self._arrive(np.flatnonzero(self._under_way & (self._up.arrives <= due)), LATE)
            self._post()

    def _wake(self, last: float) -> None:
        """Wake the waiting process if its time has changed from `last`."""
        if self._due() != last and not self._news.triggered:
            self._news.succeed()

    def _arrive(self, places: npt.NDArray[np.int64], fate: int) -> None:
        """Process uploads that have arrived."""
        self._under_way[places] = False
        self._down_fate[places] = DELIVERED
        self._up_fate[places] = fate
        self._take(places.tolist())
        self._home.release(self._clients[places].tolist())

    def _withdraw(self, k: int) -> None:
        """Withdraw a job whose download has not arrived."""
        if (upload := self._uploads[k]) is not None:
            self._home.learner.withdrawn(self._numbers[k], upload)

    def _take(self, places: Sequence[int]) -> None:
        """Update the memory of these members' clients with their jobs, which have ended, unless that is done."""
        fresh = [k for k in places if not self._taken[k]]
        self._taken[fresh] = True
        self._home.clients.all_done([self._numbers[k] for k in fresh], self._uploads, fresh)

    def _break_off(self, k: int) -> None:
        """End a member in its present phase: download, work or upload."""
        now = self._home.env.now
        self._under_way[k] = False
        self._down_fate[k] = DELIVERED
        if now < self._worked[k]:
            self._home.network.planner.take_back(self._numbers[k], upload=True)
            begun = now >= self._down.arrives[k]
            self._span_end[k] = now if begun else -EVER
            if begun and (upload := self._uploads[k]) is not None:
                self._home.learner.dropped(upload)
            if not begun:
                self._withdraw(k)
                self._down_moved[k] = moved = math.floor(self._down.moved(k, now))
                self._down_fate[k], self._down_end[k] = CUT if moved else LOST, now
            return
        self._take([k])
        self._up_moved[k] = moved = math.floor(self._up.moved(k, now))
        self._up_fate[k], self._up_end[k] = CUT if moved else LOST, now

    def _post(self) -> None:
        """Write all rows once they are final."""
        if self._written or self.undecided.any() or self._under_way.any() or self._home.write_many is None:
            return
        up_fates = self._up_fate
        ups = np.flatnonzero(up_fates)
        self._write(
            Legs(
                self._down_end, self._down_moved, self._down_fate, self._down.arrives.copy(), self._span_end,
                self._worked, self._up_end, self._up_moved, up_fates,
            )
        )  # fmt: skip
        planner = self._home.network.planner
        cut = (self._down_fate == CUT) | (self._down_fate == LOST)
        planner.carry(self._clients, np.where(cut, self._down_moved, self._down.size), upload=False)
        cut = ((up_fates == CUT) | (up_fates == LOST))[ups]
        planner.carry(self._clients[ups], np.where(cut, self._up_moved[ups], self._up.size[ups]), upload=True)
