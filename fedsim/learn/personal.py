"""Server state for personal models, one per client: what clients sent last, and how mixing shares moves their models.

The state holds `last`, what each client sent last including its `model`, and `personal`, the models made from that.
Clients that have not just replied keep what they sent last, or are left out (`absent`).  How the models are made is up
to the algorithm.  Used by FedGTA and Fed-PUB.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from fedsim.core.wire import Tree
from fedsim.learn import tree
from fedsim.learn.algorithm import Reply, State

Absent = Literal["stay", "leave"]


def latest(
    state: State, replies: Sequence[Reply], note: Callable[[Reply], dict[str, Any]], absent: Absent
) -> dict[int, dict[str, Any]]:
    """Return the latest notes on the clients that are grouped, in order of the client; `note` makes them of a reply."""
    fresh = {reply.client: note(reply) for reply in replies}
    return dict(sorted({**state["last"], **fresh}.items())) if absent == "stay" else fresh


def grouped(state: State, replies: Sequence[Reply], absent: Absent) -> int:
    """Return the number of clients that are grouped."""
    return len({reply.client for reply in replies} | (set(state["last"]) if absent == "stay" else set()))


def model_of(reply: Reply) -> Tree:
    """Return a client's model, which the protocol's discount pulls towards its download."""
    return tree.add(reply.download["model"], tree.scale(reply.upload["update"], reply.weight))


def moved(state: State, new: State) -> State:
    """Return the new state with all personal models shifted by as much as their mean has been."""
    by = tree.sub(new["model"], state["model"])
    distinct = {id(model): model for model in state["personal"].values()}  # clients of a group share theirs
    models = {key: tree.add(model, by) for key, model in distinct.items()}
    personal = {client: models[id(model)] for client, model in state["personal"].items()}
    last = {client: {**one, "model": tree.add(one["model"], by)} for client, one in state["last"].items()}
    return {**new, "personal": personal, "last": last}
