"""What clients train on: the training nodes of the periods that they have met."""

from dataclasses import dataclass

from fedsim.data.graph import Graph, Period
from fedsim.learner.scoring.split import ClientSplit


@dataclass(frozen=True)
class Train(ClientSplit):
    """Scored on a period's own graph, whatever the stream tests on."""

    part = "train"

    def graphs(self, period: Period) -> tuple[Graph, ...]:
        """Return the graph that the client trains on."""
        return (period.graph,)
