"""Splits of a user's own: a file beside the scenario, and nothing else."""

import sys

import pytest
import small_points

from fedsim import __main__ as command_line
from fedsim.core.errors import ScenarioError
from fedsim.point.checks import check
from fedsim.scenario.parts import lookup, plugins
from fedsim.sweep import listing

LONELY = '''
"""Test nodes without a neighbour."""

from dataclasses import dataclass

from fedsim.learner.scoring.split import ClientSplit


@dataclass(frozen=True)
class Lonely(ClientSplit):
    """They say how much a method owes to edges."""

    def targets(self, task, graph):
        nodes = super().targets(task, graph)
        return nodes[graph["edges"][1].bincount(minlength=len(graph["y"]))[nodes] == 0]
'''
WHOLE_STREAM = LONELY.replace("Lonely", "Late").replace("    def", "    all_periods = True\n\n    def", 1)
RANKS = '''
"""How many classes the clients' models predict at all."""

from dataclasses import dataclass

from fedsim.learner.scoring.split import Split


@dataclass(frozen=True)
class Predicted(Split):
    """One row of the server."""

    def scorer(self, scene, metrics):
        def rows(prediction):
            classes = prediction.output.argmax(1).unique()
            return prediction.of_server({"accuracy": len(classes)}, 1)

        return rows
'''


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A folder on this process's path with splits of a user's own."""
    (tmp_path / "splits").mkdir()
    for name, text in (("lonely", LONELY), ("late", WHOLE_STREAM), ("predicted", RANKS)):
        (tmp_path / "splits" / f"{name}.py").write_text(text.lstrip())
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield tmp_path
    for name in [name for name in sys.modules if f".{lookup.OWN}" in name]:
        del sys.modules[name]


def test_splits_of_a_users_own_are_scored_beside_fedsims(lab, tmp_path):
    plain, more = tmp_path / "plain", tmp_path / "more"
    small_points.run_in(plain, measure={"splits": ["test"]})
    row = small_points.run_in(more, measure={"splits": ["test", "predicted", "lonely", "late"]})
    scores = small_points.table(more, "scores")
    assert [one for one in scores if one["split"] == "test"] == small_points.table(plain, "scores")
    assert row["score"] is not None
    names = ("test", "lonely", "late")
    weight = {name: sum(one["weight"] for one in scores if one["split"] == name) for name in names}
    assert 0 < weight["lonely"] < weight["test"]
    assert weight["late"] > 0
    predicted = [one for one in scores if one["split"] == "predicted"]
    assert {one["client"] for one in predicted} == {-1}
    assert all(1 <= one["value"] == int(one["value"]) for one in predicted)


def test_the_summary_may_report_it(lab, tmp_path):
    row = small_points.run_in(tmp_path / "run", measure={"splits": ["lonely"]})
    assert 0 < row["score"] <= 1
    with pytest.raises(ScenarioError, match=r"measure\.splits: 'predicted' has no score per client"):
        small_points.run_in(tmp_path / "other", measure={"splits": ["predicted", "test"]})


def test_it_is_listed(lab, capsys):
    assert command_line.main(["--list", "splits"]) == 0
    out = capsys.readouterr().out
    assert "lonely: Test nodes without a neighbour" in out
    assert "all_periods: The test nodes of all periods" in out
    assert "split" in listing.chosen([])[0]


def problems(*splits):
    (point,) = small_points.scenario(measure={"splits": [*splits]}).points()
    return check.points([point])


def test_a_name_that_is_no_file_is_refused_with_those_that_are():
    (problem,) = problems("test", "tset")
    assert problem.key == "measure.splits.1"
    assert "there is no fedsim/learner/scoring/splits/tset.py" in problem.message
    assert "did you mean 'test'" in problem.message


def test_a_file_without_a_split_is_refused(lab):
    (lab / "splits" / "empty.py").write_text("")
    (problem,) = problems("empty")
    assert "defines no Split" in problem.message


def test_code_of_a_stranger_is_refused(lab):
    (problem,) = plugins.problems(small_points.scenario(measure={"splits": ["test", "lonely"]}))
    assert problem.key == "measure.splits.1"
    assert "plugins are refused" in problem.message
