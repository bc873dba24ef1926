import math
import sys

import numpy as np
import pandas as pd
import pytest
import small_points
import torch
from hypothesis import given
from hypothesis import strategies as st
from metrics_by_name import of, values
from sklearn.metrics import accuracy_score, f1_score

from fedsim.point.checks import check
from fedsim.point.results import stamp
from fedsim.scenario.parts import plugins

THEIRS = {
    "accuracy": accuracy_score,
    "macro_f1": lambda y, guess: f1_score(y, guess, average="macro"),
    "micro_f1": lambda y, guess: f1_score(y, guess, average="micro"),
}


def test_every_metric_has_an_oracle():
    assert {*THEIRS} == {*of("classes")}


OWN = '''
from dataclasses import dataclass

from fedsim.learn.metric import Metric


@dataclass(frozen=True)
class Spread(Metric):
    """The share of rows that have the most frequent label."""

    def values(self, judged):
        labelled = judged.counts()[2]
        return labelled.max(1).values / labelled.sum(1)
'''


def test_a_metric_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "own_lab").mkdir()
    (tmp_path / "own_lab" / "spread.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_lab", raising=False)
    row = small_points.run_in(
        tmp_path / "point", measure__metrics=["own_lab.spread", "accuracy"], data__stream="static"
    )
    assert row["metric"] == "own_lab.spread"
    scores = pd.DataFrame(small_points.table(tmp_path / "point", "scores"))
    own = scores[(scores["metric"] == "own_lab.spread") & (scores["split"] == "test")]
    together = own[own["client"] == -1]
    assert row["score"] == pytest.approx(together["value"].iloc[-1])
    assert (own.groupby("version")["value"].transform("min") == own["value"]).any()
    point = small_points.point(measure__metrics=["own_lab.spread"])
    assert "own_lab.spread" in stamp.needs(point.scenario).modules
    (problem,) = plugins.problems(point.scenario)
    assert (problem.key, "would run" in problem.message) == ("measure.metrics.0", True)


def test_a_metric_of_other_predictions_is_refused_before_anything_runs(tmp_path, monkeypatch):
    (tmp_path / "own_lab").mkdir()
    (tmp_path / "own_lab" / "closer.py").write_text(OWN.replace("    def", '    of = ("links",)\n\n    def', 1))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_lab", raising=False)
    for name in ("auc", "own_lab.closer"):
        (problem,) = check.points([small_points.point(measure__metrics=["accuracy", name])])
        assert problem.key == "measure.metrics.1"
        assert problem.message.startswith(f"{name!r} is not a metric of the task 'node_classification'")
        assert "accuracy, macro_f1, micro_f1" in problem.message


@pytest.mark.parametrize("name", THEIRS)
@given(rows=st.integers(0, 40), classes=st.integers(1, 5), owners=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_metrics_agree_with_scikit_learn_for_each_owner(name, rows, classes, owners, seed):
    rng = np.random.default_rng(seed)
    logits, y = torch.from_numpy(rng.normal(size=(rows, classes))), torch.from_numpy(rng.integers(classes, size=rows))
    owner = torch.from_numpy(rng.integers(owners, size=rows))
    found = values(name, logits, y, owner, owners)
    assert found.shape == (owners,)
    assert found.dtype == torch.double
    guess = logits.argmax(1)
    for k in range(owners):
        own = owner == k
        if own.any():
            assert float(found[k]) == pytest.approx(THEIRS[name](y[own].numpy(), guess[own].numpy()))
        else:
            assert math.isnan(found[k])
