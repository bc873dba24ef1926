"""Two runs side by side: errors of rounds, messages, bytes and scores."""

import shutil

import numpy as np
import pandas as pd
import pytest
from scenario_texts import TRAFFIC

from analysis.__main__ import main as analyse
from analysis.run_comparison import compared, pairs
from fedsim.__main__ import main


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of two points, one over longer links, and two runs of one point each whose scenarios differ."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "pair.yaml").write_text(TRAFFIC)
    words = [str(folder / "pair.yaml"), "--jobs", "1", "--no-report", "--out"]
    assert main([*words, str(folder / "one")]) == 0
    assert main([*words, str(folder / "far"), "--set", "network.latency=90 ms"]) == 0
    assert main([*words, str(folder / "alone"), "--set", "grid.seed=[4]"]) == 0
    assert main([*words, str(folder / "other"), "--set", "grid.seed=[5]", "--set", "network.latency=90 ms"]) == 0
    return folder


def test_equal_runs_have_no_errors(runs, capsys):
    assert analyse(["--compare", str(runs / "one"), str(runs / "one"), "--errors"]) == 0
    out = capsys.readouterr().out
    assert "2 runs in both" in out
    assert {word for line in out.splitlines() for word in line.split() if word.startswith("+")} == {"+0.00"}


def test_points_are_paired_by_axes_and_lone_ones_in_any_case(runs):
    by_axes = pairs(runs / "one", runs / "far")
    assert [label.endswith(f"seed {seed}") for seed, (label, _, _) in enumerate(by_axes)] == [True, True]
    ((_, first, second),) = pairs(runs / "alone", runs / "other")
    assert (first.parents[1].name, second.parents[1].name) == ("alone", "other")
    assert pairs(first, second) == [(f"{first.name}, {second.name}", first, second)]


def test_errors_are_those_of_the_tables(runs, tmp_path):
    ((_, first, _),) = pairs(runs / "alone", runs / "alone")
    other = tmp_path / first.name
    shutil.copytree(first, other)
    change(other, "updates", lambda rows: rows.assign(time=1.2 * rows["time"]))
    change(
        other, "transfers", lambda rows: rows.assign(wire_bytes=rows["wire_bytes"] * np.where(rows["dst"] == -1, 3, 1))
    )
    change(other, "transfers", lambda rows: rows.assign(arrived=rows["arrived"] + (rows["arrived"] - rows["sent"])))
    found = {line.name: line for line in compared(first, other)}
    assert found["seconds a round"].error == pytest.approx(0.2)
    assert found["seconds a round"].each == pytest.approx(np.full(3, 0.2))
    assert found["wire bytes up"].error == pytest.approx(2.0)
    assert found["wire bytes down"].error == 0.0
    assert found["seconds of a message down"].error == pytest.approx(1.0)


def test_scores_are_compared_after_the_same_updates(runs, tmp_path):
    ((_, first, _),) = pairs(runs / "alone", runs / "alone")
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder, values in zip(folders, ([0.1, 0.3, 0.5], [0.1, 0.4]), strict=True):
        shutil.copytree(first, folder)
        change(folder, "scores", lambda rows, values=values: scores(values))
    (line,) = [line for line in compared(*folders) if line.score]
    assert (line.name, line.first, line.second) == ("accuracy/global/test", 0.5, 0.4)
    assert line.error == pytest.approx(-0.1)
    assert line.each == pytest.approx([0.0, 0.1])


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["one", "--errors"], "--errors goes with --compare"),
        (["one", "--all"], "--all goes with --compare"),
        (["--compare", "one", "two", "--out", "both"], "--compare writes nothing: leave out --out"),
        (["--compare", "one", "two", "--trace"], "--compare writes nothing: leave out --trace"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(capsys, flags, told):
    with pytest.raises(SystemExit) as ended:
        analyse(flags)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_what_is_refused(runs, capsys):
    assert analyse(["--compare", str(runs / "one"), str(runs / "none"), "--errors"]) == 2
    assert "there is no such folder" in capsys.readouterr().err


def change(folder, name, how):
    path = folder / f"{name}.parquet"
    how(pd.read_parquet(path)).to_parquet(path)


def scores(values):
    rows = [
        {
            "time": float(number), "version": number, "client": 0, "period": 0, "seen": 1, "model": "global",
            "split": "test", "metric": "accuracy", "value": value, "weight": 1,
        }
        for number, value in enumerate(values)
    ]  # fmt: skip
    return pd.DataFrame(rows)
