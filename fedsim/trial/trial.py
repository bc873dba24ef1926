"""A trial: an algorithm, the deployment on which it is tried, and the rounds that several checks look at."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from fedsim.learn.algorithm import Algorithm
from fedsim.scenario.parts import source
from fedsim.trial.play import CallContext, Play, Recording, play
from fedsim.trial.stage import Stage


@dataclass(frozen=True)
class Finding:
    """What a check reports; `where` is the line to look at, "" where no line stands for it.

    A "broken" promise does not hold; of one that is "untried", `what` says why it was not checked.
    """

    kind: Literal["broken", "untried", "note"]
    what: str
    where: str = ""
    remedy: str = ""


def broken(what: str, where: str = "", remedy: str = "") -> Finding:
    """Return the finding of a promise that does not hold."""
    return Finding("broken", what, where, remedy)


@dataclass(frozen=True)
class Trial:
    """What the checks are given; the same rounds are played once for all checks that look at them."""

    stage: Stage
    cls: type[Algorithm]

    @cached_property
    def played(self) -> Play:
        """Cohorts trained together, as in a run: nobody looks into what they send before it is aggregated."""
        return self.play()

    @cached_property
    def recording(self) -> Recording:
        """What each call does to its arguments and to global random numbers.

        Looking into trees changes how they are rounded, so that the results are not those of `played`.
        """
        recording = Recording()
        self.play(recording.call)
        return recording

    @cached_property
    def alone(self) -> Play:
        """The same rounds with every client trained by itself."""
        return self.play(batch=False)

    def play(self, observe: CallContext | None = None, *, batch: bool = True) -> Play:
        """Play the rounds with a new instance of the algorithm."""
        setup = self.stage.setup()
        return play(setup, setup.cohort.trainer, observe, batch=batch)

    def method(self, name: str) -> str:
        """Return "file:line" of a method of the algorithm, "" where it has no source."""
        function = getattr(self.cls, "work" if name == "train" else name, None)
        return source.line_of(function) if callable(function) else ""
