"""Control variates with a sign that is right, and with each of theirs wrong."""

import pytest
from own_algorithms import CONTROL, here, trial

from fedsim.trial import cohorts, corrections, declared_bytes, untouched


def test_control_variates_that_are_right(tmp_path):
    tried = trial(tmp_path, CONTROL)
    for check in (corrections.check, cohorts.check, declared_bytes.check, untouched.check):
        assert check(tried) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("correct_sign", "`correct` drives the clients' gradients apart"),
        ("client_sign", "`correct` drives the clients' gradients apart"),
        ("server_sign", "the corrections of all clients do not cancel"),
    ],
)
def test_a_sign_that_is_wrong(tmp_path, wrong, message):
    (found,) = corrections.check(trial(tmp_path, CONTROL, **{wrong: -1.0}))
    assert found.kind == "warning"
    assert found.what.startswith(message)
    assert found.where == here(tmp_path)
    assert "mine.py:" in found.remedy


@pytest.mark.parametrize("body", ["tree.scale(grads, 0.5)", "tree.transform(lambda leaf: leaf.clamp(-1, 1), grads)"])
def test_corrections_of_another_kind_are_left_alone(tmp_path, body):
    text = f"""
    def fit(self, job, given):
        return (yield from super().fit(job, given, correct=self.correct))

    def correct(self, grads, given):
        return {body}
    """
    assert [finding.kind for finding in corrections.check(trial(tmp_path, text))] == ["note"]
