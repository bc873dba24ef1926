"""The loop: steps the clock of a point to its end, and compares two numbers between two events.

These are the number of events and the real time from which on something is to be done: a checkpoint, a report of
progress, a look at the bounds of `standstill.py`.  Ctrl-C makes it due at once.  So it takes effect between two events,
where a point can be resumed: SimPy turns whatever is raised in a process into an event, and would let the clock go on
for another event or two, in a state that no other run reaches.  A second Ctrl-C is not held back: it ends a long event.

Only Python's own handler is replaced, and only in the main thread.  Not covered: other signals, which end the process.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from fedsim.clock import budget
from fedsim.core.progress import Progress, ReportProgress
from fedsim.core.record import Recorder
from fedsim.core.units import LATEST
from fedsim.point.build.assemble import Built
from fedsim.point.resume.checkpoint import Checkpointer
from fedsim.point.standstill import LOOK, Bounds

REPORT_EVERY = 0.2  # seconds between two reports of progress


class Loop:
    """Steps the clock of a point; `events` counts the steps."""

    def __init__(
        self, built: Built, recorder: Recorder, report: ReportProgress, checkpointer: Checkpointer | None = None
    ) -> None:
        """Begin at the first event; only a point that learns takes checkpoints."""
        self._built, self._report, self._checkpointer = built, report, checkpointer
        self._bounds = Bounds(built.world, built.done, recorder)
        self.events = 0
        self._resume_at = checkpointer.resume_at if checkpointer else 0
        self._look_at = min(self._resume_at or LOOK, LOOK)
        self._report_at = self._due = -math.inf
        self._interrupted = False

    def run(self) -> str:
        """Step the clock until the protocol ends, a budget is used up, or no event is left; return the status.

        Raises UserError where the run would not end, and KeyboardInterrupt for Ctrl-C.
        """
        world, done, until = self._built.world, self._built.done, self._built.parts.scenario.measure.until
        end = math.inf if until is None else budget.end(until)
        last = min(end, LATEST)
        with held_back(self._interrupt):
            while not done.processed:
                if (ahead := world.env.peek()) > last:
                    return self._beyond(ahead, end)
                updated = world.server.updated
                self._step()
                if until is not None and budget.spent(until, world):
                    while updated.triggered and not updated.processed:  # those that wait for it come first
                        self._step()
                    break
        return "done"

    def _beyond(self, ahead: float, end: float) -> str:
        env = self._built.world.env
        if ahead == math.inf:
            return "stalled"
        if ahead <= end:
            raise self._bounds.beyond(ahead)
        if env.now < end:
            env.run(until=end)
        return "done"

    def _step(self) -> None:
        self._built.world.env.step()
        self.events += 1
        if self.events >= self._look_at or time.monotonic() >= self._due:
            self._look()

    def _look(self) -> None:
        """Do what is due."""
        checkpointer = self._checkpointer
        if self.events >= self._look_at:
            if checkpointer and self.events == self._resume_at:
                checkpointer.resume()
            if not self.events % LOOK:
                self._bounds.look(self.events)
            ahead = self.events - self.events % LOOK + LOOK
            self._look_at = min(ahead, self._resume_at) if self._resume_at > self.events else ahead
        if checkpointer and time.monotonic() >= checkpointer.due:
            checkpointer.take(self.events)
        if time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + REPORT_EVERY
            world, observer = self._built.world, self._built.observer
            score = observer.latest if observer else None
            self._report(Progress(world.env.now, self._built.share(), score, world.server.version))
        self._due = min(self._report_at, checkpointer.due) if checkpointer else self._report_at
        if self._interrupted:  # looked at last: `_interrupt` may be called at any place above
            raise KeyboardInterrupt

    def _interrupt(self) -> None:
        self._interrupted, self._due = True, -math.inf


@contextmanager
def held_back(note: Callable[[], None]) -> Iterator[None]:
    """Call `note` at the first Ctrl-C, which raises KeyboardInterrupt when the block ends if nothing does before."""
    requested = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True
        note()

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
        if requested:
            raise KeyboardInterrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
