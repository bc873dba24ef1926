"""Presence: which clients are online, since when, and for how long in total.

A client is online while nothing keeps it asleep: neither effects that act on it directly nor the plans that it follows
(`Absences`).  Planned changes cost nothing for an idle client until its state is read: then all changes so far are
worked out at once, with their times.  The clock stops for a change only if its moment matters: a change of a client
that is attended to (it works, or something moves over its links), of any client while a process waits for one to come
online, and of every client if a watcher needs all changes.
"""

import math
from array import array
from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.net.absences import Absences, Floats, Numbers, order
from fedsim.net.alarm import Alarm

FEW = 12  # changes: up to this many are faster one by one
Move = tuple[int, bool]  # a client, and whether it is online now


class Presence:
    """The clients as rows (K,), all online at first; without a clock the time is always 0.

    `notify` is called with a client and whether it is online now when that changes: at once for clients that are
    attended to, or for all after `notify_all`; `came` is called after a client has come online.
    """

    def __init__(self, count: int, notify: Callable[[int, bool], None]) -> None:
        """Start with all clients online, and attend to none."""
        self.came: Callable[[], None] = lambda: None
        self._notify = notify
        self._env: simpy.Environment | None = None
        self._online = np.ones(count, dtype=bool)
        self._keepers = np.zeros(count, dtype=np.int64)  # how many causes keep each asleep
        self._since, self._seconds = np.zeros(count), np.zeros(count)  # the last change; seconds online before it
        # Past stretches offline
        self._clients, self._starts, self._ends = array("q"), array("d"), array("d")
        self._plans: list[Absences] = []
        self._due = math.inf  # when the plans change next
        self._attended = np.zeros(count, dtype=np.int32)  # how many attend to each
        self._coming: list[tuple[float, int]] = []  # next planned changes of clients attended to, and some others
        self._listed: set[int] = set()  # the clients in `_coming`
        self._notifies_all = self._expecting = False
        self._alarm: Alarm | None = None

    def start(self, env: simpy.Environment) -> None:
        """Use this clock from now on."""
        self._env = env
        self._alarm = self._alarm or Alarm(env, self._ring)

    def follow(self, env: simpy.Environment, plan: Absences) -> None:
        """Keep each client asleep during its spells, from now on."""
        self.start(env)
        self._settle()
        self._plans.append(plan)
        self._due = min(self._due, plan.next)
        away = np.flatnonzero(plan.inside)
        self._apply(np.full(len(away), env.now), away, np.ones(len(away), dtype=np.int64))
        for client in np.flatnonzero(self._attended).tolist():
            self._list(client)
        self._arm()

    def notify_all(self) -> None:
        """Notify of every change of every client at its moment from now on."""
        self._notifies_all = True
        self._arm()

    def online(self) -> npt.NDArray[np.bool_]:
        """Return who is online now."""
        self._settle()
        return self._online

    def is_online(self, client: int) -> bool:
        """Return whether a client is online now, without settling all others."""
        now = self._now
        if self._due <= now and any(plan.until[client] <= now for plan in self._plans):
            self._settle()
        return bool(self._online[client])

    def share(self) -> Floats:
        """Return the share of the time so far that each client has been online; 1 at time 0."""
        self._settle()
        now = self._now
        if not now:
            return np.ones(len(self._online))
        return (self._seconds + np.where(self._online, now - self._since, 0.0)) / now

    def stretches(self) -> tuple[Numbers, Floats, Floats]:
        """Return all stretches offline (clients, starts, ends), ordered by their ends; open ones end now."""
        self._settle()
        asleep = np.flatnonzero(~self._online)
        clients = np.append(np.array(self._clients, dtype=np.int64), asleep)
        starts = np.append(np.array(self._starts), self._since[asleep])
        ends = np.append(np.array(self._ends), np.full(len(asleep), self._now))
        placed = np.lexsort((clients, ends))
        return clients[placed], starts[placed], ends[placed]

    def keep(self, client: int, asleep: bool) -> None:
        """Add or remove one cause that keeps a client asleep."""
        self._settle()
        if self._change(self._now, client, 1 if asleep else -1):
            self._announce([(client, not asleep)], came=not asleep)

    def attend(self, client: int) -> None:
        """Notify of each change of this client at its moment, until `dismiss` has been called as often as this."""
        if not self._plans or client in self._listed:
            self._attended[client] += 1
            return
        self._settle()  # so that past changes are not notified as present ones
        self._attended[client] += 1
        self._list(client)
        self._arm()

    def attend_all(self, clients: Numbers) -> None:
        """Attend to each of these clients, none of which occurs twice."""
        if self._plans:
            self._settle()
        self._attended[clients] += 1
        if self._plans:
            for client in clients.tolist():
                if client not in self._listed:
                    self._list(client)
            self._arm()

    def dismiss(self, client: int) -> None:
        """Undo an `attend`."""
        self._attended[client] -= 1

    def dismiss_all(self, clients: Numbers) -> None:
        """Undo an `attend_all`, or as many single ones."""
        self._attended[clients] -= 1

    def expect(self) -> None:
        """Call `came` at the moment when the next client comes online."""
        self._expecting = True
        self._arm()

    @property
    def _now(self) -> float:
        return self._env.now if self._env else 0.0

    def _settle(self) -> None:
        """Work out all planned changes up to now, and notify of them."""
        now = self._now
        if self._due > now:
            return
        parts = [part for plan in self._plans for part in plan.passed(now)]
        self._due = min(plan.next for plan in self._plans)
        times, who, steps = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        if len(self._plans) > 1:
            placed = np.argsort(times, kind="stable")
            times, who, steps = times[placed], who[placed], steps[placed]
        self._apply(times, who, steps)

    def _settle_one(self, client: int) -> None:
        """Do the same for a client that changes right now, without the others if possible."""
        now = self._now
        for plan in self._plans:
            if plan.until[client] <= now:
                step = plan.passed_of(client, now)
                if not step:
                    self._settle()
                elif self._change(now, client, step):
                    self._announce([(client, step < 0)], came=step < 0)

    def _apply(self, times: Floats, who: Numbers, steps: Numbers) -> None:
        """Apply changes at their times, which may be past: one cause more (+1) or less (-1) keeps a client asleep."""
        if len(times) > FEW:
            moves, came = self._change_many(times, who, steps)
        else:
            rows = zip(times.tolist(), who.tolist(), steps.tolist(), strict=True)
            changed = [(client, step < 0) for time, client, step in rows if self._change(time, client, step)]
            moves = [move for move in changed if self._notifies_all or self._attended[move[0]]]
            came = any(online for _, online in changed)
        self._announce(moves, came)

    def _announce(self, moves: list[Move], came: bool) -> None:
        for client, online in moves:
            self._notify(client, online)
        if came:
            self._expecting = False
            self.came()

    def _change(self, time: float, client: int, step: int) -> bool:
        """Apply one change; return whether the client has come online or gone offline."""
        before = self._keepers[client]
        self._keepers[client] = after = before + step
        if before and after:
            return False
        since, self._since[client], self._online[client] = float(self._since[client]), time, not after
        if after:
            self._seconds[client] += time - since
        else:
            self._clients.append(client)
            self._starts.append(since)
            self._ends.append(time)
        return True

    def _change_many(self, times: Floats, who: Numbers, steps: Numbers) -> tuple[list[Move], bool]:
        """Apply changes as `_change` does one by one; return those to notify of, and whether any client has come."""
        placed = order(who)  # grouped by client, still in order of time
        times, who, steps = times[placed], who[placed], steps[placed]
        own = _starts(who)
        sums = np.cumsum(steps)
        first = np.flatnonzero(own)
        before_first = self._keepers[who[first]] - sums[first] + steps[first]
        after = sums + before_first[np.cumsum(own) - 1]
        self._keepers[who] = after  # of several changes of one client the last one holds
        moved = (after == 0) | (after == steps)  # nothing keeps it asleep any more, or nothing did before
        times, who, online = times[moved], who[moved], after[moved] == 0
        since = np.where(_starts(who), self._since[who], np.append(0.0, times[:-1]))
        np.add.at(self._seconds, who[~online], (times - since)[~online])
        self._since[who], self._online[who] = times, online
        self._clients.frombytes(who[online].tobytes())
        self._starts.frombytes(since[online].tobytes())
        self._ends.frombytes(times[online].tobytes())
        due = np.flatnonzero(self._attended[who] > 0) if not self._notifies_all else np.argsort(times, kind="stable")
        return list(zip(who[due].tolist(), online[due].tolist(), strict=True)), bool(online.any())

    def _list(self, client: int) -> None:
        """Record when the plans next change this client."""
        self._listed.add(client)
        heappush(self._coming, (min(float(plan.until[client]) for plan in self._plans), client))

    def _arm(self) -> None:
        """Set the alarm for the next change whose moment matters."""
        while self._coming and not self._attended[self._coming[0][1]]:
            self._listed.discard(heappop(self._coming)[1])
        wanted = self._due if self._notifies_all or self._expecting else math.inf
        at = min(wanted, self._coming[0][0] if self._coming else math.inf)
        if self._alarm is not None:
            self._alarm.set(at)

    def _ring(self) -> None:
        if self._notifies_all or self._expecting:
            self._settle()
        while self._coming and self._coming[0][0] <= self._now:
            client = heappop(self._coming)[1]
            self._listed.discard(client)
            if self._attended[client]:
                self._settle_one(client)
                self._list(client)
        self._arm()


def _starts(who: Numbers) -> npt.NDArray[np.bool_]:
    """Return whether each of these sorted numbers is the first of its kind."""
    return np.append(True, who[1:] != who[:-1])[: len(who)]
