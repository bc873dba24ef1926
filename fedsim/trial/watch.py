"""Who looks on while an algorithm is played: every call of the author's code, with all that it is given.

`Recording` compares what a call was given, and the global random numbers, before and after it.  Of a call in which one
has changed, `Blaming` finds the line when the same play is played again, by looking after every line of the author's.
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np
import torch

from fedsim.trial import places, prints

# What a call is given, by its name and by whose it is (" of client 2", or ""); a function returns what is there now.
Given = Mapping[tuple[str, str], Any]
KEPT = ("self", "module")  # what is there beside what a call is given; what is added there, as by a cache, is no change


class Watch:
    """Looks on and does nothing."""

    @contextmanager
    def call(self, name: str, given: Given) -> Iterator[None]:
        """Surround a call of the algorithm's method of that name."""
        yield


@dataclass(frozen=True)
class Event:
    """A call that has done what it should not: `what` has changed, at the path inside it."""

    call: int
    method: str
    what: str
    whose: str = ""
    path: str = ""


@dataclass
class Recording(Watch):
    """Notes calls that change what they were given, and calls that draw global random numbers."""

    calls: int = 0
    changes: list[Event] = field(default_factory=list)
    draws: list[Event] = field(default_factory=list)

    @contextmanager
    def call(self, name: str, given: Given) -> Iterator[None]:
        """See `Watch.call`."""
        number, self.calls = self.calls, self.calls + 1
        before = {key: _now(value) for key, value in given.items()}
        drawn = {library: state() for library, state in RANDOM.items()}
        yield
        self.draws += [Event(number, name, library) for library, state in RANDOM.items() if state() != drawn[library]]
        for (what, whose), value in given.items():
            paths = prints.changed(before[what, whose], _now(value))
            if what in KEPT:
                paths = [path for path in paths if path]
            self.changes += [Event(number, name, what, whose, path) for path in paths[:1]]


@dataclass
class Blaming(Watch):
    """Finds the author's line after which what `event` tells of has changed."""

    event: Event
    author: places.Author
    calls: int = 0
    found: str = ""

    @contextmanager
    def call(self, name: str, given: Given) -> Iterator[None]:
        """See `Watch.call`."""
        number, self.calls = self.calls, self.calls + 1
        if number != self.event.call:
            yield
            return
        key = self.event.what, self.event.whose
        reading = RANDOM.get(self.event.what) or (lambda: _now(given[key]).get(self.event.path))
        before = sys.gettrace()
        sys.settrace(_Tracer(reading, self.author, self).on_call)
        try:
            yield
        finally:
            sys.settrace(before)


class _Tracer:
    def __init__(self, reading: Callable[[], Any], author: places.Author, blaming: Blaming) -> None:
        self._reading, self._author, self._blaming = reading, author, blaming
        self._first, self._last = reading(), ("", 0)

    def on_call(self, frame: FrameType, event: str, _: Any) -> Callable[[FrameType, str, Any], Any] | None:
        if self._blaming.found or not self._author.wrote(frame.f_code.co_filename):
            return None
        self._look()
        return self._on_line

    def _on_line(self, frame: FrameType, event: str, _: Any) -> Callable[[FrameType, str, Any], Any]:
        if not self._blaming.found:
            self._look()
            at = frame.f_back if event == "return" and frame.f_back is not None else frame
            if self._author.wrote(at.f_code.co_filename):
                self._last = at.f_code.co_filename, at.f_lineno
        return self._on_line

    def _look(self) -> None:
        if self._last[0] and self._reading() != self._first:
            self._blaming.found = places.line(*self._last)


def _now(value: Any) -> prints.Prints:
    return prints.of(value() if callable(value) else value)


def _numpy() -> bytes:
    _, keys, *rest = np.random.get_state(legacy=True)
    return np.asarray(keys).tobytes() + repr(rest).encode()


RANDOM: Mapping[str, Callable[[], Any]] = {
    "torch": lambda: torch.get_rng_state().numpy().tobytes(),
    "numpy.random": _numpy,
    "random": random.getstate,
}
