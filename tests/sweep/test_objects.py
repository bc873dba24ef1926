"""Parts as objects and classes, graphs as objects, NumPy's values: what they become, and that runs are the same."""

import importlib
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from notebook_cells import Cells

from algorithms.fedavg import FedAvg
from algorithms.fedprox import FedProx
from fedsim import __main__ as command_line
from fedsim import simulate
from fedsim.clock.protocols.sync import Sync
from fedsim.clock.samplers.uniform import Uniform
from fedsim.core.errors import UserError
from fedsim.net.effects.churn import Churn
from fedsim.scenario.text import yaml_file
from fedsim.sweep import cells, objects

SCENARIO = {
    "name": "own",
    "data": {"dataset": "digits", "partition": "random", "split": {"train": 0.4, "val": 0.2, "test": 0.4}},
    "model": {"name": "gcn", "hidden": 4},
    "training": {"optimiser": "adam", "lr": 0.02},
    "clients": {"count": 2, "speed": "1 GFLOP/s"},
    "network": {"uplink": "8 Mbit/s", "downlink": "8 Mbit/s", "latency": "10 ms"},
    "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
    "algorithm": "fedavg",
}
DAMPED = '''
from dataclasses import dataclass

from algorithms.fedavg import FedAvg
from fedsim.learn.engine import tree
from fedsim.core.units import Fraction as Share

SIGN = 1.0
turns = [1, (2, "b")]


def damp(step, by):
    return tree.scale(step, by * SIGN)


class Base(FedAvg):
    """In between."""


@dataclass(frozen=True)
class Damped(Base):
    """A part of the step."""

    mu: Share = 1.0

    def update(self, state, replies, step):
        """Take a part of it."""
        new = super().update(state, replies, step)
        moved = damp(tree.sub(new["model"], state["model"]), self.mu)
        return {**new, "model": tree.add(state["model"], moved)}
'''


def graph(nodes=40):
    rng = np.random.default_rng(0)
    y = np.arange(nodes) % 3
    x = rng.standard_normal((nodes, 5)) + np.eye(3, 5)[y]
    return {"x": torch.tensor(x), "edge_index": torch.tensor(rng.integers(0, nodes, (2, 120))), "y": torch.tensor(y)}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def notebook():
    with Cells() as made:
        yield made


def plain(value):
    return objects.plain(value, {}, "here")


def test_values_of_numpy_and_pandas_are_plain_data():
    given = {
        "a": np.int64(3), "b": np.array([[0.5, 1.0]]), "c": pd.Series([1, 2]), "d": Path("x") / "y",
        "e": range(3), "f": (True, None, "t"), "g": [np.float32(0.5)], "h": torch.tensor([1, 2]),
    }  # fmt: skip
    assert plain(given) == {
        "a": 3, "b": [[0.5, 1.0]], "c": [1, 2], "d": str(Path("x/y")),
        "e": [0, 1, 2], "f": [True, None, "t"], "g": [0.5], "h": [1, 2],
    }  # fmt: skip


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_plain_data_stay_as_they_are(value):
    assert plain(value) == value


def test_parts_are_named_and_only_options_that_differ_are_written():
    assert plain(FedAvg()) == plain(FedAvg) == "fedavg"
    assert plain(FedProx(mu=0.25)) == {"name": "fedprox", "mu": 0.25}
    assert plain([Sync(rounds=3, participation=np.float64(0.5))]) == [
        {"name": "sync", "rounds": 3, "participation": 0.5}
    ]
    assert plain(Uniform) == "uniform"


def test_quantities_are_written_with_their_units():
    assert plain(Churn(online=90.0, offline=30)) == {"name": "churn", "online": "90 s", "offline": "30 s"}
    assert objects.kind_of(Churn) == "effect"


def test_a_class_of_a_module_with_a_dot_is_named_by_it(here, monkeypatch):
    (here / "lab_of_objects").mkdir()
    (here / "lab_of_objects" / "damped.py").write_text(DAMPED.replace("Base", "_Base"))
    monkeypatch.syspath_prepend(str(here))
    made = importlib.import_module("lab_of_objects.damped").Damped
    assert plain(made(mu=0.5)) == {"name": "lab_of_objects.damped", "mu": 0.5}


def test_a_class_of_a_cell_is_saved_with_all_that_it_uses(notebook):
    files = {}
    part = objects.plain(notebook.run(DAMPED)["Damped"](mu=0.5), files, "here")
    (name,) = files
    assert part == {"name": name.removesuffix(".py").replace("/", "."), "mu": 0.5}
    text = files[name].decode()
    assert "from fedsim.core.units import Fraction as Share\n" in text
    assert "SIGN = 1.0\n" in text
    assert "turns" not in text
    alone = {"__name__": "alone"}
    exec(text, alone)
    assert issubclass(alone["Damped"], FedAvg)


def test_cells_may_be_run_again_and_the_last_definition_counts(notebook):
    notebook.run(DAMPED)
    first = cells.source_of(notebook.names["Damped"])
    notebook.run("SIGN = 0.5")
    assert cells.source_of(notebook.names["Damped"]) == first.replace("SIGN = 1.0", "SIGN = 0.5")
    notebook.run(DAMPED.replace("self.mu)", "self.mu / 3)"))
    assert "self.mu / 3)" in cells.source_of(notebook.names["Damped"])


def test_a_class_without_functions_is_found_among_the_cells(notebook):
    notebook.run("from dataclasses import dataclass\nfrom algorithms.fedavg import FedAvg\n")
    notebook.run("@dataclass(frozen=True)\nclass Plain(FedAvg):\n    extra: int = 3\n")
    assert "@dataclass(frozen=True)\nclass Plain(FedAvg):\n    extra: int = 3\n" in cells.source_of(
        notebook.names["Plain"]
    )


def test_quoted_annotations_and_names_of_modules_are_followed(notebook):
    notebook.run("import numpy as np\nfrom algorithms.fedavg import FedAvg\nfrom fedsim.core.wire import Tree\n")
    notebook.run(
        "class Mine(FedAvg):\n    def work(self, job) -> 'Tree':\n        np = job\n        return super().work(np)\n"
        "    def start(self):\n        return {**super().start(), 'n': np.zeros(3)}\n"
    )
    text = cells.source_of(notebook.names["Mine"])
    assert "import numpy as np\n" in text
    assert "from fedsim.core.wire import Tree\n" in text


def test_constants_of_every_kind_are_written_down(notebook):
    values = {
        "a": None, "b": True, "c": -2, "d": 0.1, "e": "t\n'", "f": b"\x00", "g": (1, [2.5, {"k": None}]), "h": {3},
    }  # fmt: skip
    for name, value in values.items():
        notebook.run(f"{name} = {value!r}\n")
    notebook.run("from algorithms.fedavg import FedAvg\n")
    used = ", ".join(f"'{name}': {name}" for name in values)
    notebook.run(f"class Mine(FedAvg):\n    def told(self):\n        return {{{used}}}\n")
    alone = {"__name__": "alone"}
    exec(cells.source_of(notebook.names["Mine"]), alone)
    assert alone["Mine"].told(None) == values


REFUSED = {
    "array": (
        "from algorithms.fedavg import FedAvg\nimport numpy as np\nweights = np.ones(3)\n"
        "class Mine(FedAvg):\n    def start(self):\n        return weights\n",
        "it uses 'weights', a ndarray, which is no constant.*put the class into its own module",
    ),
    "closure": (
        "from algorithms.fedavg import FedAvg\ndef made(k):\n    class Mine(FedAvg):\n        def start(self):\n"
        "            return k\n    return Mine\nMine = made(3)\n",
        "it uses the local variable .k.",
    ),
    "hidden": ("from algorithms.fedavg import FedAvg\nclass _M(FedAvg):\n    pass\nMine = _M\n", "begins with '_'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_carried_over_is_reported_before_anything_is_written(here, notebook, case):
    text, told = REFUSED[case]
    mine = notebook.run(text)["Mine"]
    with pytest.raises(UserError, match=told):
        simulate(SCENARIO, progress=False, algorithm=mine, jobs=2)
    assert not [*here.iterdir()]


def test_a_class_without_source_is_reported(here):
    names = {"__name__": "nowhere_at_all"}
    exec("from algorithms.fedavg import FedAvg\nclass Mine(FedAvg):\n    def start(self):\n        return 1\n", names)
    with pytest.raises(UserError, match="the source of Mine is not available, so other processes could not run it"):
        simulate(SCENARIO, progress=False, algorithm=names["Mine"]())
    assert not [*here.iterdir()]


def test_options_that_no_scenario_can_hold_are_reported(notebook):
    mine = notebook.run(DAMPED)["Damped"](mu=object())
    with pytest.raises(
        UserError,
        match=r"here: the option 'mu' of Damped holds <object object at .*>, which no scenario can; give numbers",
    ):
        plain(mine)


@pytest.mark.parametrize("value", [Decimal(3), object, (seed for seed in range(2)), {1, 2}])
def test_a_mapping_with_what_no_scenario_can_hold_is_reported(here, value):
    with pytest.raises(UserError, match=r"^scenario holds .*, which no scenario can; give numbers, texts or lists"):
        simulate({**SCENARIO, "seed": value}, progress=False)
    assert not [*here.iterdir()]


def test_a_name_of_a_kind_that_is_no_key_says_which_key_it_is(here):
    with pytest.raises(UserError, match=r"partition='louvain': write data__partition="):
        simulate(SCENARIO, progress=False, partition="louvain")


@pytest.mark.long
def test_objects_run_as_their_names_do_and_can_be_run_again_from_the_folder(here, notebook):
    damped = notebook.run(DAMPED)["Damped"]
    result = simulate(
        SCENARIO, progress=False, graph=graph(), grid__algorithm=[FedAvg(), damped(mu=0.5), damped], grid__seed=range(2)
    )
    assert result.runs["status"].tolist() == ["done"] * 6
    assert len([*Path("runs/own/inputs").glob("graph-*.npz")]) == 1
    names = result.runs["algorithm"].unique()
    scores = {name: result.scores.loc[result.scores["algorithm"] == name, "value"].tolist() for name in names}
    fedavg, half, whole = scores.values()
    assert np.allclose(fedavg, whole)  # all of the step is FedAvg's
    assert not np.allclose(fedavg, half)


def test_what_an_object_made_can_be_run_again_by_the_command_line(here, notebook, monkeypatch):
    damped = notebook.run(DAMPED)["Damped"]
    result = simulate(SCENARIO, progress=False, graph=graph(), algorithm=damped(mu=0.5))
    (point,) = result.runs["run"]
    monkeypatch.syspath_prepend(str(result.folder.resolve() / "inputs"))
    again = [f"runs/own/points/{point}/scenario.yaml", "--no-report", "--jobs", "1", "--out", "again"]
    assert command_line.main(again) == 0
    assert (here / "again" / "points" / point / "row.json").is_file()


@pytest.mark.long
def test_a_changed_class_is_another_point(here, notebook):
    first = simulate(SCENARIO, progress=False, graph=graph(), algorithm=notebook.run(DAMPED)["Damped"](mu=0.5))
    same = simulate(SCENARIO, progress=False, graph=graph(), algorithm=notebook.run(DAMPED)["Damped"](mu=0.5))
    changed = notebook.run(DAMPED.replace("SIGN = 1.0", "SIGN = 0.9"))["Damped"](mu=0.5)
    other = simulate(SCENARIO, progress=False, graph=graph(), algorithm=changed)
    assert first.runs["run"].tolist() == same.runs["run"].tolist() != other.runs["run"].tolist()


@pytest.mark.long
def test_a_changed_graph_is_another_point_and_its_place_does_not_matter(here):
    one = simulate(SCENARIO, progress=False, graph=graph())
    moved = simulate(SCENARIO, progress=False, graph=graph(), out="elsewhere")
    other = simulate(SCENARIO, progress=False, graph={**graph(), "x": graph()["x"] * 2})
    assert one.runs["run"].tolist() == moved.runs["run"].tolist() != other.runs["run"].tolist()
    assert one.scores.equals(moved.scores)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**graph(), "x": torch.full((40, 2), float("nan"))}, "^graph: 'x' is nan at row 0, column 0"),
        ({"x": graph()["x"], "y": graph()["y"]}, "^graph lacks the array 'edge_index'"),
        ({**graph(), "edge_time": torch.ones(120)}, "^graph: 'edge_time' is unknown"),
        ({**graph(), "note": object()}, "^graph: 'note' is a object; make it an array"),
        (3, "graph: a value of type int is not a graph; give PyG's Data"),
        ("graph.npz", "there is no such file"),
    ],
)
def test_a_graph_that_does_not_do_is_reported_and_nothing_stays(here, given, message):
    with pytest.raises(UserError, match=message):
        simulate(SCENARIO, progress=False, graph=given)
    assert not [*here.iterdir()]


def test_a_mistake_elsewhere_leaves_nothing_either(here, notebook):
    damped = notebook.run(DAMPED)["Damped"]
    with pytest.raises(UserError, match="mu"):
        simulate(SCENARIO, progress=False, graph=graph(), algorithm=damped(mu=7.0))
    assert not [*here.iterdir()]


@pytest.mark.long
def test_workers_find_classes_of_cells(here, notebook):
    damped = notebook.run(DAMPED)["Damped"]
    before = [*sys.path]
    pooled = simulate(SCENARIO, progress=False, graph=graph(), jobs=2, algorithm=damped(mu=0.5), grid__seed=[0, 1])
    assert pooled.runs["status"].tolist() == ["done", "done"]
    assert sys.path == before
    alone = simulate(SCENARIO, progress=False, graph=graph(), out="b", algorithm=damped(mu=0.5), grid__seed=[0, 1])
    assert alone.scores.equals(pooled.scores)


def test_a_data_object_of_pyg_is_a_graph(here):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.data import Data
    one, two = (simulate(SCENARIO, progress=False, graph=kind) for kind in (Data(**graph()), graph()))
    assert one.runs["run"].tolist() == two.runs["run"].tolist()


def test_comments_of_what_was_given_stay_comments(here):
    result = simulate(
        SCENARIO, progress=False, graph=graph(), clients__count=pd.Series([2, 2]).max(), measure__target=np.float64(0.5)
    )
    assert yaml_file.read(result.folder / "scenario.yaml").data["name"] == "own"
