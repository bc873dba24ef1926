"""The scenario of incremental training, made small: it runs, and what it is to show shows."""

from pathlib import Path

import pytest
import small_points

from fedsim.point.run import run
from fedsim.scenario.text import yaml_file

pytestmark = pytest.mark.long

SCENARIO = Path(__file__).parents[2] / "scenarios" / "incremental.yaml"
SMALL = (
    "data.dataset.nodes=2110", "data.dataset.edges=10550", "data.dataset.communities=40", "clients.count=4",
    "data.dataset.active=0.05", "training.local_steps=1",
)  # fmt: skip


def test_its_graph_has_a_million_edges_and_grows_by_a_hundredth() -> None:
    scenario, _ = yaml_file.load(SCENARIO)
    assert scenario.data is not None
    made = scenario.data.dataset.options
    first = made["edges"] * (1 - made["growth"])
    assert first >= 1_000_000
    assert abs(made["edges"] - first * (1 + 0.01 * (made["snapshots"] - 1))) < 0.001 * first


def test_a_small_one_trains_and_exchanges_less_where_it_is_incremental(tmp_path: Path) -> None:
    scenario, _ = yaml_file.load(SCENARIO, SMALL)
    trained, sent = {}, {}
    for point in scenario.points():
        name = point.axes["algorithm.retrain"], point.axes["algorithm.exchange"]
        folder = tmp_path / "-".join(name)
        folder.mkdir()
        assert run(point, folder, tmp_path, lambda _: None)["status"] == "done"
        begin = [row["time"] for row in small_points.table(folder, "partitions")]
        spans = [span for span in small_points.table(folder, "spans") if span["what"] == "train"]
        trained[name] = sum(span["end"] - span["start"] for span in spans if span["start"] >= begin[1])
        moved = [row for row in small_points.table(folder, "transfers") if row["kind"] in ("embed", "correct")]
        sent[name] = sum(row["nbytes"] for row in moved if row["sent"] >= begin[1])
    assert len(trained) == 4
    assert 4 * trained["incremental", "exact"] < trained["full", "full_graph"]
    assert sent["incremental", "exact"] < sent["incremental", "full_graph"]
    assert sent["incremental", "full_graph"] == sent["full", "full_graph"]
