"""Whole runs with the keys of `training` that a module has, and what is refused before anything runs."""

import math

import pytest
import small_points
from test_module_runs import IMAGES, PROTOCOLS, values

from fedsim.core.errors import ScenarioError
from fedsim.point import preview
from fedsim.point.build.parts import Parts
from fedsim.point.checks import check, training

GCN = "plain_nets.Convolved"
SHORT = {key: value for key, value in {**IMAGES, **PROTOCOLS["sync"]}.items() if key != "training"}


def keys(**changes):
    return {"optimiser": "sgd", "lr": 0.1, "local_steps": 3, **changes}


def jobs(tables) -> list[tuple[int, float]]:
    """Whose spans of computing there are, and how long each takes."""
    return [(row["client"], row["end"] - row["start"]) for row in tables["spans"] if row["what"] == "train"]


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "fed_nova", "scaffold"])
def test_batches_train_with_every_method(tmp_path, algorithm):
    found = values(small_points.run_tables(tmp_path / "run", **{
        **SHORT, "algorithm": algorithm, "training": keys(batch=16),
    }))  # fmt: skip
    assert max(found) > 0.15  # of ten classes


def test_a_client_computes_as_long_as_its_batches_take(tmp_path):
    changes = {**SHORT, "clients": {"count": 5, "speed": "1 MFLOP/s"}}
    small, double = (
        small_points.run_tables(tmp_path / str(batch), **changes, training=keys(batch=batch)) for batch in (8, 16)
    )
    for (_, short), (_, long) in zip(jobs(small), jobs(double), strict=True):
        assert short == pytest.approx(long / 2, rel=0.02)  # but for what a pass takes whatever its size


def test_a_preview_estimates_the_same_operations(tmp_path):
    changes = {"model": GCN, "training": keys(batch=8, neighbours=[2, 2]), "data__stream": "static"}
    tables = small_points.run_tables(tmp_path / "run", **changes)
    seen = preview.preview(small_points.scenario(**changes), tmp_path, 3)
    estimated = jobs({"spans": seen.spans.to_dict("records")})
    assert len(estimated) == 9  # three rounds with three clients
    assert estimated == [(client, pytest.approx(seconds)) for client, seconds in jobs(tables)[:9]]


@pytest.mark.parametrize("model", [GCN, {"name": "gcn", "hidden": 6}], ids=["module", "gcn"])
def test_an_optimiser_of_torch_that_is_adam_learns_as_adam(tmp_path, model):
    changes = {"model": model, "measure": {"metrics": ["accuracy"], "models": ["global"], "splits": ["test"]}}
    ours, theirs = (
        values(small_points.run_tables(tmp_path / name, **changes, training=keys(optimiser=name, lr=0.01)))
        for name in ("adam", "torch.optim.Adam")
    )
    assert all(map(math.isfinite, ours))
    assert theirs == pytest.approx(ours, abs=0.03)  # a row of about a hundred may fall on the other side


def test_ids_hang_on_the_new_keys_only_where_they_say_something():
    plain = small_points.point(**SHORT, training=keys())
    assert small_points.point(**SHORT, training=keys(batch=None, neighbours=None)).id == plain.id
    others = [keys(batch=8), keys(batch=9), keys(batch=8, neighbours=[2]), keys(optimiser="torch.optim.SGD")]
    assert len({plain.id, *(small_points.point(**SHORT, training=other).id for other in others)}) == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": keys(batch=8), "model": {"name": "gcn", "hidden": 6}},
         "training.batch: 'gcn' trains a whole cohort on all its rows at once: leave batch out, or take a"),
        ({"training": keys(optimiser="torch.optim.LBFGS")}, "training.optimiser: torch.optim.LBFGS evaluates the loss"),
        ({"training": keys(optimiser={"name": "torch.optim.AdamW", "betas": 3})},
         "training.optimiser.betas: 3 is not like torch.optim.AdamW's default"),
        ({"training": keys(batch=8), "task": "link_prediction", "model": GCN,
          "measure": {"metrics": ["auc"], "models": ["global"], "splits": ["test"]}},
         "training.batch: 'link_prediction' does not learn from rows one by one: leave batch out"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said_before_anything_runs(changes, message):
    point = small_points.point(**{**SHORT, "data": small_points.PLAIN["data"], **changes})
    assert message in str(ScenarioError(check.points([point], whole=True)))
    assert message in str(ScenarioError(training.problems(Parts(point.scenario))))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (keys(neighbours=[2]), "neighbours are drawn around a batch: give one"),
        (keys(batch=8, neighbours=[]), "neighbours is empty: give a number for each layer"),
        (keys(optimiser="torch.optim.SGD", momentum=0.9), "momentum belongs to sgd: make it an option"),
        (keys(optimiser="adma"), "'adma' is not one of 'adam' or 'sgd', nor a class .*; did you mean 'adam'?"),
        (keys(optimiser={"name": "adam", "eps": 1e-3}), "adam has no options here: lr, weight_decay and momentum"),
        (keys(optimiser=3), "3 is not one of 'adam' or 'sgd'"),
        (keys(batch=0), "batch"),
    ],
)
def test_what_is_wrong_in_itself_is_said_of_its_key(section, message):
    with pytest.raises(ValueError, match=message):
        small_points.scenario(**SHORT, training=section)
