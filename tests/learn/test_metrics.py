import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from metrics_by_name import of, values
from sklearn.metrics import accuracy_score, f1_score

THEIRS = {
    "accuracy": accuracy_score,
    "macro_f1": lambda y, guess: f1_score(y, guess, average="macro"),
    "micro_f1": lambda y, guess: f1_score(y, guess, average="micro"),
}


def test_every_metric_has_an_oracle():
    assert {*THEIRS} == {*of("classes")}


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
