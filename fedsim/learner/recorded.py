"""Recorded: a learner that records its answers, and can replay them without values.

Every question has a key, under which the record stores its answer: sizes, operations, names of steps, rows of scores.
A key is the provenance of a value as a hash of 16 bytes, computed without the value.  The first state's key is given;
every other key is a hash of the question and of the keys that it names, and of the client's part in it: its data, its
memory (the key of its last finished job), its job number, and the position of its own random streams (those of a
forger, or of a codec that rounds).  Within a run equal keys mean equal values, in whatever order questions were asked.

While it *replays*, answers come from the record alone and tickets have no values; after `resume` they are
computed, and recorded.  So the clock of an interrupted point can run again, without anything being trained, aggregated
or scored, up to its checkpoint.  Not modelled: time.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import msgpack
import numpy as np

from fedsim.core import logbook
from fedsim.learn.replies import Reply
from fedsim.learner.contract import States
from fedsim.learner.live import Answer, Live
from fedsim.learner.ticket import NoKeys, Share, Ticket, Tickets
from fedsim.net.attackers import Attackers

Record = dict[bytes, Any]  # answers by key; under LOGGED, what was logged while they were computed, by key
LOGGED = b"logged"
SIZE = 16  # bytes
NOTHING = b"", b""  # what a client holds at first
ARRAY = 1  # msgpack's number of an array in a record


class ReplayError(Exception):
    """A replay differs from the run that was recorded."""


@dataclass(eq=False)
class Recorded(Live):
    """Replays `record` if it holds anything, and records from there on; `questions` counts those asked.

    `log` is what the run has logged so far (`logbook.keep`): what is logged during an answer is recorded with it.
    """

    record: Record = field(default_factory=dict, kw_only=True)
    log: list[logbook.LogMessage] = field(default_factory=list, kw_only=True)
    questions: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Begin with a replay if there is something to replay."""
        super().__post_init__()
        self.replaying = bool(self.record)
        self._tickets: WeakSet[Ticket] = WeakSet()

    def answer(self, key: bytes, compute: Callable[[], Answer]) -> Answer:
        """Return the recorded answer during a replay; otherwise compute and record it."""
        (plain,), (value,) = self.answer_all([key], lambda: Answer(*zip(compute(), strict=True)))
        return Answer(plain, value)

    def answer_all(self, keys: Sequence[bytes], compute: Callable[[], Answer]) -> Answer:
        """Return the recorded answers during a replay; otherwise compute and record them."""
        if not keys:
            return compute()
        self.questions += len(keys)
        if self.replaying:
            return Answer(self._replayed(keys), [None] * len(keys))
        before = len(self.log)
        answers = compute()
        if len(self.log) > before:
            self.record.setdefault(LOGGED, {})[keys[0]] = self.log[before:]
        self.record.update(zip(keys, answers.plain, strict=True))
        return answers

    def effect(self, act: Callable[[], None]) -> None:
        """Do something that changes values, unless there are none."""
        if not self.replaying:
            act()

    def ticket(self, key: bytes, nbytes: int, value: Any) -> Ticket:
        """Return the ticket of a value, which `values` finds as long as somebody holds it."""
        ticket = Ticket(key, nbytes, value)
        self._tickets.add(ticket)
        return ticket

    def tickets(self, keys: Sequence[bytes], sizes: Sequence[int], values: Sequence[Any]) -> Tickets:
        """Return the tickets of a cohort's values."""
        tickets = [Ticket(*parts) for parts in zip(keys, sizes, values, strict=True)]
        self._tickets.update(tickets)
        return Tickets(np.array(sizes, dtype=np.int64), values, tickets)

    def values(self) -> dict[bytes, Any]:
        """Return the values of all tickets still in use, by key."""
        return {ticket.key: ticket.value for ticket in [*self._tickets]}

    def resume(self, values: Mapping[bytes, Any]) -> None:
        """Take over the values of a checkpoint, and compute answers from now on."""
        for ticket in [*self._tickets]:
            if ticket.key in values:
                ticket.value = values[ticket.key]
        self.replaying = False

    def _replayed(self, keys: Sequence[bytes]) -> list[Any]:
        """Return recorded answers, and repeat what was logged with them."""
        try:
            plain = [self.record[key] for key in keys]  # a followed record may load further files here
        except KeyError:
            raise ReplayError("a replay asks a question that has no answer in the record") from None
        logbook.repeat(self.record.get(LOGGED, {}).get(keys[0], ()))
        return plain


def digest(*parts: Any) -> bytes:
    """Return the hash of parts with a unique `repr`: bytes, numbers, texts, and tuples of them."""
    return blake2b(repr(parts).encode(), digest_size=SIZE).digest()


class Keys(NoKeys):
    """Computes the keys of a run; keeps count of what they depend on beside the questions."""

    def __init__(self, root: bytes, attackers: Attackers | None = None, *, draws: bool = False) -> None:
        """Start from the first state's key; `draws`: whether codecs draw at random for downloads and shares."""
        self.root, self._draws = root, draws
        self._attackers = Attackers() if attackers is None else attackers
        self._held: dict[int, tuple[bytes, bytes]] = {}  # each client's data received, and its last finished job
        self._sent: Counter[tuple[int, bool]] = Counter()
        self._forged: Counter[int] = Counter()
        self._opened: WeakKeyDictionary[Ticket, bytes] = WeakKeyDictionary()
        self._everyone = 0  # a hash over all clients that does not depend on order
        self._spent = b""

    def about(self, question: str, ticket: Ticket, *more: Any) -> bytes:
        """Return the key of a question about one value alone."""
        return digest(question, ticket.key, *more)

    def downloads(self, state: Ticket, clients: Sequence[int], step: str) -> list[bytes]:
        """Return the keys of clients' downloads."""
        turns = [self._turn(client, False) for client in clients] if self._draws else [0] * len(clients)
        keys = zip(clients, turns, strict=True)
        return [digest("download", state.key, client, step, turn) for client, turn in keys]

    def jobs(
        self,
        clients: Sequence[int],
        step: str,
        downloads: Sequence[Ticket | None],
        numbers: Sequence[int],
        travels: bool,
    ) -> list[bytes]:
        """Return the keys of the uploads of clients' jobs with these numbers."""
        return [
            digest("work", client, step, b"" if download is None else download.key, number, travels,
                   *self._held.get(client, NOTHING))
            for client, download, number in zip(clients, downloads, numbers, strict=True)
        ]  # fmt: skip

    def forged(self, client: int, upload: Ticket) -> bytes:
        """Return the key of an attacker's upload as received."""
        if upload not in self._opened:
            self._forged[client] += 1
            self._opened[upload] = digest("forged", upload.key, self._forged[client])
        return self._opened[upload]

    def received(self, question: str, replies: Sequence[Reply], state: Ticket | None = None, step: str = "") -> bytes:
        """Return the key of a question about replies, and about the state that they meet in a step."""
        uploads = []
        for reply in replies:
            client, upload = reply.client, reply.upload
            key = self.forged(client, upload) if client in self._attackers else upload.key
            uploads.append((client, reply.version, key, reply.weight))
        return digest(question, b"" if state is None else state.key, step, tuple(uploads), self._spent)

    def share(self, state: Ticket, sender: int | None) -> bytes:
        """Return the key of the share of a state."""
        if sender is None:
            return digest("share", state.key)
        forged = sender in self._attackers
        self._forged[sender] += forged
        return digest("share", state.key, sender, self._turn(sender, True), forged and self._forged[sender])

    def mixed(self, state: Ticket, shares: Sequence[Share], weights: Sequence[float]) -> bytes:
        """Return the key of a state after merging shares."""
        return digest("mix", state.key, tuple(one.ticket.key for one in shares), tuple(map(float, weights)))

    def scored(self, states: States, arrived: tuple[Any, ...] | None) -> bytes:
        """Return the key of scores of the models of these states."""
        if isinstance(states, Ticket):
            return digest("score", states.key, arrived, self._everyone)
        keys = tuple((client, state.key) for client, state in states.items())
        return digest("score", keys, arrived, self._everyone)

    def arrived(self, client: int, period: int) -> None:
        """Note that a client has received the data of a period."""
        data, memory = self._held.get(client, NOTHING)
        self._change(client, digest("data", data, period), memory)

    def done(self, clients: Sequence[int], uploads: Sequence[Ticket]) -> None:
        """Note that clients have finished the jobs of these uploads."""
        for client, upload in zip(clients, uploads, strict=True):
            self._change(client, self._held.get(client, NOTHING)[0], upload.key)

    def spend(self, *what: Any) -> None:
        """Note an event that affects the privacy loss; order matters."""
        self._spent = digest("spent", self._spent, *what)

    def _change(self, client: int, data: bytes, memory: bytes) -> None:
        before = self._held.get(client, NOTHING)
        self._held[client] = data, memory
        for held in (before, (data, memory)):
            self._everyone ^= int.from_bytes(digest(client, *held))

    def _turn(self, client: int, shares: bool) -> int:
        self._sent[client, shares] += self._draws
        return self._sent[client, shares]


def packed(record: Record) -> bytes:
    """Return a record as bytes."""
    return msgpack.packb(record, default=_array)  # type: ignore[no-any-return]


def unpacked(data: bytes) -> Record:
    """Return the record from its bytes.  Raises ValueError, TypeError or one of msgpack's errors for other bytes."""
    found = msgpack.unpackb(data, ext_hook=_grown, strict_map_key=False)
    if not isinstance(found, dict) or not isinstance(found.get(LOGGED, {}), dict):
        raise TypeError(f"a record holds answers by key, and is no {type(found).__name__}")
    return found


def _array(value: Any) -> msgpack.ExtType:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a record holds plain answers and arrays, not {type(value).__name__}")
    return msgpack.ExtType(ARRAY, msgpack.packb([value.dtype.str, list(value.shape), value.tobytes()]))


def _grown(code: int, data: bytes) -> Any:
    dtype, shape, raw = msgpack.unpackb(data)
    return np.frombuffer(raw, dtype).reshape(shape).copy()
