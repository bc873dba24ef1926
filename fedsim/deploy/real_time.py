"""The wall clock as an environment of SimPy, so that protocols run unchanged while real messages are under way.

An event that is due is processed as soon as possible, at the real time; a timeout fires no sooner than its real
seconds have passed.  Answers arrive between two events.  Not modelled: a real-time guarantee; a long update delays the
events after it, as it would in any server.
"""

import time
from collections.abc import Callable
from typing import Any, cast

import simpy

from fedsim.deploy.messages import Delivered, Post

LONGEST = 0.5  # seconds of one wait for answers


class RealTime(simpy.Environment):
    """Seconds since its creation, by the host's monotonic clock; `epoch` is when that was, in seconds since 1970."""

    def __init__(self) -> None:
        """Begin now."""
        self._began, self.epoch = time.monotonic(), time.time()
        super().__init__()

    @property
    def now(self) -> float:
        """The real seconds since the beginning."""
        return time.monotonic() - self._began

    def schedule(self, event: simpy.Event, priority: Any = simpy.events.NORMAL, delay: float = 0) -> None:
        """Schedule an event that many seconds from now."""
        self._now = self.now
        super().schedule(event, priority, delay)


class Inbox:
    """The questions under way: each is an event, which fires with what is brought."""

    def __init__(self, env: RealTime, post: Post, asked: int = 0) -> None:
        """Number questions from `asked` on; answers to earlier ones that the carrier still brings are dropped."""
        self.env, self.post, self.asked = env, post, asked
        self._waiting: dict[int, simpy.Event] = {}

    def ask(self, client: int, data: bytes) -> tuple[simpy.Event, int]:
        """Send a question; return the event that fires with its `Delivered`, and the bytes that were carried."""
        self.asked += 1
        event = self._waiting[self.asked] = self.env.event()
        return event, self.post.send(self.asked, client, data)

    def run(self, done: simpy.Event, between: Callable[[], bool]) -> str:
        """Process events and answers until `done`, or until `between`, called between events, returns True.

        Returns "done", or "stalled" if nothing is due and nothing is under way.
        """
        env = self.env
        while not done.processed:
            if between():
                return "done"
            ahead = env.peek()
            if ahead <= env.now:
                env.step()
            elif ahead == float("inf") and not self._waiting:
                return "stalled"
            else:
                self.deliver(min(LONGEST, max(0.0, ahead - env.now)))
        return "done"

    def deliver(self, seconds: float) -> list[Delivered]:
        """Wait at most that long for answers, and fire their events."""
        delivered = self.post.poll(seconds)
        for each in delivered:
            if each.number in self._waiting:
                self._waiting.pop(each.number).succeed(each)
        return delivered

    def wait(self, event: simpy.Event) -> Delivered:
        """Wait for one answer, and return it; nothing else goes on meanwhile but other answers that arrive."""
        while not event.triggered:
            self.deliver(LONGEST)
        return cast("Delivered", event.value)
