"""Two runs side by side, and what counts as the same."""

import shutil

import pandas as pd
import pytest
from scenario_texts import TRAFFIC

from analysis.__main__ import main as analyse
from fedsim.__main__ import main


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run, the same again, one over longer links with a seed less, all in one folder."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "pair.yaml").write_text(TRAFFIC)
    words = [str(folder / "pair.yaml"), "--jobs", "1", "--no-report", "--set", "grid.protocol.clients=[2, 3]", "--out"]
    assert main([*words, str(folder / "one")]) == main([*words, str(folder / "again")]) == 0
    assert main([*words, str(folder / "far"), "--set", "network.latency=90 ms", "--set", "grid.seed=[0, 2]"]) == 0
    return folder


def test_equal_runs_are_identical(runs, capsys):
    assert analyse(["--compare", str(runs / "one"), str(runs / "again")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("4 pairs of points, 4 of them identical bit for bit\n")
    assert out.count("none: identical") == 4
    assert "->" not in out


def test_runs_that_differ_are_paired_by_their_axes_and_told_apart(runs, capsys):
    assert analyse(["--compare", str(runs / "one"), str(runs / "far")]) == 1
    out = capsys.readouterr().out.splitlines()
    for folder, seed in (("one", 1), ("far", 2)):
        alone = [line for line in out if line.startswith(f"only in {runs / folder}: ")]
        assert [line.split(" (")[1] for line in alone] == [f"clients 2, seed {seed})", f"clients 3, seed {seed})"]
    assert [line for line in out if " -> " in line and "clients" not in line] == ["network.latency: 30 ms -> 90 ms"]
    assert "2 pairs of points, 0 of them identical bit for bit" in out
    rows = [line for line in out if "clients 2, seed 0" in line]
    assert len(rows) == 1
    assert "transfers, updates, spans" in rows[0]
    assert "(+" in rows[0]


def test_a_single_value_makes_the_difference(runs, capsys, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(runs / "one", other)
    path = sorted(other.glob("*/spans.parquet"))[0]
    spans = pd.read_parquet(path)
    spans.loc[0, "end"] += 1e-9
    spans.to_parquet(path)
    assert analyse(["--compare", str(runs / "one"), str(other)]) == 1
    out = capsys.readouterr().out
    assert "4 pairs of points, 3 of them identical bit for bit" in out
    assert len([line for line in out.splitlines() if " spans " in line]) == 1


@pytest.mark.parametrize("words", [[], ["one", "--compare", "one", "far"], ["--compare", "one", "nowhere"]])
def test_what_cannot_be_compared_is_2(runs, words, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    try:
        code = analyse(words)
    except SystemExit as left:
        code = left.code
    assert code == 2
    assert "Traceback" not in capsys.readouterr().err
