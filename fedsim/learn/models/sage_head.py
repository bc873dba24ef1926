"""GraphSAGE with a linear classifier behind its layers: as deep as EvolveGCN, without the weights' recurrence."""

from dataclasses import dataclass

from fedsim.learn.layers.recurrent import Headed
from fedsim.learn.models.sage import SAGE


@dataclass(frozen=True)
class SAGEHead(Headed, SAGE):
    """A GraphSAGE with that classifier."""
