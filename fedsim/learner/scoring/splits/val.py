"""What models are chosen by: the validation nodes of the periods that clients have met, or validation pairs."""

from dataclasses import dataclass

from fedsim.learner.scoring.split import ClientSplit


@dataclass(frozen=True)
class Val(ClientSplit):
    """Scored on the later graphs of a stream that tests ahead."""

    part = "val"
    pairs = True
