"""`--json`: one document on the standard output, whose numbers are those of the tables."""

import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from small_points import PLAIN

from fedsim.scenario.parts import find


@pytest.fixture
def small(tmp_path):
    grid = {"algorithm": ["fedavg", "fedprox"], "seed": [0, 1]}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump({**PLAIN, "grid": grid}))
    return "small.yaml"


def test_the_runs_are_the_rows_of_the_summary(call, small):
    code, out, told = call(small, "--json", "--jobs", "1", "--no-report")
    found = json.loads(out)
    assert (code, found["folder"], found["report"]) == (0, "runs/small", None)
    assert "4/4 runs done" in told
    table = pd.read_csv("runs/small/summary.csv").set_index("run")
    assert [row["run"] for row in found["runs"]] == [*table.index]
    for row in found["runs"]:
        assert row["score"] == pytest.approx(table.loc[row["run"], "score"])
        assert row["target"] is None
    assert json.loads(call(small, "--json", "--no-report")[1])["runs"] == found["runs"]


def test_a_dry_run_gives_every_run_in_full(call, small):
    code, out, _ = call(small, "--dry-run", "--json")
    runs = json.loads(out)["runs"]
    assert code == 0
    assert [run["axes"]["seed"] for run in runs] == [0, 1, 0, 1]
    assert runs[0]["scenario"]["protocol"]["name"] == "sync"
    assert len({run["id"] for run in runs}) == 4
    assert not Path("runs").exists()


def test_parts_are_listed_with_the_options_of_those_named(call):
    _, out, _ = call("--list", "protocol", "--json")
    assert [part["name"] for part in json.loads(out)] == find.names("protocol")
    assert all(part["options"] is None for part in json.loads(out))
    _, out, _ = call("--list", "algorithm", "power", "--json")
    (power,) = json.loads(out)
    assert power["source"] == "Zhu, Hu and Wu, KDD 2025"
    assert {"beta", "phi"} <= {option["name"] for option in power["options"]}


def test_estimates_are_the_runs(call, small):
    code, out, _ = call(small, "--explain", "--json")
    found = json.loads(out)
    assert (code, found["of"], len(found["conditions"])) == (0, 2, 2)
    rows = json.loads(call(small, "--json", "--jobs", "1", "--no-report")[1])["runs"]
    for condition, row in zip(found["conditions"], rows[::2], strict=True):
        assert condition["axes"]["algorithm"] == row["algorithm"]
        assert condition["note"] == ""
        assert condition["updates"] == len(condition["asked"]) == row["updates"]
        assert condition["first"] < condition["run"]["seconds"] == row["sim_seconds"]
        assert (condition["run"]["up"], condition["run"]["down"]) == (row["bytes_up"], row["bytes_down"])


def test_a_mistake_is_words_on_the_standard_error(call, small):
    for words in (["none.yaml", "--json", "--explain"], ["none.yaml", "--json"], ["--list", "nothing", "--json"]):
        code, out, told = call(*words)
        assert (code, out) == (2, "")
        assert told.startswith("fedsim: ")


@pytest.mark.parametrize("words", [["--try", "fedavg"], ["--init", "study"], ["small.yaml", "--tune", "2"]])
def test_what_has_no_document_refuses_it(call, small, words):
    code, out, said = call(*words, "--json")
    assert (code, out) == (2, "")
    assert "--json is for --list, --dry-run, --explain, --status and runs: leave it out" in " ".join(said.split())
    assert not Path("study").exists()
