"""FENS: an ensemble of the clients' models, combined by a jointly trained aggregator (Allouah et al., NeurIPS 2024).

A round has 1 + R exchanges with one cohort:

    models       every client trains a model of its own, from weights of its own, and sends it in 8 bits a number
    weigh, …     R − 1 times: clients train the aggregator, a network over all models' logits, whose weights the
    train        server averages; the R-th time, which is a round's one update of the model

The models are frozen meanwhile, so a client passes its graph through all of them only once.  The ensemble is the model
that is scored as the global one (ensemble.py); a client's own model is the local one.

Bytes, with P numbers in T tensors of a model, M models, and A = M C h + h + h C + C numbers in the aggregator:

    models       up    P + 8 T               down  nothing
    weigh, train up    4 A + 8               down  4 A, and M (P + 8 T) more until a reply has shown that they arrived

so a client with no loss moves (M + 1)(P + 8 T) + R (8 A + 8) bytes a round.  A client without a training node sends
nothing.  A deployed ensemble has the size of M models; its cost outside the federation is not counted.

Only training nodes have terms in the losses, of models and aggregator; the others contribute features as neighbours.
Clients send the aggregator's difference, weighted by training nodes.

Reconstructed, since the text was not available: the aggregator's width, R, its steps, and its training by the
scenario's optimiser, with fresh moments in each exchange.  The steps were chosen on the clients' validation nodes
(Cora, ten clients, Dirichlet 0.05, seeds 0 to 4): mean accuracies of 0.34 for 1 and for 5, 0.39 for 20, and 0.20 for
100, at which clients with few classes drift apart.  Strictly one-shot variants, which train the aggregator on data that
the server has generated, are left out.  A further round trains every model further and the aggregator from new weights,
since it fits one set of models; a client that does not take part has no model in the ensemble.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from algorithms.fens.ensemble import Ensemble, aggregator_flops, combined, dequantised, quantised
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count
from fedsim.data.graph import Graph, graph_of
from fedsim.learn.algorithm import Algorithm, Disclosed, Fit, Job, Memory, Reply, State, Tree, Work
from fedsim.learn.engine import ops, tree
from fedsim.learn.model import Model, Parameters


@dataclass(frozen=True)
class FENS(Algorithm):
    """All models count as one model with members."""

    own_steps = any_model = True
    discloses = Disclosed(("updates",), clients=("updates",))
    needs = frozenset({"no buffers"})
    prepares = frozenset({"models", "weigh"})

    aggregator_rounds: Count = 10  # R, exchanges that train the aggregator
    aggregator_steps: Count = 20  # steps per exchange, at most the scenario's local steps
    width: Count = 64  # width of the aggregator's hidden layer

    tunes = {"aggregator_rounds": Span(choices=(1, 2, 5, 10, 20, 50))}

    def backbone(self, model: Model) -> Model:
        """Return ensembles of the scenario's model."""
        return Ensemble(one=model, hidden=model.hidden, layers=model.layers, dropout=model.dropout, width=self.width)

    @property
    def net(self) -> Ensemble:
        """The model that `backbone` has made."""
        return cast(Ensemble, self.task.model)

    # ---- server

    def start(self) -> State:
        """Return an ensemble of one untrained model.  Raises ScenarioError for a task without classes."""
        self.task.require_classes("'fens' weighs logits")
        first, aggregator = self.task.init(), self.fresh(1, 0)
        model = {"members": {"0": first}, "aggregator": aggregator}
        return {"model": model, "first": first, "members": {}, "aggregator": aggregator, "reached": frozenset(),
                "idle": frozenset(), "rounds": 0}  # fmt: skip

    def fresh(self, members: int, number: int) -> Parameters:
        """Return the first weights of a round's aggregator."""
        drawn = ops.generator(self.task.seed, "fens", number)
        return tree.to(self.net.aggregator(members, self.task.classes, drawn), self.task.device)

    def steps(self, state: State) -> Sequence[str]:
        """Return the exchange of models, and those of the aggregator."""
        return ("models", *["weigh"] * (self.aggregator_rounds - 1), "train")

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the aggregator, with all models until a reply shows that they arrived; nothing to idle clients."""
        if step == "models" or client in state["idle"] or not state["members"]:
            return {}
        first = {} if client in state["reached"] else {"members": state["members"]}
        return {"aggregator": state["aggregator"], **first}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note the models, or update the aggregator; the round's last exchange makes both the model."""
        if step == "models":
            return self.gathered(state, replies)
        useful = [reply for reply in replies if "update" in reply.upload]
        if not useful:
            return {**state}
        parts = [(reply.upload["update"], reply.upload["samples"], reply.weight) for reply in useful]
        aggregator = tree.add(state["aggregator"], tree.mean(*zip(*parts, strict=True)))
        reached = state["reached"] | {reply.client for reply in useful}
        new = {**state, "aggregator": aggregator, "reached": reached}
        if step == "train":
            new["model"] = {"members": dequantised(state["members"]), "aggregator": aggregator}
        return new

    def gathered(self, state: State, replies: Sequence[Reply]) -> State:
        """Return the state with the models received, in the order of clients, and an aggregator for them."""
        sent = [r.upload["model"] for r in sorted(replies, key=lambda r: r.client) if "model" in r.upload]
        idle = frozenset(reply.client for reply in replies if "model" not in reply.upload)
        members, number = {str(place): model for place, model in enumerate(sent)}, state["rounds"] + 1
        aggregator = self.fresh(len(sent), number) if sent else state["aggregator"]
        return {**state, "members": members, "aggregator": aggregator, "reached": frozenset(), "idle": idle,
                "rounds": number}  # fmt: skip

    def personal(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the client's own model, or an untrained one."""
        return memory.get("local", state["first"])

    # ---- client

    def work(self, job: Job) -> Tree | Work:
        """Train the client's own model, or the aggregator."""
        return self.model_work(job) if job.step == "models" else self.aggregator_work(job)

    def model_work(self, job: Job) -> Work:
        """Train the client's own model and send it in 8 bits."""
        if not self.task.examples(job.data, "train"):
            return {}
        start = job.memory.get("local") or self.task.drawn(integer(job.seed, "fens"))
        model = yield Fit(start=start, loss=self.loss)
        job.memory["local"] = model
        return {"model": quantised(model)}

    def aggregator_work(self, job: Job) -> Work:
        """Train the aggregator on the models' outputs for the training nodes; send the difference."""
        if "members" in job.download:
            job.memory["members"] = dequantised(job.download["members"])
        if not self.weighs(job):
            return {}
        start = job.download["aggregator"]
        trained = yield Fit(start=start, loss=self.weighing, data=self.outputs(job), slot=None, steps=(0, self.taken))
        return {"update": tree.sub(trained, start), "samples": self.task.examples(job.data, "train")}

    @property
    def taken(self) -> int:
        """The number of steps for which a client trains the aggregator in an exchange."""
        return min(self.aggregator_steps, self.local_steps)

    def weighs(self, job: Job) -> bool:
        """Return whether the client has something to train the aggregator on."""
        return bool(job.download) and bool(self.task.examples(job.data, "train"))

    @torch.no_grad()
    def outputs(self, job: Job) -> Graph:
        """Return the training nodes as a graph without edges whose features are all models' logits (n, M C)."""
        known = job.memory.get("outputs")
        if known is None or "members" in job.download or known["period"] != job.period:
            rows = job.data["train"]
            z = self.task.embed(tree.stack([{"members": job.memory["members"]}]), job.data)[rows]
            y = job.data["y"][rows]
            nothing = torch.zeros(2, 0, dtype=torch.long, device=y.device)
            known = {"period": job.period, "graph": graph_of(z, nothing, y, torch.ones_like(y, dtype=torch.bool))}
            job.memory["outputs"] = known
        return known["graph"]

    def weighing(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the aggregator's cross-entropy on each client's training nodes (K,)."""
        return ops.cross_entropy(combined(params, data["x"], data), data)

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        if job.step == "models":
            return {"model": quantised(self.task.init())} if self.task.examples(job.data, "train") else {}
        return {"update": job.download["aggregator"], "samples": 0} if self.weighs(job) else {}

    def effort(self, job: Job) -> float:
        """Count the aggregator's steps against the model's."""
        labelled = self.task.examples(job.data, "train")
        if job.step == "models":
            return 1.0 if labelled else 0.0
        if not self.weighs(job):
            return 0.0
        once = 3 * aggregator_flops(labelled, self.members(job), self.task.classes, self.width)
        return once * self.taken / self.local_steps / self.task.flops(job.data)

    def extra_steps(self, job: Job) -> float:
        """Count a pass through all models, a third of a step each, if they or the graph are new."""
        known = job.memory.get("outputs")
        if not self.weighs(job) or ("members" not in job.download and known and known["period"] == job.period):
            return 0.0
        return self.members(job) / 3

    def members(self, job: Job) -> int:
        """Return the number of models."""
        return len(job.download["members"] if "members" in job.download else job.memory["members"])
