"""Personal models on the server, one per client: what clients sent last, and how mixing moves their models.

The state holds `last`, what each client sent last including its `model`, and `personal`, the models that come of it.
Clients that have not just replied keep what they sent last, or are left out (`absent`).  `state["model"]` is the
mean by samples over the last grouping; mixing shifts all personal models by as much as that mean.  How the models
are made is up to the algorithm.  Used by FedGTA and Fed-PUB.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fedsim.learn.algorithm import Memory, Reply, State, Tree
from fedsim.learn.averaging import Averaging
from fedsim.learn.engine import tree
from fedsim.learn.replies import clients_of


@dataclass(frozen=True)
class PersonalModels(Averaging):
    """Put before FedAvg; subclasses say what is noted of an upload, and how the models are made."""

    absent: Literal["stay", "leave"] = "stay"  # what happens to clients that have not just replied

    @abstractmethod
    def models(self, last: Mapping[int, Memory]) -> Mapping[int, Tree]:
        """Return the models of all clients that are grouped, of their latest notes."""

    @abstractmethod
    def pair_flops(self, state: State) -> float:
        """Return the server's operations for each pair of clients that are grouped."""

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note the uploads, and recompute the models of all clients that are grouped."""
        last = self.latest(state, replies, self.note)
        notes = last.values()
        mean = tree.mean([note["model"] for note in notes], [note["samples"] for note in notes])
        return {**state, "model": mean, "last": last, "personal": {**state["personal"], **self.models(last)}}

    def note(self, reply: Reply) -> dict[str, Any]:
        """Return what is kept of a reply."""
        return {"model": model_of(reply), "samples": reply.upload["samples"]}

    def latest(
        self, state: State, replies: Sequence[Reply], note: Callable[[Reply], dict[str, Any]]
    ) -> dict[int, dict[str, Any]]:
        """Return the latest notes on the clients that are grouped, in order of the client."""
        fresh = {reply.client: note(reply) for reply in replies}
        return dict(sorted({**state["last"], **fresh}.items())) if self.absent == "stay" else fresh

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Note who is grouped."""
        return {**state, "last": self.latest(state, replies, lambda reply: {})}

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Merge the means, and shift all personal models by the same difference."""
        new = super().mix(state, shares, weights)
        shift = tree.sub(new["model"], state["model"])
        distinct = {id(model): model for model in state["personal"].values()}  # groups share theirs
        models = {key: tree.add(model, shift) for key, model in distinct.items()}
        personal = {client: models[id(model)] for client, model in state["personal"].items()}
        last = {client: {**note, "model": tree.add(note["model"], shift)} for client, note in state["last"].items()}
        return {**new, "personal": personal, "last": last}

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the reading, and the work for each pair that is grouped."""
        clients = set(clients_of(replies)) | (set(state["last"]) if self.absent == "stay" else set())
        return super().server_flops(state, replies, step) + len(clients) ** 2 * self.pair_flops(state)


def model_of(reply: Reply) -> Tree:
    """Return a client's model, which the protocol's discount pulls towards its download."""
    return tree.add(reply.download["model"], tree.scale(reply.upload["update"], reply.weight))
