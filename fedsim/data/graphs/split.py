"""Split nodes into training, validation and test: client by client, and by default class by class.

Counts are rounded down, so a class of fewer than 1/train nodes at a client has none to train on there.
Besides the library's own named streams there is the recipe of the federated continual graph learning
benchmark (Zhu, Hu and Wu, KDD 2025), whose published numbers hold for one split and one order of periods
only.

Two test graphs hold nodes on which no client trains.  `held_out`: a graph of the unowned nodes and the edges
among them; every labelled one is tested.  Edges to nodes of clients are cut, as those between clients are.
Not modelled: a test set that shares edges with training data.

`pooled`: all clients' test nodes, with the edges between clients that join two of them.  Accuracy on it is
what the one-shot methods of federated graph learning report (GHOST, ICML 2025; FedTAD, IJCAI 2024).  None of
its nodes trains or validates anywhere.  Edges to training nodes are cut, so that neighbourhoods differ from
those at clients.  `data.keep` does not apply to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from fedsim.core.arrays import Bools, Ints
from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import Rng
from fedsim.data.graph import MASKS, Graph, classes_of, induced, with_keys, with_masks
from fedsim.data.graphs.sparsity import fewer
from fedsim.data.time.windows import by_degree

Rounding = Literal["sum", "each"]


@dataclass(frozen=True)
class SplitOptions:
    """Shares of the nodes that train and that validate; the others test.

    `numpy_seed`: draw from NumPy's legacy generator with that seed, as the benchmark did, instead of the
    run's seed.  `by`: the shares are of each class at a client, or of all its labelled nodes, whatever their
    classes; or the masks are those of the data set, and the shares are ignored.  `rounding`: training and
    validation together are rounded down, or each of them is, as in GHOST's published split.  `labels`: the
    share of the nodes to train on that keep their label; the others leave the mask after the split.
    `listed`: masks that the graphs have already, from tables (`listed.py`).  The other nodes are divided
    among the other masks, in the ratio of their shares.
    """

    train: float = 0.2
    val: float = 0.4
    numpy_seed: int | None = None
    labels: float = 1.0
    by: Literal["class", "client", "given"] = "class"
    rounding: Rounding = "sum"
    listed: tuple[str, ...] = ()
    test: float = 0.4


def split(
    graph: Graph,
    train: float,
    val: float,
    rng: np.random.Generator | np.random.RandomState,
    rounding: Rounding = "sum",
    by: Literal["class", "client"] = "class",
) -> Graph:
    """Return the graph with masks: ⌊train·n⌋ of a class's n nodes train, up to ⌊(train + val)·n⌋ validate.

    With rounding `each`, up to ⌊train·n⌋ + ⌊val·n⌋ do.  The rest tests; the nodes are shuffled first.  A
    label below zero means unlabelled: in no mask.  By `client`, n are all labelled nodes: of five or more at
    least one trains at a share of 0.2, and rare classes may be in one mask only.
    """
    y = graph["y"].numpy()
    each_class = [np.flatnonzero(y == label) for label in range(classes_of([graph]))]
    groups = each_class if by == "class" else [np.flatnonzero(y >= 0)]
    masks = torch.zeros(3, len(graph["y"]), dtype=torch.bool)
    for members in groups:
        rng.shuffle(members)
        n = len(members)
        first = floor_share(train, n)
        second = floor_share(train + val, n) if rounding == "sum" else first + floor_share(val, n)
        for mask, part in zip(masks, np.split(members, [first, second]), strict=True):
            mask[torch.as_tensor(part)] = True
    return with_masks(graph, *masks)


def split_all(
    graphs: Sequence[Graph], options: SplitOptions, rng: Rng, classes_per_period: int | None = None
) -> list[Graph]:
    """Return every client's graph with masks, by the client's own stream or by the benchmark's recipe.

    The recipe's split depends on `classes_per_period`, whose orders it draws in between (see `official`).
    """
    if options.listed:
        done = [_beside_lists(graph, options, rng(f"data.split.{k}")) for k, graph in enumerate(graphs)]
        if not any(bool(graph["train"].any()) for graph in done):
            message = "no labelled node that a client owns is left to train on; list some, or list fewer of the others"
            raise ScenarioError.at("data.split.train", message)
    elif options.by == "given":
        done = [_as_given(graph) for graph in graphs]
        if not any(bool(graph["train"].any()) for graph in done):
            message = "the data set has no nodes to train on in a split of its own; write 'by: class' and give shares"
            raise ScenarioError.at("data.split.by", message)
    elif options.numpy_seed is not None:
        done = official(graphs, options.train, options.val, classes_per_period, options.numpy_seed)[0]
    else:
        shares, how = (options.train, options.val), (options.rounding, options.by)
        done = [split(graph, *shares, rng(f"data.split.{k}"), *how) for k, graph in enumerate(graphs)]
    return fewer("labels", done, options.labels, rng)


def _beside_lists(graph: Graph, options: SplitOptions, rng: np.random.Generator) -> Graph:
    """Return the graph with the masks that are listed, and its other labelled nodes divided among the others."""
    known, given = graph["y"] >= 0, _as_given(graph)
    masks = {name: given[name] if name in options.listed else torch.zeros_like(known) for name in MASKS}  # type: ignore[literal-required]
    shares = {"train": options.train, "val": options.val, "test": options.test}
    shares = {name: 0.0 if name in options.listed else share for name, share in shares.items()}
    if total := sum(shares.values()):  # else what no table lists is in no mask
        listed = torch.stack([*masks.values()]).any(0)
        rest = with_keys(graph, {"y": torch.where(known & ~listed, graph["y"], -1)})
        by: Literal["class", "client"] = "class" if options.by == "class" else "client"
        divided = split(rest, shares["train"] / total, shares["val"] / total, rng, options.rounding, by)
        last = next(name for name in reversed(MASKS) if name not in options.listed)  # gets what rounding leaves over
        for name, drawn in (("train", divided["train"]), ("val", divided["val"]), (last, divided["test"])):
            masks[name] = masks[name] | drawn
    return with_masks(graph, *masks.values())


def _as_given(graph: Graph) -> Graph:
    """Return the graph with its own masks, without nodes that have no label."""
    known = graph["y"] >= 0
    return with_masks(graph, graph["train"] & known, graph["val"] & known, graph["test"] & known)


def official(
    graphs: Sequence[Graph], train: float, val: float, classes_per_period: int | None, seed: int
) -> tuple[list[Graph], list[list[int]]]:
    """Return the graphs with masks, and each client's order of class groups, as the benchmark drew both.

    One legacy stream serves the clients in turn: a shuffle of each class's nodes (ascending local numbers),
    class by class, then a shuffle of the list of groups [0, 1, ...], group g holding the classes
    g·classes_per_period and up; an incomplete last group does not exist.  Without `classes_per_period` the
    orders are empty.
    """
    stream = np.random.RandomState(seed)
    groups = classes_of(graphs) // classes_per_period if classes_per_period else 0
    done, orders = [], []
    for graph in graphs:
        done.append(split(graph, train, val, stream))
        order = list(range(groups))
        stream.shuffle(order)
        orders.append(order)
    return done, orders


def floor_share(share: float, n: int) -> int:
    """Return ⌊share·n⌋, where a share such as 0.7 + 0.1 counts as 0.8."""
    return int(share * n + 1e-9)


def held_out(snapshots: Sequence[Graph], owners: Sequence[Ints]) -> list[Graph]:
    """Return for each snapshot the graph of the nodes without an owner (N,), -1, in any snapshot.

    The labelled ones are the mask `test`.
    """
    nobodys = np.all([owner < 0 for owner in owners], axis=0)
    return [_asked(snapshot, nobodys) for snapshot in snapshots]


def _asked(snapshot: Graph, nobodys: Bools) -> Graph:
    unowned = nobodys & snapshot["arrived"].numpy() if "arrived" in snapshot else nobodys
    graph = induced(snapshot, np.flatnonzero(unowned))
    if "bins" in snapshot:
        graph = with_keys(graph, {"x": by_degree(snapshot["bins"], graph["edges"], len(graph["y"]))})
    known = graph["y"] >= 0
    return with_masks(graph, torch.zeros_like(known), torch.zeros_like(known), known)


def pooled(full: Graph, owned: Sequence[np.ndarray], graphs: Sequence[Graph]) -> Graph:
    """Return the subgraph induced on all clients' test nodes, ascending by their numbers; all are in `test`.

    `owned` are each client's nodes in the order in which its graph, of `graphs`, has them.
    """
    asked = [nodes[graph["test"].numpy()] for nodes, graph in zip(owned, graphs, strict=True)]
    graph = induced(full, np.sort(np.concatenate(asked)))
    everybody = torch.ones(len(graph["y"]), dtype=torch.bool)
    return with_masks(graph, ~everybody, ~everybody, everybody)
