"""OASIS, reconstructed: generators, codebooks and teachers are sent once, and the server distils (NeurIPS 2025).

The sister method of GHOST.  A client trains GHOST's generator (fedsim/learn/synthetic/proxy.py; labels as one-hot
codes), and a teacher with a codebook of its hidden vectors (codebook.py), all on its labelled training nodes.  The
server draws one graph from each generator, of as many nodes as the client's, with labels uniform over the classes
and 5 nearest neighbours, and trains the model of all clients on them for some epochs, with Adam:

    L = NLL + λ_k WESAD + λ_s WDSRD                 (transport.py: answers, and soft codes, of teacher and student)

With P numbers in the generator, N in the model, M codes of D numbers, arrays take

    up    4 (P + M D + N) + 8: the generator, the codebook, the teacher, the number of nodes, and the noise's centre
    down  nothing

or 8 bytes up for a client without a training node.  As for the other methods of one upload, the final model is scored
where it is, on the server; handing it out would take 4 N bytes to each client.

**Reconstructed**: the text was read without its formulas, and no code is public.  L_cons, WESAD's cost, ε, and the
scale of squared norms are ours, and so are these:

- The order of the server's steps: in each epoch one step on each client's graph, in an order drawn anew.
- The teacher trains for `teacher_steps`, at most the scenario's local steps, at the scenario's rate, like the generator
  (published: Adam, 5e-3, weight decay 4e-4; 100 and 50 epochs).
- The server's weight decay is GHOST's, and `held`, `size` and the noise's centre are as there.  The study of attackers
  with a wrong centre is GHOST's alone.

Results are no reproduction, and that they miss the printed ones says nothing.  A further round continues from the
clients' generators and teachers, and from the model.  The clock bills the client for the losses of both, the server for
graphs, teachers' answers, student and distances, by sizes alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat
from torch import Tensor

from algorithms.oasis import codebook, transport
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Count
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Disclosed, Fit, Job, Reply, State, Work
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import Adam, descend, in_training
from fedsim.learn.model import Parameters, plain
from fedsim.learn.synthetic import proxy
from fedsim.learn.synthetic.generating import Generating
from fedsim.learn.synthetic.pseudo_graphs import knn_flops, stand_in


@dataclass(frozen=True, eq=False)
class Lesson:
    """A client's graph, and what its teacher says of it: logits (n, C), codes (M, D), fitted codes, costs (C, C)."""

    graph: Graph
    logits: Tensor
    codes: Tensor
    fitted: tuple[Tensor, Tensor]
    costs: Tensor


@dataclass(frozen=True)
class Oasis(Generating):
    """See the module's docstring."""

    title = "OASIS (reconstructed)"
    stream = "oasis"
    discloses = Disclosed(("updates", "generators", "prototypes"))
    coding = "one_hot"

    codes: Count = 128  # M, codes in a codebook; 64 and 256 were studied
    eta: float = 0.25  # weight of the hidden vectors' pull towards their codes
    lambda_c: float = 1.0  # weight of L_cons
    lambda_o: float = 0.01  # weight of the codes' orthogonality
    teacher_steps: Count = 50  # steps of the teacher, at most the scenario's local steps
    server_epochs: Count = 20  # epochs of the server; 10 to 30 were studied
    server_lr: float = 1e-2  # learning rate of the server's Adam
    server_decay: float = 4e-4  # weight decay of that Adam
    lambda_k: float = 0.01  # weight of the distance of answers (WESAD)
    lambda_s: float = 1.0  # weight of the distance of codes (WDSRD); 5 and 10 were studied
    temperature: PositiveFloat = 3.0  # of the answers
    kappa: float = 1.0  # how quickly the cost of two classes rises with their angle
    epsilon: Annotated[float, Field(ge=0.01)] = 0.05  # entropy of the transport

    tunes = {"lambda_k": Span(1e-3, 1.0, log=True), "lambda_s": Span(0.1, 10.0, log=True)}

    @property
    def teacher(self) -> codebook.Teacher:
        """What a client trains beside its generator."""
        return codebook.Teacher(self.task, self.codes, self.eta, self.lambda_c, self.lambda_o, self.sample)

    # ---- server

    def start(self) -> State:
        """Return the first model.  Raises ScenarioError for a task without classes, or a model of other layers."""
        state = super().start()
        if self.task.model.layers < 2 or not plain(self.task.model):
            message = "'oasis' has codes of hidden vectors: take two or more plain layers with one weight each, as gcn"
            raise ScenarioError.at("model", message)
        return state

    @torch.no_grad()
    def lesson(self, state: State, reply: Reply) -> Lesson:
        """Return a client's graph, with what its teacher says of it."""
        graph, teacher, codes = self.drawn(state, reply, 0), reply.upload["teacher"], reply.upload["codebook"]
        h, logits = codebook.split(self.task, tree.stack([teacher]), graph)
        fitted = transport.fitted(codebook.soft_codes(h, codes))
        return Lesson(graph, logits, codes, fitted, transport.costs(codebook.head(self.task, teacher), self.kappa))

    def taught(self, state: State, replies: Sequence[Reply]) -> State:
        """Draw a graph of each client, and train on them with their teachers for all epochs."""
        lessons, order = [self.lesson(state, reply) for reply in replies], self.random("order", state["updates"])
        turns = [i for _ in range(self.server_epochs) for i in torch.randperm(len(lessons), generator=order).tolist()]
        seed = integer(self.task.seed, "oasis", "drop", state["updates"])

        def loss(params: Parameters, step: int) -> Tensor:
            lesson = lessons[turns[step]]
            return replies[turns[step]].weight * self.distilling(params, lesson, in_training(lesson.graph, seed, step))

        return {"model": descend(state["model"], loss, Adam(self.server_lr, self.server_decay), len(turns))[0]}

    def distilling(self, params: Parameters, lesson: Lesson, graph: Graph) -> Tensor:
        """Return the loss () of a student, with a client axis of one."""
        h, logits = codebook.split(self.task, params, graph)
        total = F.cross_entropy(logits, graph["y"])
        if self.lambda_k:
            apart = transport.answers(lesson.logits, logits, lesson.costs, self.temperature, self.epsilon)
            total = total + self.lambda_k * apart
        if self.lambda_s:
            student = transport.fitted(codebook.soft_codes(h, lesson.codes))
            total = total + self.lambda_s * transport.between(lesson.fitted, student).to(total.dtype)
        return total

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the reading, the graphs, the teachers' answers, and the training with its distances."""
        total, features = super().server_flops(state, replies, step), self.task.features
        for reply in replies:
            if "generator" not in reply.upload:
                continue
            n = self.nodes(reply.upload)
            once = self.task.flops(stand_in(n, features, self.neighbours))
            apart = transport.flops(n, self.task.classes, self.codes, self.task.model.hidden)
            total += self.proxy.generator.flops(n) + knn_flops(n, features)
            total += (1 / 3 + self.server_epochs) * once + self.server_epochs * apart
        return total

    # ---- client

    def work(self, job: Job) -> Work:
        """Train the generator, then the teacher and its codebook; send them."""
        sent = yield from super().work(job)
        if "generator" not in sent:
            return sent
        graph, teacher = proxy.labelled(job.data), self.teacher
        start = job.memory["teacher"] if "teacher" in job.memory else teacher.init(job.seed)
        how: dict[str, Any] = {"data": graph, "slot": "teacher", "each": True, "steps": (0, self.taken)}
        trained = yield Fit(start, teacher.loss, teacher.given(graph), **how)
        job.memory["teacher"] = trained
        return {**sent, "codebook": trained["codebook"], "teacher": trained["model"]}

    @property
    def taken(self) -> int:
        """The number of steps for which a client trains its teacher."""
        return min(self.teacher_steps, self.local_steps)

    def effort(self, job: Job) -> float:
        """Count the generator's steps and the teacher's against the model's."""
        if not self.trains_on(job.data):
            return 0.0
        teacher = self.teacher.flops(proxy.labelled(job.data)) * self.taken / self.local_steps
        return super().effort(job) + teacher / self.task.flops(job.data)
