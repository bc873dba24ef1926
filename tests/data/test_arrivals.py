"""When periods arrive: clocks of the clients' own, recorded times, offsets."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import simpy
import torch
from drawn_graphs import names_to_streams
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedsim.core import units
from fedsim.core.errors import ScenarioError, UserError
from fedsim.data.graph import Period, graph_of
from fedsim.data.streams.class_incremental import ClassIncremental
from fedsim.data.time.arrivals import at_times, drawn, recorded

NOW = units.SECONDS.draw(0.0)
EMPTY = graph_of(torch.ones(0, 1), torch.zeros(2, 0), torch.zeros(0))


class NotedWorld:
    """A clock without a server's updates, and what has been delivered: (second, client, period)."""

    def __init__(self, seed: int = 5) -> None:
        self.env = simpy.Environment()
        self.server = SimpleNamespace(version=0, updated=self.env.event())
        self.rng = names_to_streams(seed)
        self.seen: list[tuple[float, int, int]] = []

    def deliver(self, client: int, period: Period) -> None:
        self.seen.append((self.env.now, client, period.number))


def arrivals(stream: ClassIncremental, clients: int, periods: int, seed: int = 5) -> list[tuple[float, int, int]]:
    """Run a stream to its own end and return what it has delivered."""
    world = NotedWorld(seed)
    own = [[Period(number, EMPTY) for number in range(periods)] for _ in range(clients)]
    done = world.env.process(stream.run(world, own))
    world.env.run()
    assert done.processed  # it ends by itself
    return world.seen


def stream(every: Any = None, **options: Any) -> ClassIncremental:
    """Return a stream with options as a scenario writes them."""
    return TypeAdapter(ClassIncremental).validate_python({"every": every, **options})


def of_client(seen: list[tuple[float, int, int]], client: int) -> list[float]:
    times = [(number, time) for time, who, number in seen if who == client]
    assert [number for number, _ in times] == list(range(len(times)))
    return [time for _, time in times]


def test_a_poisson_process_has_exponential_gaps_of_the_mean_asked_for() -> None:
    times = drawn([4001] * 5, units.clock("poisson(10 min)"), NOW, names_to_streams(1))  # type: ignore[arg-type]
    gaps = np.concatenate([np.diff(own) for own in times])
    assert gaps.mean() == pytest.approx(600, abs=5 * 600 / 20_000**0.5)
    assert gaps.std() == pytest.approx(600, rel=0.05)
    assert np.mean(gaps > 600) == pytest.approx(np.exp(-1), abs=0.02)
    assert [own[0] for own in times] == [0.0] * 5
    assert abs(np.corrcoef(np.diff(times[0]), np.diff(times[1]))[0, 1]) < 0.06


@given(
    st.integers(1, 6), st.integers(1, 6), st.sampled_from(["poisson(5 s)", "lognormal(10 s, 0.5)", "uniform(1 s, 2 s)"])
)
@settings(max_examples=25, deadline=None)
def test_another_client_changes_no_clients_times(clients: int, more: int, every: str) -> None:
    few, many = (arrivals(stream(every), count, 4) for count in (clients, clients + more))
    assert [row for row in many if row[1] < clients] == few
    assert len({of_client(many, client)[1] for client in range(clients + more)}) == clients + more


def test_another_period_changes_no_earlier_times_and_another_seed_all() -> None:
    clock = stream("poisson(5 s)")
    assert of_client(arrivals(clock, 2, 7), 1)[:4] == of_client(arrivals(clock, 2, 4), 1)
    assert of_client(arrivals(clock, 2, 4, seed=6), 1)[1:] != of_client(arrivals(clock, 2, 4), 1)[1:]


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=5).map(sorted), min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_arrivals_come_in_order_of_time_then_period_then_client(times: list[list[float]]) -> None:
    world = NotedWorld()
    own = [[Period(number, EMPTY) for number in range(len(mine))] for mine in times]
    world.env.process(at_times(world, own, [np.array(mine) for mine in times]))
    world.env.run()
    wanted = sorted((time, number, client) for client, mine in enumerate(times) for number, time in enumerate(mine))
    assert [(client, number) for _, client, number in world.seen] == [(client, number) for _, number, client in wanted]
    assert [time for time, _, _ in world.seen] == pytest.approx([time for time, _, _ in wanted], rel=1e-15)


def test_a_fixed_clock_with_offsets_ticks_for_each_client_by_itself() -> None:
    seen = arrivals(stream("10 s", offset="uniform(0 s, 8 s)"), 3, 3)
    starts = [of_client(seen, client)[0] for client in range(3)]
    assert all(0 < start < 8 for start in starts)
    assert len(set(starts)) == 3
    for client, start in enumerate(starts):
        assert of_client(seen, client) == pytest.approx([start, start + 10, start + 20])
    assert arrivals(stream("10 s", offset="3 s"), 2, 2) == [(3, 0, 0), (3, 1, 0), (13, 0, 1), (13, 1, 1)]


def test_a_clock_that_starts_late_ticks_as_it_would_have() -> None:
    plain, late = (of_client(arrivals(stream("poisson(9 s)", offset=by), 2, 5), 1) for by in (0, "exponential(3 s)"))
    assert late[0] > 0
    assert np.diff(late) == pytest.approx(np.diff(plain))


def written(folder: Path, *rows: str) -> Path:
    path = folder / "times.csv"
    path.write_text("\n".join(["client,period,time_s", *rows]) + "\n")
    return path


def test_recorded_times_are_kept_exactly(tmp_path: Path) -> None:
    path = written(tmp_path, "1,0,0.1", "0,1,7.3", "0,0,0", "1,1,0.3", "1,2,7.3")
    assert arrivals(stream(table=path), 3, 3) == [(0.0, 0, 0), (0.1, 1, 0), (0.3, 1, 1), (7.3, 0, 1), (7.3, 1, 2)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2,0,1", "line 4: there is no client 2; they are numbered 0 to 1"),
        ("1,2,1", "line 4: there is no period 2; the stream cuts periods 0 to 1"),
        ("0,1,1", "line 4: client 0, period 1 appears twice"),
        ("1,1,1", r"line 4: client 1 has period 1, but not 0; add that first"),
        ("-1,0,1", "line 4: column 'client': -1 is out of range"),
        ("1,0,soon", "line 4: column 'time_s': 'soon' is not a number"),
    ],
)
def test_a_table_that_does_not_fit_is_reported_by_its_line(tmp_path: Path, row: str, message: str) -> None:
    path = written(tmp_path, "0,0,0", "0,1,5", row)
    with pytest.raises(UserError, match=message):
        recorded(path, [2, 2])


def test_later_periods_cannot_come_earlier(tmp_path: Path) -> None:
    path = written(tmp_path, "0,1,3", "0,0,4")
    with pytest.raises(UserError, match=r"line 2: client 0, period 1 arrives before period 0"):
        recorded(path, [2])


@pytest.mark.parametrize(
    ("row", "message"),
    [("0,9,3", "line 2: there is no period 9"), ("0;1", "line 2: 1 cell"), ("", "a header without rows")],
)
def test_a_table_that_does_not_fit_is_reported_by_the_scenarios_key_at_once(
    tmp_path: Path, row: str, message: str
) -> None:
    path = written(tmp_path, row)
    with pytest.raises(ScenarioError) as caught:
        stream(table=path).run(NotedWorld(), [[Period(0, EMPTY), Period(1, EMPTY)]])  # before any process
    (problem,) = caught.value.problems
    assert problem.key == "data.stream.table"
    assert f"{path}, {message}" in problem.message or f"{path}: {message}" in problem.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either 'every'"),
        ({"every": "5 rounds"}, "write '20 updates' or '10 min'"),
        ({"every": "poison(10 min)"}, "did you mean 'poisson'"),
        ({"every": "2 updates", "offset": "3 s"}, "updates are counted for all clients together"),
        ({"table": "nowhere.csv"}, "there is no such file"),
    ],
)
def test_what_makes_no_clock_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TypeAdapter(ClassIncremental).validate_python(options)


def test_a_table_and_a_clock_are_one_too_many(tmp_path: Path) -> None:
    path = written(tmp_path, "0,0,0")
    for wrong, message in (({"every": "1 s"}, "not both"), ({"offset": "1 s"}, "the table's times are final")):
        with pytest.raises(ValidationError, match=message):
            stream(table=path, **wrong)
