"""What must hold of every whole run, recomputed from its tables alone, and of all rates at any instant."""

import math
from collections import Counter, defaultdict
from itertools import pairwise

from netlab import rate_of
from values import server_state
from whole_runs import level

from fedsim.core import wire
from fedsim.core.record import SERVER
from fedsim.learn.algorithm import Job
from fedsim.scenario.parts import find

WHOLE = ("delivered", "late", "discarded")
INSTANT = 1e-9  # seconds, and relative: the rounding of sums of many times
ROUNDED = 1e-6  # bytes with which a flow has ended, before and after a loss
TRACED = 1e6  # bytes/s, the fastest rate of the table of rates


def check_rates(world):
    """Each flow is at its ceiling, or crosses a full link on which nobody has more; no link carries too much."""
    network = world.network
    flows = [(each, each.channel._flows[each]) for each in network.under_way if each in each.channel._flows]
    rates = {each: rate_of(each.route.pool, flow) for each, flow in flows}
    shares, access = defaultdict(list), Counter()
    for each, flow in flows:
        assert flow.ceiling == each.channel.ceiling(each, len(each.channel._flows))
        for link in each.route.links:
            shares[link].append((rates[each], flow.weight))
        access[each.transfer.src, True] += rates[each]
        access[each.transfer.dst, False] += rates[each]
    loads = {link: sum(rate for rate, _ in those) for link, those in shares.items()}
    for link, load in loads.items():
        assert load <= link.capacity * (1 + 1e-9) + 1e-5
    if network.model.capacity(1.0) == 1.0:  # the naive model shares no link
        for (node, upload), load in access.items():
            row = network.nodes.uplink if upload else network.nodes.downlink
            assert node < 0 or load <= row[node] / 8 * (1 + 1e-9) + 1e-5
    for each, flow in flows:
        full = [link for link in each.route.links if loads[link] >= link.capacity * (1 - 1e-9) - 1e-5]
        most = [max(rate / weight for rate, weight in shares[link]) for link in full]
        held = any(rates[each] / flow.weight >= top * (1 - 1e-9) - 1e-6 for top in most)
        assert held or rates[each] >= flow.ceiling * (1 - 1e-9) - 1e-6
        assert rates[each] <= flow.ceiling * (1 + 1e-9)


def check_books(seen):
    """Every message stands in one row, and for each client and direction the rows hold the bytes of its link."""
    rows, told, count = seen.rows("transfers"), Counter(), Counter()
    assert Counter((row.sent, row.src, row.dst, row.kind, row.version, row.nbytes) for row in rows) == seen.sent
    for row in rows:
        assert row.sent <= row.arrived <= seen.row["sim_seconds"]
        assert row.fate in WHOLE or (row.fate == "cut" if row.wire_bytes else row.fate == "lost")
        for end, upload in ((row.src, True), (row.dst, False)):
            told[end, upload] += row.wire_bytes
            count[end, upload] += 1
    for client in seen.world.clients:
        for upload in (True, False):
            metered = seen.world.network.meters(upload)[client]
            assert abs(metered - told[client, upload]) <= count[client, upload] + 1e-9 * metered


def check_summary(seen):
    """What the summary says is what the tables add up to."""
    moved, folding, row = seen.tables["transfers"], seen.tables["updates"], seen.row
    came = moved[moved["fate"] == "delivered"]
    rises = came["dst"].map(level) - came["src"].map(level)
    peers = seen.scenario.network.topology.name == "peers" and len(moved) > 0
    assert row["bytes_up"] == (None if peers else came["nbytes"][rises > 0].sum())
    assert row["bytes_down"] == (None if peers else came["nbytes"][rises < 0].sum())
    assert row["bytes_peer"] == (came["nbytes"].sum() if peers else None)
    assert row["bytes_wasted"] == moved["wire_bytes"].sum() - came["nbytes"].sum()
    for name in ("asked", "folded", "lost", "late", "refused"):
        assert row[name] == (folding[name].sum() if len(folding) else None)
    assert (folding["asked"] == folding[["folded", "lost", "late", "refused"]].sum(axis=1)).all()
    if seen.scenario.protocol.name not in ("hierarchical", "gossip", "isolated", "replay"):
        assert folding["folded"].sum() == (came["dst"] == SERVER).sum()


def check_passages(seen):
    """A message takes its round trips and its bytes the rate of its own links; its size follows from its losses.

    How early it may be is a matter of its own rate and of the clock's floats, not a share of the time since the start.
    """
    nodes, network = seen.world.network.nodes, seen.scenario.network
    losses = [find.build("effect", each) for each in network.effects if each.name == "loss"]
    over_grpc = network.transport.name == "grpc"
    came, closed = (
        defaultdict(list),
        defaultdict(list),
    )  # when messages ended well, and when clients closed all they had
    for span in seen.rows("spans"):
        if span.what in ("offline", "left"):
            closed[span.client].append(span.start)
    for row in seen.rows("transfers"):
        if row.fate in WHOLE:
            came[frozenset((row.src, row.dst))].append(row.arrived)
    for row in sorted(seen.rows("transfers"), key=lambda row: row.sent):
        ends = [(row.src, True)] * (row.src >= 0) + [(row.dst, False)] * (row.dst >= 0)
        keep, size = 1.0, row.nbytes + (5 + 9 * -(-(row.nbytes + 5) // 16384) + 100 if over_grpc else 0)
        if seen.fluid:
            for end, up in ends:
                keep *= 1 - (nodes.loss_up if up else nodes.loss_down)[end]
                for loss in losses:
                    own = loss.up if up else loss.down
                    keep *= 1 - (loss.rate if own is None else own)
            size = (size + 52 * -(-size // 1448)) / keep
        assert row.wire_bytes <= size + 0.5001
        if row.fate not in WHOLE:
            continue
        assert row.wire_bytes >= size - 0.5001
        up = level(row.src) <= level(row.dst)
        last = max((time for time in came[frozenset((row.src, row.dst))] if time <= row.sent), default=math.inf)
        shut = any(last <= time < row.sent for end, _ in ends for time in closed[end])
        kind = network.connection.kind
        opened = (kind == "kept" and last < math.inf and not shut) or (kind == "exchange" and up)
        asked = not up and not (opened and network.connection.request == "push")
        trips = (1.0 if asked else 0.5) + (0 if opened else 1 + network.tls_rtts + over_grpc) if seen.fluid else 0.5
        least = trips * seen.trip(row.src, row.dst)
        bursts = sum((nodes.up_burst if up else nodes.down_burst)[end] for end, up in ends)
        bursts += (network.server.ingress_burst or 0) * (row.dst == SERVER)
        bursts += (network.server.egress_burst or 0) * (row.src == SERVER)
        traced = TRACED if seen.has("trace") else 0.0
        slowest = min((max(traced, seen.given[0 if up else 1][end]) for end, up in ends), default=math.inf)
        least += max(0.0, size - bursts) / slowest
        assert row.arrived - row.sent >= least * (1 - 1e-12) - 2 * ROUNDED / slowest - 16 * math.ulp(row.arrived)


def check_replies(seen):
    """A client works as soon as a request has arrived, and replies as soon as it has worked, once a request."""
    talk = [row for row in seen.rows("transfers") if row.kind not in ("share", "replay")]
    trained = [span for span in seen.rows("spans") if span.what == "train"]
    requests = {(row.dst, row.arrived): row for row in talk if row.dst >= 0 and row.fate == "delivered"}
    works = {(span.client, span.end): span.start for span in trained}
    if talk:
        assert Counter((span.client, span.start) for span in trained) <= Counter(requests.keys())
    for row in talk:
        if row.src >= 0:
            request = requests[row.src, works.pop((row.src, row.sent))]
            assert (request.src, request.version) == (row.dst, row.version)


def check_clients(seen):
    """A client does one thing at a time, and nothing while it is offline."""
    away, doing, moving = (defaultdict(list) for _ in range(3))
    for span in seen.rows("spans"):
        (away if span.what == "offline" else doing)[span.client].append((span.start, span.end))
    for row in seen.rows("transfers"):
        for end in {row.src, row.dst}:
            moving[end].append((row.sent, row.arrived))
            assert row.sent == row.arrived or not any(start <= row.sent < stop for start, stop in away[end])
    for client in seen.world.clients:
        for some in (away[client], doing[client]):
            assert all(one[1] <= other[0] for one, other in pairwise(sorted(some)))
        for start, stop in away[client]:
            assert all(min(end, stop) <= max(begin, start) for begin, end in moving[client] + doing[client])


def check_waits(seen):
    """A round with a deadline takes no longer than that, and the server's own work."""
    protocol = find.build("protocol", seen.scenario.protocol)
    if seen.scenario.protocol.name not in ("deadline", "one_shot") or not protocol.wait:
        return
    updates, moved = seen.tables["updates"], seen.tables["transfers"]
    algorithm, state = seen.builts[0].learner.algorithm, server_state(seen.builts[0])
    upload = wire.array_bytes(algorithm.work(Job(0, "train", 0, state, None, {}, 0)))
    sent = moved["sent"][moved["src"] == SERVER].sort_values()
    for before, update in zip([-1.0, *updates["time"]], updates.itertuples(), strict=False):
        begun = sent[(sent >= before) & (sent < update.time)].min() if update.Index or len(sent) else 0.0
        work = update.folded * upload / 2 / seen.scenario.server.speed
        limit = protocol.wait + work + INSTANT * (1 + update.time)
        assert math.isnan(begun) or update.time - begun <= limit
