"""Weights: the final model of a run, written as a state dict into the file `model.pt` of its folder.

It is the model whose scores are called `global`: the one that the server would have clients predict with, at the end
of the run.  Where all clients predict with the same tensors, the file holds one state dict {name: tensor}; where each
has its own (methods that personalise, BatchNorm's statistics under `buffers: local`, peers), it holds {client: state
dict} of all clients that have data.  A module's state dict has what is frozen and its buffers too, so that
`load_state_dict` takes it; that of fedsim's own models has the names of their tree, joined by dots.  Tensors are on
the CPU; `torch.load(path, weights_only=True)` reads the file.

Not kept: what a server holds beside the model, optimisers' states, and what clients know of their nodes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedsim.learn.engine import tree
from fedsim.learner.contract import States
from fedsim.learner.live import Live

FILE = "model.pt"


def write(path: Path, learner: Live, states: States) -> None:
    """Write the final weights of these states, one for all clients or each client's own."""
    torch.save(final(learner, states), path)


def read(path: Path) -> dict[Any, Any]:
    """Return what `write` has written."""
    return torch.load(path, weights_only=True)  # type: ignore[no-any-return]


def final(learner: Live, states: States) -> dict[Any, Any]:
    """Return the state dict of the model that all clients predict with, or {client: its state dict}."""
    algorithm, model = learner.algorithm, learner.algorithm.task.model
    clients = [number for number, client in sorted(learner.clients.items()) if client.seen] or [0]
    predictors = {}
    for client in clients:
        state = states[client] if isinstance(states, Mapping) else states
        predictors[client] = algorithm.predictor(state.value, client, learner.clients[client].memory)
    own = {client: tuple(map(id, tree.leaves(params))) for client, params in predictors.items()}
    if len({*own.values()}) == 1:
        return _copied(model.state_dict(predictors[clients[0]]))
    return {client: _copied(model.state_dict(params)) for client, params in predictors.items()}


def _copied(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return tensors on the CPU that share no memory: a file would hold all of it."""

    def copied(leaf: Tensor) -> Tensor:
        return leaf.detach().cpu().clone(memory_format=torch.contiguous_format)

    return tree.transform(copied, dict(named))  # type: ignore[no-any-return]
