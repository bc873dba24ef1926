"""The scenarios that compare methods of replay: what is tuned is the same for all, on validation data only."""

from pathlib import Path

import pytest

from fedsim.scenario.text import yaml_file
from fedsim.sweep.tune.entries import entries

SCENARIOS = Path(__file__).parents[2] / "scenarios"
BETAS = [0.01, 0.02, 0.03, 0.05, 0.1]
REPLAY = [("fed_dslr", {}), ("fed_ergnn", {}), ("power", {"preset": "official"}), ("power", {"preset": "paper"})]


@pytest.fixture
def choice():
    return yaml_file.read(SCENARIOS / "power_beta.yaml").data


@pytest.fixture
def replay():
    return yaml_file.read(SCENARIOS / "power_replay.yaml").data


def listed(scenario):
    """Return name and options of the scenario's algorithms, sorted."""
    parts = [{"name": one} if isinstance(one, str) else dict(one) for one in scenario["grid"]["algorithm"]]
    return sorted(((part.pop("name"), part) for part in parts), key=repr)


def test_every_method_of_replay_is_tried_at_the_same_betas_and_scored_on_validation_data_alone(choice):
    assert choice["grid"]["algorithm.beta"] == BETAS  # one axis for all
    assert listed(choice) == REPLAY  # all other options at their defaults
    assert choice["measure"]["splits"] == ["val"]
    assert len(set(choice["grid"]["data.split.numpy_seed"])) == 5


def test_the_test_is_at_one_of_these_betas_over_five_orders_and_five_seeds(choice, replay):
    methods = [part for part in listed(replay) if part != ("fedavg", {})]
    assert all(options.pop("beta") in BETAS for _, options in methods)
    assert methods == REPLAY
    assert "splits" not in replay["measure"]  # test data, as by default
    assert replay["grid"]["data.split.numpy_seed"] == choice["grid"]["data.split.numpy_seed"]
    assert len(set(replay["grid"]["seed"])) == 5
    varied = ("name", "description", "measure", "grid")
    assert [{k: v for k, v in one.items() if k not in varied} for one in (choice, replay)] == [
        {k: v for k, v in choice.items() if k not in varied}
    ] * 2


@pytest.mark.long
def test_the_same_methods_can_be_tuned_with_equal_numbers_of_trials():
    path = SCENARIOS / "power_replay.yaml"
    scenario, _ = yaml_file.load(path, ["grid.seed=[0]", "grid.data.split.numpy_seed=[2025]"])
    found = [entry for entry in entries([*scenario.points()]) if entry.spans]
    assert len(found) == len(REPLAY)
    assert len({str(entry.spans["beta"]) for entry in found}) == 1
    assert all(entry.holds(entry.written) for entry in found)
