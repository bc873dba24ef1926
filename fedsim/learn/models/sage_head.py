"""GraphSAGE with a linear classifier behind its layers: as deep as EvolveGCN, without the weights' recurrence."""

from dataclasses import dataclass

from fedsim.learn.headed import Headed
from fedsim.learn.models.sage import SAGE


@dataclass(frozen=True)
class SAGEHead(Headed, SAGE):
    """See `fedsim.learn.headed`."""
