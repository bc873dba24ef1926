"""Ctrl-C takes effect between two events of the clock, where a point can be resumed from its checkpoint.

SimPy turns whatever is raised in a process into an event, so that an interrupt in the middle of one would let the clock
go on for another event or two, in a state that no other run reaches.  A second Ctrl-C is not held back: it ends a long
event.  Only Python's own handler is replaced, and only in the main thread; elsewhere nothing is changed.

Not covered: other signals, which end the process.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Hold back interrupts; yield the function that raises KeyboardInterrupt if there was one, to call between events.

    One that has not been raised yet is raised at the end.
    """
    requested = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    def check() -> None:
        if requested:
            raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield check
        check()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
