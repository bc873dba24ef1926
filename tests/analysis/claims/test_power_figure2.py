"""POWER's Figure 2 from Cora: the nodes of each class in its tasks, and the algorithm that scores a client's model."""

import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from analysis.claims import file
from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build
from fedsim.point.run import run as run_point
from fedsim.scenario.text import yaml_file

ROOT = Path(__file__).parents[3]
ONE = ["grid.protocol.name=[sync]", "grid.algorithm=[fedavg]", "grid.data.split.numpy_seed=[2025]", "grid.seed=[0]"]


@pytest.mark.data
def test_tasks_hold_the_nodes_that_the_page_says(data_root):
    scenario, _ = yaml_file.load(ROOT / "scenarios/power_fig2.yaml", ONE)
    (point,) = scenario.points()
    periods = build(point.scenario, data_root, Recorder()).setup.data.periods
    (table,) = (one for one in file.read() if one.table == "power_fig2_tasks")
    for row, own in zip(table.rows, periods, strict=True):
        for cell, period in zip(row.cells[1:], own, strict=True):
            graph = period.graph
            known = (graph["train"] + graph["val"] + graph["test"]) > 0
            counts = Counter(graph["y"][known].tolist())
            assert dict(counts) == {int(label): int(count) for label, count in re.findall(r"(\d): (\d+)", cell)}


@pytest.mark.data
def test_the_algorithm_on_the_page_scores_the_model_that_a_client_sent_on_all_data(data_root, tmp_path, monkeypatch):
    page = (ROOT / "docs/reproduction/power.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(from dataclasses.*?)```", page, re.DOTALL)
    (tmp_path / "figure2").mkdir()
    (tmp_path / "figure2/models_of.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    own, seen = scores(tmp_path / "fedavg", data_root, "fedavg"), {}
    for whose in range(3):
        found = scores(tmp_path / str(whose), data_root, f"{{name: figure2.models_of, whose: {whose}}}")
        assert found[["client", "global"]].equals(own[["client", "global"]])
        mine = found["client"] == whose
        assert found["local"][mine].to_numpy() == pytest.approx(own["local"][mine].to_numpy())
        assert not found["local"][~mine].equals(own["local"][~mine])
        seen[whose] = found["local"]
    third = own["client"].eq(0) & own["period"].eq(2) & own["version"].eq(30)
    assert seen[0][third].item() > max(seen[1][third].item(), seen[2][third].item())


def scores(folder, data_root, algorithm):
    """Return accuracy on test nodes, a row for each client, period and version, of one order and seed."""
    changes = [ONE[0], f"grid.algorithm=[{algorithm}]", *ONE[2:]]
    scenario, _ = yaml_file.load(ROOT / "scenarios/power_fig2.yaml", changes)
    (point,) = scenario.points()
    folder.mkdir()
    run_point(point, folder, data_root, lambda progress: None)
    table = pd.read_parquet(folder / "scores.parquet").query("split == 'test'")
    return table.pivot_table(index=["client", "period", "version"], columns="model", values="value").reset_index()
