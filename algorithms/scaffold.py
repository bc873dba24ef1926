"""SCAFFOLD: local steps corrected by control variates (Karimireddy et al., ICML 2020, Algorithm 1).

    client:  y ← x;  K times  y ← y − η (∇Fₖ(y) − cₖ + c)
             cₖ⁺ = ∇Fₖ(x)                        option I,  `variate: gradient`
             cₖ⁺ = cₖ − c + (x − y) / (K η)      option II, `variate: difference`
    server:  x ← x + η_g · mean of (y − x) over the cohort
             c ← c + 1/N · sum of (cₖ⁺ − cₖ) over the cohort, where N counts all clients

All variates begin at zero.  The means are uniform, as printed: what is minimised is the mean of the Fₖ, however many
examples a client holds.  A message holds two models in either direction, and a counter of 8 bytes.

The counters are ours.  The printed algorithm keeps c = 1/N Σ cₖ only as long as every upload arrives: a client cannot
know whether its last one did, and each that is lost leaves c wrong for ever.  So a client numbers its variates, a
download names the one that the server has last folded, and the client goes on from that one.  The server folds
a variate only if it was made from the one that it has folded last, which a reply that arrives late or was overtaken
was not, and never discounts it for staleness.  `counters: false` is the algorithm as printed.

A gradient is one more training step's work, with dropout switched off.  Option II needs (x − y) / η to be a sum of
gradients, which it is under SGD at a constant rate, unclipped.  With momentum, which then begins at zero in every job,
K is replaced by the length of FedNova (Wang et al., NeurIPS 2020).  Corrected gradients under Adam are ours too.

The first job of a new period is not corrected, since its client's variate is of data that it no longer trains on;
`keep` corrects it all the same.  Where every client continues from a state of its own N is 1: under `gossip` c is
tracked as gradients are in decentralised optimisation, under `isolated` the correction is zero.  A server that falls
back to a checkpoint from before a client's last `history` variates leaves c wrong by what the client has dropped.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.span import Span
from fedsim.core.units import Count
from fedsim.core.wire import Tree
from fedsim.learn import tree
from fedsim.learn.algorithm import Algorithm, Fit, Job, Reply, State, Work


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """A client without an example to train on returns the model as it came, and keeps its variate."""

    title: ClassVar[str] = "SCAFFOLD"
    variate: Literal["gradient", "difference"] | None = None  # how cₖ is made; null: difference where SGD allows it
    server_lr: float = 1.0  # η_g, the server's learning rate
    counters: bool = True  # number the variates, so that c stays right where uploads are lost or late
    history: Count = 2  # newest variates that a client keeps, beside the one folded last
    keep: bool = False  # go on correcting with a variate of the period before
    tunes: ClassVar[Mapping[str, Span]] = {"server_lr": Span(0.1, 2.0, log=True)}

    def __post_init__(self) -> None:
        """Raise ValueError for a learning rate of the server that is none."""
        if not 0 < self.server_lr < math.inf:
            raise ValueError("server_lr: must be finite and above 0 (1 takes the mean of the clients' steps as it is)")

    def start(self) -> State:
        """Return the model with its first parameters, a variate of zero, and nothing folded.

        Raises ScenarioError where the clients' training does not allow the difference.
        """
        if self.variate == "difference" and (problem := self.unfit()):
            raise ScenarioError([problem])
        model = self.task.init()
        return {"model": model, "control": tree.zeros_like(model), "folded": {}}

    def unfit(self) -> Problem | None:
        """Return why (x − y) / η is no sum of gradients here, or None."""
        here, end = self._given, "is no sum of gradients; write algorithm.variate: gradient, or {}"
        if here.optimiser != "sgd":
            return Problem("training.optimiser", f"{here.optimiser}: its step {end.format('optimiser: sgd')}")
        if here.schedule != "constant":
            return Problem("training.schedule", f"{here.schedule}: a job's step {end.format('schedule: constant')}")
        if here.clip is not None:
            return Problem("training.clip", f"a clipped job's step {end.format('leave training.clip out')}")
        return None

    @property
    def by_gradient(self) -> bool:
        """Whether variates are gradients at the server's model."""
        return self.variate == "gradient" or (self.variate is None and self.unfit() is not None)

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model, c, and the counter of this client's variate that c holds."""
        sent = {"model": state["model"], "control": state["control"]}
        return {**sent, "folded": state["folded"].get(client, 0)} if self.counters else sent

    def work(self, job: Job) -> Work:
        """Train with corrected gradients; send the difference of the model and that of the variate."""
        x, kept = job.download["model"], job.memory.get("variates", {})
        named = job.download["folded"] if self.counters else 0
        own = self.folded_last(kept, named, x)
        correction = tree.sub(job.download["control"], own)
        if kept and job.memory["period"] != job.period and not self.keep:
            correction = tree.zeros_like(x)
        y, new = x, own
        if self.task.examples(job.data, "train"):
            given, slot = {"correction": correction}, "model" if self.by_gradient else None
            y = yield Fit(start=x, loss=self.loss, given=given, correct=self.corrected, slot=slot)
            new = self.gradient(job) if self.by_gradient else self.difference(tree.sub(x, y), correction)
        number = max(kept, default=0) + 1 if self.counters else 0
        known = {**kept, number: new}
        job.memory["variates"] = {n: v for n, v in known.items() if n == named or n > number - self.history}
        job.memory["period"], job.memory["local"] = job.period, y
        sent = {"update": tree.sub(y, x), "control": tree.sub(new, own)}
        return {**sent, "counter": number} if self.counters else sent

    def folded_last(self, kept: Mapping[int, Tree], named: int, model: Tree) -> Tree:
        """Return cₖ as c holds it: the variate of that number, or else the oldest kept; at first zero."""
        if named in kept:
            return kept[named]
        return kept[min(kept)] if named else tree.zeros_like(model)

    def loss(self, params: Tree, data: Tree, given: Tree) -> torch.Tensor:
        """Return the task's loss."""
        return self.task.loss(params, data)

    def corrected(self, grads: Tree, given: Tree) -> Tree:
        """Return ∇Fₖ(y) − cₖ + c of each client."""
        return tree.add(grads, given["correction"])

    def gradient(self, job: Job) -> Tree:
        """Return ∇Fₖ(x), by option I."""
        params = tree.transform(lambda leaf: leaf.unsqueeze(0).clone().requires_grad_(True), job.download["model"])
        loss = self.loss(params, job.data, None).sum()
        order = iter(torch.autograd.grad(loss, list(tree.leaves(params)), materialize_grads=True))
        return tree.transform(lambda _: next(order).squeeze(0), params)

    def difference(self, way: Tree, correction: Tree) -> Tree:
        """Return the mean gradient along the client's way x − y, by option II."""
        return tree.sub(tree.scale(way, 1 / (self.learning_rate * self.length())), correction)

    def length(self) -> float:
        """Return how many times η a constant gradient leads over a job: K, more with momentum."""
        m = self.momentum
        return math.fsum((1 - m**s) / (1 - m) for s in range(1, self.local_steps + 1))

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        sent = {"update": job.download["model"], "control": job.download["model"]}
        return {**sent, "counter": 0} if self.counters else sent

    def extra_steps(self, job: Job) -> float:
        """Count the gradient of option I."""
        return 1.0 if self.by_gradient else 0.0

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Add the mean step, each first times the protocol's discount, and every variate that belongs to c."""
        steps, rates = [reply.upload["update"] for reply in replies], [self.server_lr * r.weight for r in replies]
        model = tree.add(state["model"], tree.mean(steps, [1.0] * len(steps), rates))
        folded, changes = dict(state["folded"]), []
        for reply in replies:
            if self.counters:
                if reply.download["folded"] != folded.get(reply.client, 0):
                    continue
                folded[reply.client] = reply.upload["counter"]
            changes.append(reply.upload["control"])
        control = state["control"]
        if changes:
            share = len(changes) / self.among
            control = tree.add(control, tree.mean(changes, [1.0] * len(changes), [share] * len(changes)))
        return {**state, "model": model, "control": control, "folded": folded}

    @property
    def among(self) -> int:
        """N, the clients whose variates a state's c is the mean of."""
        return 1 if self._given.alone else self.clients

    def share(self, state: State) -> Tree:
        """Send model and c; from and to edges also which variates are in it."""
        sent = {"model": state["model"], "control": state["control"]}
        if self._given.alone or not self.counters:
            return sent
        clients = sorted(state["folded"])
        numbers = torch.tensor([[client, state["folded"][client]] for client in clients], dtype=torch.int64)
        return {**sent, "folded": numbers.reshape(-1, 2)}

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Average models; average c of peers, and add up what edges have added to it, each for its own clients."""
        model = tree.mean([share["model"] for share in shares], weights)
        controls = [share["control"] for share in shares]
        if self._given.alone:
            return {**state, "model": model, "control": tree.mean(controls, weights)}
        control = controls[0]
        for other in controls[1:]:
            control = tree.add(control, tree.sub(other, state["control"]))
        if not self.counters:
            return {**state, "model": model, "control": control}
        folded: dict[int, int] = {}
        for share in shares:
            for client, number in share["folded"].tolist():
                folded[client] = max(number, folded.get(client, 0))
        return {"model": model, "control": control, "folded": folded}
