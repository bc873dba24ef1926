"""`dataset: {name: mine.data}`: what functions and torch data sets return is read once; what is wrong is told."""

import random
from pathlib import Path

import numpy as np
import own_data
import pytest
import torch

from fedsim.core.errors import ScenarioError, UserError
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, lookup, options


def load(name, seed=0, **given):
    return find.build("dataset", Part(name=name, options=given)).load(Path(), seed)


def test_a_function_is_given_its_options_and_the_seed():
    graph = load("own_data.rows", seed=5, count=7, shape=[2, 4])
    x, y = own_data.rows(7, (2, 4), seed=5)
    assert graph["x"].equal(torch.from_numpy(x).float())
    assert graph["y"].tolist() == y.tolist()
    assert [option.name for option in options.of("dataset", "own_data.rows")[1]] == [
        "targets", "count", "shape", "classes"
    ]  # fmt: skip


def test_what_is_drawn_depends_on_the_seed_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    once, again, other = (load("own_data.drawn", seed)["x"] for seed in (1, 1, 2))
    assert once.equal(again)
    assert (once != other).all()
    assert torch.get_rng_state().equal(before[0])
    assert np.random.get_state()[1].tolist() == before[1]
    assert random.getstate() == before[2]


def test_a_data_set_of_torch_is_read_pair_by_pair_or_tensor_by_tensor():
    graph = load("own_data.Squares", count=6)
    assert graph["x"].shape == (6, 1, 4, 4)
    assert graph["x"][:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert graph["y"].tolist() == [0, 1, 2, 3, 4, 0]
    assert load("own_data.real", targets="real")["real"].equal(own_data.real().tensors[1])


def test_what_a_library_offers_will_do():
    graph = load("sklearn.datasets.load_diabetes", return_X_y=True, targets="real")
    assert graph["x"].shape == (442, 10)
    assert graph["real"].shape == (442, 1)


def test_arrays_with_edges_are_a_graph():
    graph = load("own_data.a_graph")
    assert graph["edges"].T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert graph["edge_weight"].tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("own_data.raising", r"data.dataset: raising raises KeyError: \"no column 'age'\" \(.*own_data.py, line \d+\)"),
        ("own_data.nothing", "nothing returns a NoneType; return a torch Dataset of pairs"),
        ("own_data.Uneven", r"'x' of example 7 has the shape \(2,\), and that of example 0 \(1,\)"),
        ("own_data.Single", r"example 0 is a Tensor and not a pair \(x, y\)"),
        ("own_data.missing", "it has no function or class 'missing'"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(name, told):
    with pytest.raises(UserError, match=told) as error:
        load(name)
    assert "\n" not in str(error.value)


def test_options_are_checked_by_name_and_type():
    with pytest.raises(ScenarioError, match=r"'Squares' has no option 'sides'.*side"):
        load("own_data.Squares", sides=3)
    with pytest.raises(ScenarioError, match=r"data\.dataset\.side: .*whole number"):
        load("own_data.Squares", side="wide")


WARDS = """
import numpy as np


def _hidden():
    return 3


def helper(rows: int):
    return np.arange(rows)


def wards(rows: int = 4):
    return {"x": np.eye(rows), "y": helper(rows), "test": np.ones(rows, bool)}
"""


def test_a_file_beside_the_scenario_is_enough(tmp_path):
    for folder, name in (("datasets", "wards"), ("clinic", "wards"), ("clinic", "several")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{name}.py").write_text(WARDS, "utf-8")
    with lookup.within_reach(tmp_path):
        lonely = WARDS.replace("def helper", "def _helper").replace(" helper", " _helper")
        (tmp_path / "ward_of_one.py").write_text(lonely, "utf-8")
        for name in ("wards", "clinic.wards", "clinic.several.wards", "ward_of_one", "ward_of_one.wards"):
            graph = load(name, rows=3)
            assert graph["y"].tolist() == [0, 1, 2]
            assert graph["test"].all()
        with pytest.raises(ScenarioError, match=r"defines 2 of the kind Dataset \(helper, wards\): keep one per file"):
            load("clinic.several")


def test_a_parameter_that_cannot_be_passed_is_reported(tmp_path):
    (tmp_path / "awkward.py").write_text("def targets_of(targets):\n    return targets\n", "utf-8")
    with (
        lookup.within_reach(tmp_path),
        pytest.raises(ScenarioError, match="takes 'targets', a name that fedsim uses itself"),
    ):
        load("awkward.targets_of")


def test_numbers_of_numpy_and_lists_are_arrays():
    from fedsim.data.files.own_code import arrays_in

    found = arrays_in("here", ([[1, 2], [3, 4]], (0, np.int64(1))))
    assert found["x"].tolist() == [[1, 2], [3, 4]]
    assert found["y"].tolist() == [0, 1]
