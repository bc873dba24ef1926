"""Own nodes beside those that nobody owns."""

import numpy as np
import pandas as pd
import pytest
from synthetic_sweep import write_sweep

from analysis.measures.digest import digest
from analysis.measures.held_out import held_out, held_out_section, when_learned
from analysis.read.load import _described, load
from analysis.report.write import write


def rows(*told):
    names = ["version", "client", "period", "seen", "value", "weight"]
    frame = pd.DataFrame([dict(zip(names, one, strict=True)) for one in told])
    return frame.assign(model="local", metric="macro_f1", split="held_out", time=frame["version"].astype(float))


def test_a_period_counts_as_it_was_when_just_learned_and_clients_count_alike():
    scores = rows(
        (1, 0, 0, 1, 0.1, 5),  # scored again later, before the next period
        (2, 0, 0, 1, 0.2, 5),
        (2, 1, 0, 1, 0.4, 95),
        (3, 0, 1, 1, 0.9, 5),  # prequential
        (4, 0, 1, 2, 0.6, 5),
        (4, 0, 0, 2, 0.0, 5),  # forgotten
        (4, 1, 1, 2, 0.7, 0),  # asked of nothing
    )
    assert when_learned(scores, "local", "macro_f1", "held_out") == pytest.approx((0.3 + 0.6) / 2)
    assert np.isnan(when_learned(scores, "global", "macro_f1", "held_out"))


def with_held_out(folder, points):
    """Have these points score a copy of every row on held-out nodes too, a tenth lower, with either model."""
    for point in points:
        path = folder / "points" / point.partition("/")[2] / "scores.parquet"
        test = pd.read_parquet(path)
        held = test.assign(split="held_out", value=test["value"] - 0.1)
        parts = [test, held, test.assign(model="local"), held.assign(model="local", value=held["value"] - 0.1)]
        pd.concat(parts).to_parquet(path)


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_the_report_shows_both_and_the_bytes_for_every_condition(tmp_path):
    folder = write_sweep(tmp_path / "sweep", latencies=("10 ms",), participations=("0.2", "1.0"))
    runs = load([folder])
    by = [*runs.axes, "algorithm"]
    assert held_out(runs.points, digest(runs, runs.points, by).held_out, by).empty
    assert "Own and held-out" not in write([folder], tmp_path / "before").read_text()
    with_held_out(folder, runs.points["run"])
    runs = load([folder])
    frame = held_out(runs.points, digest(runs, runs.points, by).held_out, by)
    assert len(frame) == 3 * 2
    assert (frame["n"] == 2).all()
    assert np.allclose(frame["own"] - frame["held"], 0.2)
    assert np.allclose(frame["own"] - frame["held_global"], 0.1)
    assert frame["bytes_up"].groupby(frame["protocol.participation"]).mean().is_monotonic_increasing
    page = write([folder], tmp_path / "after").read_text()
    assert "Own and held-out nodes" in page
    assert (tmp_path / "after" / "tables" / "held_out.csv").is_file()
    assert "held out, local models" in held_out_section(frame, runs.axes, "accuracy")


def test_an_axis_of_models_is_not_taken_for_the_model_that_was_scored():
    rows = pd.DataFrame({"run": ["a", "b"], "algorithm": "fedavg", "model": ["gcn", "sage"]})
    told = _described(rows, "run", ["model"], {f"run/{key}": {"measure": {"models": ["local"]}} for key in "ab"})
    assert told["model"].tolist() == ["gcn", "sage"]
    assert told["scored_model"].tolist() == ["local", "local"]
    assert told["scored_split"].tolist() == ["test", "test"]
