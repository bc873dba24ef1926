"""Messages under secure aggregation: their sizes, and the bytes they add to those of the algorithm.

The exchanges of keys and shares belong to the clock alone.  In the round's own exchange the sealed shares travel with
the download, and the upload travels as a vector of masked numbers; the server gets it unmasked.  `net/masking.py` has
the sizes, and what is not modelled.
"""

from dataclasses import dataclass, field

from fedsim.core import wire
from fedsim.core.wire import Spec, Tree
from fedsim.learner.contract import Learner
from fedsim.learner.ticket import Ticket
from fedsim.net import masking
from fedsim.net.codec import Codec
from fedsim.net.masking import Masking


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


def span_of(step: str) -> str:
    """Return the name of the span of a client's work in this step."""
    return "mask" if step in masking.STEPS else "train"
