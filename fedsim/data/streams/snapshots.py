"""A graph that changes, cut into snapshots: one period each, in order of time.

In period t a client holds all nodes of its own that have been there by then, in the order of their numbers in
the whole graph, and the edges among them that snapshot t has.  By default a model that was trained on
snapshot t is validated on the next one and tested on the one after that, so that the last two snapshots are
no periods.  Live update (You, Du and Leskovec, "ROLAND", KDD 2022) scores the next one instead.  Not
modelled: edges between clients, which are lost, and periods whose length differs between clients.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import Rng
from fedsim.core.units import Count, Duration
from fedsim.data.graph import Graph, Period, with_keys, with_masks
from fedsim.data.graphs import pairs
from fedsim.data.graphs.common_pairs import Negatives
from fedsim.data.graphs.sparsity import fewer
from fedsim.data.graphs.split import SplitOptions, held_out, split_all
from fedsim.data.partition import cut
from fedsim.data.time import event_pairs
from fedsim.data.time.arrivals import Clocked
from fedsim.data.time.temporal import owners_of
from fedsim.data.time.windows import bounds_of, by_degree, changed_locally, snapshots_of

AHEAD = 2  # snapshots after the one that is trained on: the first validates, the second tests


@dataclass(frozen=True, kw_only=True)
class Snapshots(Clocked):
    """See the module's docstring.

    Either `steps` equal windows over the recording's span, or windows of `step`, the last one of which may
    reach beyond it, or of `patch` events each, the last one of what is left; events of one second stay
    together.

    `scored`: "ahead" trains on every label of a snapshot; "split" divides the labelled nodes by the shares of
    `data.split`, once for all snapshots, and scores a period on its own snapshot; "ahead_split" divides them
    too, and scores those that never train on the later snapshots; "links" is for link prediction: the pairs
    of a period are edges of the next snapshot (validation) and the one after (test) among the client's nodes
    of the period, even if others own them by then, and as many non-edges; "events" is for event prediction: a
    client holds its own events so far, and is asked about those of the next snapshot and of the one after,
    each at its own second, when it knows of all that it recorded before (`fedsim.data.time.event_pairs`).
    """

    steps: Count | None = None  # number of windows
    step: Duration | None = None  # length of a window, in the data's own time
    patch: Count | None = None  # number of events of a window
    window: Count = 1  # number of windows whose edges a snapshot has, up to its own
    scored: Literal["ahead", "ahead_split", "split", "links", "events"] = "ahead"  # which snapshots are scored
    # clients by whose partition `own_pairs` and `cut_pairs` are divided, for a run of one client; null: its own
    compared: Count | None = None
    # how the pairs are drawn that are no edges, of the splits that everybody is asked
    negatives: Negatives = "uniform"

    def __post_init__(self) -> None:
        """Check that exactly one option says how long a window is, and that windows of events do not overlap."""
        super().__post_init__()
        if sum(given is not None for given in (self.steps, self.step, self.patch)) != 1:
            ways = "'steps' (how many windows, such as 10), 'step' (such as '5 d') or 'patch' (how many events of each)"
            raise ValueError(f"give one of {ways}, and only one")
        if self.events and self.window > 1:
            raise ValueError("window: with scored: events a client holds all of its earlier events; leave it out")

    @property
    def events(self) -> bool:
        """Whether graphs hold events, and later ones pairs that are asked at a second."""
        return self.scored == "events"

    def snapshots(self, graph: Graph) -> Sequence[Graph]:
        """Return the snapshots of the whole graph.  Raises ScenarioError if there is nothing to cut."""
        if "since" not in graph:
            message = "'snapshots' needs a data set that changes (such as drifting or bitcoin_otc); this one does not"
            raise ScenarioError.at("data.stream", message)
        start, end = graph["span"].tolist()
        if not end > start:
            raise ScenarioError.at("data.stream", f"all edges occur at second {start:g}: nothing can be cut")
        if self.patch is not None:
            event_pairs.only_events(graph, "data.stream.patch", "a patch is a number")
        bounds = bounds_of(graph, self.steps, self.step, self.patch)
        snapshots = snapshots_of(graph, bounds, self.window)
        if self.events:
            event_pairs.only_events(graph, "data.stream.scored", "'events' asks for the seconds")
            last = len(snapshots) - 1
            for t in range(last + 1):
                events = event_pairs.of_window(graph, bounds[t], bounds[t + 1], closed=t == last)
                snapshots[t] = with_keys(snapshots[t], events)
        if self.scored != "split" and len(snapshots) <= AHEAD:
            count = len(snapshots)
            message = f"there are {count} snapshots, and the last two only score; take shorter ones, 3 at least"
            raise ScenarioError.at("data.stream", message)
        return snapshots

    def prepare(self, graphs: Sequence[Graph], split: SplitOptions, rng: Rng) -> list[list[Period]]:
        """Refuse graphs that do not change, by a ScenarioError."""
        return [[Period(t, graph) for t, graph in enumerate(self.snapshots(graph))] for graph in graphs]

    def prepare_snapshots(
        self, snapshots: Sequence[Graph], owned: Sequence[Sequence[np.ndarray]], split: SplitOptions, rng: Rng
    ) -> list[list[Period]]:
        """Return each client's periods; `owned` holds each client's nodes for each snapshot."""
        owners = [owners_of(lists, len(snapshots[0]["y"])) for lists in owned]
        changed = [changed_locally(snapshots, owners, t) for t in range(len(snapshots))]
        graphs = _cuts(snapshots, owned, self._masks(snapshots[-1], split, rng), changed)
        clients = list(zip(*graphs, strict=True))
        if self.scored == "split":
            return [[Period(t, graph) for t, graph in enumerate(own)] for own in clients]
        if self.events:
            return _happening(snapshots, graphs, owners, rng)
        if self.scored == "links":
            asking = [_asking(t, graphs[t], snapshots[t + 1 : t + 1 + AHEAD], rng) for t in range(len(graphs) - AHEAD)]
            return [list(own) for own in zip(*asking, strict=True)]
        return [[_training(t, own, changed[t + 1]) for t in range(len(own) - AHEAD)] for own in clients]

    @property
    def divides(self) -> bool:
        """Whether the nodes themselves are divided: not where those of a later snapshot score."""
        return self.scored in ("split", "ahead_split")

    def held_out(self, snapshots: Sequence[Graph], owners: Sequence[np.ndarray]) -> list[Graph] | None:
        """Return the nodes that no client ever owns, in the snapshots that test periods; None for pairs."""
        if self.scored in ("links", "events"):
            return None
        return held_out(snapshots, owners)[0 if self.scored == "split" else AHEAD :]

    def _masks(self, whole: Graph, split: SplitOptions, rng: Rng) -> list[Tensor]:
        """Return the masks (N,) of nodes that train, validate and test in every snapshot."""
        if self.divides:
            (done,) = split_all([whole], split, rng)
        else:
            known = whole["y"] >= 0
            (done,) = fewer("labels", [with_masks(whole, known, known, known)], split.labels, rng)
        return [done["train"], done["val"], done["test"]]


def _cuts(
    snapshots: Sequence[Graph],
    owned: Sequence[Sequence[np.ndarray]],
    masks: Sequence[Tensor],
    changed: Sequence[Tensor],
) -> list[list[Graph]]:
    """Return for each snapshot each client's graph; `changed` (N,) are the nodes that differ from before."""
    ascending = [[np.sort(own) for own in lists] for lists in owned]
    owners = [owners_of(lists, len(snapshots[0]["y"])) for lists in ascending]
    found = []
    for t, (snapshot, lists) in enumerate(zip(snapshots, ascending, strict=True)):
        if not snapshot["arrived"].numpy()[owners[t] >= 0].all():
            raise ValueError(f"a node has an owner in snapshot {t}, but has not arrived by then")
        whole = with_keys(with_masks(snapshot, *masks), {"changed": changed[t]})
        graphs = cut(whole, lists, empty=True)
        if "bins" in snapshot:
            for graph in graphs:
                graph["x"] = by_degree(snapshot["bins"], graph["edges"], len(graph["y"]))
        found.append(graphs)
    return found


def _training(t: int, own: Sequence[Graph], reached: Tensor) -> Period:
    """Return period t of a client: its snapshot to train on, the next to validate and the one after to test.

    `reached` (N,) are the nodes of the whole graph that differ in the next one.  `changed` of both later
    graphs is relative to period t, since that is whose states a model has.
    """
    now, following, later = own[t : t + 1 + AHEAD]
    later = with_keys(later, {"changed": later["changed"] | reached[later["node"]]})
    none = [torch.zeros_like(graph["train"]) for graph in (now, following, later)]
    return Period(
        t,
        with_masks(now, now["train"], none[0], none[0]),
        (with_masks(following, none[1], following["val"], none[1]), with_masks(later, none[2], none[2], later["test"])),
    )


def _asking(t: int, graphs: Sequence[Graph], later: Sequence[Graph], rng: Rng) -> list[Period]:
    """Return every client's period t, with the pairs that its model is scored on.

    They come from the whole graph's `later` snapshots, among the nodes that the client owns now, because its
    model is scored now, even if others own them by then.
    """
    owned = [graph["node"].numpy() for graph in graphs]
    cuts = [cut(_bare(snapshot), owned, empty=True) for snapshot in later]
    return [
        Period(t, pairs.ahead(graph, [parts[client] for parts in cuts], rng(f"data.pairs.{client}.{t}")))
        for client, graph in enumerate(graphs)
    ]


def _happening(
    snapshots: Sequence[Graph], graphs: Sequence[Sequence[Graph]], owners: Sequence[np.ndarray], rng: Rng
) -> list[list[Period]]:
    """Return each client's periods with its events so far, and the pairs that its model is asked later.

    What tests period t validates period t + 1: the same pairs, so that a model is applied to them once.
    """
    clients, found = len(graphs[0]), []
    own = [event_pairs.recorded(*one, clients) for one in zip(snapshots, owners, strict=True)]
    for client in range(clients):
        so_far = [events[client] for events in own]
        held = [event_pairs.holding(graphs[t][client], so_far[: t + 1]) for t in range(len(snapshots))]
        asking = [event_pairs.asking(one, rng(f"data.events.{client}.{t}")) for t, one in enumerate(held)]
        found.append([Period(t, held[t], _later(asking[t + 1 : t + 1 + AHEAD])) for t in range(len(held) - AHEAD)])
    return found


def _later(asking: Sequence[Graph]) -> tuple[Graph, ...]:
    """Return the graphs of the two snapshots after a period: the first validates, the second tests."""
    splits = pairs.VALIDATES, pairs.TESTS
    return tuple(event_pairs.asked(graph, split) for graph, split in zip(asking, splits, strict=True))


def _bare(snapshot: Graph) -> Graph:
    """Return the snapshot without features, which are not needed, so that none are copied."""
    return with_keys(snapshot, {"x": torch.zeros(len(snapshot["y"]), 0)})
