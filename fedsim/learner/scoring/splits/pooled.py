"""The test nodes of all clients as one graph, with the edges among them: the same test for every client's model."""

from dataclasses import dataclass

from fedsim.learner.scoring.set_aside import SetAside


@dataclass(frozen=True)
class Pooled(SetAside):
    """The global model is the one that the server keeps for all, even if clients predict with models of their own."""

    set_aside = "pooled"
    needs = "task: node_classification and the stream 'static'"
    whose = "all clients' test nodes"
    empty = "no client has any; give data.split.test a share"
    common = True
