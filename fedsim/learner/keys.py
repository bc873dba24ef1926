"""Keys: the provenance of every value as a hash of 16 bytes, computed without the value.

The first state's key is given; every other key is a hash of the question and of the keys that it names.  A key also
covers the client's part in a question: its data, its memory (the key of its last finished job), its job number, and the
position of its own random streams (those of a forger, or of a codec that rounds).  Within a run equal keys mean equal
values, in whatever order the questions were asked.  Not covered: time.
"""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

from fedsim.learner.ticket import Reply, Share, Ticket
from fedsim.net.forged import Forgers

SIZE = 16  # bytes


def digest(*parts: Any) -> bytes:
    """Return the hash of parts with a unique `repr`: bytes, numbers, texts, and tuples of them."""
    return blake2b(repr(parts).encode(), digest_size=SIZE).digest()


class Keys:
    """Computes the keys of a run; keeps count of what they depend on beside the questions."""

    def __init__(self, root: bytes, forgers: Forgers | None = None, *, draws: bool = False) -> None:
        """Start from the first state's key; `draws`: whether codecs draw at random for downloads and shares."""
        self.root, self._draws = root, draws
        self._forgers = Forgers([]) if forgers is None else forgers
        self._data: dict[int, bytes] = {}  # the data received by each client
        self._memory: dict[int, bytes] = {}  # its last finished job
        self._sent: Counter[tuple[int, bool]] = Counter()
        self._forged: Counter[int] = Counter()
        self._opened: WeakKeyDictionary[Ticket, bytes] = WeakKeyDictionary()
        self._everyone = 0  # a hash over all clients that does not depend on order
        self._spent = b""

    def download(self, state: Ticket, client: int, step: str) -> bytes:
        """Return the key of a client's download."""
        return digest("download", state.key, client, step, self._turn(client, False))

    def job(self, client: int, step: str, download: Ticket | None, number: int, travels: bool) -> bytes:
        """Return the key of the upload of a client's job with this number."""
        given = b"" if download is None else download.key
        return digest("work", client, step, given, number, travels, *self._holds(client))

    def opened(self, client: int, upload: Ticket) -> bytes:
        """Return the key of an upload as received."""
        if client not in self._forgers:
            return upload.key
        if upload not in self._opened:
            self._forged[client] += 1
            self._opened[upload] = digest("forged", upload.key, self._forged[client])
        return self._opened[upload]

    def folded(self, question: str, state: Ticket, replies: Sequence[Reply], step: str) -> bytes:
        """Return the key of a question about folding replies."""
        brought = tuple(
            (one.client, one.version, self.opened(one.client, one.upload), one.weight)
            for one in replies if one.upload is not None
        )  # fmt: skip
        return digest(question, state.key, step, brought, self._spent)

    def share(self, state: Ticket, sender: int | None) -> bytes:
        """Return the key of the share of a state."""
        if sender is None:
            return digest("share", state.key)
        forged = sender in self._forgers
        self._forged[sender] += forged
        return digest("share", state.key, sender, self._turn(sender, True), forged and self._forged[sender])

    def mixed(self, state: Ticket, shares: Sequence[Share], weights: Sequence[float]) -> bytes:
        """Return the key of a state after merging shares."""
        return digest("mix", state.key, tuple(one.ticket.key for one in shares), tuple(map(float, weights)))

    def scored(self, states: tuple[Any, ...], arrived: tuple[Any, ...] | None) -> bytes:
        """Return the key of scores of the models of these states."""
        return digest("score", states, arrived, self._everyone)

    def arrived(self, client: int, period: int) -> None:
        """Note that a client has received the data of a period."""
        data, memory = self._holds(client)
        self._change(client, digest("data", data, period), memory)

    def done(self, client: int, upload: Ticket) -> None:
        """Note that a client has finished the job of this upload."""
        self._change(client, self._holds(client)[0], upload.key)

    def spend(self, *what: Any) -> None:
        """Note an event that affects the privacy loss; order matters."""
        self._spent = digest("spent", self._spent, *what)

    def _holds(self, client: int) -> tuple[bytes, bytes]:
        return self._data.get(client, b""), self._memory.get(client, b"")

    def _change(self, client: int, data: bytes, memory: bytes) -> None:
        before, self._data[client], self._memory[client] = self._holds(client), data, memory
        for held in (before, (data, memory)):
            self._everyone ^= int.from_bytes(digest(client, *held))

    def _turn(self, client: int, shares: bool) -> int:
        self._sent[client, shares] += self._draws
        return self._sent[client, shares]
