"""The answer at the end of a sweep: nothing is lost, nothing is cut, whatever the width."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.statistics.answer import MOST_ROWS
from analysis.terminal import LABEL
from fedsim.sweep import final_table
from fedsim.sweep.runner import RESULTS

AXES = ["network.latency", "protocol.participation", "algorithm", "seed"]
# No word longer than a label may be folded to: those are broken.
WORDS = st.lists(st.text("abc0123=(),", min_size=1, max_size=LABEL), min_size=1, max_size=9).map(" ".join)
NAMES = {"fedavg": "FedAvg", "fed_ergnn": "Fed-ERGNN", "power": "POWER"}


def row(**values):
    return {"run": "0123456789ab", "status": "done", **dict.fromkeys(RESULTS), **values}


def sweep(latencies=("10 ms", "1 s"), participations=(0.1, 1.0), algorithms=tuple(NAMES), seeds=(0, 1)):
    """Rows of a sweep with a target, each with numbers of its own."""
    found = []
    for number, (latency, participation, algorithm, seed) in enumerate(
        itertools.product(latencies, participations, algorithms, seeds)
    ):
        found.append(row(
            **{"network.latency": latency, "protocol.participation": participation, "algorithm": algorithm},
            seed=seed, method=NAMES[algorithm], metric="accuracy", score=0.3 + number / 100, am=0.3 + number / 100,
            fm=number / 50, sim_seconds=10.0 * number, bytes_up=1e6 * number, bytes_down=2e6 + number, target=0.7,
            seconds_to_target=5.0 + number if participation == 1.0 else None,
            bytes_to_target=3e6 + number if participation == 1.0 else None,
        ))  # fmt: skip
    return found


def shown(rows, axes=AXES, width=80, encoding="utf-8"):
    return [line.plain for line in final_table.answer(rows, axes, width, encoding)]


def test_at_80_columns_there_is_a_block_a_condition_with_scores_and_costs_of_the_target():
    lines = shown(sweep())
    assert max(map(len, lines)) <= 80
    assert lines[0] == "24 runs; mean ± standard deviation of 2 runs with different seeds"
    (head,) = [line for line in lines if "time to 0.7" in line]
    assert head.split() == ["method", "accuracy", "time", "to", "0.7", "bytes", "to", "0.7", "FM"]
    for latency, participation in itertools.product(("10 ms", "1 s"), ("0.1", "1.0")):
        start = lines.index(f"latency {latency}, participation {participation}")
        assert [line.split()[0] for line in lines[start + 1 : start + 4]] == [*NAMES.values()]
    assert "  FedAvg     0.305 ± 0.007               –               –  0.010 ± 0.014" in lines
    assert "Not shown here: simulated, up." in lines


def test_below_the_table_stands_who_is_first_where():
    lines = shown(sweep())
    start = lines.index("First at 70 % accuracy:")
    assert lines[start + 1].split() == ["participation", "latency", "10", "ms", "latency", "1", "s"]
    assert [lines[start + 3].split(), lines[start + 4].split()] == [
        ["0.1", "nobody", "nobody"],
        ["1.0", "FedAvg", "FedAvg"],
    ]
    assert lines[start + 5].split() == ["11.5", "s", "23.5", "s"]
    assert lines[start + 6].split() == ["3.00", "MB", "3.00", "MB"]
    assert lines[start + 7].startswith("Means over 2 seeds; methods share a cell where ")
    narrow = shown(sweep(), width=34)
    assert narrow[narrow.index("First at 70 % accuracy:") + 1] == "participation 0.1, latency 10 ms:"


def test_times_of_a_deployed_run_are_called_measured():
    rows = [{**each, "provenance": {"deployed": "seconds are real"}} for each in sweep()]
    text = " ".join(shown(rows, width=200))
    assert "measured" in text
    assert "simulated" not in text
    assert "measured" not in " ".join(shown([*sweep(), *rows], width=200))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from([*NAMES]), min_size=1, max_size=3, unique=True),
    st.lists(WORDS, min_size=1, max_size=5, unique=True),
    st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True),
    st.integers(24, 220),
)
def test_every_axis_is_there_and_no_number_is_cut_at_any_width(algorithms, latencies, seeds, width):
    rows = sweep(latencies, (1.0,), algorithms, seeds)
    lines = shown(rows, width=width)
    assert max(map(len, lines)) <= max(width, 40)
    flat = " ".join(" ".join(lines).split())
    for group in final_table.grouped(rows, AXES):
        assert final_table.spread(group.rows, "score", final_table.number) in flat
    if len(rows) > 1:
        assert all(word in flat for latency in latencies for word in latency.split())  # folded at spaces alone
        assert all(NAMES[name] in flat for name in algorithms)
    assert "..." not in flat


def test_wider_terminals_get_more_columns_and_the_file_gets_all():
    lines = shown(sweep(), width=200)
    assert not any(line.startswith("Not shown") for line in lines)
    whole = final_table.full(sweep(), AXES)
    for text in (" ".join(lines), whole):
        for title in ("accuracy", "time to 0.7", "FM", "simulated", "up", "down"):
            assert re.search(rf"\b{title}\b", text)
    assert len(whole.splitlines()) == 2 + 1 + 12
    assert "AM" not in whole  # the score has one name
    assert all(latency in whole for latency in ("10 ms", "1 s"))


def test_what_does_not_vary_is_said_once():
    rows = [{**each, "bytes_down": 2e6} for each in sweep(latencies=("1 s",), algorithms=("power",), seeds=(0,))]
    lines = shown(rows)
    assert lines[0] == "2 runs"
    assert lines[1] == "The same everywhere: latency 1 s, method POWER, down 2.00 MB"
    assert lines[3].split()[0] == "participation"
    assert [line.split()[0] for line in lines[4:6]] == ["0.1", "1.0"]
    assert sum("2.00 MB" in line for line in lines) == 1


def test_of_a_single_run_nothing_is_the_same_everywhere():
    (row,) = sweep(latencies=("1 s",), participations=(1.0,), algorithms=("power",), seeds=(0,))
    assert not any("same everywhere" in line for line in shown([row]))


def test_a_target_that_nobody_reaches_is_said_once():
    lines = shown(sweep(participations=(0.1,)))
    assert lines[1].endswith("0.7 not reached")
    assert not any("time to" in line for line in lines)


def test_of_many_conditions_only_who_is_first_is_shown():
    rows = sweep([f"{n} ms" for n in range(1, 51)], (0.1, 1.0))
    lines = shown(rows)
    assert max(map(len, lines)) <= 80
    assert "method" not in lines[3]
    start = lines.index("First at 70 % accuracy:")
    assert lines[start + 1].split() == ["latency", "participation", "0.1", "participation", "1.0"]
    assert lines[start + 3].split() == ["1", "ms", "nobody", "FedAvg"]
    assert lines[start + 4].split() == ["11.5", "s"]
    assert f"... and {50 - MOST_ROWS} conditions more, which the full table has" in lines


def test_a_leader_is_nobody_who_reaches_the_target_with_some_seeds_only():
    rows = sweep([f"{n} ms" for n in range(40)], (1.0,))
    for each in rows:
        if each["algorithm"] == "fedavg" and each["seed"] == 0:
            each["seconds_to_target"] = each["bytes_to_target"] = None
    lines = shown(rows)
    assert not any("FedAvg" in line for line in lines)
    assert any(line.split() == ["latency", "0", "ms:", "Fed-ERGNN,", "7.50", "s,", "3.00", "MB"] for line in lines)


def test_methods_of_one_name_are_told_apart_by_what_the_scenario_says():
    rows = [
        row(algorithm=name, method="Fed-ERGNN", seed=0, score=0.5)
        for name in ("fed_ergnn(beta=0.1)", "fed_ergnn(beta=0.5)")
    ]
    text = "\n".join(shown(rows, ["algorithm", "seed"]))
    assert "fed_ergnn(beta=0.1)" in text
    assert "fed_ergnn(beta=0.5)" in text


def test_axes_that_end_alike_are_shown_with_their_whole_keys():
    pairs = itertools.product(("1 s", "2 s"), ("3 s", "4 s"), ("x", "y"))
    rows = [
        row(**{"network.latency": a, "network.topology.latency": b, "algorithm": c}, score=0.5) for a, b, c in pairs
    ]
    lines = shown(rows, ["network.latency", "network.topology.latency", "algorithm"])
    assert "network.latency 1 s, network.topology.latency 4 s" in lines


def test_means_over_seeds_share_a_unit_and_what_is_missing_is_a_dash():
    rows = [
        row(latency="1 s", seed=0, score=0.5, bytes_up=1000, seconds_to_target=1.0),
        row(latency="1 s", seed=1, score=0.7, bytes_up=3000),
        row(latency="2 s", seed=0),
        row(latency="2 s", seed=1),
    ]
    text = "\n".join(shown(rows, ["latency", "seed"], 200))
    assert "0.600 ± 0.141" in text
    assert "2.00 ± 1.41 kB" in text
    assert "1.00 s (1 of 2)" in text
    assert "AM" not in text
    assert "peers" not in text
    assert "between peers" in "\n".join(shown([*rows, row(latency="3 s", seed=0, bytes_peer=2500)], ["latency"], 200))


def test_a_single_point_is_shown_by_its_id():
    lines = shown([row(score=0.25, seed=0)], [])
    assert lines[0] == "1 run"
    assert [line.split()[:2] for line in lines[2:4]] == [["run", "score"], ["0123456789ab", "0.250"]]


@pytest.mark.parametrize("width", [80, 120])
def test_ascii_has_signs_for_what_it_lacks_within_the_width(width):
    lines = shown(sweep(), width=width, encoding="ascii")
    assert sum("+-" in line for line in lines) == 2 + 12
    assert max(map(len, lines)) <= width
    assert all(line.isascii() for line in lines)


def failed(one):
    """The row of the same point, had it failed: as the runner makes it, without any result."""
    return {**one, **dict.fromkeys(RESULTS), "status": "failed"}


@settings(deadline=None, max_examples=100)
@given(st.sets(st.integers(0, 11), min_size=1), st.booleans())
def test_whichever_points_failed_each_condition_has_its_line(which, several):
    """One algorithm is no axis, and its name is known from points that ended alone."""
    axes = AXES if several else [axis for axis in AXES if axis != "algorithm"]
    rows = sweep(("10 ms",)) if several else sweep(algorithms=("power",), seeds=(0, 1, 2))
    rows = [failed(one) if number in which else one for number, one in enumerate(rows)]
    if not several:
        rows = [{key: value for key, value in one.items() if key != "algorithm"} for one in rows]
    groups = final_table.grouped(rows, axes)
    assert [len(group.rows) for group in groups] == ([2] * 6 if several else [3] * 4)
    named = {one["method"] for one in rows if one["method"]}
    for group in groups:
        ended = sum(one["status"] == "done" for one in group.rows)
        (algorithm,) = {one.get("algorithm") for one in group.rows}
        if named:
            assert group.values["method"] in ({NAMES[algorithm], algorithm} if several else named)
        text = final_table.spread(group.rows, "score", final_table.number)
        assert (text == "–") == (ended == 0)
        assert text in final_table.full(rows, axes)
    assert max(map(len, shown(rows, axes))) <= 80


def test_a_failed_seed_stays_with_the_others_of_its_condition():
    rows = sweep(("10 ms",), (1.0,))
    lines = shown([failed(rows[0]), *rows[1:4], failed(rows[4]), failed(rows[5])])
    assert [line.split()[0] for line in lines if "–" in line or "(1 of 2)" in line] == ["FedAvg", "power"]
    assert any("0.310 (1 of 2)" in line for line in lines)


def test_failed_points_are_reported_with_their_logs():
    rows = [row(), failed(row()), failed(row())]
    assert final_table.failures(rows[:1], "runs/x") is None
    assert final_table.failures(rows[:2], "runs/x").startswith(
        "failed: 1 of 2 runs, see runs/x/points/0123456789ab/error.log;"
    )
    assert final_table.failures(rows, "runs/x").startswith("failed: 2 of 3 runs, see runs/x/points/*/error.log;")


@pytest.mark.parametrize(("rule", "words"), [
    ("all_periods", "A target counts on the test of all periods, arrived or not."),
    ("met_periods", "A target counts once all periods have arrived."),
    ("each_period", "Times and bytes to the target are means over the periods, each counted from its arrival."),
])  # fmt: skip
def test_from_when_on_a_target_counts_is_said_where_there_are_several_periods(rule, words):
    rows = [{**one, "target_on": rule, "periods": 5.0} for one in sweep()]
    assert words in " ".join(shown(rows))
    assert words not in " ".join(shown([{**one, "periods": 1.0} for one in rows]))
