"""What clients are tested on: the test nodes of the periods that they have met, or test pairs."""

from dataclasses import dataclass

from fedsim.learner.scoring.split import ClientSplit


@dataclass(frozen=True)
class Test(ClientSplit):
    """Scored on the later graphs of a stream that tests ahead."""

    pairs = True
