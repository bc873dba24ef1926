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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import simpy

from fedsim.clock.world import World
from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.core.record import SERVER, Recorder
from fedsim.core.units import LATEST

AT_ONCE, AT_ONCE_EACH = 200_000, 1_000  # events of one instant, and more for each client
QUIET = 100_000  # events without a row, for each client and the server
LOOK = 4096  # events between two looks at the bounds
SILENCE = 30.0  # real seconds without progress of the clock before a note
SHOWN = 5  # clients and transfers that a message names
ROOTS = ("fedsim", "algorithms")


class Bounds:
    """Counts the events of a run; `passed` is called after each of them."""

    def __init__(self, world: World, done: simpy.Process, recorder: Recorder) -> None:
        """Start at the present event."""
        self._world, self._done, self._recorder = world, done, recorder
        clients = len(world.clients)
        self._at_once, self._quiet = AT_ONCE + AT_ONCE_EACH * clients, QUIET * (1 + clients)
        self.events = self._since_moment = self._since_row = 0
        self._moment, self._rows, self._row_at = self._now(), recorder.rows, world.env.now

    def passed(self) -> None:
        """Count an event.  Raises UserError, with what is waited for, if a bound is exceeded."""
        self.events += 1
        if not self.events % LOOK:
            self._look()

    def beyond(self, ahead: float) -> UserError:
        """Return the error for a next event at a time that floats do not resolve."""
        return UserError(
            f"the next event is at {ahead:.4g} s, and a run ends at {LATEST:.4g} s (139,000 years), after which times "
            f"are not exact to a millisecond; {waits(self._world, self._done)}. Look for a rate that is next to "
            "nothing and for a very large size, work or time, or give measure.until"
        )

    def _look(self) -> None:
        world, now = self._world, self._world.env.now
        if (moment := self._now()) != self._moment:
            self._moment, self._since_moment = moment, self.events
        elif self.events - self._since_moment > self._at_once:
            raise UserError(
                f"the clock stands at {now:.9g} s, which {self.events - self._since_moment:,} events have not brought "
                f"forward; {waits(world, self._done)}. Look for times that are next to nothing: the 'every', 'length' "
                "and 'rate' of effects, and clients that leave as soon as they are asked"
            )
        if self._recorder.rows != self._rows:
            self._rows, self._since_row, self._row_at = self._recorder.rows, self.events, now
        elif self.events - self._since_row > self._quiet:
            raise UserError(
                f"nothing was sent or computed to its end in {self.events - self._since_row:,} events, from "
                f"{self._row_at:.9g} s to {now:.9g} s; {waits(world, self._done)}. If that never ends, change it or "
                "give measure.until; if it does, let effects change less often (their 'every')"
            )

    def _now(self) -> tuple[float, int, int]:
        server = self._world.server
        return self._world.env.now, server.version, server.rounds


def waits(world: World, done: simpy.Process) -> str:
    """Return who waits for what: the protocol's line, the transfers under way, the clients at work and offline."""
    parts = [f"the protocol waits in {_line(done)}"]
    messages = world.network.messages()
    if messages:
        first = "; ".join(f"{_node(one.src)} to {_node(one.dst)}, {one.nbytes:,} bytes" for one in messages[:SHOWN])
        parts.append(f"{len(messages)} transfers under way ({first}{'; ...' if len(messages) > SHOWN else ''})")
    busy = np.flatnonzero(world.clients.busy)
    away = np.flatnonzero(~world.network.nodes.online)
    parts += [f"clients {what}: {_some(some)}" for some, what in ((busy, "at work"), (away, "offline")) if len(some)]
    return "; ".join(parts)


@contextmanager
def noted(report: Callable[[Progress], None], silence: float = SILENCE) -> Iterator["Note"]:
    """Note from a second thread what this thread does, whenever the clock has not moved for that many real seconds."""
    note = Note(report, silence)
    thread = threading.Thread(target=note.follow, daemon=True)
    thread.start()
    try:
        yield note
    finally:
        note.ended.set()
        thread.join()


class Note:
    """What is known of a run while it goes on; `world` and `done` are set once they are built."""

    def __init__(self, report: Callable[[Progress], None], silence: float) -> None:
        """Belong to the present thread."""
        self.ended = threading.Event()
        self.world: World | None = None
        self.done: simpy.Process | None = None
        self._report, self._silence, self._owner = report, silence, threading.get_ident()
        self._lock, self._last = threading.Lock(), Progress(0.0, 0.0, None, 0)

    def report(self, progress: Progress) -> None:
        """Report progress; the two threads do so one after the other."""
        with self._lock:
            self._last = progress
            self._report(progress)

    def follow(self) -> None:
        """Watch the clock until the run has ended."""
        seen, since, patience = self._now(), time.monotonic(), self._silence
        while not self.ended.wait(self._silence / 6):
            if (now := self._now()) != seen:
                seen, since, patience = now, time.monotonic(), self._silence
            elif time.monotonic() - since >= patience:
                patience *= 2
                self._say(time.monotonic() - since)

    def _now(self) -> float:
        return -1.0 if self.world is None else self.world.env.now

    def _say(self, seconds: float) -> None:
        place = _running(sys._current_frames().get(self._owner))
        text = f"no simulated time has passed for {seconds:.0f} s of real time: the point is being set up, in {place}"
        if self.world is not None and self.done is not None:
            text = f"the clock has stood at {self._now():.6g} s for {seconds:.0f} s of real time, in {place}"
            with suppress(RuntimeError):  # what the other thread is changing
                text += f"; {waits(self.world, self.done)}"
        with self._lock:
            self._report(replace(self._last, doing=text))


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


def _some(numbers: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> str:
    return ", ".join(map(str, numbers[:SHOWN].tolist())) + (", ..." if len(numbers) > SHOWN else "")
