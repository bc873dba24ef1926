"""Fleet fit: the links of all clients, where messages of one say too little with what the others' say.

Round trips come first: one that is not identifiable is the median of those that are, or, if none is, half of the
longest that the client's messages allow; its rates are then those that fit this round trip. A rate that is not
identifiable is the median of those that are, but not below what the client's messages show, or, if none is, the
lowest that they allow. Each such value is marked. Values that are known are not fitted.

Where Flower carried the messages, its constants hide links, and what is not identifiable is as near to what the
scenario states as the messages allow.

Messages that were under way while clients could have filled the server's link are left out, unless a client has no
others.  Not modelled: what slows several clients at once elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedsim.calibrate import fit
from fedsim.calibrate.fit import DOWN, TRIP, UP, Link, Problem
from fedsim.calibrate.forward import BITS, Forward
from fedsim.calibrate.measured import Floats, Mask, Moved

FULL = 0.8  # share of a server's link from which it may have held messages up
SEEMS = 2.0  # times what a client's fastest message moved a second in the mean: the most that its link is taken for
TINY = 1e-9
FEWEST = 2  # messages of a direction that are enough without those that were held up
POOLED, KNOWN, ASSUMED, LEAST, GIVEN = "pooled", "known", "assumed", "at least", "given rtt"
STATED, ROUGH = "stated", "rough"
SHARED = "shared"  # may be the client's part of the server's link
UNKNOWN = frozenset((POOLED, ASSUMED, LEAST, GIVEN, STATED))  # values that the messages do not tell
MARKS = {  # of values that are shown
    KNOWN: "given, not fitted",
    ROUGH: "within a factor of two, whatever the round trip is, which is not identifiable",
    SHARED: "from messages that the server's link may have held up; the client's own link may be faster",
}


@dataclass(frozen=True, eq=False)
class Fleet:
    """The links of K clients; `crowded` are the messages (n,) that the server's link may have held up.

    `carrier` are the seconds that a message takes beside the link, down and up.
    """

    values: Floats  # (K, 3): round trip in seconds, uplink and downlink in bit/s; NaN where nothing is known
    losses: Floats  # (K, 2): of packets, up and down
    marks: list[tuple[str, str, str]]
    crowded: Mask
    carrier: tuple[float, float] = (0.0, 0.0)

    def predicted(self, forward: Forward, moved: Moved) -> Floats:
        """Return the seconds (n,) that messages take over these links, NaN for those that did not arrive whole."""
        found = np.full(len(moved), np.nan)
        for client in np.unique(moved.client).tolist():
            own = moved.client == client
            if not np.isnan(self.values[client]).any():
                losses = float(self.losses[client, 0]), float(self.losses[client, 1])
                found[own] = forward.of(moved.take(own), losses)(*self.values[client].tolist())
        return found + np.where(moved.upload, self.carrier[1], self.carrier[0])


def fitted(
    forward: Forward, moved: Moved, server: dict[bool, float], known: Floats, losses: Floats,
    stated: Floats | None = None,
) -> Fleet:  # fmt: skip
    """Return the links of all clients; `server` are its links' rates in bit/s by whether they carry uploads.

    `known` (K, 3) are values that are not fitted, NaN where there are none; `losses` (K, 2) are those up and down.
    `stated` (K, 3) are the links that the scenario states, given where a carrier adds constants of its own.
    """
    fleet = _fitted(forward, moved, np.zeros(len(moved), dtype=bool), known, losses, stated)
    if stated is not None:
        return replace(fleet, carrier=_carrier(fleet.predicted(forward, moved), moved))
    crowded = crowding(moved, fleet.values, server)
    if not crowded.any():
        return fleet
    held = _held(moved, crowded)
    fleet = _fitted(forward, moved, crowded & ~held, known, losses, None)
    marks = [*fleet.marks]
    for client, upload in {*zip(moved.client[held].tolist(), moved.upload[held].tolist(), strict=True)}:
        own = [*marks[client]]
        own[UP if upload else DOWN] = own[UP if upload else DOWN] or SHARED
        marks[client] = (own[TRIP], own[UP], own[DOWN])
    return Fleet(fleet.values, losses, marks, crowded)


def _carrier(predicted: Floats, moved: Moved) -> tuple[float, float]:
    """Return the seconds beside the links, down and up: the medians over the messages of all clients."""
    some = np.isfinite(predicted)
    found = fit.constants(moved.upload[some], predicted[some], moved.seconds[some])
    down, up = (float(found[moved.upload[some] == upload].max(initial=0.0)) for upload in (False, True))
    return down, up


def crowding(moved: Moved, values: Floats, server: dict[bool, float]) -> Mask:
    """Return the messages (n,) during which the clients at work could have filled most of a link of the server."""
    found = np.zeros(len(moved), dtype=bool)
    for upload, which in ((True, UP), (False, DOWN)):
        rows = np.flatnonzero(moved.upload == upload)
        seen = np.zeros(len(values))
        np.maximum.at(seen, moved.client[rows], BITS * moved.nbytes[rows] / np.maximum(moved.seconds[rows], TINY))
        rates = np.minimum(np.nan_to_num(values[:, which]), np.minimum(SEEMS * seen, server[upload]))[
            moved.client[rows]
        ]
        if not len(rows) or rates.sum() < FULL * server[upload]:
            continue
        most = _most(moved.sent[rows], moved.arrived[rows], rates)
        found[rows] = most > np.maximum(FULL * server[upload], rates * (1 + TINY))
    return found


def _most(sent: Floats, arrived: Floats, rates: Floats) -> Floats:
    """Return the largest sum of rates (n,) of the messages that are under way during each one."""
    moments = np.concatenate([sent, arrived])
    # At equal times ends come before beginnings.
    order = np.lexsort((np.repeat([1, 0], len(sent)), moments))
    load = np.cumsum(np.concatenate([rates, -rates])[order])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    between = np.stack([place[: len(sent)], place[len(sent) :]], axis=1)
    lasts = between[:, 1] > between[:, 0]
    found = np.zeros(len(sent))
    found[lasts] = np.maximum.reduceat(load, between[lasts].ravel())[::2]
    return found


def _held(moved: Moved, crowded: Mask) -> Mask:
    """Return the crowded messages of clients that have too few others in that direction."""
    ends = moved.client * 2 + moved.upload
    free = np.bincount(ends[moved.whole & ~crowded], minlength=int(ends.max()) + 1)
    return np.asarray(crowded & (free[ends] < FEWEST))


def _fitted(forward: Forward, moved: Moved, out: Mask, known: Floats, losses: Floats, stated: Floats | None) -> Fleet:
    problems: list[Problem | None] = []
    links: list[Link | None] = []
    for client in range(len(known)):
        own = np.flatnonzero(moved.client == client)
        lost = float(losses[client, 0]), float(losses[client, 1])
        given = fit.problem(forward, moved.take(own), out[own], lost, stated is not None) if len(own) else None
        problems.append(given)
        links.append(None if given is None else _trip_first(given, known[client]))
    trips = _told(links, TRIP)
    rated = [
        None if given is None or link is None else _rates(given, link, known[client], trips, _of(stated, client))
        for client, (given, link) in enumerate(zip(problems, links, strict=True))
    ]
    # Rates that fit a round trip which is not identifiable count only where there are no others.
    best = [link for link in rated if link is not None and link.sure[TRIP]]
    pools = [trips, *(_told(best, which) if len(_told(best, which)) else _told(rated, which) for which in (UP, DOWN))]
    whole = [
        _whole(given, link, known[client], pools, _of(stated, client))
        for client, (given, link) in enumerate(zip(problems, rated, strict=True))
    ]
    return Fleet(np.stack([link.values for link in whole]), losses, [link.marks for link in whole], out)


def _of(stated: Floats | None, client: int) -> Floats | None:
    return None if stated is None else stated[client]


def _trip_first(given: Problem, known: Floats) -> Link:
    """Return the best link, and whether its round trip is identifiable; beside a carrier's constant it never is."""
    link = fit.solve(given, known)
    if np.isnan(known[TRIP]) and not given.carried:
        link.sure[TRIP] = fit.told_apart(given, link, known, TRIP)
    return link


def _rates(given: Problem, link: Link, known: Floats, trips: Floats, stated: Floats | None) -> Link:
    """Return the link with a round trip, and which of its rates are identifiable at it.

    Where the round trip is not, a rate that is so whatever the round trip may be is rough, and any other only given it.
    """
    fixed, mark, first = known.copy(), "", link
    if not np.isnan(known[TRIP]):
        mark = KNOWN
    elif not link.sure[TRIP]:
        mark = POOLED if len(trips) else ASSUMED if stated is None else STATED
        wanted = float(np.median(trips)) if len(trips) else fit.longest(given) / 2 if stated is None else stated[TRIP]
        link = fit.towards(given, link, known, TRIP, wanted)
        fixed[TRIP] = link.values[TRIP]
    sure, marks = [mark in ("", KNOWN)], [mark, "", ""]
    for which in (UP, DOWN):
        told = not np.isnan(known[which]) or (
            not np.isnan(link.values[which]) and fit.told_apart(given, link, fixed, which)
        )
        sure.append(told)
        if told and mark not in ("", KNOWN) and np.isnan(known[which]):
            alone = fit.told_apart(given, replace(first, values=link.values), known, which)
            marks[which] = ROUGH if alone else GIVEN
    return Link(link.values, np.array(sure), link.error, (marks[TRIP], marks[UP], marks[DOWN]))


def _whole(given: Problem | None, link: Link | None, known: Floats, pools: list[Floats], stated: Floats | None) -> Link:
    """Return the link with a value in each place that anything is known of, and its marks."""
    typical = np.array([float(np.median(pool)) if len(pool) else np.nan for pool in pools])
    marked = [POOLED] * 3
    if stated is not None:
        marked = [STATED if missing else POOLED for missing in np.isnan(typical).tolist()]
        typical = np.where(np.isnan(typical), stated, typical)
    if given is None or link is None:
        free = np.isnan(known)
        trip, up, down = (mark if each else KNOWN for each, mark in zip(free.tolist(), marked, strict=True))
        return Link(np.where(free, typical, known), ~free, np.nan, (trip, up, down))
    fixed, marks, sure = known.copy(), [*link.marks], link.sure
    if marks[TRIP] in (POOLED, ASSUMED, STATED):
        fixed[TRIP] = link.values[TRIP]
    for which in (UP, DOWN):
        if not np.isnan(known[which]):
            marks[which] = KNOWN
        elif sure[which]:
            continue  # with the mark that it has
        elif np.isnan(link.values[which]):
            marks[which], fixed[which] = marked[which], typical[which]
        else:
            known_of_others = not np.isnan(typical[which])
            marks[which] = marked[which] if known_of_others else LEAST
            link = fit.towards(given, link, fixed, which, typical[which] if known_of_others else fit.SLOWEST)
            fixed[which] = link.values[which]
    values = np.where(np.isnan(fixed), link.values, fixed)
    return Link(values, sure, link.error, (marks[TRIP], marks[UP], marks[DOWN]))


def _told(links: Sequence[Link | None], which: int) -> Floats:
    """Return the values in one place that are identifiable, each by a client's messages."""
    return np.array([link.values[which] for link in links if link is not None and link.sure[which]])
