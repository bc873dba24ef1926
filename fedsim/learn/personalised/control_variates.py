"""Control variates: a vector of each client, and their mean on the server, which stays the mean whatever gets lost.

SCAFFOLD and FedDyn both correct local training by a vector cₖ that client k keeps, and the server by c = 1/N Σ cₖ over
all N clients.  As printed, c is the mean only as long as every upload arrives: a client cannot know whether its last
one did, and each that is lost leaves c wrong for ever.  So a client numbers its variates, a download names the one that
the server has last folded (8 bytes either way), and the client goes on from that one.  The server folds a variate
only if it was made from the one that it has folded last, which a reply that arrives late or was overtaken was not, and
never discounts it for staleness.  `counters: false` is as printed.

Where every client continues from a state of its own N is 1: under `gossip` c is then tracked as gradients are in
decentralised optimisation.  Not repaired: a server that falls back to a checkpoint from before a client's last
`history` variates leaves c wrong by what the client has dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from fedsim.core.units import Count
from fedsim.learn.algorithm import Algorithm, Job, Reply, State, Tree
from fedsim.learn.engine import tree


@dataclass(frozen=True)
class ControlVariates(Algorithm):
    """A state's `control` is c, and `folded` the number of each client's variate in it."""

    counters: bool = True  # number the variates, so that c stays right where uploads are lost or late
    history: Count = 2  # newest variates that a client keeps, beside the one folded last
    keep: bool = False  # go on with a variate of the period before

    def start(self) -> State:
        """Return the model with its first parameters, a variate of zero, and nothing folded."""
        model = self.task.init()
        return {"model": model, "control": tree.zeros_like(model), "folded": {}}

    def folded(self, state: State, client: int) -> Tree:
        """Return the part of a download that names the client's variate in c."""
        return {"folded": state["folded"].get(client, 0)} if self.counters else {}

    def client_variate(self, job: Job) -> Tree:
        """Return cₖ as c holds it: the variate of the number named, or else the oldest kept; at first zero."""
        variates, named = job.memory.get("variates", {}), self._named(job)
        if named in variates:
            return variates[named]
        return variates[min(variates)] if named else tree.zeros_like(job.download["model"])

    def is_past(self, job: Job) -> bool:
        """Return whether the variate is of data of an earlier period, and not to be used."""
        return bool(job.memory.get("variates")) and job.memory["period"] != job.period and not self.keep

    def remember(self, job: Job, new: Tree) -> Tree:
        """Keep the new variate and return the part of the upload that numbers it."""
        variates, named = job.memory.get("variates", {}), self._named(job)
        number = max(variates, default=0) + 1 if self.counters else 0
        known = {**variates, number: new}
        job.memory["variates"] = {n: v for n, v in known.items() if n == named or n > number - self.history}
        job.memory["period"] = job.period
        return {"counter": number} if self.counters else {}

    def dry_work(self, job: Job) -> None:
        """Note of which period the variate is."""
        job.memory.update(variates={0: job.download["model"]}, period=job.period)

    def folding(self, state: State, replies: Sequence[Reply]) -> tuple[Mapping[int, int], list[Reply]]:
        """Return the variates folded after these replies, and the replies whose variates belong to c."""
        folded, fits = dict(state["folded"]), []
        for reply in replies:
            if self.counters:
                if reply.download["folded"] != folded.get(reply.client, 0):
                    continue
                folded[reply.client] = reply.upload["counter"]
            fits.append(reply)
        return folded, fits

    def shifted(self, control: Tree, changes: Sequence[Tree]) -> Tree:
        """Return c + 1/N Σ (cₖ⁺ − cₖ)."""
        if not changes:
            return control
        share = len(changes) / (1 if self._given.alone else self.clients)
        return tree.add(control, tree.mean(changes, [1.0] * len(changes), [share] * len(changes)))

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
        control, folded = controls[0], dict[int, int]()
        for added in controls[1:]:
            control = tree.add(control, tree.sub(added, state["control"]))
        for client, number in (row for share in shares if self.counters for row in share["folded"].tolist()):
            folded[client] = max(number, folded.get(client, 0))
        return {"model": model, "control": control, "folded": folded}

    def _named(self, job: Job) -> int:
        return job.download["folded"] if self.counters else 0
