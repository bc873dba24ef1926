"""A server that makes each client a model of its own: what it keeps of clients, and how sharing moves their models.

The state holds `last`, what each client sent last, its `model` among it, and `personal`, the models made from that.
Clients that have not just replied stay with what they sent last, or are left out (`absent`).  How models are made for
clients is the algorithm's.  Used by FedGTA and Fed-PUB.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from fedsim.algorithm import Reply, State
from fedsim.learn import tree
from fedsim.net.wire import Tree

Absent = Literal["stay", "leave"]


def heard(
    state: State, replies: Sequence[Reply], note: Callable[[Reply], dict[str, Any]], absent: Absent
) -> dict[int, dict[str, Any]]:
    """Return what the clients that are grouped sent last, in order of the client; `note` tells what is kept."""
    fresh = {reply.client: note(reply) for reply in replies}
    return dict(sorted({**state["last"], **fresh}.items())) if absent == "stay" else fresh


def grouped(state: State, replies: Sequence[Reply], absent: Absent) -> int:
    """Return how many clients that are."""
    return len({reply.client for reply in replies} | (set(state["last"]) if absent == "stay" else set()))


def model_of(reply: Reply) -> Tree:
    """Return a client's model, which the protocol's discount draws to its download."""
    return tree.add(reply.download["model"], tree.scale(reply.upload["update"], reply.weight))


def moved(state: State, new: State) -> State:
    """Return the new state with all that is personal moved by as much as its mean has been."""
    by = tree.sub(new["model"], state["model"])
    distinct = {id(model): model for model in state["personal"].values()}  # clients of a group share theirs
    models = {key: tree.add(model, by) for key, model in distinct.items()}
    personal = {client: models[id(model)] for client, model in state["personal"].items()}
    last = {client: {**one, "model": tree.add(one["model"], by)} for client, one in state["last"].items()}
    return {**new, "personal": personal, "last": last}
