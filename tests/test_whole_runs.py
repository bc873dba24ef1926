"""Whole runs of random scenarios: the books balance, causes come before effects, links are shared, seeds decide all."""

import math
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import small_points
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from whole_runs import CODECS, EFFECTS, FILES, SAMPLERS, TREE, Seen, instants, level, scenarios, see

from fedsim import find
from fedsim.algorithm import Job
from fedsim.net import wire
from fedsim.record import SERVER

WHOLE = ("delivered", "late", "discarded")
INSTANT = 1e-9  # seconds, and relative: as early may a flow end

quick = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("whole")
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


@settings(quick, max_examples=60)
@given(plain=scenarios(), times=instants(8.0, 25))
def test_books_balance_causes_precede_and_links_are_shared(plain, times, folder):
    seen = see(plain, folder, lambda world: look(world, times), summed=True)
    check_books(seen)
    check_summary(seen)
    check_passages(seen)
    check_replies(seen)
    check_clients(seen)
    check_waits(seen)


def look(world, times):
    """Look at all rates at these times."""
    for time in times:
        yield world.env.timeout(time - world.env.now)
        check_rates(world)


def check_rates(world):
    """Each flow is at its ceiling, or crosses a full link on which nobody has more; no link carries too much."""
    network = world.network
    flows = [(each, each.lane._flows[each]) for each in network._under_way if each in each.lane._flows]
    rates = {each: each.track.way.rate(flow) for each, flow in flows}
    links, access = defaultdict(list), Counter()
    for each, flow in flows:
        assert flow.ceiling == each.lane.ceiling(each, len(each.lane._flows))
        for line in each.track.lines:
            links[line].append((rates[each], flow.weight))
        access[each.transfer.src, True] += rates[each]
        access[each.transfer.dst, False] += rates[each]
    loads = {line: sum(rate for rate, _ in those) for line, those in links.items()}
    for line, load in loads.items():
        assert load <= line.capacity * (1 + 1e-9) + 1e-5
    if network.model.capacity(1.0) == 1.0:  # the naive model shares no link
        for (node, upload), load in access.items():
            row = network.nodes.uplink if upload else network.nodes.downlink
            assert node < 0 or load <= row[node] / 8 * (1 + 1e-9) + 1e-5
    for each, flow in flows:
        full = [line for line in each.track.lines if loads[line] >= line.capacity * (1 - 1e-9) - 1e-5]
        most = [max(rate / weight for rate, weight in links[line]) for line in full]
        held = any(rates[each] / flow.weight >= top * (1 - 1e-9) - 1e-6 for top in most)
        assert held or rates[each] >= flow.ceiling * (1 - 1e-9) - 1e-6
        assert rates[each] <= flow.ceiling * (1 + 1e-9)


def check_books(seen):
    """Every message stands in one row, and of each client and direction the rows tell the bytes that its link saw."""
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
            metered = seen.world.network.metered(client, upload)
            assert abs(metered - told[client, upload]) <= count[client, upload] + 1e-9 * metered


def check_summary(seen):
    """What the summary says is what the tables add up to."""
    moved, folding, row = seen.tables["transfers"], seen.tables["updates"], seen.row
    came = moved[moved["fate"] == "delivered"]
    rises = came["dst"].map(level) - came["src"].map(level)
    peers = seen.scenario.network.topology.name == "peers" and len(moved) > 0
    assert row["bytes_up"] == (None if peers else came["nbytes"][rises > 0].sum())
    assert row["bytes_down"] == (None if peers else came["nbytes"][rises < 0].sum())
    assert row["bytes_wasted"] == moved["wire_bytes"].sum() - came["nbytes"].sum()
    for name in ("asked", "folded", "lost", "late"):
        assert row[name] == (folding[name].sum() if len(folding) else None)
    assert (folding["asked"] == folding["folded"] + folding["lost"] + folding["late"]).all()
    if seen.scenario.protocol.name not in ("hierarchical", "gossip", "replay"):
        assert folding["folded"].sum() == (came["dst"] == SERVER).sum()


def check_passages(seen):
    """A message takes its round trips and its bytes the rate of the client's link; its size follows from its losses."""
    nodes, network = seen.world.network.nodes, seen.scenario.network
    losses = [find.build("effect", each) for each in network.effects if each.name == "loss"]
    met = set()
    for row in sorted(seen.rows("transfers"), key=lambda row: row.sent):
        ends = [(row.src, True)] * (row.src >= 0) + [(row.dst, False)] * (row.dst >= 0)
        keep, size = 1.0, row.nbytes
        if seen.fluid:
            for end, up in ends:
                keep *= 1 - (nodes.loss_up if up else nodes.loss_down)[end]
                for loss in losses:
                    own = loss.up if up else loss.down
                    keep *= 1 - (loss.rate if own is None else own)
            size = (row.nbytes + 52 * -(-row.nbytes // 1448)) / keep
        assert row.wire_bytes <= size + 0.5001
        if row.fate not in WHOLE:
            continue
        assert row.wire_bytes >= size - 0.5001
        pair, up = frozenset((row.src, row.dst)), level(row.src) <= level(row.dst)
        opened = network.reuse and pair in met
        trips = (0.5 if up else 1.0) + (0 if opened else 1 + network.tls_rtts) if seen.fluid else 0.5
        least = trips * seen.trip(row.src, row.dst)
        if not seen.has("trace"):
            bursts = sum((nodes.up_burst if up else nodes.down_burst)[end] for end, up in ends) + 50_000
            slowest = min((seen.given[0 if up else 1][end] for end, up in ends), default=math.inf)
            least += max(0.0, size - bursts) / slowest
        assert row.arrived - row.sent >= least - INSTANT * (2 + row.arrived)
        met.add(pair)


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
    upload = wire.array_bytes(seen.world.algorithm.work(Job(0, "train", 0, seen.world.server.state, None, {}, 0)))
    sent = moved["sent"][moved["src"] == SERVER].sort_values()
    for before, update in zip([-1.0, *updates["time"]], updates.itertuples(), strict=False):
        begun = sent[(sent >= before) & (sent < update.time)].min() if update.Index or len(sent) else 0.0
        work = update.folded * upload / 2 / seen.scenario.server.speed
        limit = protocol.wait + work + INSTANT * (1 + update.time)
        assert math.isnan(begun) or update.time - begun <= limit


@settings(quick, max_examples=20)
@given(plain=scenarios())
def test_equal_seeds_give_equal_files_and_others_do_not(plain, folder):
    one, two = see(plain, folder), see(plain, folder)
    assert one.files == two.files
    assert one.draws == two.draws
    states = [seen.world.server.state["model"] for seen in (one, two)]
    assert np.asarray(states[0]).tobytes() == np.asarray(states[1]).tobytes()
    other = see({**plain, "seed": plain["seed"] + 1}, folder)
    if (one.tables["transfers"]["fate"] == "delivered").any():  # all latencies are drawn
        assert one.files["transfers"] != other.files["transfers"]


ENDED = ["sent", "arrived", "src", "dst", "kind", "version", "nbytes", "wire_bytes"]


@settings(quick, max_examples=25)
@given(plain=scenarios(), until=st.floats(0.05, 15))
def test_a_run_that_is_cut_off_is_the_beginning_of_the_whole_one(plain, until, folder):
    whole = see(plain, folder)
    part = see({**plain, "measure": {"until": until}}, folder, summed=True)
    assert part.row["sim_seconds"] <= until
    check_books(part)
    check_summary(part)
    check_clients(part)
    for name, time, columns in (
        ("transfers", "arrived", ENDED), ("updates", "time", None), ("spans", "end", None),
    ):  # fmt: skip
        some, every = (run.tables[name] if columns is None else run.tables[name][columns] for run in (part, whole))
        some, every = (table[table[time] < min(until, part.row["sim_seconds"])] for table in (some, every))
        assert sorted(some.itertuples(index=False)) == sorted(every.itertuples(index=False))


@settings(quick, max_examples=25)
@given(
    plain=scenarios(("sync", "deadline", "buffered", "one_shot", "hierarchical")),
    sampler=st.sampled_from(SAMPLERS),
    codec=st.sampled_from([{}, {"up": "int8", "down": "half"}, {"up": CODECS["up"][-1]}]),
    more=st.lists(st.sampled_from([each for each in EFFECTS if each["name"] in ("jitter", "straggler")]), max_size=1),
)  # fmt: skip
def test_what_the_network_draws_does_not_depend_on_other_choices(plain, sampler, codec, more, folder):
    """Each transfer's luck goes by its ends and number, each effect's by its place in the list."""
    plain["network"]["effects"].append({"name": "loss", "rate": "2 %"})
    changed = {**plain, "clients": {**plain["clients"], "sampler": sampler}}
    changed["network"] = {**plain["network"], "codec": codec, "effects": plain["network"]["effects"] + more}
    one, other = see(plain, folder), see(changed, folder)
    both = one.draws.keys() & other.draws.keys()
    assert {key: one.draws[key] for key in both} == {key: other.draws[key] for key in both}
    end = min(one.row["sim_seconds"], other.row["sim_seconds"])
    away = [offline(seen, end) for seen in (one, other)]
    assert away[0] == away[1]


def offline(seen: Seen, end: float) -> list[tuple[int, float, float]]:
    """Who was offline from when to when, as far as it was over before that time."""
    spans = seen.tables["spans"]
    over = spans[(spans["what"] == "offline") & (spans["end"] < end)]
    return sorted(over[["client", "start", "end"]].itertuples(index=False, name=None))


CHURN = {"name": "churn", "online": "6 s", "offline": "2 s"}
LEARNING = {
    "hierarchical": {
        "protocol": {"name": "hierarchical", "rounds": 4, "edge_rounds": 2, "participation": 1.0},
        "network__topology": {**TREE, "uplink": "5 Mbit/s", "downlink": "9 Mbit/s"},
        "network__codec": {"up": "int8"},
        "network__effects": [CHURN, {"name": "loss", "rate": "1 %"}],
    },
    "gossip": {
        "protocol": {"name": "gossip", "rounds": 4},
        "network__topology": {"name": "peers", "graph": "erdos_renyi", "p": 0.6},
        "network__effects": [CHURN],
        "clients__speed": "lognormal(1 GFLOP/s, 0.5)",
    },
}  # fmt: skip


@pytest.mark.parametrize("protocol", LEARNING)
def test_so_it_is_where_something_is_learned(protocol, tmp_path):
    """Equal seeds give equal files, and clients trained in turn do what clients trained together do."""
    runs = {"one": {}, "two": {}, "loop": {"cohort": "loop"}, "other": {"seed": 4}}
    for name, changes in runs.items():
        small_points.run_in(tmp_path / name, **LEARNING[protocol], **changes)
    one, two, loop, other = (small_points.files(tmp_path / name) for name in runs)
    assert one == two
    for name in ("transfers", "updates", "spans"):
        assert one[name] == loop[name]
        assert one[name] != other[name]
    spans = pd.DataFrame(small_points.table(tmp_path / "one", "spans"))
    assert {"train", "offline"} <= set(spans["what"])
    assert any(row["fate"] in ("cut", "lost") for row in small_points.table(tmp_path / "one", "transfers"))
