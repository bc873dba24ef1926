"""Whole runs of rows without edges: every partition and stream that fits, one sentence for those that do not."""

import math

import numpy as np
import own_data  # noqa: F401
import pytest
import small_points

from fedsim import __main__ as command_line
from fedsim.core.errors import ScenarioError, UserError
from fedsim.point.checks import check
from fedsim.point.results import stamp

SPLIT = {"train": 0.5, "val": 0.2, "test": 0.3}
CLASSES = {
    "data": {"dataset": "own_data.rows", "partition": "random", "split": SPLIT},
    "model": {"name": "mlp", "hidden": 6}, "task": "classification",
    "measure": {"metrics": ["accuracy", "macro_f1"], "splits": ["test"]}, "clients__count": 3,
}  # fmt: skip
REAL = {
    **CLASSES, "data": {"dataset": {"name": "own_data.real", "targets": "real"}, "partition": "random", "split": SPLIT},
    "task": "regression", "measure": {"metrics": ["r2", "mse", "mae"], "splits": ["test", "train"]},
}  # fmt: skip


def changed(base, **data):
    return {**base, "data": {**base["data"], **data}}


def values(folder, metric, **changes):
    tables = small_points.run_tables(folder, **changes)
    return [row["value"] for row in tables["scores"] if row["metric"] == metric and not math.isnan(row["value"])]


def owners(folder):
    lines = ["node,client", *(f"{row},{row % 3}" for row in range(60))]
    (folder / "owner.csv").write_text("\n".join(lines), "utf-8")
    return {"name": "table", "file": str(folder / "owner.csv")}


BY_CLASS = [{"name": "dirichlet", "least": 5}, {"name": "label_skew", "majors": 1}, "dirichlet_ghost"]
BY_EDGES = ["louvain", "metis", "openfgl_louvain", "buckets", "colearn"]


@pytest.mark.parametrize("partition", ["random", *BY_CLASS], ids=str)
def test_partitions_without_edges_divide_rows(tmp_path, partition):
    wide = {"name": "dirichlet_ghost", "alpha": 5.0} if partition == "dirichlet_ghost" else partition
    assert values(tmp_path / "run", "accuracy", **changed(CLASSES, partition=wide))


def test_a_table_divides_rows(tmp_path):
    for number, base in enumerate((CLASSES, REAL)):
        metric = base["measure"]["metrics"][0]
        assert values(tmp_path / f"run{number}", metric, **changed(base, partition=owners(tmp_path)))


@pytest.mark.parametrize("partition", BY_EDGES)
def test_partitions_by_edges_say_that_there_are_none(tmp_path, partition):
    for number, base in enumerate((CLASSES, REAL)):
        with pytest.raises(
            ScenarioError, match=rf"data\.partition: '{partition}' goes by edges, and these data have none"
        ):
            small_points.run_in(tmp_path / f"run{number}", **changed(base, partition=partition))


@pytest.mark.parametrize("partition", BY_CLASS, ids=str)
def test_partitions_by_class_refuse_real_targets(tmp_path, partition):
    with pytest.raises(ScenarioError, match=r"data\.partition: goes by classes, and these data have real targets"):
        small_points.run_in(tmp_path / "run", **changed(REAL, partition=partition))


ARRIVING = {"name": "snapshots", "steps": 5, "every": "1 updates", "scored": "split"}


@pytest.mark.parametrize("scored", ["ahead", "split"])
@pytest.mark.parametrize("base", [CLASSES, REAL], ids=["classes", "real"])
def test_rows_arrive_by_time(tmp_path, base, scored):
    dataset = {"name": "arriving", "of": base["data"]["dataset"], "snapshots": 5}
    stream = {**ARRIVING, "scored": scored}
    metric = base["measure"]["metrics"][0]
    assert values(tmp_path / "run", metric, **changed(base, dataset=dataset, stream=stream))


def test_classes_arrive_a_few_at_a_time_and_real_targets_do_not(tmp_path):
    stream = {"name": "class_incremental", "classes": 2, "every": "2 updates"}
    assert values(tmp_path / "run", "accuracy", **changed(CLASSES, stream=stream))
    with pytest.raises(ScenarioError, match=r"data\.stream: brings classes a few at a time.*real targets"):
        small_points.run_in(tmp_path / "real", **changed(REAL, stream=stream))
    with pytest.raises(ScenarioError, match=r"data.stream: 'snapshots' needs a data set that changes"):
        small_points.run_in(tmp_path / "still", **changed(CLASSES, stream=ARRIVING))


def test_node_classification_and_classification_are_the_same(tmp_path):
    found = [
        values(tmp_path / task, "accuracy", **{**CLASSES, "task": task})
        for task in ("classification", "node_classification")
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "fed_opt", "fed_dyn", "fed_nova", "scaffold", "local"])
def test_methods_that_take_any_model_take_real_targets(tmp_path, algorithm):
    alone = {"protocol": {"name": "isolated", "rounds": 3, "participation": 1.0}} if algorithm == "local" else {}
    assert values(tmp_path / "run", "mse", **{**REAL, **alone, "algorithm": algorithm})


def test_methods_that_do_more_refuse_real_targets():
    (problem,) = check.points([small_points.point(**{**REAL, "algorithm": "fed_pub"})])
    assert problem.key == "algorithm"
    assert "'fed_pub' needs classes, and 'regression' has none: take fedavg, " in problem.message


def test_nodes_of_a_graph_have_real_targets_too(tmp_path):
    rng = np.random.default_rng(0)
    x, edges = rng.standard_normal((60, 3)), rng.integers(60, size=(2, 200))
    np.savez(tmp_path / "graph.npz", x=x, edge_index=edges, y=x @ np.ones((3, 2)))
    dataset = {"name": "file", "file": str(tmp_path / "graph.npz"), "targets": "real"}
    learning = {
        "model": {"name": "sage", "hidden": 8},
        "training": {"optimiser": "adam", "lr": 0.05, "local_steps": 20},
    }
    assert max(values(tmp_path / "run", "r2", **{**changed(REAL, dataset=dataset), **learning})) > 0.5
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n", "utf-8")
    tables = {"name": "file", "file": str(tmp_path / "edges.csv"), "nodes": str(tmp_path / "edges.csv")}
    with pytest.raises(ScenarioError, match=r"targets: real ones are read from arrays"):
        small_points.run_in(tmp_path / "csv", **changed(REAL, dataset={**tables, "targets": "real"}))


def test_regression_learns_a_line(tmp_path):
    steps = {"training": {"optimiser": "adam", "lr": 0.05, "local_steps": 10}, "protocol__rounds": 25}
    model = {"model": "torch.nn.Linear", "protocol": {"name": "sync", "rounds": 25, "participation": 1.0}}
    del steps["protocol__rounds"]
    tables = small_points.run_tables(tmp_path / "run", **{**REAL, **steps, **model})
    last = {(row["split"], row["metric"], row["client"]): row["value"] for row in tables["scores"]}
    pooled = [value for (split, metric, client), value in last.items() if (split, metric) == ("test", "r2")]
    assert max(pooled) > 0.99
    assert max(value for (split, metric, _), value in last.items() if metric == "mse") < 0.01


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({**REAL, "task": "classification", "measure": CLASSES["measure"]},
         "data.dataset: 'own_data.real' has real targets, and 'classification' learns classes; write task: regression"),
        ({**CLASSES, "task": "regression", "measure": REAL["measure"]},
         "data.dataset: 'own_data.rows' has classes, and 'regression' learns real targets; write targets: real"),
        ({**REAL, "measure": {"metrics": ["mse", "r2"], "splits": ["test"]}},
         "measure.metrics: 'mse' is an error, and summaries, .*: put r2 before it"),
        (
            changed(CLASSES, dataset={"name": "own_data.rows", "shape": [1, 4, 4]}),
            r"model: 'mlp' takes rows of numbers, and these have the shape \(1, 4, 4\); take a torch module",
        ),
        ({**REAL, "algorithm": "fedgta"}, "'fedgta' propagates predicted classes"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_task_is_told(tmp_path, changes, told):
    with pytest.raises(UserError, match=told):
        small_points.run_in(tmp_path / "run", **changes)


def test_a_changed_file_is_another_run_and_a_changed_function_is_noticed(tmp_path):
    ids = []
    for rows in (4, 5):
        np.savez(tmp_path / "rows.npz", x=np.eye(rows), y=np.arange(rows))
        dataset = {"name": "examples", "file": str(tmp_path / "rows.npz")}
        ids.append(small_points.point(**changed(CLASSES, dataset=dataset)).id)
    assert ids[0] != ids[1]
    assert "own_data" in stamp.of(small_points.point(**CLASSES).scenario).modules


SCENARIO = """\
name: rows
data: {{dataset: {dataset}, split: {{train: 0.5, val: 0.2, test: 0.3}}, partition: random}}
model: {{name: mlp, hidden: 4}}
task: {task}
training: {{optimiser: sgd, lr: 0.1, local_steps: 1}}
clients: {{count: 2, speed: 2 GFLOP/s}}
network: {{latency: 50 ms, uplink: 1 Mbit/s, downlink: 10 Mbit/s}}
protocol: {{name: sync, rounds: 1, participation: 1.0}}
algorithm: fedavg
measure: {{metrics: [{metric}]}}
"""
COMMANDS = [
    ("{name: examples, file: gone.npz}", "classification", "there is no such file"),
    ("{name: examples, file: lacks.npz}", "classification", "lacks the array 'y'"),
    ("{name: examples, file: nan.npz}", "classification", "'x' is nan at row 0"),
    ("{name: examples, file: mixed.csv}", "classification", "line 3: column 'a': 'old' is not a number"),
    ("{name: examples, file: real.npz}", "classification", "has real targets, and 'classification' learns classes"),
    ("own_data.raising", "classification", "raising raises KeyError"),
]


@pytest.mark.parametrize(("dataset", "task", "told"), COMMANDS)
def test_the_command_ends_with_2_and_a_line(tmp_path, monkeypatch, capfd, dataset, task, told):
    np.savez(tmp_path / "lacks.npz", x=np.eye(3))
    np.savez(tmp_path / "nan.npz", x=np.full((3, 1), np.nan), y=np.arange(3))
    np.savez(tmp_path / "real.npz", x=np.eye(3), y=np.array([0.5, 1, 2]))
    (tmp_path / "mixed.csv").write_text("a,y\n1,0\nold,1\n", "utf-8")
    (tmp_path / "rows.yaml").write_text(SCENARIO.format(dataset=dataset, task=task, metric="accuracy"), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["rows.yaml", "--jobs", "1"]) == 2
    said = " ".join(capfd.readouterr().err.split())
    assert told in said
    assert "Traceback" not in said
