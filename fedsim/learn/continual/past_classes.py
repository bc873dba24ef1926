"""Distillation on synthetic nodes of past classes: what TARGET and LANDER have in common on graphs.

A client notes the classes of its finished periods and reports them.  When a report is new the server keeps the global
model of before as the teacher and synthesises nodes of all classes reported (fedsim/learn/synthetic/inversion.py).
A download names the synthetic set, and holds it until a reply shows that it has arrived.  A client trains on the
cross-entropy of its own classes and on the teacher's distribution over the known ones.

It models neither how nodes are synthesised nor what else the losses hold, which is up to the methods.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.seeds import integer
from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Disclosed, Job, Reply, State, Tree, Work, title_of
from fedsim.learn.averaging import Averaging
from fedsim.learn.engine import ops, tree
from fedsim.learn.model import Parameters
from fedsim.learn.synthetic import inversion
from fedsim.learn.synthetic.pseudo_graphs import stand_in

Invert = Callable[[Parameters, Tensor, bool, int], Tree]  # `PastClasses.invert`
HIDDEN = (128, 256)  # widths of the generator
LOW = -1e9  # a logit that takes no part; finite, so that rows that are not trained on have a loss


@dataclass(frozen=True)
class PastClasses(Averaging):
    """Put before FedAvg; subclasses say how nodes are synthesised."""

    discloses = Disclosed(("updates", "labels"))

    kd: float = 25.0  # weight of the distillation; 0: only the loss over a client's own classes is left
    temperature: float = 2.0  # of the distillation
    sliced: bool = True  # cross-entropy over the classes of the client's period alone, as published; or over all
    send: Literal["samples", "generator"] = "samples"  # what travels of a synthetic set
    noise: Count = 256  # size of the generator's input
    rounds: Count = 10  # rounds of the synthesis, each of which keeps a batch; published: 10, or 200
    inner_steps: Count = 10  # generator steps in a round; published: 10, or 50
    batch: Count = 256  # nodes of a batch
    warm_up: int = 5  # rounds before the student is trained and opposed; published: 20
    student_steps: int = 50  # SGD steps of the student in each round after; published: 400

    @property
    def synthesis(self) -> inversion.Synthesis:
        """The schedule of the synthesis."""
        steps = self.warm_up, self.student_steps
        return inversion.Synthesis(self.rounds, self.inner_steps, self.batch, *steps)

    @property
    def widths(self) -> tuple[int, ...]:
        """The generator's widths, from its input to the features."""
        return (self.noise, *HIDDEN, self.task.features)

    @abstractmethod
    def invert(self, teacher: Parameters, known: Tensor, binary: bool, number: int) -> Tree:
        """Return nodes x (n, F), the labels y (n,) that they were drawn for, and the generator."""

    # ---- server

    def start(self) -> State:
        """Return the first model, and nothing finished.  Raises ScenarioError for a task without classes."""
        self.task.require_classes(f"{title_of(type(self))} distils classes of nodes")
        first = super().start()  # type: ignore[safe-super]
        return {**first, "finished": {}, "binary": {}, "set": None, "has": {}}

    def random(self, *name: object) -> torch.Generator:
        """Return the server's random stream of that name."""
        return ops.generator(self.task.seed, "inversion", *name)

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send the model; of a synthetic set its number, and all of it until a reply shows that it has arrived."""
        sent, held = super().download(state, client, step), state["set"]  # type: ignore[safe-super]
        if held is None:
            return sent
        sent = {**sent, "set": held["number"]}
        return sent if state["has"].get(client) == held["number"] else {**sent, "synthetic": held["sent"]}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Aggregate; where a client has finished a period, synthesise by the model of before."""
        new = super().update(state, replies, step)  # type: ignore[safe-super]
        return self.noted(state, new, replies, self.invert) if self.kd else new

    def noted(self, state: State, new: State, replies: Sequence[Reply], invert: Invert) -> State:
        """Return the new state with what replies show, and at news a synthetic set by the model of before."""
        has = {reply.client: reply.download["set"] for reply in replies if "set" in reply.download}
        said = {reply.client: reply.upload for reply in replies if "finished" in reply.upload}
        reported = {name: {client: upload[name] for client, upload in said.items()} for name in ("finished", "binary")}
        new = {**new, "has": {**state["has"], **has}, **{name: state[name] | notes for name, notes in reported.items()}}
        if not self.ends(state, replies):
            return new
        known = torch.stack(list(new["finished"].values())).bool().any(0)
        number = 1 if state["set"] is None else state["set"]["number"] + 1
        sent = self.synthesise(state["model"], known, all(new["binary"].values()), number, invert)
        return {**new, "set": {"number": number, "sent": sent}}

    def synthesise(self, teacher: Parameters, known: Tensor, binary: bool, number: int, invert: Invert) -> Tree:
        """Return what is sent of a new synthetic set: the teacher, the known classes, and nodes or their source."""
        synthetic = invert(teacher, known, binary, number)
        sent = {"teacher": teacher, "known": known.to(torch.uint8), "binary": binary}
        if self.send == "samples":
            return {**sent, "x": synthetic["x"]}
        seed = integer(self.task.seed, "inversion", "sent", number)
        return {**sent, "generator": synthetic["generator"], "seed": seed}

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note what the replies show; a set that would be synthesised holds zeros."""
        return self.noted(state, state, replies, self.blank) if self.kd else state

    def blank(self, teacher: Parameters, known: Tensor, binary: bool, number: int) -> Tree:
        """Return what `invert` does, as large."""
        x = torch.zeros(self.synthesis.size, self.task.features)
        return {"x": x, "generator": inversion.generator(self.widths, self.random("draw", number))}

    def ends(self, state: State, replies: Sequence[Reply]) -> bool:
        """Return whether the server synthesises: where a reply reports finished periods of which it does not know.

        Unless nobody had anything to train on in these periods.
        """
        reports = [(reply.client, reply.upload["finished"]) for reply in replies if "finished" in reply.upload]
        known = state["finished"]
        news = any(client not in known or not torch.equal(known[client], report) for client, report in reports)
        return news and any(bool(classes.any()) for classes in [*known.values(), *(report for _, report in reports)])

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the averaging, and the synthesis where a period has ended."""
        total = super().server_flops(state, replies, step)
        return total + (self.synthesis.flops(self.task, self.widths) if self.kd and self.ends(state, replies) else 0.0)

    # ---- client

    def work(self, job: Job) -> Work:
        """Train on the own classes and the synthetic set; from the second period on report what is finished."""
        self.close(job)
        held = self.received(job)
        given = {"current": self.current(job.data)}
        if held is not None:
            given |= {"known": held["known"], "synthetic": held["graph"], **held["said"]}
        given |= self.given(job, held)
        trained = yield from self.fit(job, given)
        update = tree.sub(trained, job.download["model"])
        return {"update": update, "samples": self.samples(job.data), **self.report(job)}

    def given(self, job: Job, held: Tree | None) -> Tree:
        """Return what the loss needs besides."""
        return {}

    def close(self, job: Job) -> None:
        """Note the classes of a period that has ended since the client's last job."""
        finished = self.finished(job)
        if finished is not None:
            job.memory["finished"] = finished
        job.memory["last"] = {"period": job.period, "classes": self.current(job.data)}

    def finished(self, job: Job) -> Tensor | None:
        """Return how many finished periods had each class (C,), one that has just ended too; None without any."""
        last, before = job.memory.get("last"), job.memory.get("finished")
        if last is None or last["period"] == job.period:
            return before
        ended: Tensor = last["classes"].to("cpu", torch.int32)
        return ended if before is None else before + ended

    dry_work = close

    def current(self, data: Graph) -> Tensor:
        """Return which classes (C,) the client trains on in this period."""
        marks = torch.zeros(self.task.classes, dtype=torch.bool, device=data["y"].device)
        marks[data["y"][data["train"]]] = True
        return marks

    def report(self, job: Job) -> Tree:
        """Return how many finished periods had each class, and whether the features are binary; at first nothing."""
        if not self.kd or "finished" not in job.memory:
            return {}
        x = job.data["x"]
        values = x.values() if x.layout == torch.sparse_csr else x
        return {"finished": job.memory["finished"], "binary": bool(((values == 0) | (values == 1)).all())}

    def received(self, job: Job) -> Tree | None:
        """Return the synthetic set that the client holds, with what the teacher says of it; None without any."""
        if "synthetic" in job.download:
            sent = job.download["synthetic"]
            graph = inversion.nodes(self.drawn(sent))
            known = sent["known"].bool().to(graph["y"].device)
            said = self.said(tree.stack([sent["teacher"]]), graph, known)
            job.memory["synthetic"] = {"graph": graph, "known": known, "said": said}
        return job.memory.get("synthetic") if "set" in job.download else None

    def drawn(self, sent: Tree) -> Tensor:
        """Return the nodes (n, F) of a synthetic set, as they were sent or drawn from the generator."""
        if "x" in sent:
            features: Tensor = sent["x"]
            return features
        noise = torch.Generator().manual_seed(sent["seed"])
        device = next(tree.leaves(sent["generator"])).device
        rows = [torch.randn(self.batch, self.noise, generator=noise).to(device) for _ in range(self.rounds)]
        return torch.cat([inversion.features(sent["generator"], z, sent["binary"]) for z in rows]).detach()

    @torch.no_grad()
    def said(self, teacher: Parameters, graph: Graph, known: Tensor) -> Tree:
        """Return the teacher's softened distribution over the known classes (n, C)."""
        logits = self.task.forward(teacher, graph) / self.temperature
        return {"soft": F.softmax(logits.masked_fill(~known, LOW), 1)}

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the cross-entropy of the client's own classes and the distillation of what is known."""
        new = self.fresh(self.task.forward(params, data), data, given)
        if not self.kd or "synthetic" not in given:
            return new
        return new + self.kd * self.retained(self.task.forward(params, given["synthetic"]), given)

    def fresh(self, logits: Tensor, data: Graph, given: Tree) -> Tensor:
        """Return the mean cross-entropy over the training nodes, among the client's own classes: (K,)."""
        if self.sliced:
            logits = logits.masked_fill(~given["current"][data["client"]], LOW)
        return ops.cross_entropy(logits, data)

    def retained(self, logits: Tensor, given: Tree) -> Tensor:
        """Return the cross-entropy with the teacher's distribution, among the known classes: (K,)."""
        soft, known = given["soft"], given["known"]
        student = (logits.view_as(soft) / self.temperature).masked_fill(~known.unsqueeze(1), LOW)
        apart: Tensor = -(soft * F.log_softmax(student, 2)).sum(2).mean(1)
        return apart

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        like, finished = super().upload_like(job) or {}, self.finished(job)
        return {**like, **({} if finished is None or not self.kd else {"finished": finished, "binary": False})}

    def effort(self, job: Job) -> float:
        """Count a pass over the synthetic nodes beside the graph's own."""
        if not self.kd or "set" not in job.download:
            return 1.0
        return 1 + self.synthetic_flops() / self.task.flops(job.data)

    def extra_steps(self, job: Job) -> float:
        """Count the teacher's pass over a new synthetic set, a third of a step."""
        return self.synthetic_flops() / 3 / self.task.flops(job.data) if "synthetic" in job.download else 0.0

    def synthetic_flops(self) -> float:
        """Return the operations of a step on the synthetic nodes."""
        return self.task.flops(stand_in(self.synthesis.size, self.task.features, 1))
