"""Arrivals beside training: the next job sees them, slow links mean fewer updates between them, scores come first."""

from pathlib import Path
from typing import Any

import pytest
import small_points
import torch
from fake_world import lab

from analysis.measures.summarise import summarise
from fedsim.core.record import ArrivalRow
from fedsim.core.units import clock
from fedsim.data.graph import Period, graph_of
from fedsim.data.streams.class_incremental import ClassIncremental

CLOCK = {"name": "class_incremental", "classes": 1, "every": "poisson(3 s)"}
LONG = {"name": "sync", "rounds": 60, "participation": 0.6}


def test_what_arrives_during_training_is_seen_by_the_next_job() -> None:
    here = lab(clients=1, latency=0.0, rate=1e12, work=4e6)  # four seconds a job
    empty = graph_of(torch.ones(0, 1), torch.zeros(2, 0), torch.zeros(0))
    stream = ClassIncremental(every=clock("3 s"))
    here.env.process(stream.run(here.world, [[Period(number, empty) for number in range(3)]]))

    def ask_again_and_again() -> Any:
        while here.env.now < 9:
            yield here.world.server.ask(0)

    here.env.process(ask_again_and_again())
    here.run()
    assert [promise.job.period for promise in here.backend.promises] == [0, 1, 2]
    assert [span.start for span in here.spans] == pytest.approx([0, 4, 8], abs=0.01)
    assert [(row.time, row.period) for row in here.of(ArrivalRow)] == [(0, 0), (3, 1), (6, 2)]


def test_with_slow_links_there_are_fewer_updates_between_the_same_arrivals(tmp_path: Path) -> None:
    rows, arrivals = [], []
    for latency in ("200 ms", "800 ms"):
        folder = tmp_path / latency
        rows.append(
            small_points.run_in(
                folder, network__latency=latency, data__stream=CLOCK, protocol=LONG, measure__until="10 s"
            )
        )
        arrived = small_points.table(folder, "arrivals")
        arrivals.append([(row["time"], row["client"], row["period"]) for row in arrived])
        assert rows[-1]["updates_per_period"] == pytest.approx(5 * rows[-1]["updates"] / len(arrived))
    assert arrivals[0] == arrivals[1]
    assert len({time for time, _, _ in arrivals[0]}) > 5
    assert rows[0]["updates_per_period"] > 2 * rows[1]["updates_per_period"] > 0


def test_a_period_is_scored_when_it_arrives_and_nothing_else_changes(tmp_path: Path) -> None:
    row = small_points.run_in(tmp_path / "run", data__stream=CLOCK, protocol={**LONG, "rounds": 8})
    tables = {
        name: small_points.pq.read_table(tmp_path / f"run/{name}.parquet").to_pandas() for name in small_points.TABLES
    }
    scores, arrivals = tables["scores"].query("client >= 0"), tables["arrivals"]
    first = scores[scores["period"] >= scores["seen"]]
    assert (first["period"] == first["seen"]).all()
    moments = set(first[["time", "client", "period", "version"]].itertuples(index=False, name=None))
    assert moments <= set(arrivals.itertuples(index=False, name=None))
    assert len(moments) > 5  # all that have nodes to be scored on
    begun = first[first["time"] == 0]
    assert set(begun["version"]) == {0}
    head: dict[str, Any] = {"model": "global", "metric": "accuracy", "target": None}
    without = scores[scores["period"] < scores["seen"]]
    one, other = (summarise({**tables, "scores": table}, **head) for table in (scores, without))
    assert one["prequential"] == row["prequential"] is not None
    assert {**one, "prequential": None} == other


def test_a_run_waits_for_clients_whose_clocks_start_late(tmp_path: Path) -> None:
    late = {**CLOCK, "every": "1 s", "offset": "uniform(2 s, 3 s)"}
    row = small_points.run_in(tmp_path / "run", data__stream=late, protocol={**LONG, "rounds": 3})
    arrivals, transfers = (small_points.table(tmp_path / "run", name) for name in ("arrivals", "transfers"))
    assert row["status"] == "done"
    begin = min(arrival["time"] for arrival in arrivals)
    assert 2 < begin < 3
    assert min(transfer["sent"] for transfer in transfers) == begin
