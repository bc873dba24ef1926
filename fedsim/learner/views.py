"""Views: everything that each client has received, to study what it could infer from it.

Switched on by `measure.views`, outside of algorithms and protocols.  The run's folder then holds
`views/client_<k>.npz`, whose arrays are numbered from 0 in order of arrival, and `views/views.csv`, one row per array:
client, number, time (s), kind of the message, path inside it (names and indices, joined by slashes), shape, dtype and
the bytes of its values in the message.

Scalars and texts are arrays without axes.  A compressed part is stored as its codec encodes it, bfloat16 as float32;
a placeholder for values that are not computed has a row and no array.  Not included: the client's own data, and any
attack on what it has received.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import simpy

from fedsim.core import wire
from fedsim.core.arrays import Array
from fedsim.core.wire import Spec, Tree
from fedsim.learner.ticket import Ticket
from fedsim.net import floats, masking
from fedsim.net.message import Message

FOLDER, INDEX = "views", "views.csv"


class ViewRow(NamedTuple):
    """A row of views.csv."""

    client: int
    number: int
    time: float
    kind: str
    path: str
    shape: str
    dtype: str
    bytes: int


@dataclass
class Views:
    """Collects messages to clients; keeps their arrays until the point has ended."""

    env: simpy.Environment
    contents: Callable[[Ticket], Tree]  # of a ticket, encoded
    _index: list[ViewRow] = field(default_factory=list, init=False)
    _values: dict[int, dict[str, Array]] = field(default_factory=lambda: defaultdict(dict), init=False)
    _counts: dict[int, int] = field(default_factory=lambda: defaultdict(int), init=False)
    resting: bool = field(default=False, init=False)  # records nothing during a replay: the checkpoint has it

    def record(self, message: Message) -> None:
        """Record a message that has arrived, if it is addressed to a client."""
        client = message.dst
        if client < 0 or self.resting:
            return
        for path, leaf in _leaves(self._received(message), ""):
            number = self._counts[client]
            self._counts[client] += 1
            shape, dtype, values = _described(leaf)
            size = wire.array_bytes(leaf) if floats.is_array(leaf) else values.nbytes if values is not None else 0
            row = ViewRow(client, number, self.env.now, message.kind, path, "x".join(map(str, shape)), dtype, size)
            self._index.append(row)
            if values is not None:
                self._values[client][str(number)] = values

    def _received(self, message: Message) -> Tree:
        """Return a message's payload: the learner's tree, what masking sends beside it, or both."""
        ticket, beside = message.label
        if ticket is None:
            return beside
        own = self.contents(ticket)
        if beside is None:
            return own
        if isinstance(own, list):  # an encoded tree begins with the parts left uncompressed
            return [{**own[0], masking.BESIDE: beside}, *own[1:]]
        return {**own, masking.BESIDE: beside}

    def notes(self) -> list[Any]:
        """Return everything recorded, for a checkpoint."""
        return [[[*row] for row in self._index], dict(self._values), dict(self._counts)]

    def wake(self, notes: Sequence[Any]) -> None:
        """Continue from a checkpoint."""
        rows, values, counts = notes
        self._index = [ViewRow(*row) for row in rows]
        self._values.update(values)
        self._counts.update(counts)
        self.resting = False

    def close(self, folder: Path) -> None:
        """Write everything into the folder of the run.  Raises OSError if it cannot be written."""
        inside = folder / FOLDER
        inside.mkdir()
        for client, values in self._values.items():
            # in C order: an array restored from a checkpoint has lost its own
            ordered = {number: np.asarray(array, order="C") for number, array in values.items()}
            np.savez(inside / f"client_{client}.npz", **ordered)  # type: ignore[arg-type]
        with (inside / INDEX).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(ViewRow._fields)
            writer.writerows(self._index)


def _leaves(tree: Tree, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a tree except None, with its path."""
    if isinstance(tree, dict | list | tuple):
        for name, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(value, f"{path}/{name}" if path else str(name))
    elif tree is not None:
        yield path, tree


def _described(leaf: Any) -> tuple[tuple[int, ...], str, Array | None]:
    """Return shape, dtype and values of a leaf; None in place of the values of a Spec."""
    if floats.is_array(leaf):
        known = floats.spec(leaf)
        return known.shape, known.dtype, None if isinstance(leaf, Spec) else floats.values(leaf)
    values = np.frombuffer(leaf, dtype=np.uint8) if isinstance(leaf, bytes) else np.asarray(leaf)
    return values.shape, values.dtype.name, values
