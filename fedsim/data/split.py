"""Split vertices into training, validation and test: client by client, and by default class by class.

Counts are rounded down, so a class of fewer than 1/train vertices at a client has none to train on there.  Besides
the library's own named streams there is the recipe of the federated continual graph learning benchmark
(Zhu, Hu and Wu, KDD 2025), whose published numbers hold for one split and one order of periods only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from fedsim.core.errors import Problem, ScenarioError
from fedsim.data.graph import Graph, with_keys, with_masks
from fedsim.data.sparsity import fewer_labels

Rounding = Literal["sum", "each"]
MASKS = ("train", "val", "test")


@dataclass(frozen=True)
class SplitOptions:
    """Shares of the vertices that train and that validate; the others test.

    `numpy_seed`: draw from NumPy's legacy generator with that seed, as the benchmark did, instead of the run's seed.
    `by`: the shares are of each class at a client, or of all its labelled vertices, whatever their classes; or the
    masks are those of the data set, and the shares are ignored.
    `rounding`: training and validation together are rounded down, or each of them is, as in GHOST's published split.
    `labels`: the share of the vertices to train on that keep their label; the others leave the mask after the split.
    `listed`: masks that the graphs have already, from tables (`listed.py`).  The other vertices are divided among the
    other masks, in the ratio of their shares.
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
) -> Graph:
    """Return the graph with masks: ⌊train·n⌋ of a class's n vertices train, up to ⌊(train + val)·n⌋ validate.

    With rounding `each`, up to ⌊train·n⌋ + ⌊val·n⌋ do.  The rest tests; the vertices are shuffled first.  A label below
    zero means unlabelled: in no mask.
    """
    y = graph["y"].numpy()
    return _divided(
        graph, [np.flatnonzero(y == label) for label in range(classes_of([graph]))], train, val, rng, rounding
    )


def split_whole(graph: Graph, train: float, val: float, rng: np.random.Generator, rounding: Rounding = "sum") -> Graph:
    """Return the graph with masks: shares of all its n labelled vertices, shuffled, with the same rounding.

    Of five vertices or more at least one trains at a share of 0.2; rare classes may be in one mask only.
    """
    return _divided(graph, [np.flatnonzero(graph["y"].numpy() >= 0)], train, val, rng, rounding)


def _divided(
    graph: Graph,
    groups: Sequence[np.ndarray],
    train: float,
    val: float,
    rng: np.random.Generator | np.random.RandomState,
    rounding: Rounding,
) -> Graph:
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
    graphs: Sequence[Graph],
    options: SplitOptions,
    rng: Callable[[str], np.random.Generator],
    classes_per_period: int | None = None,
) -> list[Graph]:
    """Return every client's graph with masks, from the client's own named stream or by the benchmark's recipe.

    The recipe's split depends on `classes_per_period`, whose orders it draws in between (see `official`).
    """
    if options.listed:
        done = [_beside_lists(graph, options, rng(f"data.split.{k}")) for k, graph in enumerate(graphs)]
        if not any(bool(graph["train"].any()) for graph in done):
            message = (
                "no labelled vertex that a client owns is left to train on; list some, or list fewer of the others"
            )
            raise ScenarioError([Problem("data.split.train", message)])
    elif options.by == "given":
        done = [_as_given(graph) for graph in graphs]
        if not any(bool(graph["train"].any()) for graph in done):
            message = (
                "the data set has no vertices to train on in a split of its own; write 'by: class' and give shares"
            )
            raise ScenarioError([Problem("data.split.by", message)])
    elif options.numpy_seed is not None:
        done = official(graphs, options.train, options.val, classes_per_period, options.numpy_seed)[0]
    else:
        divide = split if options.by == "class" else split_whole
        shares = options.train, options.val
        done = [divide(graph, *shares, rng(f"data.split.{k}"), options.rounding) for k, graph in enumerate(graphs)]
    return fewer_labels(done, options.labels, rng)


def _beside_lists(graph: Graph, options: SplitOptions, rng: np.random.Generator) -> Graph:
    """Return the graph with the masks that are listed, and its other labelled vertices divided among the others."""
    known = graph["y"] >= 0
    given = {"train": graph["train"] & known, "val": graph["val"] & known, "test": graph["test"] & known}
    masks = {name: given[name] if name in options.listed else torch.zeros_like(known) for name in MASKS}
    shares = {"train": options.train, "val": options.val, "test": options.test}
    shares = {name: share for name, share in shares.items() if name not in options.listed}
    if total := sum(shares.values()):  # else what no table lists is in no mask
        listed = torch.stack([*masks.values()]).any(0)
        rest = with_keys(graph, {"y": torch.where(known & ~listed, graph["y"], -1)})
        part = {name: shares.get(name, 0.0) / total for name in MASKS}
        divide = split if options.by == "class" else split_whole
        divided = divide(rest, part["train"], part["val"], rng, options.rounding)
        left = "test" if "test" in shares else "val" if "val" in shares else "train"  # gets what rounding leaves over
        for name, drawn in (("train", divided["train"]), ("val", divided["val"]), (left, divided["test"])):
            masks[name] = masks[name] | drawn
    return with_masks(graph, *masks.values())


def _as_given(graph: Graph) -> Graph:
    """Return the graph with its own masks, without vertices that have no label."""
    known = graph["y"] >= 0
    return with_masks(graph, graph["train"] & known, graph["val"] & known, graph["test"] & known)


def official(
    graphs: Sequence[Graph], train: float, val: float, classes_per_period: int | None, seed: int
) -> tuple[list[Graph], list[list[int]]]:
    """Return the graphs with masks, and each client's order of class groups, as the benchmark drew both.

    One legacy stream serves the clients in turn: a shuffle of each class's vertices (ascending local numbers),
    class by class, then a shuffle of the list of groups [0, 1, ...], group g holding the classes
    g·classes_per_period and up; an incomplete last group does not exist.  Without `classes_per_period` the orders
    are empty.
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


def classes_of(graphs: Sequence[Graph]) -> int:
    """Return the number of classes over all these graphs: the largest label plus one."""
    return max((int(graph["y"].max()) + 1 for graph in graphs if len(graph["y"])), default=0)


def floor_share(share: float, n: int) -> int:
    """Return ⌊share·n⌋, where a share such as 0.7 + 0.1 counts as 0.8."""
    return int(share * n + 1e-9)
