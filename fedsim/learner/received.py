"""What each client has received: every part of every message that reached it, for whoever asks what it could learn.

An observer outside of algorithms and protocols, switched on by `measure.views`.  The run's folder then holds
`views/client_<k>.npz`, whose arrays are numbered from 0 in the order of their arrival, and `views/views.csv`, one row
an array: client, number, time (s), kind of the message, path inside it (names and places, joined by slashes), shape,
dtype and the bytes of its values in the message.

Single numbers and texts are arrays without axes.  A part that was compressed is there as its codec made it; bfloat16 is
kept as the float32 that hold it; what stands for values that nobody computes has a row and no array.  It tells neither
what a client has from the start, its data, nor what it could conclude.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.core import wire
from fedsim.core.wire import Spec, Tree
from fedsim.learner.ticket import Ticket
from fedsim.net import floats, masking
from fedsim.net.message import Message

FOLDER, INDEX = "views", "views.csv"


@dataclass(frozen=True, slots=True)
class Part:
    """A row of the index."""

    client: int
    number: int
    time: float
    kind: str
    path: str
    shape: str
    dtype: str
    bytes: int


COLUMNS = tuple(each.name for each in fields(Part))


@dataclass
class Views:
    """Collects what arrives; holds on to the arrays until the point has ended."""

    env: simpy.Environment
    contents: Callable[[Ticket], Tree]  # of a ticket, as it travels
    _index: list[Part] = field(default_factory=list, init=False)
    _values: dict[int, dict[str, npt.NDArray[Any]]] = field(default_factory=lambda: defaultdict(dict), init=False)
    _counts: dict[int, int] = field(default_factory=lambda: defaultdict(int), init=False)
    resting: bool = field(default=False, init=False)  # it records nothing: what there is to record is in a checkpoint

    def record(self, message: Message) -> None:
        """Record a message that has arrived, if it was for a client."""
        client = message.dst
        if client < 0 or self.resting:
            return
        for path, leaf in _leaves(self._received(message), ""):
            number = self._counts[client]
            self._counts[client] += 1
            shape, dtype, values = _described(leaf)
            size = wire.array_bytes(leaf) if floats.is_array(leaf) else values.nbytes if values is not None else 0
            row = Part(client, number, self.env.now, message.kind, path, "x".join(map(str, shape)), dtype, size)
            self._index.append(row)
            if values is not None:
                self._values[client][str(number)] = values

    def _received(self, message: Message) -> Tree:
        """Return what a message carries: the learner's part, what masking sends beside it, or that alone."""
        ticket, beside = message.label
        if ticket is None:
            return beside
        own = self.contents(ticket)
        if beside is None:
            return own
        if isinstance(own, list):  # what a codec has encoded begins with the tree that it kept
            return [{**own[0], masking.BESIDE: beside}, *own[1:]]
        return {**own, masking.BESIDE: beside}

    def notes(self) -> list[Any]:
        """Return all that was recorded, for a checkpoint."""
        return [[_plain(row) for row in self._index], dict(self._values), dict(self._counts)]

    def wake(self, notes: Sequence[Any]) -> None:
        """Go on from a checkpoint."""
        rows, values, counts = notes
        self._index = [Part(*row) for row in rows]
        self._values.update(values)
        self._counts.update(counts)
        self.resting = False

    def close(self, folder: Path) -> None:
        """Write all into the folder of the run.  Raises OSError where it cannot be written."""
        inside = folder / FOLDER
        inside.mkdir()
        for client, values in self._values.items():
            # in one order, for an array that was on the disk meanwhile has lost its own
            ordered = {number: np.asarray(array, order="C") for number, array in values.items()}
            np.savez(inside / f"client_{client}.npz", **ordered)  # type: ignore[arg-type]
        with (inside / INDEX).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(map(_plain, self._index))


def _plain(row: Part) -> list[Any]:
    return [getattr(row, name) for name in COLUMNS]


def _leaves(tree: Tree, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every part of a tree that is no dict, list, tuple or None, with the way to it."""
    if isinstance(tree, dict | list | tuple):
        for name, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(value, f"{path}/{name}" if path else str(name))
    elif tree is not None:
        yield path, tree


def _described(leaf: Any) -> tuple[tuple[int, ...], str, npt.NDArray[Any] | None]:
    """Return shape, type and values of a part; no values of a Spec."""
    if floats.is_array(leaf):
        known = floats.spec(leaf)
        return known.shape, known.dtype, None if isinstance(leaf, Spec) else floats.values(leaf)
    values = np.frombuffer(leaf, dtype=np.uint8) if isinstance(leaf, bytes) else np.asarray(leaf)
    return values.shape, values.dtype.name, values
