"""Node classification: `classification` under the name that it has on graphs."""

from dataclasses import dataclass

from fedsim.learn.tasks.classification import Classification


@dataclass(frozen=True)
class NodeClassification(Classification):
    """One of C classes for each node."""
