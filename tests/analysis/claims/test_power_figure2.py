"""The nodes of each class in the tasks of POWER's Figure 2a, counted again from Cora."""

import re
from collections import Counter
from pathlib import Path

import pytest

from analysis.claims import file
from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build
from fedsim.scenario.text import yaml_file

ROOT = Path(__file__).parents[3]
ONE = ["grid.protocol.name=[sync]", "grid.algorithm=[fedavg]", "grid.data.split.numpy_seed=[2025]", "grid.seed=[0]"]


@pytest.mark.data
def test_tasks_hold_the_nodes_that_the_page_says(data_root):
    scenario, _ = yaml_file.load(ROOT / "scenarios/power_fig2.yaml", ONE)
    (point,) = scenario.points()
    periods = build(point.scenario, data_root, Recorder()).setup.periods
    (table,) = (one for one in file.read() if one.table == "power_fig2_tasks")
    for row, own in zip(table.rows, periods, strict=True):
        for cell, period in zip(row.cells[1:], own, strict=True):
            graph = period.graph
            known = (graph["train"] + graph["val"] + graph["test"]) > 0
            counts = Counter(graph["y"][known].tolist())
            assert dict(counts) == {int(label): int(count) for label, count in re.findall(r"(\d): (\d+)", cell)}
