"""Fit the links of all clients, where messages of one say too little with what the others' say.

Round trips come first: one that is not identifiable is the median of those that are, or, if none is, half of
the longest that the client's messages allow; its rates are then those that fit this round trip. A rate that
is not identifiable is the median of those that are, but not below what the client's messages show, or, if
none is, the lowest that they allow. Each such value is marked. Values that are known are not fitted.

Where Flower carried the messages, its constants hide links, and what is not identifiable is as near to what
the scenario states as the messages allow.

Messages that were under way while clients could have filled the server's link are left out, unless a client
has no others.  Not modelled: what slows several clients at once elsewhere.

Losses are the share of packets that were lost, by what moved on the wire beyond headers.  That holds where a
run records what really moved, repeats included, as simulated runs do, and as TCP's own counters tell; a run
whose wire bytes contain other overhead would seem to lose packets.  A repeat counts as a lost packet.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from fedsim.calibrate import fit
from fedsim.calibrate.fit import DOWN, RTT, UP, FitProblem, FittedLink
from fedsim.calibrate.forward import BITS, Forward
from fedsim.calibrate.measured import Moved
from fedsim.core.arrays import Bools, Floats
from fedsim.net.tcp import laws as tcp

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
    """The links of K clients; `congested` are the messages (n,) that the server's link may have held up.

    `carrier` are the seconds that a message takes beside the link, down and up.
    """

    values: Floats  # (K, 3): round trip in seconds, uplink and downlink in bit/s; NaN where nothing is known
    losses: Floats  # (K, 2): of packets, up and down
    marks: list[tuple[str, ...]]
    congested: Bools
    carrier: tuple[float, float] = (0.0, 0.0)

    def predicted(self, forward: Forward, moved: Moved) -> Floats:
        """Return the seconds (n,) that messages take over these links, NaN for those that did not arrive whole."""
        seconds = np.full(len(moved), np.nan)
        for client in np.unique(moved.client).tolist():
            rows = moved.client == client
            if not np.isnan(self.values[client]).any():
                losses = float(self.losses[client, 0]), float(self.losses[client, 1])
                seconds[rows] = forward.of(moved.take(rows), losses)(*self.values[client].tolist())
        return seconds + np.where(moved.upload, self.carrier[1], self.carrier[0])


def fitted(
    forward: Forward, moved: Moved, server: dict[bool, float], known: Floats, losses: Floats,
    stated: Floats | None = None,
) -> Fleet:  # fmt: skip
    """Return the links of all clients; `server` are its links' rates in bit/s by whether they carry uploads.

    `known` (K, 3) are values that are not fitted, NaN where there are none; `losses` (K, 2) are those up and
    down. `stated` (K, 3) are the links that the scenario states, given where a carrier adds constants of its
    own.
    """
    fleet = _fitted(forward, moved, np.zeros(len(moved), dtype=bool), known, losses, stated)
    if stated is not None:
        return replace(fleet, carrier=_carrier(fleet.predicted(forward, moved), moved))
    congested = congestion(moved, fleet.values, server)
    if not congested.any():
        return fleet
    held = _held(moved, congested)
    fleet = _fitted(forward, moved, congested & ~held, known, losses, None)
    marks = [[*each] for each in fleet.marks]
    for client, upload in zip(moved.client[held].tolist(), moved.upload[held].tolist(), strict=True):
        which = UP if upload else DOWN
        marks[client][which] = marks[client][which] or SHARED
    return Fleet(fleet.values, losses, [tuple(each) for each in marks], congested)


def _carrier(predicted: Floats, moved: Moved) -> tuple[float, float]:
    """Return the seconds beside the links, down and up: the medians over the messages of all clients."""
    some = np.isfinite(predicted)
    extra = fit.constants(moved.upload[some], predicted[some], moved.seconds[some])
    down, up = (float(extra[moved.upload[some] == upload].max(initial=0.0)) for upload in (False, True))
    return down, up


def congestion(moved: Moved, values: Floats, server: dict[bool, float]) -> Bools:
    """Return the messages (n,) during which the clients at work could have filled most of a link of the server."""
    congested = np.zeros(len(moved), dtype=bool)
    for upload, which in ((True, UP), (False, DOWN)):
        rows = np.flatnonzero(moved.upload == upload)
        seen = np.zeros(len(values))
        np.maximum.at(seen, moved.client[rows], BITS * moved.nbytes[rows] / np.maximum(moved.seconds[rows], TINY))
        rates = np.minimum(np.nan_to_num(values[:, which]), np.minimum(SEEMS * seen, server[upload]))
        rates = rates[moved.client[rows]]
        if not len(rows) or rates.sum() < FULL * server[upload]:
            continue
        most = _most(moved.sent[rows], moved.arrived[rows], rates)
        congested[rows] = most > np.maximum(FULL * server[upload], rates * (1 + TINY))
    return congested


def _most(sent: Floats, arrived: Floats, rates: Floats) -> Floats:
    """Return the largest sum of rates (n,) of the messages that are under way during each one."""
    # At equal times ends come before beginnings.
    order = np.lexsort((np.repeat([1, 0], len(sent)), np.concatenate([sent, arrived])))
    load = np.cumsum(np.concatenate([rates, -rates])[order])
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    between = np.stack([place[: len(sent)], place[len(sent) :]], axis=1)
    lasts = between[:, 1] > between[:, 0]
    most = np.zeros(len(sent))
    most[lasts] = np.maximum.reduceat(load, between[lasts].ravel())[::2]
    return most


def _held(moved: Moved, congested: Bools) -> Bools:
    """Return the congested messages of clients that have too few others in that direction."""
    ends = moved.client * 2 + moved.upload
    free = np.bincount(ends[moved.whole & ~congested], minlength=int(ends.max()) + 1)
    return np.asarray(congested & (free[ends] < FEWEST))


def _fitted(forward: Forward, moved: Moved, out: Bools, known: Floats, losses: Floats, stated: Floats | None) -> Fleet:
    statements: list[Floats | None] = [None] * len(known) if stated is None else [*stated]
    problems: dict[int, FitProblem] = {}  # of the clients that have messages to fit
    for client in range(len(known)):
        rows = np.flatnonzero(moved.client == client)
        lost = float(losses[client, 0]), float(losses[client, 1])
        given = fit.problem(forward, moved.take(rows), out[rows], lost, stated is not None)
        if given is not None:
            problems[client] = given
    links = {client: _rtt_first(given, known[client]) for client, given in problems.items()}
    rtts = _identified(links.values(), RTT)
    for client, given in problems.items():
        links[client] = _rates(given, links[client], known[client], rtts, statements[client])
    # Rates that fit a round trip which is not identifiable count only where there are no others.
    best = [link for link in links.values() if link.identifiable[RTT]]
    pools = [rtts]
    for which in (UP, DOWN):
        values = _identified(best, which)
        pools.append(values if len(values) else _identified(links.values(), which))
    completed = [
        _completed(problems.get(client), links.get(client), known[client], pools, statements[client])
        for client in range(len(known))
    ]
    return Fleet(np.stack([link.values for link in completed]), losses, [link.marks for link in completed], out)


def _rtt_first(given: FitProblem, known: Floats) -> FittedLink:
    """Return the best link, and whether its round trip is identifiable; beside a carrier's constant it never is."""
    link = fit.solve(given, known)
    if np.isnan(known[RTT]) and not given.carried:
        link.identifiable[RTT] = fit.is_identifiable(given, link, known, RTT)
    return link


def _rates(given: FitProblem, link: FittedLink, known: Floats, rtts: Floats, stated: Floats | None) -> FittedLink:
    """Return the link with a round trip, and which of its rates are identifiable at it.

    Where the round trip is not, a rate that is so whatever the round trip may be is rough, and any other only
    given it.
    """
    fixed, mark, first = known.copy(), "", link
    if not np.isnan(known[RTT]):
        mark = KNOWN
    elif not link.identifiable[RTT]:
        mark = POOLED if len(rtts) else ASSUMED if stated is None else STATED
        wanted = float(np.median(rtts)) if len(rtts) else fit.longest_rtt(given) / 2 if stated is None else stated[RTT]
        link = fit.nearest(given, link, known, RTT, wanted)
        fixed[RTT] = link.values[RTT]
    identifiable, marks = [mark in ("", KNOWN)], [mark, "", ""]
    for which in (UP, DOWN):
        seen = not np.isnan(link.values[which]) and fit.is_identifiable(given, link, fixed, which)
        identifiable.append(not np.isnan(known[which]) or seen)
        if identifiable[-1] and mark not in ("", KNOWN) and np.isnan(known[which]):
            alone = fit.is_identifiable(given, replace(first, values=link.values), known, which)
            marks[which] = ROUGH if alone else GIVEN
    return FittedLink(link.values, np.array(identifiable), link.error, tuple(marks))


def _completed(
    given: FitProblem | None, link: FittedLink | None, known: Floats, pools: list[Floats], stated: Floats | None
) -> FittedLink:
    """Return the link with a value in each place that anything is known of, and its marks."""
    typical = np.array([float(np.median(pool)) if len(pool) else np.nan for pool in pools])
    marked = [POOLED] * 3
    if stated is not None:
        marked = [STATED if missing else POOLED for missing in np.isnan(typical).tolist()]
        typical = np.where(np.isnan(typical), stated, typical)
    if given is None or link is None:
        free = np.isnan(known)
        marks = [mark if unknown else KNOWN for unknown, mark in zip(free.tolist(), marked, strict=True)]
        return FittedLink(np.where(free, typical, known), ~free, np.nan, tuple(marks))
    fixed, marks, identifiable = known.copy(), [*link.marks], link.identifiable
    if marks[RTT] in (POOLED, ASSUMED, STATED):
        fixed[RTT] = link.values[RTT]
    for which in (UP, DOWN):
        if not np.isnan(known[which]):
            marks[which] = KNOWN
        elif identifiable[which]:
            continue  # with the mark that it has
        elif np.isnan(link.values[which]):
            marks[which], fixed[which] = marked[which], typical[which]
        else:
            known_of_others = not np.isnan(typical[which])
            marks[which] = marked[which] if known_of_others else LEAST
            link = fit.nearest(given, link, fixed, which, typical[which] if known_of_others else fit.SLOWEST)
            fixed[which] = link.values[which]
    return FittedLink(np.where(np.isnan(fixed), link.values, fixed), identifiable, link.error, tuple(marks))


def _identified(links: Iterable[FittedLink], which: int) -> Floats:
    """Return the values in one place that are identifiable, each by a client's messages."""
    return np.array([link.values[which] for link in links if link.identifiable[which]])


def lost(constants: tcp.TransferModel, moved: Moved, clients: int) -> Floats:
    """Return the losses up and down of each client (K, 2); 0 without messages, or where less than a byte a message."""
    shares = np.zeros((clients, 2))
    for column, upload in enumerate((True, False)):
        messages = moved.take(moved.whole & (moved.upload == upload) & (moved.wire > 0))
        plain = tcp.wire_size(constants, messages.nbytes, np.zeros(len(messages)))
        bare = np.bincount(messages.client, plain, minlength=clients)
        wire = np.bincount(messages.client, messages.wire, minlength=clients)
        some = wire - bare > np.bincount(messages.client, minlength=clients)
        shares[some, column] = 1 - bare[some] / wire[some]
    return shares
