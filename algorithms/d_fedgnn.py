"""D-FedGNN: graph networks averaged among peers, without a server (Pei et al., FL-IJCAI workshop 2021).

    w_k ← Σ_{j ∈ N(k) ∪ {k}} w_j / (|N(k)| + 1)   after the local training of every round

Under the protocol `gossip` with equal weights the mean is over the peer itself and the neighbours whose shares have
arrived since it last mixed; the topology decides who is a neighbour (`peers`: a ring, a random regular graph, …).  A
share is the model: 4 |θ| bytes and its envelope, to each neighbour in each round.  With a server, which then neighbours
everybody, the result is the plain mean of the models that replied, where FedAvg weights them by labelled nodes.

`masking` bills secure aggregation by pairwise keys (Bonawitz et al., CCS 2017; keys of 32 bytes, RFC 7748).  The
neighbours of a peer agree on masks that cancel in its sum; since they do not know one another, it relays their keys:

    a share holds 4 |θ| + 32 (1 + m) bytes of arrays, m being the keys received at the last mixing, one per neighbour
    at most; with a server an upload holds 32 bytes more, and a download 32 for each client of the last cohort.

Only this cost is modelled.  Nothing is masked, which changes no sum.  Not modelled: shares that differ from neighbour
to neighbour, the computation of masks, and the recovery from a masked share that is lost or arrives a round late.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Algorithm, Disclosed, Job, Reply, State, Tree, Work
from fedsim.learn.engine import ops

KEY = 32  # bytes of a public key


@dataclass(frozen=True)
class DFedGNN(FedAvg):
    """FedAvg in which every client counts the same."""

    title = "D-FedGNN"
    discloses = Disclosed(("updates",), clients=("updates",))

    evolves = any_model = True
    upload_like = Algorithm.untrained_upload

    masking: bool = False  # count the bytes of secure aggregation's keys

    def start(self) -> State:
        """Return the first model; no key is known yet."""
        return {**super().start(), **({"keys": no_keys(), "heard": no_keys()} if self.masking else {})}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model, and the keys of the clients of the last update."""
        sent = super().download(state, client, step)
        return {**sent, "keys": state["keys"]} if self.masking else sent

    def work(self, job: Job) -> Work:
        """Train the model; send the difference, and a new key."""
        upload = yield from super().work(job)
        if not self.masking:
            return upload
        # as many bytes as a public key has; nothing is encrypted
        drawn = ops.generator(job.seed, "d_fedgnn", "key")
        return {**upload, "key": torch.randint(256, (KEY,), generator=drawn, dtype=torch.uint8)}

    def samples(self, data: Graph) -> int:
        """Return 1, every client's weight."""
        return 1

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Add the mean of the differences; keep the keys."""
        new = super().update(state, replies, step)
        return {**new, "keys": torch.stack([reply.upload["key"] for reply in replies])} if self.masking else new

    def share(self, state: State) -> Tree:
        """Return the model, and under masking its own keys and those received at the last mixing."""
        keys = {"keys": state["keys"], "heard": state["heard"]} if self.masking else {}
        return {**super().share(state), **keys}

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Return the state after merging the models; the next share relays the others' keys."""
        new = super().mix(state, shares, weights)
        if not self.masking:
            return new
        others = [share["keys"] for share in shares if share["keys"] is not state["keys"]]
        return {**new, "heard": torch.cat([no_keys(), *others])}


def no_keys() -> Tensor:
    """Return keys (0, 32)."""
    return torch.zeros(0, KEY, dtype=torch.uint8)
