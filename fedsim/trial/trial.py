"""A trial: one algorithm and its stage, and the plays that several checks look at, each played once when asked for."""

from dataclasses import dataclass
from functools import cached_property

from fedsim.learn.algorithm import Algorithm
from fedsim.trial import places
from fedsim.trial.play import Play, play
from fedsim.trial.stage import Stage
from fedsim.trial.watch import Blaming, Event, Recording


@dataclass(frozen=True)
class Trial:
    """What the checks are given."""

    stage: Stage
    cls: type[Algorithm]

    @cached_property
    def author(self) -> places.Author:
        """Who wrote the algorithm."""
        return places.Author(self.cls)

    @cached_property
    def played(self) -> Play:
        """Cohorts trained together, as in a run: nobody looks into what they send before it is folded."""
        return play(self.stage.lesson(), self.stage.trainer())

    @cached_property
    def recording(self) -> Recording:
        """What a second play's calls have done to what they were given, and to global random numbers.

        To look into trees changes how they are rounded, so that its results are not those of `played`.
        """
        recording = Recording()
        play(self.stage.lesson(), self.stage.trainer(), recording)
        return recording

    @cached_property
    def alone(self) -> Play:
        """The same rounds with every client trained by itself."""
        return play(self.stage.lesson(), self.stage.trainer(), batch=False)

    def line_of(self, event: Event) -> str:
        """Return the author's line that an event is due to, or that of the method in which it happened."""
        blaming = Blaming(event, self.author)
        play(self.stage.lesson(), self.stage.trainer(), blaming)
        return blaming.found or self.method(event.method)

    def method(self, name: str) -> str:
        """Return "file:line" of a method of the algorithm."""
        return places.method(self.cls, "work" if name == "train" else name)
