"""The nodes that no client owns: the same test for the models of all clients."""

from dataclasses import dataclass

from fedsim.learner.scoring.set_aside import SetAside


@dataclass(frozen=True)
class HeldOut(SetAside):
    """A client's row is the score of its model, as for the global score of FedDGL (ACML 2024)."""

    set_aside = "held_out"
    needs = "task: node_classification and the streams 'static' and 'snapshots'"
    whose = "the nodes that nobody owns"
    empty = "every labelled node has an owner; take a partition that sets some aside: label_skew with held, buckets"
