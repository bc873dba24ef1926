"""What every call on bad input must come to: an end in time, and where it is refused, one message."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fedsim.core.errors import UserError

PATIENCE = 20  # seconds, on a machine that is busy
LONGEST = 8_000  # characters of a message


class Hangs(BaseException):
    """It has not ended in time; no Exception, so that nobody takes it for a failure of their own."""


@contextmanager
def in_time(seconds: float = PATIENCE) -> Iterator[None]:
    """Raise Hangs in the block once it has taken so many seconds; never on Windows, which has no such alarm."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise Hangs(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def message_of(call: Callable[[], Any], shown: object) -> str:
    """Return the message of the refusal that a call ends in, "" where it ends well.

    Raises AssertionError, with what was given, where it ends in any other way, says nothing or does not end in time.
    """
    try:
        with in_time():
            call()
    except UserError as error:
        message = str(error)
    except BaseException as error:
        raise AssertionError(f"it ends in {error!r}:\n{shown!r}") from error
    else:
        return ""
    assert message.strip(), f"refused without a word:\n{shown!r}"
    assert len(message) < LONGEST, f"{len(message)} characters are no message:\n{shown!r}"
    return message
