"""Whole runs of random scenarios: the books balance, causes come before effects, links are shared, seeds decide all."""

import numpy as np
import pandas as pd
import pytest
import small_points
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from values import server_state
from whole_run_checks import (
    check_books,
    check_clients,
    check_passages,
    check_rates,
    check_replies,
    check_summary,
    check_waits,
)
from whole_runs import CODECS, EFFECTS, SAMPLERS, TREE, Seen, instants, scenarios, see, with_files

from fedsim.core.record import SERVER

quick = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return with_files(tmp_path_factory.mktemp("whole"))


@settings(quick, max_examples=50)
@given(plain=scenarios(), times=instants(8.0, 25))
def test_books_balance_causes_precede_and_links_are_shared(plain, times, folder):
    seen = see(plain, folder, lambda world: look(world, times), summed=True)
    check_books(seen)
    check_summary(seen)
    check_passages(seen)
    check_replies(seen)
    check_clients(seen)
    check_waits(seen)


FAST_TREE = {**TREE, "uplink": "1 Gbit/s", "downlink": "1 Gbit/s"}
SLOW = {
    "name": "slow", "clients": {"count": 6, "speed": "1 GFLOP/s"},
    "network": {
        "latency": "lognormal(30 ms, 0.6)", "downlink": "lognormal(1 Mbit/s, 2)", "uplink": "lognormal(1 kbit/s, 14)",
    },
    "protocol": {"name": "sync", "rounds": 4, "participation": 1.0},
    "algorithm": {"name": "traffic", "down": "2 kB", "up": "329 B"},
}  # fmt: skip


@settings(quick, max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    own=st.sampled_from([
        {}, {"connection": {"kind": "kept"}}, {"effects": [{"name": "jitter", "most": "1 ms"}]},
        {"topology": FAST_TREE},
        {"model": "naive", "connection": {"kind": "kept"}},
    ]),
    server=st.sampled_from([{}, {"ingress": "1 Mbit/s"}, {"ingress": "1 kbit/s"}]),
)  # fmt: skip
def test_small_messages_over_very_slow_links_are_no_faster_than_those(seed, own, server, folder):
    check_passages(see({**SLOW, "seed": seed, "network": {**SLOW["network"], **own, "server": server}}, folder))


def look(world, times):
    """Look at all rates at these times."""
    for time in times:
        yield world.env.timeout(time - world.env.now)
        check_rates(world)


@pytest.mark.long
@settings(quick, max_examples=15)
@given(plain=scenarios())
def test_equal_seeds_give_equal_files_and_others_do_not(plain, folder):
    one, two = see(plain, folder), see(plain, folder)
    assert one.files == two.files
    assert one.draws == two.draws
    states = [server_state(seen.builts[0])["model"] for seen in (one, two)]
    assert np.asarray(states[0]).tobytes() == np.asarray(states[1]).tobytes()
    other = see({**plain, "seed": plain["seed"] + 1}, folder)
    if (one.tables["transfers"]["fate"] == "delivered").any():  # all latencies are drawn
        assert one.files["transfers"] != other.files["transfers"]


ENDED = ["sent", "arrived", "src", "dst", "kind", "version", "nbytes", "wire_bytes"]


@pytest.mark.long
@settings(quick, max_examples=20)
@given(plain=scenarios(), until=st.floats(0.05, 15))
def test_a_run_that_is_cut_off_is_the_beginning_of_the_whole_one(plain, until, folder):
    whole = see(plain, folder)
    part = see({**plain, "measure": {"until": f"{until!r} s"}}, folder, summed=True)
    assert part.row["sim_seconds"] <= until
    check_books(part)
    check_summary(part)
    check_clients(part)
    for name, time, columns in (
        ("transfers", "arrived", ENDED), ("updates", "time", None), ("spans", "end", None),
    ):  # fmt: skip
        some, every = (run.tables[name] if columns is None else run.tables[name][columns] for run in (part, whole))
        some, every = (table[table[time] < min(until, part.row["sim_seconds"])] for table in (some, every))
        some, every = (table.fillna(-1.0) for table in (some, every))  # an empty cell equals none
        assert sorted(some.itertuples(index=False)) == sorted(every.itertuples(index=False))


@pytest.mark.long
@settings(quick, max_examples=20)
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


@settings(quick, max_examples=10)
@given(plain=scenarios(("sync",)), codec=st.sampled_from(CODECS["up"][2:]), other=st.sampled_from(EFFECTS[3:6]))
def test_who_is_asked_does_not_depend_on_the_network_where_all_are_there(plain, codec, other, folder):
    """Neither a codec nor an effect takes from the stream that cohorts are drawn from."""
    floats = {"name": "lab.float_traffic", "numbers": 5000, "operations": 1e8}
    same = {"algorithm": floats, "clients": {**plain["clients"], "sampler": "uniform"}}
    cohorts = []
    for effects, compressed in (([], {}), ([other], {"up": codec})):
        network = {**plain["network"], "effects": effects, "codec": compressed}
        asked = [
            row for row in see({**plain, **same, "network": network}, folder).rows("transfers") if row.src == SERVER
        ]
        cohorts.append(sorted((row.version, row.dst) for row in asked))
    assert cohorts[0] == cohorts[1]
    assert len({version for version, _ in cohorts[0]}) == 4


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


@pytest.mark.long
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
