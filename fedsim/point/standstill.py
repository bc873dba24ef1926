"""A clock that stands still, or goes on without end: what the run waits for, as an error and as a note while it waits.

Two bounds count events: those of one instant, and those in which no row of any table is added, such as the changes of
rates that go on while a transfer waits for ever.  A third is the last time at which floats resolve a millisecond.  All
three depend on the scenario alone.  The note is the host's: after half a minute of real time without progress of the
clock, and then each time that has doubled, it says which code is running and what is waited for.  It goes to the
display, never into a table or run.log.

Not detected: clocks that go on slowly, with a row now and then.
"""

import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Self

import simpy

from fedsim.clock.world import World
from fedsim.core.arrays import Ints
from fedsim.core.errors import UserError
from fedsim.core.progress import BEGUN, Progress, ReportProgress
from fedsim.core.record import SERVER, Recorder
from fedsim.core.units import LATEST

AT_ONCE, AT_ONCE_EACH = 200_000, 1_000  # events of one instant, and more for each client
QUIET = 100_000  # events without a row, for each client and the server
LOOK = 4096  # events between two looks at the bounds
SILENCE = 30.0  # real seconds without progress of the clock before a note
SHOWN = 5  # clients and transfers that a message names
ROOTS = ("fedsim", "algorithms")


class Bounds:
    """Ends a run in which too many events bring nothing forward."""

    def __init__(self, world: World, done: simpy.Process, recorder: Recorder) -> None:
        """Start before the first event; `done` is the protocol's process."""
        self._world, self._done, self._recorder = world, done, recorder
        clients = len(world.clients)
        self._at_once, self._quiet = AT_ONCE + AT_ONCE_EACH * clients, QUIET * (1 + clients)
        self._moment, self._moment_event = _moment(world), 0
        self._rows, self._row_event, self._row_time = recorder.rows, 0, world.env.now

    def look(self, events: int) -> None:
        """Look at the world after so many events.  Raises UserError, with what is waited for, beyond a bound."""
        now, moment, rows = self._world.env.now, _moment(self._world), self._recorder.rows
        if moment != self._moment:
            self._moment, self._moment_event = moment, events
        elif (count := events - self._moment_event) > self._at_once:
            raise UserError(
                f"the clock stands at {now:.9g} s, which {count:,} events have not brought forward; {self._waits()}. "
                "Look for times that are next to nothing: the 'every', 'length' and 'rate' of effects, and clients "
                "that leave as soon as they are asked"
            )
        if rows != self._rows:
            self._rows, self._row_event, self._row_time = rows, events, now
        elif (count := events - self._row_event) > self._quiet:
            raise UserError(
                f"no transfer or computation finished in {count:,} events, from {self._row_time:.9g} s to {now:.9g} s; "
                f"{self._waits()}. If that never ends, change it or give measure.until; if it does, let effects "
                "change less often (their 'every')"
            )

    def beyond(self, ahead: float) -> UserError:
        """Return the error for a next event at a time that floats do not resolve."""
        return UserError(
            f"the next event is at {ahead:.4g} s, and a run ends at {LATEST:.4g} s (139,000 years), after which times "
            f"are not exact to a millisecond; {self._waits()}. Look for a rate that is next to "
            "nothing and for a very large size, work or time, or give measure.until"
        )

    def _waits(self) -> str:
        return waits(self._world, self._done)


def waits(world: World, done: simpy.Process) -> str:
    """Return who waits for what: the protocol's line, the transfers under way, the clients at work and offline."""
    parts = [f"the protocol waits in {_line(done)}"]
    messages = world.network.messages()
    if messages:
        first = "; ".join(f"{_node(each.src)} to {_node(each.dst)}, {each.nbytes:,} bytes" for each in messages[:SHOWN])
        parts.append(f"{len(messages)} transfers under way ({first}{'; ...' if len(messages) > SHOWN else ''})")
    busy, away = world.clients.busy.nonzero()[0], (~world.network.nodes.online).nonzero()[0]
    parts += [f"clients {what}: {_some(some)}" for some, what in ((busy, "at work"), (away, "offline")) if len(some)]
    return "; ".join(parts)


class Watchdog:
    """Notes from a second thread what the present one does, whenever the clock has not moved for some real seconds.

    `watched` are the world and the protocol's process, None while they are being built.
    """

    def __init__(self, report: ReportProgress, silence: float = SILENCE) -> None:
        """Watch within a `with` block."""
        self.watched: tuple[World, simpy.Process] | None = None
        self._report, self._silence, self._owner = report, silence, threading.get_ident()
        self._lock, self._last, self._ended = threading.Lock(), BEGUN, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._ended.set()
        self._thread.join()

    def report(self, progress: Progress) -> None:
        """Report progress; the two threads do so one after the other."""
        with self._lock:
            self._last = progress
            self._report(progress)

    def _watch(self) -> None:
        seen, since, patience = self._now(), time.monotonic(), self._silence
        while not self._ended.wait(self._silence / 6):
            if (now := self._now()) != seen:
                seen, since, patience = now, time.monotonic(), self._silence
            elif (seconds := time.monotonic() - since) >= patience:
                patience *= 2
                text = self._described(seconds)
                with self._lock:
                    self._report(replace(self._last, doing=text))

    def _now(self) -> float:
        return self.watched[0].env.now if self.watched else -1.0

    def _described(self, seconds: float) -> str:
        place = _running(sys._current_frames().get(self._owner))
        if self.watched is None:
            return f"no simulated time has passed for {seconds:.0f} s of real time: the run is being set up, in {place}"
        text = f"the clock has stood at {self._now():.6g} s for {seconds:.0f} s of real time, in {place}"
        with suppress(RuntimeError):  # what the other thread is changing
            text += f"; {waits(*self.watched)}"
        return text


def _moment(world: World) -> tuple[float, int, int]:
    return world.env.now, world.server.version, world.server.rounds


def _running(frame: FrameType | None) -> str:
    """Return the innermost place of fedsim's or an algorithm's code."""
    while frame is not None:
        if any(root in Path(frame.f_code.co_filename).parts for root in ROOTS):
            return _place(frame)
        frame = frame.f_back
    return "a library"


def _line(done: simpy.Process) -> str:
    """Return where a process waits, in the innermost of its generators."""
    inner: Any = done._generator  # typed as if it were no Python generator
    while getattr(inner.gi_yieldfrom, "gi_frame", None) is not None:
        inner = inner.gi_yieldfrom
    return "nothing: it has ended" if inner.gi_frame is None else _place(inner.gi_frame)


def _place(frame: FrameType) -> str:
    return f"{'/'.join(Path(frame.f_code.co_filename).parts[-3:])}, {frame.f_code.co_name}"


def _node(number: int) -> str:
    return "the server" if number == SERVER else f"client {number}" if number >= 0 else f"edge aggregator {-2 - number}"


def _some(numbers: Ints) -> str:
    return ", ".join(map(str, numbers[:SHOWN].tolist())) + (", ..." if len(numbers) > SHOWN else "")
