"""Two runs side by side, and what counts as the same."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from scenario_texts import TRAFFIC

from analysis.__main__ import main as analyse
from analysis.compare import MOST, SHOWN, Comparison, Pair, lines
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
    assert "4 runs in both" in out
    assert "4 alike, bit for bit" in out.splitlines()
    assert "->" not in out.splitlines()[-1]


def test_runs_that_differ_are_paired_by_their_axes_and_told_apart(runs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(runs)
    assert analyse(["--compare", "one", "far"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert max(map(len, out)) <= 80
    for folder, seed in (("one", 1), ("far", 2)):
        start = out.index(f"only in {folder}: 2 runs")
        alone = out[start + 1 : start + 3]
        assert [line.split(" (")[1] for line in alone] == [f"clients 2, seed {seed})", f"clients 3, seed {seed})"]
    assert "  network.latency: 30 ms -> 90 ms" in out
    assert out.count("  network.latency: 30 ms -> 90 ms") == 1
    assert "0 alike, bit for bit; 2 differ:" in out
    where = out.index("  clients 2")  # the seed is the same in both pairs
    assert out[where + 1] == "    tables: transfers, updates, spans"
    assert re.fullmatch(r"    simulated seconds: \S+ -> \S+ \(\+\S+\)", out[where + 2])


def test_a_single_value_makes_the_difference(runs, capsys, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(runs / "one", other)
    path = sorted(other.glob("points/*/spans.parquet"))[0]
    spans = pd.read_parquet(path)
    spans.loc[0, "end"] += 1e-9
    spans.to_parquet(path)
    assert analyse(["--compare", str(runs / "one"), str(other)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert "3 alike, bit for bit; 1 differ:" in out
    assert [line for line in out if "spans" in line] == ["    tables: spans"]


def test_of_many_that_differ_the_first_are_listed_and_all_on_request():
    pairs = [Pair({"n": str(n)}, ("scores",), {}, dict.fromkeys(SHOWN, (0.5, 0.5 + n / 100))) for n in range(MOST + 5)]
    found = Comparison(pairs, ([], []))
    few, whole = ([*lines(found, Path("a"), Path("b"), 80, every)] for every in (False, True))
    assert few[-1] == "  ... and 5 more (--all lists them)"
    assert sum(line.startswith("  n ") for line in few) == MOST
    assert sum(line.startswith("  n ") for line in whole) == MOST + 5
    assert "  score: +0.12 on average, from +0 to +0.24" in whole


@pytest.mark.parametrize("words", [[], ["one", "--compare", "one", "far"], ["--compare", "one", "nowhere"]])
def test_what_cannot_be_compared_is_2(runs, words, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    try:
        code = analyse(words)
    except SystemExit as left:
        code = left.code
    assert code == 2
    assert "Traceback" not in capsys.readouterr().err
