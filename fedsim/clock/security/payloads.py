"""What travels under secure aggregation, and the bytes it adds to those of the algorithm.

The exchanges of keys and shares belong to the clock alone.  In the round's own exchange the sealed shares travel with
the download, and the upload travels as a vector of masked numbers; the server gets it unmasked.  `net/masking.py` has
the sizes, and what is not modelled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedsim.core import wire
from fedsim.core.arrays import Ints
from fedsim.core.wire import Spec, Tree
from fedsim.learner.contract import CohortWork, Learner, Payloads
from fedsim.learner.ticket import Ticket, Tickets
from fedsim.net import masking
from fedsim.net.codec import Codec
from fedsim.net.masking import Masking


@dataclass
class Masks:
    """The options of masking, and the bytes that it has `added` to payloads, in both directions.

    `codec` is the downloads' codec, which also encodes what masking sends.
    """

    options: Masking
    codec: Codec | None = None
    added: int = field(default=0, init=False)


class MeasuredPayloads(Payloads):
    """Payloads whose uploads are measured one by one, so that what masking adds is counted."""

    def sizes(self, clients: Sequence[int], uploads: Tickets) -> Ints:
        """Return the bytes (K,) of these clients' uploads."""
        sizes = [self.size(client, upload) for client, upload in zip(clients, uploads, strict=True)]
        return np.array(sizes, dtype=np.int64)


class SealedPayloads(MeasuredPayloads):
    """The round's own exchange: each client's sealed shares come with its download, and a masked vector goes back."""

    def __init__(self, learner: Learner, masks: Masks, sealed: Mapping[int, Tree]) -> None:
        self.learner, self.masks, self.sealed = learner, masks, sealed
        empty = wire.size({})
        self._share_bytes = {client: wire.size({masking.BESIDE: each}) - empty for client, each in sealed.items()}

    def downloads(self, state: Ticket, clients: Sequence[int], step: str) -> Tickets:
        """Return the learner's downloads, larger by the shares."""
        downloads = self.learner.downloads(state, clients, step)
        return downloads.resized(
            downloads.sizes + np.array([self._share_bytes[client] for client in clients], dtype=np.int64)
        )

    def label(self, client: int, download: Ticket) -> tuple[Ticket | None, Tree]:
        """Return the download and the shares that come with it."""
        return download, self.sealed[client]

    def work(
        self, clients: Sequence[int], step: str, downloads: Sequence[Ticket | None], *, travels: bool = True
    ) -> CohortWork:
        """Begin the learner's jobs."""
        return self.learner.work(clients, step, downloads, travels=travels)

    def size(self, client: int, upload: Ticket) -> int:
        """Return the bytes of a masked vector, and count what masking has added in both directions."""
        length = self.masks.options.vector(self.learner.numbers(upload), self.sealed[client]["of"])
        nbytes = wire.size({"masked": Spec((length,), "uint8")})
        self.masks.added += self._share_bytes[client] + nbytes - self.learner.size(client, upload)
        return nbytes

    def done(self, clients: Sequence[int], uploads: Sequence[Ticket]) -> None:
        """Note that clients have finished their jobs."""
        self.learner.done(clients, uploads)

    def dropped(self, upload: Ticket) -> None:
        """Note that a job was interrupted."""
        self.learner.dropped(upload)

    def withdrawn(self, client: int, upload: Ticket) -> None:
        """Note that a client's last job never began."""
        self.learner.withdrawn(client, upload)


class MaskingPayloads(MeasuredPayloads):
    """An exchange of masking's own (`masking.STEPS`): `sent` are its downloads by client, answered without training."""

    span = "mask"

    def __init__(self, masks: Masks, step: str, sent: Mapping[int, Tree]) -> None:
        self.masks, self.step, self.sent = masks, step, sent

    def downloads(self, state: Ticket, clients: Sequence[int], step: str) -> Tickets:
        """Return what masking sends: its bytes, without values."""
        sizes = [wire.size(self._encoded(client)) for client in clients]
        return Tickets(np.array(sizes, dtype=np.int64), [None] * len(clients))

    def label(self, client: int, download: Ticket) -> tuple[Ticket | None, Tree]:
        """Return what masking sends, as it travels."""
        return None, self._encoded(client)

    def work(
        self, clients: Sequence[int], step: str, downloads: Sequence[Ticket | None], *, travels: bool = True
    ) -> CohortWork:
        """Begin no job: an answer has no value, and takes no operations."""
        count = len(clients)
        return CohortWork(Tickets(np.zeros(count, dtype=np.int64), [None] * count), np.zeros(count))

    def size(self, client: int, upload: Ticket) -> int:
        """Return the bytes of a client's answer, and count those of both directions as added."""
        sent = self.sent.get(client)
        nbytes = wire.size(masking.answer(self.step, sent))
        self.masks.added += wire.size({masking.BESIDE: sent}) + nbytes
        return nbytes

    def done(self, clients: Sequence[int], uploads: Sequence[Ticket]) -> None:
        """Leave the clients' memory as it is, as there was no job."""

    def dropped(self, upload: Ticket) -> None:
        """Do nothing: there was no job."""

    def withdrawn(self, client: int, upload: Ticket) -> None:
        """Do nothing: there was no job."""

    def _encoded(self, client: int) -> Tree:
        tree = {masking.BESIDE: self.sent.get(client)}
        return tree if self.masks.codec is None else self.masks.codec.like(tree)
