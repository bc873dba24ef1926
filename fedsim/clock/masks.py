"""Messages under secure aggregation: their sizes, and the bytes they add to those of the algorithm.

The exchanges of keys and shares belong to the clock alone.  In the round's own exchange the sealed shares travel with
the download, and the upload travels as a vector of masked numbers; the server gets it unmasked.  `net/masking.py` has
the sizes, and what is not modelled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedsim.core import wire
from fedsim.core.wire import Spec, Tree
from fedsim.learner.batch import Tickets
from fedsim.learner.contract import Learner
from fedsim.learner.ticket import UNKNOWN, Ticket
from fedsim.net import masking
from fedsim.net.codec import Codec
from fedsim.net.masking import Masking

Ints = npt.NDArray[np.int64]


@dataclass
class Masks:
    """`added` counts the bytes that masking has added to payloads, in both directions.

    `codec` is the downloads' codec, which also encodes what masking sends.
    """

    options: Masking
    codec: Codec | None = None
    added: int = field(default=0, init=False)

    def owns(self, step: str) -> bool:
        """Return whether an exchange belongs to secure aggregation, not to the algorithm."""
        return step in masking.STEPS

    def sent(self, beside: Tree) -> Tree:
        """Return the encoded download of an exchange of secure aggregation."""
        tree = {masking.BESIDE: beside}
        return tree if self.codec is None else self.codec.like(tree)

    def own(self, beside: Tree) -> int:
        """Return the bytes of the download of an exchange of secure aggregation."""
        return wire.size(self.sent(beside))

    def down(self, nbytes: int, beside: Tree) -> int:
        """Return the bytes of a download of `nbytes` together with what masking sends beside it."""
        return nbytes + wire.size({masking.BESIDE: beside}) - wire.size({})

    def up(self, learner: Learner, step: str, upload: Ticket | None, beside: Tree) -> int:
        """Return the bytes of a client's reply, and count what masking adds in both directions."""
        if upload is None:
            nbytes = wire.size(masking.answer(step, beside))
            self.added += wire.size({masking.BESIDE: beside}) + nbytes
            return nbytes
        length = self.options.vector(learner.numbers(upload), beside["of"])
        nbytes = wire.size({"masked": Spec((length,), "uint8")})
        self.added += self.down(0, beside) + nbytes - learner.size(upload)
        return nbytes


def downloads(
    masks: Masks | None,
    learner: Learner,
    state: Ticket,
    clients: Sequence[int],
    step: str,
    shares: Mapping[int, Tree] | None,
) -> tuple[Sequence[Ticket | None], Ints]:
    """Return what clients are sent in a step, and its bytes with what masking sends beside it, or of that alone."""
    if masks is not None and masks.owns(step):
        extra = shares or {}
        return [None] * len(clients), np.array([masks.own(extra.get(client)) for client in clients], dtype=np.int64)
    tickets = learner.downloads(state, clients, step)
    if masks is None or shares is None:
        return tickets, tickets.sizes
    together = zip(clients, tickets.sizes.tolist(), strict=True)
    return tickets, np.array([masks.down(size, shares[client]) for client, size in together], dtype=np.int64)


def beside(masks: Masks | None, step: str, tree: Tree) -> Tree:
    """Return what masking sends beside a download, or all that is sent in an exchange of its own, as it travels."""
    return masks.sent(tree) if masks is not None and masks.owns(step) else tree


def upload_bytes(masks: Masks | None, learner: Learner, step: str, upload: Ticket | None, share: Tree) -> int:
    """Return the bytes of what a client sends back, masked where the scenario says so."""
    if masks is not None:
        return masks.up(learner, step, upload, share)
    assert upload is not None
    return learner.size(upload)


def uploads_bytes(
    masks: Masks | None,
    learner: Learner,
    clients: Sequence[int],
    step: str,
    uploads: Sequence[Ticket | None],
    shares: Mapping[int, Tree],
) -> Ints:
    """Return the same (K,) of each client's upload."""
    if masks is None and isinstance(uploads, Tickets):
        sizes = uploads.sizes.copy()
        for k in np.flatnonzero(sizes == UNKNOWN).tolist():
            sizes[k] = learner.size(uploads[k])
        return sizes
    asked = zip(clients, uploads, strict=True)
    sizes_ = [upload_bytes(masks, learner, step, upload, shares.get(client)) for client, upload in asked]
    return np.array(sizes_, dtype=np.int64)


def span_of(step: str) -> str:
    """Return the name of the span of a client's work in this step."""
    return "mask" if step in masking.STEPS else "train"
