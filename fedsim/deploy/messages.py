"""What travels in a deployed run: questions to a client and its responses, and the contract of what carries them.

The message itself, envelope and payload, is byte for byte the one whose size is simulated.  Beside it a question says
what a simulated client knows of itself (its period, the seed of its job), and an answer what a simulated run records of
it (when it computed, its loss).  Those few bytes, and what the carrier adds, are not billed.
`flower.py` carries; tests have a carrier that stays within the process.

Not modelled: compression and encryption of whole messages, which are the carrier's, and the time that it adds, which is
measured.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch

from fedsim.core import wire
from fedsim.core.wire import Tree
from fedsim.net import marks

WHO, HELLO, WORK, MEMORY, END = "who", "hello", "work", "memory", "end"  # what is asked
T = TypeVar("T", "Question", "Response")


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a client.

    `what`: WHO (who are you), HELLO (the same, and a run begins), WORK (a job on the payload of `message`), MEMORY
    (what it remembered after each of `asks`), END (forget what was kept for that).  `package` is the digest of the
    package that the client should have (`package.py`), "" where any will do.
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
class Response:
    """A client's response, or what went wrong: a fault (`error`), or a mistake in its setup (`refused`).

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
    loss: float = float("nan")
    up: float = float("nan")
    about: str = ""
    package: str = ""
    error: str = ""
    refused: str = ""


def pack(message: Question | Response) -> bytes:
    """Return the bytes of a question or a response."""
    return wire.encode(asdict(message))


def unpack(kind: type[T], data: bytes) -> T:
    """Return a question or a response from its bytes.  Raises ValueError for other bytes."""
    tree: Any = wire.decode(data)
    if not isinstance(tree, dict) or sorted(tree) != sorted(field.name for field in fields(kind)):
        raise ValueError(f"not a {kind.__name__.lower()} of this version of fedsim")
    return kind(**tree)


class Delivered(NamedTuple):
    """An answer, or None and what went wrong; `carried` are the bytes that the carrier made of it."""

    number: int
    data: bytes | None
    carried: int = 0
    error: str = ""


class Post(ABC):
    """Carries questions to clients, which are numbered from 0."""

    @abstractmethod
    def send(self, number: int, client: int, data: bytes) -> int:
        """Send a client the question of that number, and return the bytes that the carrier made of it."""

    @abstractmethod
    def poll(self, seconds: float) -> list[Delivered]:
        """Return the answers that have come, waiting at most that long for the first."""


def parted(message: bytes) -> tuple[dict[str, Any], Tree]:
    """Return envelope and payload of an encoded message, with numpy's arrays.  Raises ValueError for other bytes."""
    envelope, used = wire.decode_first(message)
    return envelope, wire.decode(message[used:])


def tensors(tree: Tree, device: str) -> Tree:
    """Return the tree with a tensor for each array."""
    return marks.transform(lambda array: torch.from_numpy(np.array(array)).to(device), tree)
