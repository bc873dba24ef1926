"""Clients' work under secure aggregation: it answers the exchanges for keys and shares, and masks what is uploaded.

Around the backend that does the algorithm's work, which sees neither these exchanges nor what they bring.  What sizes
are and what is not modelled is told in `net/masking.py`.
"""

from dataclasses import dataclass, field, replace

from fedsim.algorithm import Job
from fedsim.clients import Backend
from fedsim.net import masking, wire
from fedsim.net.masking import Masking
from fedsim.net.promised import Around, WorkPromise
from fedsim.net.squeezed import Squeezer
from fedsim.net.wire import Spec
from fedsim.plain import Done


class Masked(Around):
    """A promised upload that travels as a vector of masked numbers; whoever opens it has it without its mask."""

    def __init__(self, inner: WorkPromise, parcel: Done) -> None:
        """Have a message carry the parcel."""
        super().__init__(inner)
        self.parcel = parcel

    @property
    def nbytes(self) -> int:
        """The vector's size."""
        return self.parcel.nbytes


@dataclass
class MaskedBackend:
    """`added` counts the bytes by which masking has made payloads longer, of all that clients were sent and replied."""

    inner: Backend
    options: Masking
    squeezer: Squeezer = field(default_factory=Squeezer)
    added: int = field(default=0, init=False)

    def submit(self, job: Job) -> Done | Masked:
        """Answer at once in an exchange of masking's own; else queue the job, as the algorithm knows it."""
        beside = job.download.get(masking.BESIDE)
        if job.step in masking.STEPS:
            done = Done(masking.answer(job.step, beside), job)
            self.added += wire.size(job.download) + done.nbytes
            return done
        promise = self.inner.submit(_own(job))
        numbers = self.squeezer.told(lambda: masking.numbers(promise.value() if promise.like is None else promise.like))
        length = self.options.vector(numbers, beside["of"])
        masked = Masked(promise, Done({"masked": Spec((length,), "uint8")}, job))
        self.added += wire.size({masking.BESIDE: beside}) - wire.size({}) + masked.nbytes - promise.nbytes
        return masked

    def flops(self, job: Job) -> float:
        """Return the operations of the algorithm's job; masking's own take none."""
        return 0.0 if job.step in masking.STEPS else self.inner.flops(_own(job))


def _own(job: Job) -> Job:
    """Return the job without what the algorithm has not sent."""
    return replace(job, download={key: value for key, value in job.download.items() if key != masking.BESIDE})
