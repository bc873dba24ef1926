"""SharedWave: the asks of a cohort over server links that can be full, event by event but without a process for each.

A member takes the steps of an ask of `server.py`: passage down, work, passage up.  Its passages are those of
`net/passage.py` on the network's own links, so that they share them with whatever else is under way, and every change
of a client takes effect at its moment.  Times, bytes and fates are exactly those of single asks; what is saved is what
an ask costs beside them: a process and its events, messages, deliveries, channels and single rows.

Not modelled: effects that change rates, paces or transfers (`Planner.possible`).
"""

import math
from collections.abc import Generator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import simpy

from fedsim.clock.wave import CUT, DELIVERED, EVER, LATE, LOST, Home, Legs, Wave
from fedsim.learner.ticket import Reply, Ticket
from fedsim.net.passage import Passage

NEVER = -math.inf


class SharedWave(Wave):
    """A wave whose members proceed one step at a time; `begin` sends the downloads."""

    def __init__(
        self, home: Home, clients: Sequence[int], step: str, number: int, beside: Mapping[int, Any] | None = None
    ) -> None:
        """Prepare the exchanges of these clients."""
        super().__init__(home, clients, step, number, beside)
        count = len(clients)
        self._env, self._planner = home.env, home.network.planner
        self._paces: list[float] = home.clients.paces(self._clients).tolist()
        self._draws: dict[bool, list[tuple[float, float]]] = {
            upload: [(first, second) for first, second in self._planner.draws(self._clients, upload).T.tolist()]
            for upload in (False, True)
        }
        self._passages: list[Passage | None] = [None] * count  # under way; None while a member works
        self._jobs: list[Ticket | None] = [None] * count
        self._uploads = self._jobs
        self._operations: list[float] | None = None  # of jobs that begin all at once
        self._under_way = [True] * count
        self._left, self._want = count, count
        self._replies: list[int] = []  # the places of those who have replied, in order of arrival
        self._over, self._behind = False, 0  # whether time is up; uploads that arrived before `first` noticed
        self._news = home.env.event()
        self._down_end, self._up_end = [self.began] * count, [self.began] * count
        self._down_moved, self._up_moved = [0] * count, [0] * count
        self._down_fate = [DELIVERED] * count
        self._work_began, self._worked, self._span_end = [NEVER] * count, [NEVER] * count, [NEVER] * count

    def begin(self) -> None:
        """Send the downloads; begin all jobs where it makes no difference when."""
        home = self._home
        if not home.learner.learns and home.clients.masks is None:
            self._uploads, operations = home.clients.start(self._numbers, self._step, self._downloads)
            sizes = home.uploads_bytes(self._numbers, self._step, self._uploads, self._beside)
            self._up_bytes, self._operations = self._overhead + sizes, operations.tolist()
        for client, nbytes in zip(self._clients.tolist(), self._down_bytes.tolist(), strict=True):
            self._send(client, False, nbytes)

    def first(self, want: int, before: float = EVER) -> Generator[simpy.Event, Any, Sequence[Reply]]:
        """Wait for the first `want` replies, for at most `before` seconds; return them in order of arrival."""
        self._want = want
        self._check()
        if before == EVER:
            yield self._news
        else:
            timer = self._env.timeout(before)
            timer.callbacks.append(self._end_time)
            yield self._news | timer
        self._open = False
        self._home.note(late=self._left + self._behind)
        self._post()
        return self._replies_of(np.array(self._replies, dtype=np.int64))

    def ended(self, client: int) -> bool:
        """Return False: a member whose upload has arrived has left the wave."""
        return False

    def catch_up(self, client: int) -> None:
        """Do nothing: the client's memory is updated when its work ends."""

    def renew(self, client: int) -> None:
        """Do nothing: the client works on the data of the moment at which its download arrives."""

    def cut(self, client: int) -> None:
        """End this client's exchange: it has gone to sleep or left."""
        self._break_off(self._place[client], dropped=True)
        self._home.note(lost=int(self._open))
        self._home.release([client])
        self._check()
        self._post()

    def end(self) -> None:
        """End the exchanges under way, in the order in which their passages have begun."""
        for k in sorted(np.flatnonzero(self._under_way).tolist(), key=self._worked.__getitem__):
            self._break_off(k, dropped=False)
        self._post()

    def _send(self, client: int, upload: bool, nbytes: int) -> None:
        k, arrived = self._place[client], self._received if upload else self._reached
        self._passages[k] = passage = self._planner.passage(client, upload, nbytes, self._draws[upload][k], arrived)
        passage.begin()

    def _reached(self, passage: Passage) -> None:
        """Begin a member's work: its download has arrived."""
        client, now = passage.transfer.client, self._env.now
        k = self._place[client]
        self._passages[k] = None
        self._down_end[k] = self._work_began[k] = now
        self._down_moved[k] = round(passage.size)
        if self._operations is None:
            (self._jobs[k],), (taken,) = self._home.clients.start([client], self._step, [self._downloads[k]])
            operations = float(taken)
        else:
            operations = self._operations[k]
        timer = simpy.Timeout(self._env, operations / self._paces[k], k)
        timer.callbacks.append(self._finished)

    def _finished(self, timer: simpy.Event) -> None:
        """Send a member's upload: its work is done, unless it was interrupted."""
        k = cast(int, timer.value)
        if not self._under_way[k]:
            return
        client = self._numbers[k]
        self._home.clients.all_done([client], self._uploads, [k])
        self._span_end[k] = self._worked[k] = self._env.now
        if self._operations is None:
            self._up_bytes[k] = self._up_size(k)
        self._send(client, True, int(self._up_bytes[k]))

    def _received(self, passage: Passage) -> None:
        """End a member's exchange: its upload has arrived."""
        k = self._place[passage.transfer.client]
        self._up_end[k], self._up_moved[k] = self._env.now, round(passage.size)
        self._up_fate[k] = LATE
        counts = self._open and not self._over and len(self._replies) < self._want
        if counts:
            self.undecided[k] = True
            self._replies.append(k)
        else:
            self._behind += self._open
        self._remove(k)
        self._home.release_one(passage.transfer.client)
        self._check()
        if not counts:
            self._post()

    def _remove(self, k: int) -> None:
        self._under_way[k], self._passages[k] = False, None
        self._left -= 1

    def _break_off(self, k: int, dropped: bool) -> None:
        """End a member in its present phase: download, work (the job is dropped unless the run ends) or upload."""
        passage, now = self._passages[k], self._env.now
        self._remove(k)
        if passage is None:
            self._span_end[k] = now
            if dropped and (upload := self._uploads[k]) is not None:
                self._home.learner.dropped(upload)
            return
        moved = math.floor(passage.cut())
        fate = CUT if moved else LOST
        if passage.transfer.upload:
            self._up_end[k], self._up_moved[k], self._up_fate[k] = now, moved, fate
            return
        self._down_end[k], self._down_moved[k], self._down_fate[k] = now, moved, fate
        if self._operations is not None and (upload := self._uploads[k]) is not None:
            self._home.learner.withdrawn(self._numbers[k], upload)

    def _end_time(self, _: simpy.Event) -> None:
        self._over = True  # what arrives in the same instant is late

    def _check(self) -> None:
        """Wake who waits for replies once there are enough, or no more to come."""
        if (len(self._replies) >= self._want or not self._left) and not self._news.triggered:
            self._news.succeed()

    def _post(self) -> None:
        """Write all rows once they are final."""
        if self._written or self._left or self.undecided.any() or self._home.write_many is None:
            return
        floats = (
            np.array(column, dtype=np.float64)
            for column in (self._work_began, self._span_end, self._worked, self._up_end, self._up_moved)
        )
        began, ended, worked, up_end, up_moved = floats
        down_fate = np.array(self._down_fate, dtype=np.int8)
        down_end, down_moved = np.array(self._down_end), np.array(self._down_moved)
        self._write(Legs(down_end, down_moved, down_fate, began, ended, worked, up_end, up_moved, self._up_fate))
