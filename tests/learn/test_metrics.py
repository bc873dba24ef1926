"""Metrics against scikit-learn's, owner by owner."""

import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from fedsim.learn import metrics


@pytest.mark.parametrize("seed", range(5))
def test_each_owner_s_metrics_are_scikit_learn_s(seed):
    g = torch.Generator().manual_seed(seed)
    logits, y, owner = (
        torch.randn(60, 5, generator=g),
        torch.randint(5, (60,), generator=g),
        torch.randint(4, (60,), generator=g),
    )
    guess = logits.argmax(1)
    for k in range(4):
        a, b = y[owner == k].numpy(), guess[owner == k].numpy()
        assert float(metrics.accuracy(logits, y, owner, 4)[k]) == pytest.approx(accuracy_score(a, b))
        assert float(metrics.macro_f1(logits, y, owner, 4)[k]) == pytest.approx(f1_score(a, b, average="macro"))
        assert float(metrics.micro_f1(logits, y, owner, 4)[k]) == pytest.approx(f1_score(a, b, average="micro"))


def test_an_owner_without_rows_has_no_value():
    logits, y, owner = torch.eye(3), torch.arange(3), torch.tensor([0, 0, 2])
    for metric in metrics.ALL.values():
        assert torch.isnan(metric(logits, y, owner, 3)).tolist() == [False, True, False]
