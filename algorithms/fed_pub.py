"""Fed-PUB: personalised aggregation by functional similarity, with personal masks (Baek et al., ICML 2023).

Each client trains a GCN under masks (fedsim/learn/models/masked_gcn.py), which never leave it and are never
overwritten:

    L = CE + λ₁ Σ ‖mask‖₁ + λ₂ Σ ‖θ − θ_received‖₂   (the norm of each tensor; not before anything is learned)

and then sends, beside its update, the response of its trained model to a random proxy graph: e, the mean over the
proxy's nodes of the last convolution's output in evaluation mode.  The server gives every client its own mean:

    αᵢⱼ = exp(τ cos(eᵢ, eⱼ)) / Σⱼ exp(τ cos(eᵢ, eⱼ)),   θ̄ᵢ = Σⱼ αᵢⱼ θⱼ

With P weights and biases, M masks and F features a message holds 4 P bytes down, and 4 · 500 F + 8 per proxy edge more
until a reply has shown that the client has the proxy; 4 P + 4 hidden + 8 up, and 4 M more where masks are sent.

`preset` chooses between the paper and the published code.  The code takes the tensors that it regularises from
`state_dict()`, which is detached: neither term has a gradient, so `official` trains on the cross-entropy alone.  It
also sends the masks up, averages them and sends them down, where they are never loaded.  Here they can be sent up,
which is billed along with their averaging; they are then dropped, and never sent down.

What the formulas leave open, or what differs:

- The code's server groups the clients that have just replied.  Here a client's last upload takes part until its next
  one; `absent: leave` is the code's way.  With full participation both are the same.
- A client without a model of its own is sent `state["model"]`, the mean by samples over the last grouping.  It is also
  what travels between peers and between edges and cloud; all personal models are then shifted by as much as mixing has
  shifted that mean.  Similarities are computed among the clients of one server.
- In a one-shot run the only round is the first one: there is no pull, every client trains from the same weights, and
  the common model (`pooled`) is the mean of all weights by samples, under masks of ones.
- The server says which round is "the very first": all until it has folded a reply.
- The optimiser is the scenario's, for masks as for weights; the code's is Adam, 1e-2, with weight decay 1e-6.
- Adam takes a full step on a small gradient.  Where λ₁, or weight decay, outweighs CE, a mask's entry decreases by the
  learning rate in each step: thirty steps of 0.01 took the median mask of a synthetic client from 1 to 0.8, with weight
  decay 5e-4 alone to 0.9.  The threshold removes nothing until the learning rate times all steps is close to 1.
- Personal masks personalise even without the similarities: of six synthetic clients in two groups that name the same
  things differently, those with τ = 0 did as well as those with τ = 10.  Without masks a client needs the latter.
  Where the groups swap the same two names, embeddings remain too similar for τ = 10 to separate them.
- Adam's state carried over from one period to the next can leave a model of this depth with one constant prediction.
  On Cora by POWER's protocol `training.keep_state: false` avoids it.

The clock bills the embedding and, in `paper`, the regularisers to the client, the similarities and the means to the
server.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.fedavg import FedAvg
from fedsim.core.span import Span
from fedsim.core.units import Count, Fraction
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph, graph_of
from fedsim.learn.algorithm import Disclosed, Fit, Job, Memory, Reply, State, Work
from fedsim.learn.engine import ops, tree
from fedsim.learn.model import Model, Parameters
from fedsim.learn.models.masked_gcn import MaskedGCN
from fedsim.learn.personalised.personal_models import PersonalModels
from fedsim.learn.replies import clients_of

Masks = dict[str, Tensor]  # of each layer's weight


@dataclass(frozen=True)
class FedPUB(PersonalModels, FedAvg):
    """With τ = 0, equal samples and neither regulariser, this is FedAvg except for the masks."""

    title = "Fed-PUB"
    discloses = Disclosed(("updates",))
    preset: Literal["paper", "official"] = "paper"  # the printed formulas, or the published code
    lambda1: float = 1e-3  # strength of the masks' sparsity; `official` ignores it, as the code does
    lambda2: float = 1e-3  # strength of the pull towards the received model; likewise
    threshold: float = 1e-3  # in evaluation, smaller mask entries count as 0; λ₁ in the code
    tau: float = 10.0  # sharpness of the similarities; the script for Cora (disjoint) has 3
    send_masks: bool | None = None  # upload the masks too; null: as the preset, only in `official`
    proxy_blocks: Count = 5  # blocks of the proxy graph, of 100 nodes each
    proxy_edges: Fraction = 0.1  # probability of an edge within a block; there are none between blocks

    tunes = {"lambda1": Span(1e-5, 1e-2, log=True), "tau": Span(1.0, 30.0, log=True)}

    def backbone(self, model: Model) -> Model:
        """Return the masked GCN of the scenario's width and dropout."""
        return MaskedGCN(hidden=model.hidden, dropout=model.dropout, threshold=self.threshold)

    @property
    def net(self) -> MaskedGCN:
        """The model that `backbone` has made."""
        return cast(MaskedGCN, self.task.model)

    @property
    def sends_masks(self) -> bool:
        """Whether uploads hold masks."""
        return self.preset == "official" if self.send_masks is None else self.send_masks

    # ---- server

    def tunable(self) -> Mapping[str, Span]:
        """Return the spans of what is switched on."""
        return {name: span for name, span in self.tunes.items() if name != "lambda1" or self.preset != "official"}

    def start(self) -> State:
        """Return the first weights, the proxy graph, and nothing known of any client."""
        weights, _ = apart(self.task.init())
        return {"model": weights, "proxy": self.proxy(), "reached": frozenset(), "last": {}, "personal": {}}

    def proxy(self) -> Tree:
        """Return random blocks of nodes with features (V, F) from N(0, 1), and each edge once (2, E)."""
        generator, pairs = ops.generator(self.task.seed, "fed_pub", "proxy"), torch.triu_indices(100, 100, 1)
        drawn = [torch.rand(pairs.shape[1], generator=generator) < self.proxy_edges for _ in range(self.proxy_blocks)]
        edges = torch.cat([pairs[:, joined] + 100 * block for block, joined in enumerate(drawn)], 1).int()
        x = torch.randn(100 * self.proxy_blocks, self.task.features, generator=generator)
        return {"x": x.to(self.task.device), "edges": edges.to(self.task.device)}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the client's weights, whether they are learned, and the proxy until a reply shows its arrival."""
        model = state["personal"].get(client, state["model"])
        first = {} if client in state["reached"] else {"proxy": state["proxy"]}
        return {"model": model, "learned": bool(state["last"]), **first}

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the weights made for this client under its own masks."""
        return joined(state["personal"].get(client, state["model"]), memory.get("local"))

    def common(self, state: State) -> Tree:
        """Return the mean of all weights, by samples, under masks of ones."""
        return joined(state["model"], None)

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Recompute the models, and note whom the proxy has reached."""
        new = super().update(state, replies, step)
        return {**new, "reached": state["reached"] | set(clients_of(replies))}

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note who is grouped, and whom the proxy has reached."""
        new = super().dry_update(state, replies, step)
        return {**new, "reached": state["reached"] | set(clients_of(replies))}

    def models(self, last: Mapping[int, Memory]) -> Mapping[int, Tree]:
        """Return θ̄ᵢ of each client."""
        shares = self.shares(torch.stack([note["embedding"] for note in last.values()]))
        stacked = tree.stack([note["model"] for note in last.values()])
        means = tree.transform(lambda leaf: torch.tensordot(shares.to(leaf.dtype), leaf, dims=1), stacked)
        return dict(zip(last, tree.unstack(means, len(last)), strict=True))

    def note(self, reply: Reply) -> dict[str, Any]:
        """Return what is kept of a reply."""
        return {**super().note(reply), "embedding": reply.upload["embedding"]}

    def shares(self, embeddings: Tensor) -> Tensor:
        """Return α (n, n) of embeddings (n, hidden); one of zeros resembles no other, and weights all equally."""
        e = F.normalize(embeddings.double(), dim=1)
        return torch.softmax(self.tau * (e @ e.T), dim=1)

    def pair_flops(self, state: State) -> float:
        """Return those of a cosine and a multiply-add a number averaged."""
        numbers = tree.count(state["model"]) + (tree.count(like_masks(state["model"])) if self.sends_masks else 0)
        return 2.0 * (self.task.model.hidden + numbers)

    # ---- client

    def work(self, job: Job) -> Work:
        """Train under the client's own masks; send the difference of the weights and the functional embedding."""
        received = job.download["model"]
        self.dry_work(job)
        model = joined(received, job.memory.get("local"))
        if bool(job.data["train"].any()):
            given = {"received": received, "learned": float(job.download["learned"])}
            model = yield Fit(start=model, loss=self.loss, given=given)
        job.memory["local"] = model
        weights, masks = apart(model)
        sent = {"update": tree.sub(weights, received), "samples": self.samples(job.data)}
        sent["embedding"] = self.embedding(model, job.memory["proxy"])
        return {**sent, "masks": masks} if self.sends_masks else sent

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the cross-entropy, and both regularisers if they have a gradient."""
        plain = self.task.loss(params, data)
        if self.preset == "official":
            return plain
        weights, masks = apart(params)
        sparsity = sum(mask.abs().flatten(1).sum(1) for mask in tree.leaves(masks))
        return plain + self.lambda1 * sparsity + self.lambda2 * given["learned"] * distance(weights, given["received"])

    @torch.no_grad()
    def embedding(self, model: Parameters, proxy: Graph) -> Tensor:
        """Return e (hidden,) of one client's model."""
        return self.net.convolved(tree.stack([model]), proxy).mean(0)

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        more = {"masks": like_masks(job.download["model"])} if self.sends_masks else {}
        return {**super().upload_like(job), "embedding": Spec((self.task.model.hidden,), "float32"), **more}

    def dry_work(self, job: Job) -> None:
        """Keep the proxy."""
        if "proxy" in job.download:
            job.memory["proxy"] = both_ways(job.download["proxy"])

    def effort(self, job: Job) -> float:
        """Count the regularisers: three operations a mask's entry and, once anything is learned, five a weight.

        They are sums over the parameters, with their gradients: |m| and its sign, (θ − θ_received)² and the pull.
        """
        if self.preset == "official":
            return 1.0
        weights = job.download["model"]
        numbers = 3.0 * tree.count(like_masks(weights)) + 5.0 * bool(job.download["learned"]) * tree.count(weights)
        return 1 + numbers / self.task.flops(job.data)

    def extra_steps(self, job: Job) -> float:
        """Count the embedding: a forward pass up to the last convolution on the proxy graph."""
        proxy = both_ways(job.download["proxy"]) if "proxy" in job.download else job.memory["proxy"]
        return self.net.convolutions_flops(proxy) / self.task.flops(job.data)


def apart(params: Parameters) -> tuple[Parameters, Masks]:
    """Return a model's weights and biases, and its masks; with or without a client axis."""
    weights = {name: {key: leaf for key, leaf in layer.items() if key != "mask"} for name, layer in params.items()}
    return weights, {name: layer["mask"] for name, layer in params.items()}


def joined(weights: Parameters, local: Parameters | None) -> Parameters:
    """Return these weights under the masks of the client's last model, or masks of ones without one."""
    masks = tree.transform(torch.ones_like, like_masks(weights)) if local is None else apart(local)[1]
    return {name: {**layer, "mask": masks[name]} for name, layer in weights.items()}


def like_masks(weights: Parameters) -> Masks:
    """Return tensors of the shapes of the masks."""
    return {name: layer["weight"] for name, layer in weights.items()}


def distance(weights: Parameters, received: Parameters) -> Tensor:
    """Return Σ ‖θ − θ_received‖₂ over the tensors of each client (K,); its slope is zero where they are equal."""
    pairs = zip(tree.leaves(weights), tree.leaves(received), strict=True)
    return sum(torch.linalg.vector_norm((a - b).flatten(1), dim=1) for a, b in pairs)


def both_ways(proxy: Tree) -> Graph:
    """Return the proxy as a graph, whose edges lead in both directions."""
    edges = torch.cat([proxy["edges"], proxy["edges"].flip(0)], 1)
    return graph_of(proxy["x"], edges, torch.zeros(len(proxy["x"]), dtype=torch.long, device=edges.device))
