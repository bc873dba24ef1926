"""GCN with a linear classifier behind its layers: as deep as EvolveGCN, without the weights' recurrence."""

from dataclasses import dataclass

from fedsim.learn.layers.recurrent import Headed
from fedsim.learn.models.gcn import GCN


@dataclass(frozen=True)
class GCNHead(Headed, GCN):
    """A GCN with that classifier."""
