"""FedDyn: a regulariser that moves with each client, so that all agree at the optimum (Acar et al., ICLR 2021, Alg. 1).

    client:  θₖ ← argmin Fₖ(θ) − ⟨gₖ, θ⟩ + α/2 ‖θ − x‖², by the job's local steps;   gₖ ← gₖ − α (θₖ − x)
    server:  h ← h − α/N · sum of (θₖ − x) over the cohort, where N counts all clients
             x ← mean of θₖ over the cohort − h / α

gₖ and h begin at zero.  At the optimum gₖ is the gradient of Fₖ, and h, the mean of the gₖ, is zero.  The mean is
uniform, as printed: what is minimised is the mean of the Fₖ.  A message holds one model in either direction, and
a counter of 8 bytes; client and server keep as many numbers again.

Both terms are part of the loss, so any optimiser may train on them.  The counters are ours: h stays the mean of the gₖ
where uploads are lost, late or stale (fedsim/learn/personalised/control_variates.py); `counters: false` is as printed.
The update of a late reply is added to the model of the moment, times the protocol's discount.  Under `buffered`, h / α
is subtracted at every update, and so more often than a client answers; where all clients are always at work this
overshoots, and eight hospitals with a buffer of four end at chance (docs/reference.md).

In the first job of a new period a client trains with gₖ = 0, since its own is of data that it no longer trains on, and
sends the old one along, once: another model's bytes.  `keep` goes on with it and sends nothing.

Scored is x, the model that is sent, and which the authors' code calls the cloud model; that code also reports means of
the θₖ.  Not modelled: its α divided by a client's share of the labelled nodes, its weight decay and clipping (the
scenario's `training` says).  A lossy codec leaves h wrong by what it rounds away.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fedsim.core.span import Span
from fedsim.core.units import Positive
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Algorithm, Disclosed, Fit, Job, Reply, State, Tree, Work
from fedsim.learn.averaging import plain_mean
from fedsim.learn.engine import tree
from fedsim.learn.model import Parameters
from fedsim.learn.personalised.control_variates import ControlVariates


@dataclass(frozen=True)
class FedDyn(ControlVariates):
    """A client without an example to train on returns the model as it came, and keeps its gₖ."""

    title = "FedDyn"
    any_model = any_targets = True
    discloses = Disclosed(("updates",))
    upload_like = Algorithm.untrained_upload
    alpha: Positive = 0.01  # α, strength of the regulariser
    tunes = {"alpha": Span(1e-3, 1.0, log=True)}

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model, and the counter of this client's variate that h holds."""
        return {"model": state["model"], **self.folded(state, client)}

    def work(self, job: Job) -> Work:
        """Train on the regularised loss; send the difference, and a variate that is given up."""
        x, variate = job.download["model"], self.client_variate(job)
        y, new, sent = x, variate, {}
        if self.task.examples(job.data, "train"):
            if self.is_past(job):
                variate, sent = tree.zeros_like(x), {"given_up": variate}
            y = yield Fit(start=x, loss=self.loss, given={"received": x, "gradient": variate})
            new = tree.sub(variate, tree.scale(tree.sub(y, x), self.alpha))
        job.memory["local"] = y
        return {"update": tree.sub(y, x), **sent, **self.remember(job, new)}

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return F(θ) − ⟨g, θ − x⟩ + α/2 ‖θ − x‖², which at x is the task's loss."""
        way = tree.sub(params, given["received"])
        pull = self.alpha / 2 * tree.inner(way, way)
        return self.task.loss(params, data) - tree.inner(given["gradient"], way) + pull

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Fold every variate that belongs to h, then take the mean of the clients' models less h / α."""
        folded, fits = self.folding(state, replies)
        control = self.shifted(state["control"], [self.change(reply.upload) for reply in fits])
        model = tree.sub(tree.add(state["model"], plain_mean(replies)), tree.scale(control, 1 / self.alpha))
        return {**state, "model": model, "control": control, "folded": folded}

    def change(self, upload: Tree) -> Tree:
        """Return gₖ⁺ − gₖ, which follows from what was uploaded."""
        change = tree.scale(upload["update"], -self.alpha)
        return tree.sub(change, upload["given_up"]) if "given_up" in upload else change
