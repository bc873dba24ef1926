"""Distillation on synthetic vertices of past classes: what TARGET and LANDER have in common on graphs.

A client notes the classes of its finished periods and reports them.  When a report is new the server keeps the global
model of before as the teacher and synthesises vertices of all classes reported (fedsim/learn/inversion.py).  A download
names the synthetic set, and holds it until a reply shows that it has arrived.  A client trains on the cross-entropy of
its own classes and on the teacher's distribution over the known ones.

It models neither how vertices are synthesised nor what else the losses hold, which is up to the methods.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.seeds import integer
from fedsim.core.units import Count
from fedsim.core.wire import Tree
from fedsim.data.graph import Graph
from fedsim.learn import inversion, ops, tree
from fedsim.learn.algorithm import Algorithm, Job, Reply, State, Work, title_of
from fedsim.learn.inversion import Synthesis
from fedsim.learn.model import Parameters
from fedsim.learn.pseudo_graphs import stand_in
from fedsim.learn.tasks.node_classification import classes_only

LOW = -1e9  # a logit that takes no part; finite, so that rows that are not trained on have a loss


@dataclass(frozen=True)
class PastClasses(Algorithm):
    """Put before FedAvg; subclasses say how vertices are synthesised."""

    kd: float = 25.0  # weight of the distillation; 0: only the loss over a client's own classes is left
    temperature: float = 2.0  # of the distillation
    sliced: bool = True  # cross-entropy over the classes of the client's period alone, as published; or over all
    send: Literal["samples", "generator"] = "samples"  # what travels of a synthetic set
    noise: Count = 256  # size of the generator's input
    rounds: Count = 10  # rounds of the synthesis, each of which keeps a batch; published: 10, or 200
    inner_steps: Count = 10  # generator steps in a round; published: 10, or 50
    batch: Count = 256  # vertices of a batch
    warm_up: int = 5  # rounds before the student is trained and opposed; published: 20
    student_steps: int = 50  # SGD steps of the student in each round after; published: 400

    if TYPE_CHECKING:  # of FedAvg, which a method inherits beside this

        def fit(self, job: Job, given: Tree, **how: Any) -> Work:
            """See FedAvg."""

        def samples(self, data: Graph) -> int:
            """See FedAvg."""

    @property
    @abstractmethod
    def synthesis(self) -> Synthesis:
        """The schedule of the synthesis."""

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """The generator's widths, from its input to the features."""

    @abstractmethod
    def invert(self, teacher: Parameters, known: Tensor, binary: bool, number: int) -> Tree:
        """Return vertices x (n, F), the labels y (n,) that they were drawn for, and the generator."""

    # ---- server

    def start(self) -> State:
        """Return the first model, and nothing finished.  Raises ScenarioError for a task without classes."""
        classes_only(self.task, f"{title_of(type(self))} distils classes of vertices: take task: node_classification")
        first = super().start()  # type: ignore[safe-super]
        return {**first, "finished": {}, "binary": {}, "set": None, "has": {}}

    def random(self, *name: object) -> torch.Generator:
        """Return the server's random stream of that name."""
        return torch.Generator().manual_seed(integer(self.task.seed, "inversion", *name))

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
        if not self.kd:
            return new
        new = {**new, **self.noted(state, replies)}
        if not self.ends(state, replies):
            return new
        known = torch.stack(list(new["finished"].values())).bool().any(0)
        number = 1 if state["set"] is None else state["set"]["number"] + 1
        sent = self.synthesise(state["model"], known, all(new["binary"].values()), number)
        return {**new, "set": {"number": number, "sent": sent}}

    def noted(self, state: State, replies: Sequence[Reply]) -> State:
        """Return which set each client has, and what clients report of finished periods."""
        has = {reply.client: reply.download["set"] for reply in replies if "set" in reply.download}
        said = {reply.client: reply.upload for reply in replies if "finished" in reply.upload}
        reported = {name: {client: upload[name] for client, upload in said.items()} for name in ("finished", "binary")}
        return {"has": {**state["has"], **has}, **{name: {**state[name], **new} for name, new in reported.items()}}

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note what the replies show; a set that would be synthesised holds zeros."""
        if not self.kd:
            return state
        new = {**state, **self.noted(state, replies)}
        if not self.ends(state, replies):
            return new
        number = 1 if state["set"] is None else state["set"]["number"] + 1
        marks = torch.zeros(self.task.classes, dtype=torch.uint8)
        sent = {"teacher": state["model"], "known": marks, "binary": False}
        if self.send == "samples":
            sent["x"] = torch.zeros(self.synthesis.kept, self.task.features)
        else:
            sent |= {"generator": inversion.generator(self.widths, self.random("draw", number)), "seed": 0}
        return {**new, "set": {"number": number, "sent": sent}}

    def news(self, state: State, replies: Sequence[Reply]) -> bool:
        """Return whether a reply reports finished periods of which the server does not know."""
        reports = [reply for reply in replies if "finished" in reply.upload]
        known = state["finished"]
        return any(r.client not in known or not torch.equal(known[r.client], r.upload["finished"]) for r in reports)

    def ends(self, state: State, replies: Sequence[Reply]) -> bool:
        """Return whether the server synthesises: at news, unless nobody had anything to train on in these periods."""
        reports = [reply.upload["finished"] for reply in replies if "finished" in reply.upload]
        some = any(bool(classes.any()) for classes in [*state["finished"].values(), *reports])
        return some and self.news(state, replies)

    def synthesise(self, teacher: Parameters, known: Tensor, binary: bool, number: int) -> Tree:
        """Return what is sent of a new synthetic set: the teacher, the known classes, and vertices or their source."""
        made = self.invert(teacher, known, binary, number)
        common = {"teacher": teacher, "known": known.to(torch.uint8), "binary": binary}
        if self.send == "samples":
            return {**common, "x": made["x"]}
        return {**common, "generator": made["generator"], "seed": integer(self.task.seed, "inversion", "sent", number)}

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

    def dry_work(self, job: Job) -> None:
        """Note the classes of a period that has ended."""
        self.close(job)

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
            graph = inversion.vertices(self.drawn(sent))
            known = sent["known"].bool().to(graph["y"].device)
            said = self.said(tree.stack([sent["teacher"]]), graph, known)
            job.memory["synthetic"] = {"graph": graph, "known": known, "said": said}
        return job.memory.get("synthetic") if "set" in job.download else None

    def drawn(self, sent: Tree) -> Tensor:
        """Return the vertices (n, F) of a synthetic set, as they were sent or drawn from the generator."""
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
        """Return the mean cross-entropy over the training vertices, among the client's own classes: (K,)."""
        if self.sliced:
            logits = logits.masked_fill(~given["current"][data["client"]], LOW)
        each = F.cross_entropy(logits, torch.where(data["train"], data["y"], 0), reduction="none")
        return ops.mean_by_client(each, data, data["train"])

    def retained(self, logits: Tensor, given: Tree) -> Tensor:
        """Return the cross-entropy with the teacher's distribution, among the known classes: (K,)."""
        soft, known = given["soft"], given["known"]
        own = (logits.view_as(soft) / self.temperature).masked_fill(~known.unsqueeze(1), LOW)
        apart: Tensor = -(soft * F.log_softmax(own, 2)).sum(2).mean(1)
        return apart

    def upload_like(self, job: Job) -> Tree:
        """Return a tree as large as the upload."""
        like, finished = super().upload_like(job) or {}, self.finished(job)
        return {**like, **({} if finished is None or not self.kd else {"finished": finished, "binary": False})}

    def effort(self, job: Job) -> float:
        """Count a pass over the synthetic vertices beside the graph's own."""
        if not self.kd or "set" not in job.download:
            return 1.0
        return 1 + self.beside() / self.task.flops(job.data)

    def extra_steps(self, job: Job) -> float:
        """Count the teacher's pass over a new synthetic set, a third of a step."""
        return self.beside() / 3 / self.task.flops(job.data) if "synthetic" in job.download else 0.0

    def beside(self) -> float:
        """Return the operations of a step on the synthetic vertices."""
        return self.task.flops(stand_in(self.synthesis.kept, self.task.features, 1))
