"""What forged differences do to learning on digits: the mean is lost, median and trimmed mean are not."""

from pathlib import Path

import pytest

from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build
from fedsim.scenario.text import yaml_file

pytestmark = pytest.mark.long

SCENARIO = Path(__file__).parents[2] / "scenarios" / "byzantine.yaml"
AVERAGES = ["mean", "median", "{name: trimmed_mean, trim: 30 %}"]
FEWER = ["protocol.rounds=12", "measure.every=12 updates", "model.hidden=32", "clients.count=10"]


def score(tmp_path, aggregation, share):
    """The mean accuracy over clients after twelve rounds of the scenario's, among ten clients."""
    given = [f"grid.aggregation=[{aggregation}]", f"grid.network.effects.0.share=[{share} %]", "grid.seed=[0]", *FEWER]
    scenario, _ = yaml_file.load(SCENARIO, given)
    (point,) = scenario.points()
    built = build(point.scenario, tmp_path, Recorder())
    built.world.env.run(until=built.done)
    built.observer.score()
    return built.observer.latest


@pytest.mark.parametrize("share", [20, 30])
def test_the_mean_fails_and_robust_averages_survive(share, tmp_path):
    mean, *robust = [score(tmp_path, aggregation, share) for aggregation in AVERAGES]
    assert mean < 0.3
    assert min(robust) > 0.7


def test_where_nobody_forges_all_learn_alike(tmp_path):
    assert min(score(tmp_path, aggregation, 0) for aggregation in AVERAGES) > 0.8
