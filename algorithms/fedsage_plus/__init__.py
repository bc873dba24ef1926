"""FedSage+: generated neighbours in place of those that other clients hold (Zhang et al., NeurIPS 2021).

The classifier is GraphSAGE (mean, two layers) of the scenario's width and dropout.  In each new period a client hides
⌊`hide` · n_val⌋ of its validation nodes and trains its generator (neighbours.py) for `generator_epochs` on

    (smooth-L1 of the counts + greedy loss + cross-entropy on the mended graph + Σ_{j≠i} greedy loss at client j) / K

Then it adds generated neighbours to its graph, without labels, and trains the classifier on this mended graph for the
rest of the period.  All parts of the generator are trained in one phase, as in OpenFGL, and only fGen is ever shared.
Generators stay local and restart from their previous weights in a new period, with fresh moments of Adam.

Exchanges.  Every round begins with `offer`.  A client with epochs left sends fGen and the latents of its n training
nodes up, once; the others send five bytes.  If there is an offer, the round continues with `judge`: each client of
the cohort gets the offers of the others and returns for each the gradients by fGen and latents of its greedy loss
against the features of five random neighbours of n random nodes of its own.  The next `offer` brings a client its
K − 1 separate gradients; it takes its step and offers again, or is done.  Neither step counts as an update of the
model.  So the server need not know when a period begins: a client that holds a new one offers, whenever it arrives or
joins, and a client that is done only judges.  Gradients name the offer that they judge.  If some are lost, K counts
those that arrived; if all are lost, the step is a local one; an interrupted epoch is repeated in the client's next
round.  Until a client is done, it trains on its graph as it is.  A client alone in its round learns without judges.

Bytes.  With G = 4 (33,024 + 526,336 + 10,245 F) for fGen at its default size and Lᵢ = 4 · 128 nᵢ for the latents, an
epoch of K clients takes

    Σᵢ (G + Lᵢ) [1 up + (K − 1) copies down + (K − 1) gradients up + (K − 1) gradients down] = (3 K − 2) Σᵢ (G + Lᵢ)

in raw numbers, through the server; counted by ordered pair, as if clients were linked, it would be 2 (K − 1) Σᵢ (G +
Lᵢ).  Both public repositories read the other clients' features directly instead.  The classifier's round is FedAvg's.

What the recipes leave open: the classifier in the generator's loss is part of the generator, initialised and trained
with it, and never sent; the count that j would need of each node of i does not travel, so all five guesses count
there.  A client without a training node neither offers nor mends.

`scored` chooses the graphs that classifiers are scored on.  `mended`, as OpenFGL does once its generators are trained:
each period's graph with the nodes generated for it, in the same splits; the client's own graph until then.  Periods
that share one graph (edges between tasks kept) share the nodes that were generated last.  Snapshots are scored as
they are.  `own`: without generated nodes, as the split all_periods requires.

The clock bills what is computed: encoder, fGen and its gradients, the classifier on the mended graph, Adam, and later
rounds on the mended graph, with as many generated nodes as hiding cuts edges on average.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from algorithms.fedavg import FedAvg
from algorithms.fedsage_plus import mending
from algorithms.fedsage_plus.neighbours import NeighGen, stepped
from fedsim.core.units import Count, Fraction
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Disclosed, Fit, Job, Memory, Reply, State, Work
from fedsim.learn.engine import ops, tree
from fedsim.learn.model import Model
from fedsim.learn.models.sage import SAGE


@dataclass(frozen=True)
class FedSagePlus(FedAvg):
    """Smaller widths make the exchange cheaper in the same proportion."""

    title = "FedSage+"

    aggregates = True
    own_steps = True
    discloses = Disclosed(("updates", "generators", "prototypes"), clients=("generators", "prototypes"))
    sees_past = True
    prepares = frozenset({"offer", "judge"})

    scored: Literal["mended", "own"] = "mended"  # graphs used for scoring: with generated nodes, or without
    agg: Literal["weighted", "uniform"] = "weighted"  # average of the classifiers; the repositories average uniformly
    generator_epochs: Count = 20  # training epochs of the generator in each new period
    hide: Fraction = 0.5  # share of the validation nodes hidden to train the generator
    most: Count = 5  # most generated neighbours per node
    encoder: Count = 64  # width of the generator's encoder
    latent: Count = 128  # size of the latent vector of a node
    narrow: Count = 256  # width of fGen's first layer
    wide: Count = 2048  # width of fGen's second layer
    generator_dropout: Fraction = 0.5  # dropout before fGen's last layer
    generator_lr: float = 1e-3  # learning rate of the generator's Adam
    generator_decay: float = 1e-4  # weight decay of the generator

    def backbone(self, model: Model) -> Model:
        """Return GraphSAGE of the scenario's width and dropout."""
        return SAGE(hidden=model.hidden, layers=2, dropout=model.dropout)

    @property
    def neighgen(self) -> NeighGen:
        """The generator for the task's features."""
        sizes = {"hidden": self.encoder, "latent": self.latent, "narrow": self.narrow, "wide": self.wide}
        return NeighGen(self.task, **sizes, most=self.most, dropout=self.generator_dropout)

    # ---- server

    def start(self) -> State:
        """Return the first model; there is no offer and no gradient yet."""
        return {**super().start(), "offers": {}, "gradients": {}, "present": 0}

    def steps(self, state: State) -> Sequence[str]:
        """Return the offer, the only exchange in most rounds, and the training."""
        return ("offer", "train")

    def more(self, state: State, step: str) -> Sequence[str]:
        """Continue an epoch while there are offers; a single client has no judges."""
        if step != "offer" or not state["offers"]:
            return ()
        return ("judge", "offer") if state["present"] > 1 else ("offer",)

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the client's gradients, or the others' offers, or the model."""
        if step == "offer":
            return state["gradients"].get(client, {})
        if step == "judge":
            return {str(other): offer for other, offer in state["offers"].items() if other != client}
        return super().download(state, client, step)

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Relay offers and gradients, which last for the exchange only, or average the classifiers."""
        idle: State = {"offers": {}, "gradients": {}}
        if step == "offer":
            offers = {reply.client: reply.upload for reply in replies if reply.upload}
            return {**state, **idle, "offers": offers, "present": len(replies)}
        if step == "judge":
            offers = state["offers"].items()  # gradients name the offer that they judge
            judged = {client: {"number": offer["number"], "parts": []} for client, offer in offers}
            for key, gradients in (item for reply in replies for item in reply.upload.items()):
                judged[int(key)]["parts"].append(gradients)
            return {**state, **idle, "gradients": judged}
        return {**super().update(state, replies, step), **idle}

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return zero for what is only relayed."""
        return 0.0 if step in self.prepares else super().server_flops(state, replies, step)

    # ---- client

    def work(self, job: Job) -> Tree | Work:
        """Take a step of the generator and offer, or judge, or train the classifier."""
        if job.step == "offer":
            return self.offer(job)
        return self.judge(job) if job.step == "judge" else super().work(job)

    def samples(self, data: Graph) -> int:
        """Return the client's weight in the average."""
        return 1 if self.agg == "uniform" else super().samples(data)

    def fit(self, job: Job, given: Tree, **how: Any) -> Work:
        """Train the downloaded model on the mended graph, or on the client's own until that is done."""
        model = job.download["model"]
        if bool(job.data["train"].any()):
            if not self.is_mended(job):
                job.memory["mended"] = {"period": job.period, "through": False, "graph": mending.unmended(job.data)}
            mended = job.memory["mended"]["graph"]
            model = yield Fit(start=model, loss=self.loss, given=given, data=mended, **how)
        job.memory["local"] = model
        return model

    def offer(self, job: Job) -> Tree:
        """Take the step that the last offer awaited; return the next offer, or nothing once the graph is mended."""
        due = self.due(job)
        if due is None:
            return {}
        note, neighgen = self.begun(job), self.neighgen
        if note["awaits"]:
            note = self.improved(job, note)
        if due:
            number = note["number"] + 1
            job.memory["generator"] = {**note, "awaits": True, "number": number}
            with torch.no_grad():
                z = neighgen.latents(note["params"], note["impaired"].graph)[note["impaired"].rows]
            return {"number": number, "generator": note["params"]["features"], "latents": z}
        graph = neighgen.filled(note["params"], job.data, self.random(job, "mend"))
        job.memory["mended"] = {"period": job.period, "through": True, "graph": graph}
        earlier = job.memory.get("filled", ())
        job.memory["filled"] = (graph, *(other for other in earlier if not mending.extends(other, job.data)))
        job.memory["generator"] = {**note, "awaits": False, "impaired": None, "moments": None}
        return {}

    def due(self, job: Job) -> int | None:
        """Return the number of offers left to the client, this job's included, or None if it has nothing to do."""
        if not bool(job.data["train"].any()) or (self.is_mended(job) and job.memory["mended"]["through"]):
            return None
        note = job.memory.get("generator")
        done = note["epoch"] + note["awaits"] if note is not None and note["period"] == job.period else 0
        return self.generator_epochs - done

    def is_mended(self, job: Job) -> bool:
        """Return whether the client has prepared the graph that it trains on in this period."""
        return job.memory.get("mended", {}).get("period") == job.period

    def begun(self, job: Job) -> dict[str, Any]:
        """Return the client's notes on its generator, fresh ones in a new period."""
        drawn = self.random(job, "generator")
        note = job.memory.get("generator") or {"params": self.neighgen.init(drawn), "number": 0}
        if note.get("period") == job.period:
            return note
        impaired = mending.impaired(job.data, self.hide, self.most, self.random(job, "hide"))
        fresh = {"period": job.period, "epoch": 0, "awaits": False, "moments": None, "impaired": impaired}
        return {**note, **fresh}

    def improved(self, job: Job, note: Memory) -> dict[str, Any]:
        """Return the notes after the optimiser's step, with the gradients of this offer's judges."""
        foreign = job.download["parts"] if job.download and job.download["number"] == note["number"] else []
        seed = ops.seed_steps(torch.tensor([job.seed], device=self.task.device), 0, 1)
        grads = self.neighgen.gradients(note["params"], note["impaired"], foreign, self.random(job, "noise"), seed)
        params, moments = stepped(note["params"], grads, note["moments"], self.generator_lr, self.generator_decay)
        return {**note, "params": params, "moments": moments, "epoch": note["epoch"] + 1, "awaits": False}

    def judge(self, job: Job) -> Tree:
        """Return the gradients of each offer against random neighbours of the client's own; none if it has no edge."""
        gradients = {}
        for key, offer in self.judgeable(job).items():
            noise = self.random(job, "judge", key)
            true = mending.strangers(job.data, len(offer["latents"]), self.most, noise)
            gradients[key] = self.neighgen.judged(offer["generator"], offer["latents"], true, noise)
        return gradients

    def judgeable(self, job: Job) -> dict[str, Tree]:
        """Return the offers that the client can judge."""
        return job.download if job.data["edges"].shape[1] else {}

    def random(self, job: Job, *what: object) -> torch.Generator:
        """Return the job's random stream of that name."""
        return ops.generator(job.seed, "fedsage_plus", *what)

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        if job.step == "judge":
            offers = self.judgeable(job).items()
            return {key: {"generator": offer["generator"], "latents": offer["latents"]} for key, offer in offers}
        if job.step == "offer":
            if not self.due(job):
                return {}
            latents = Spec((int(job.data["train"].sum()), self.latent), "float32")
            return {"number": 0, "generator": self.neighgen.like(), "latents": latents}
        return super().upload_like(job)

    # ---- what it is scored on

    @property
    def sees_more(self) -> bool:  # type: ignore[override]  # declared by an option
        """Whether scored graphs hold generated nodes."""
        return self.scored == "mended"

    def sees(self, memory: Memory, graph: Graph) -> Graph:
        """Return the graph as the client has mended it, or as it is."""
        if self.scored == "own":
            return graph
        return next((mended for mended in memory.get("filled", ()) if mending.extends(mended, graph)), graph)

    # ---- what it costs

    def effort(self, job: Job) -> float:
        """Return the work on the mended graph relative to the client's own in training, zero in other steps."""
        through = self.is_mended(job) and job.memory["mended"]["through"]
        if job.step != "train":
            return 0.0
        return mending.flops(self.task, job.data, self.hide, self.most) / self.task.flops(job.data) if through else 1.0

    def extra_steps(self, job: Job) -> float:
        """Return the generator's work, in training steps of the client's own graph."""
        if job.step == "train":
            return 0.0
        if job.step == "offer":
            operations = self.offer_flops(job)
        else:  # a pass through fGen and back for each offer
            operations = sum(3 * self.neighgen.flops(len(offer["latents"])) for offer in self.judgeable(job).values())
        return operations / self.task.flops(job.data) if operations else 0.0

    def offer_flops(self, job: Job) -> float:
        """Return the operations of the awaited step (Adam: 12 a number), and of the offer or of mending."""
        due = self.due(job)
        if due is None:
            return 0.0
        neighgen, graph = self.neighgen, job.data
        encoding = neighgen.encoder.flops(graph, self.latent)
        total = encoding if due else encoding + neighgen.flops(len(graph["y"]))
        note = job.memory.get("generator")
        if note is None or note["period"] != job.period or not note["awaits"]:
            return total
        step = 3 * (encoding + neighgen.flops(len(mending.reach(graph))))
        step += mending.flops(self.task, graph, self.hide, self.most)
        return total + step + 12.0 * (tree.count(note["params"]) + tree.count(job.download))
