"""Presence: which clients are online, since when, and for how long in total.

A client is online while nothing keeps it asleep: neither effects that act on it directly nor the plans that
it follows (`OfflineIntervals`).  Planned changes cost nothing for an idle client until its state is read:
then all changes so far are worked out at once, with their times.  The clock stops for a change only if its
moment matters: a change of a client that is attended to (it works, or something moves over its links), of any
client while a process waits for one to come online, and of every client if a watcher needs all changes.
"""

import math
from array import array
from collections.abc import Callable

import numpy as np
import simpy

from fedsim.core.arrays import Bools, Floats, Ints
from fedsim.net.presence.agenda import Agenda
from fedsim.net.presence.offline_intervals import OfflineIntervals, order

FEW = 12  # changes: up to this many are faster one by one
Move = tuple[int, bool]  # a client, and whether it is online now


class Presence:
    """The clients as rows (K,), all online at first; without a clock the time is always 0.

    `notify` is called with a client and whether it is online now when that changes: at once for clients that
    are attended to, or for all after `notify_all`; `came` is called after a client has come online.
    """

    def __init__(self, count: int, notify: Callable[[int, bool], None]) -> None:
        """Start with all clients online, and attend to none."""
        self.came: Callable[[], None] = lambda: None
        self._notify = notify
        self.current = np.ones(count, dtype=bool)
        self._keepers = np.zeros(count, dtype=np.int64)  # how many causes keep each asleep
        self._since, self._seconds = np.zeros(count), np.zeros(count)  # the last change; seconds online before it
        # Past stretches offline
        self._clients, self._starts, self._ends = array("q"), array("d"), array("d")
        self.plans: list[OfflineIntervals] = []
        self._due = math.inf  # when the plans change next
        self._agenda = Agenda(count, self._ring)
        self.attended = self._agenda.attended
        self._notifies_all = self._expecting = False

    def start(self, env: simpy.Environment) -> None:
        """Use this clock from now on."""
        self._agenda.start(env)

    def follow(self, env: simpy.Environment, plan: OfflineIntervals) -> None:
        """Keep each client asleep during its spells, from now on."""
        self.start(env)
        self._settle()
        self.plans.append(plan)
        self._due = min(self._due, plan.next)
        away = np.flatnonzero(plan.inside)
        self._apply(np.full(len(away), env.now), away, np.ones(len(away), dtype=np.int64))
        for client in np.flatnonzero(self.attended).tolist():
            self._list(client)
        self._arm()

    def notify_all(self) -> None:
        """Notify of every change of every client at its moment from now on."""
        self._notifies_all = True
        self._arm()

    def online(self) -> Bools:
        """Return who is online now."""
        self._settle()
        return self.current

    def is_online(self, client: int) -> bool:
        """Return whether a client is online now, without settling all others."""
        now = self._agenda.now
        if self._due <= now and any(plan.until[client] <= now for plan in self.plans):
            self._settle()
        return bool(self.current[client])

    def share(self) -> Floats:
        """Return the share of the time so far that each client has been online; 1 at time 0."""
        self._settle()
        now = self._agenda.now
        if not now:
            return np.ones(len(self.current))
        return (self._seconds + np.where(self.current, now - self._since, 0.0)) / now

    def stretches(self) -> tuple[Ints, Floats, Floats]:
        """Return all stretches offline (clients, starts, ends), ordered by their ends; open ones end now."""
        self._settle()
        asleep = np.flatnonzero(~self.current)
        clients = np.append(np.array(self._clients, dtype=np.int64), asleep)
        starts = np.append(np.array(self._starts), self._since[asleep])
        ends = np.append(np.array(self._ends), np.full(len(asleep), self._agenda.now))
        placed = np.lexsort((clients, ends))
        return clients[placed], starts[placed], ends[placed]

    def keep(self, client: int, asleep: bool) -> None:
        """Add or remove one cause that keeps a client asleep."""
        self._settle()
        if self._change(self._agenda.now, client, 1 if asleep else -1):
            self._announce([(client, not asleep)], came=not asleep)

    def attend(self, client: int) -> None:
        """Notify of each change of this client at its moment, until `dismiss` has been called as often as this."""
        if not self.plans or client in self._agenda.listed:
            self.attended[client] += 1
        else:
            self.attend_all(np.array([client]))

    def attend_all(self, clients: Ints) -> None:
        """Attend to each of these clients, none of which occurs twice."""
        self._settle()  # so that past changes are not notified as present ones
        self.attended[clients] += 1
        for client in clients.tolist():
            if client not in self._agenda.listed:
                self._list(client)
        self._arm()

    def dismiss(self, client: int) -> None:
        """Undo an `attend`."""
        self.attended[client] -= 1

    def expect(self) -> None:
        """Call `came` at the moment when the next client comes online."""
        self._expecting = True
        self._arm()

    def _settle(self) -> None:
        """Work out all planned changes up to now, and notify of them."""
        now = self._agenda.now
        if self._due > now:
            return
        parts = [part for plan in self.plans for part in plan.passed(now)]
        self._due = min(plan.next for plan in self.plans)
        times, who, steps = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        if len(self.plans) > 1:
            placed = np.argsort(times, kind="stable")
            times, who, steps = times[placed], who[placed], steps[placed]
        self._apply(times, who, steps)

    def _settle_one(self, client: int) -> None:
        """Do the same for a client that changes right now, without the others if possible."""
        now = self._agenda.now
        for plan in self.plans:
            if plan.until[client] <= now:
                step = plan.passed_of(client, now)
                if not step:
                    self._settle()
                elif self._change(now, client, step):
                    self._announce([(client, step < 0)], came=step < 0)

    def _apply(self, times: Floats, who: Ints, steps: Ints) -> None:
        """Apply changes at their times, which may be past: one cause more (+1) or less (-1) keeps a client asleep."""
        if len(times) > FEW:
            moves, came = self._change_many(times, who, steps)
        else:
            rows = zip(times.tolist(), who.tolist(), steps.tolist(), strict=True)
            changed = [(client, step < 0) for time, client, step in rows if self._change(time, client, step)]
            moves = [move for move in changed if self._notifies_all or self.attended[move[0]]]
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
        since, self._since[client], self.current[client] = float(self._since[client]), time, not after
        if after:
            self._seconds[client] += time - since
        else:
            self._clients.append(client)
            self._starts.append(since)
            self._ends.append(time)
        return True

    def _change_many(self, times: Floats, who: Ints, steps: Ints) -> tuple[list[Move], bool]:
        """Apply changes as `_change` does one by one; return those to notify of, and whether any client has come."""
        placed = order(who)  # grouped by client, still in order of time
        times, who, steps = times[placed], who[placed], steps[placed]
        is_first = _starts(who)
        sums = np.cumsum(steps)
        first = np.flatnonzero(is_first)
        before_first = self._keepers[who[first]] - sums[first] + steps[first]
        after = sums + before_first[np.cumsum(is_first) - 1]
        self._keepers[who] = after  # of several changes of one client the last one holds
        moved = (after == 0) | (after == steps)  # nothing keeps it asleep any more, or nothing did before
        times, who, online = times[moved], who[moved], after[moved] == 0
        since = np.where(_starts(who), self._since[who], np.append(0.0, times[:-1]))
        np.add.at(self._seconds, who[~online], (times - since)[~online])
        self._since[who], self.current[who] = times, online
        self._clients.frombytes(who[online].tobytes())
        self._starts.frombytes(since[online].tobytes())
        self._ends.frombytes(times[online].tobytes())
        due = np.flatnonzero(self.attended[who] > 0) if not self._notifies_all else np.argsort(times, kind="stable")
        return list(zip(who[due].tolist(), online[due].tolist(), strict=True)), bool(online.any())

    def _list(self, client: int) -> None:
        """Record when the plans next change this client."""
        self._agenda.add(client, min(float(plan.until[client]) for plan in self.plans))

    def _arm(self) -> None:
        """Set the alarm for the next change whose moment matters."""
        self._agenda.arm(self._due if self._notifies_all or self._expecting else math.inf)

    def _ring(self) -> None:
        if self._notifies_all or self._expecting:
            self._settle()
        for client in self._agenda.take_due():
            self._settle_one(client)
            self._list(client)
        self._arm()


def _starts(who: Ints) -> Bools:
    """Return whether each of these sorted numbers is the first of its kind."""
    return np.append(True, who[1:] != who[:-1])[: len(who)]
