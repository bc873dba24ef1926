"""What travels in a deployed run: questions to a client, and its answers.

The message itself, envelope and payload, is byte for byte the one whose size is simulated.  Beside it a question says
what a simulated client knows of itself (its period, the seed of its job), and an answer what a simulated run records of
it (when it computed, how many operations that took).  Those few bytes, and what the carrier adds, are not billed.

Not modelled: compression and encryption of whole messages, which are the carrier's.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from fedsim.core import wire

WHO, HELLO, WORK, MEMORY, END = "who", "hello", "work", "memory", "end"  # what is asked
T = TypeVar("T", "Question", "Answer")


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a client.

    `what`: WHO (who are you), HELLO (the same, and a run begins), WORK (a job on the payload of `message`), MEMORY
    (what it remembered after each of `asks`), END (forget what was kept for that).  `package` is the digest of the
    package that the client should have (`identity.py`), "" where any will do.
    """

    what: str
    step: str = ""
    period: int = 0
    seed: int = 0
    ask: int = 0
    message: bytes = b""
    asks: Sequence[int] = ()
    package: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A client's answer, or what went wrong: a fault (`error`), or a mistake in its setup (`refused`).

    `received`, `began` and `ended` are seconds of the client's clock since the epoch: when it got the question, and
    began and ended to compute; `up` are the seconds for which its process had been running when it got the question,
    NaN if the system does not tell.  `loss` is what it reports beside its upload, NaN if nothing.  `package` is the
    digest of its package.
    """

    client: int
    message: bytes = b""
    received: float = 0.0
    began: float = 0.0
    ended: float = 0.0
    operations: float = 0.0
    loss: float = float("nan")
    up: float = float("nan")
    about: str = ""
    package: str = ""
    error: str = ""
    refused: str = ""


def pack(one: Question | Answer) -> bytes:
    """Return the bytes of a question or an answer."""
    return wire.encode(asdict(one))


def unpack(kind: type[T], data: bytes) -> T:
    """Return a question or an answer from its bytes.  Raises ValueError for other bytes."""
    tree: Any = wire.decode(data)
    names = [field.name for field in fields(kind)]
    if not isinstance(tree, dict) or sorted(tree) != sorted(names):
        raise ValueError(f"not a {kind.__name__.lower()} of this version of fedsim")
    return kind(**tree)
