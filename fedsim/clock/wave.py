"""Wave: the asks of a whole cohort as arrays, planned at once where no link can be congested.

`server.py` runs one ask event by event; a wave computes download, work and upload of every client by closed formulas
(`net/plan.py`).  It schedules events only where a process could notice the difference: when enough clients have
replied, when time is up, when a late upload arrives, and when a client goes to sleep, leaves, or receives data before
its download has arrived.  Times equal those of single asks up to rounding; bytes and fates are the same.

Not modelled: codecs, algorithms that send nothing, and links that can be congested; such clients are asked one by one.
"""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.clock.clients import Clients
from fedsim.clock.masks import span_of
from fedsim.clock.unread import Unread
from fedsim.learner.contract import Learner
from fedsim.learner.ticket import Reply, Ticket
from fedsim.net.message import Message
from fedsim.net.network import Network

Columns = Mapping[str, Any]
WriteMany = Callable[[Columns, Columns, Columns, npt.NDArray[np.float64]], None]
FATES = np.array(["", "delivered", "late", "discarded", "cut", "lost"])
NONE, DELIVERED, LATE, DISCARDED, CUT, LOST = range(len(FATES))
CODES = {str(name): code for code, name in enumerate(FATES)}
EVER = math.inf


class Home(Protocol):
    """The server, as a wave uses it."""

    env: simpy.Environment
    network: Network
    clients: Clients
    learner: Learner
    node: int
    version: int
    unread: Unread
    write_many: WriteMany | None

    def downloads(
        self, clients: Sequence[int], step: str, beside: Mapping[int, Any] | None
    ) -> tuple[list[Ticket | None], list[int]]:
        """Return the downloads of these clients, and their bytes."""
        ...

    def upload_bytes(self, step: str, upload: Ticket | None, beside: Any) -> int:
        """Return the bytes of a client's reply."""
        ...

    def note(self, lost: int = 0, late: int = 0) -> None:
        """Count further clients as lost or late."""
        ...

    def release(self, clients: Sequence[int]) -> None:
        """Mark these clients as free."""
        ...


class Wave:
    """The asks of clients in one step; `first` waits for replies, and `Clients` notifies the wave of changes.

    A member is *under way* until its upload has arrived or is cut.  All rows are written together, once the last member
    has ended and every reply has been folded or dropped.
    """

    def __init__(
        self, home: Home, clients: Sequence[int], step: str, number: int, beside: Mapping[int, Any] | None = None
    ) -> None:
        """Plan the exchanges of these clients, whose asks are numbered from `number`.

        `beside` is what masking sends each client with its download.
        """
        self._home, self._step, self._number, self.version = home, step, number, home.version
        self._clients, self._numbers = np.array(clients, dtype=np.int64), [*clients]
        self._place = {client: k for k, client in enumerate(clients)}
        self.began, count = home.env.now, len(clients)
        self._beside = beside or {}
        self._downloads, sizes = home.downloads(clients, step, beside)
        self._overhead = Message.carrying(home.node, 0, step, 0).nbytes
        self._down_bytes = self._overhead + np.array(sizes, dtype=np.int64)
        self._uploads, operations = home.clients.start(clients, step, self._downloads)
        self._up_bytes = np.array([self._up_size(k) for k in range(count)], dtype=np.int64)
        planner, sent = home.network.planner, np.full(count, self.began)
        self._down = planner.plan(self._clients, sent, self._down_bytes, upload=False)
        self._worked = self._down.arrives + home.clients.seconds(self._clients, operations)
        self._up = planner.plan(self._clients, self._worked, self._up_bytes, upload=True)
        self._under_way, self._taken = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)
        self._down_fate, self._up_fate = np.zeros(count, dtype=np.int8), np.zeros(count, dtype=np.int8)
        self._down_moved, self._up_moved = np.rint(self._down.size), np.rint(self._up.size)
        self._down_end, self._span_end, self._up_end = (
            times.copy() for times in (self._down.arrives, self._worked, self._up.arrives)
        )  # when each phase really ended
        self._open, self._undecided = True, 0  # whether replies still count; replies not folded or dropped yet
        self._want, self._written = count, False
        self._news = home.env.event()

    def first(self, want: int, before: float = EVER) -> Generator[simpy.Event, Any, list[Reply]]:
        """Wait for the first `want` replies, for at most `before` seconds; return them in order of arrival.

        Clients that have not replied by then are late: their uploads still arrive.
        """
        self._want, until = want, self._home.env.now + before
        due = yield from self._wait(until)
        arrived = np.flatnonzero(self._under_way & (self._up.arrives <= due))
        arrived = arrived[np.argsort(self._up.arrives[arrived], kind="stable")]
        replies = self._arrive(arrived[:want], DELIVERED)
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
        if not self._taken[k] and self._worked[k] <= self._home.env.now:
            self._take(k)

    def renew(self, client: int) -> None:
        """Note that the client has just received data, on which it works if its download has not arrived yet."""
        k, home = self._place[client], self._home
        if home.env.now >= self._down.arrives[k]:
            return
        self._withdraw(k)
        (self._uploads[k],), operations = home.clients.start([client], self._step, [self._downloads[k]])
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

    def decide(self, place: int, fate: str) -> None:
        """Record the fate of a reply."""
        self._up_fate[place] = CODES[fate]
        self._undecided -= 1
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

    def _arrive(self, places: npt.NDArray[np.int64], fate: int) -> list[Reply]:
        """Process uploads that have arrived; return the replies of those delivered, whose fate is still open."""
        self._under_way[places] = False
        self._down_fate[places], self._up_fate[places] = DELIVERED, fate
        for k in (arrived := places.tolist()):
            self._take(k)
        self._home.release([self._numbers[k] for k in arrived])
        if fate != DELIVERED:
            return []
        self._undecided += len(places)
        replies = []
        for k in arrived:
            number = self._number + k
            self._home.unread.plan(number, self, k)
            replies.append(Reply(self._numbers[k], self.version, self._downloads[k], self._uploads[k], 1.0, number))
        return replies

    def _client(self, k: int) -> int:
        return self._numbers[k]

    def _up_size(self, k: int) -> int:
        beside = self._beside.get(self._client(k))
        return self._overhead + self._home.upload_bytes(self._step, self._uploads[k], beside)

    def _withdraw(self, k: int) -> None:
        """Withdraw a job whose download has not arrived."""
        if (upload := self._uploads[k]) is not None:
            self._home.learner.withdrawn(self._client(k), upload)

    def _take(self, k: int) -> None:
        if not self._taken[k]:
            self._taken[k] = True
            self._home.clients.done(self._client(k), self._uploads[k])

    def _break_off(self, k: int) -> None:
        """End a member in its present phase: download, work or upload."""
        now = self._home.env.now
        self._under_way[k] = False
        self._down_fate[k] = DELIVERED
        if now < self._worked[k]:
            self._home.network.planner.take_back(self._client(k), upload=True)
            begun = now >= self._down.arrives[k]
            self._span_end[k] = now if begun else -EVER
            if begun and (upload := self._uploads[k]) is not None:
                self._home.learner.dropped(upload)
            if not begun:
                self._withdraw(k)
                self._down_moved[k] = moved = math.floor(self._down.moved(k, now))
                self._down_fate[k], self._down_end[k] = CUT if moved else LOST, now
            return
        self._take(k)
        self._up_moved[k] = moved = math.floor(self._up.moved(k, now))
        self._up_fate[k], self._up_end[k] = CUT if moved else LOST, now

    def _post(self) -> None:
        """Write all rows once they are final."""
        home = self._home
        if self._written or self._undecided or self._under_way.any() or home.write_many is None:
            return
        self._written = True
        ups, worked = np.flatnonzero(self._up_fate), np.flatnonzero(self._span_end >= self.began)
        now, started = home.env.now, self._down.arrives.copy()
        spans = {"client": self._clients, "start": started, "end": np.minimum(self._span_end, now)}
        legs = {
            "sent": np.full(len(self._clients), self.began), "arrived": np.minimum(self._down_end, now),
            "src": np.full(len(self._clients), home.node), "dst": self._clients, "nbytes": self._down_bytes,
            "wire_bytes": self._down_moved.astype(np.int64), "fate": FATES[self._down_fate],
        }, {
            "sent": np.minimum(self._worked, now), "arrived": np.minimum(self._up_end, now),
            "src": self._clients, "dst": np.full(len(self._clients), home.node), "nbytes": self._up_bytes,
            "wire_bytes": self._up_moved.astype(np.int64), "fate": FATES[self._up_fate],
        }  # fmt: skip
        same = {"kind": self._step, "version": self.version}
        work = {**_picked(spans, worked), "what": span_of(self._step)}
        home.write_many({**legs[0], **same}, {**_picked(legs[1], ups), **same}, work, started[ups])
        for leg, wire_bytes, upload in ((self._down, self._down_moved, False), (self._up, self._up_moved, True)):
            rows = np.arange(len(self._clients)) if not upload else ups
            whole = FATES[self._up_fate if upload else self._down_fate]
            through = np.isin(whole[rows], ("delivered", "late", "discarded"))
            home.network.planner.carry(self._clients[rows], np.where(through, leg.size[rows], wire_bytes[rows]), upload)


def _picked(columns: Columns, rows: npt.NDArray[np.int64]) -> dict[str, Any]:
    return {name: column[rows] for name, column in columns.items()}
