"""A dry run refuses what a run refuses, in the same words: wrong values for every option of every part.

A third of the options is tried; HYPOTHESIS_PROFILE=full tries all.
"""

import pytest
from mutations import FULL
from scenario_texts import SMALL

from fedsim.scenario.parts import find, options
from fedsim.sweep.runner import Sweep

PLACES = {"effect": "network.effects=[{}]", "codec": "network.codec.up={}"}  # the other kinds have a key of their own
WRONG = ["{odd: 1}", "high", "[[1]]", "-5"]  # of these the first fits no option


@pytest.fixture
def refused(call, monkeypatch):
    """The message that a dry run with the data and a run end in, "" where neither refuses the flag."""

    class AcceptedError(Exception):
        """The run would begin."""

    def begin(*_):
        raise AcceptedError

    monkeypatch.setattr(Sweep, "run", begin)

    def look(*flags):
        words = ["scenario.yaml", *(word for flag in flags for word in ("--set", flag))]
        dry = call(*words, "--dry-run", "--data", "data", text=SMALL)
        try:
            run = call(*words, "--data", "data", "--jobs", "1", "--no-report", text=SMALL)
        except AcceptedError:
            run = 0, "", ""
        assert (dry[0], dry[2]) == (run[0], run[2])
        assert (dry[0] == 2) == bool(dry[2])
        return dry[2]

    return look


def flag_of(kind, name, option, value):
    place = PLACES.get(kind, f"{find.KINDS[kind].key}={{}}")
    return place.replace("{}", f"{{name: {name}, {option}: {value}}}")


def own_options(kind, name):
    """The options that the class itself declares, or else inherits, and whether one of them alone makes a part."""
    cls, known = options.of(kind, name)
    required = {option.name for option in known if option.default == options.REQUIRED}
    declared = [option.name for option in known if option.name in vars(cls).get("__annotations__", ())]
    return [(option, required <= {option}) for option in declared or [option.name for option in known]]


def hold_refused(refused, kind, name, option, whole):
    message = refused(flag_of(kind, name, option, WRONG[0]))
    assert f": {PLACES.get(kind, find.KINDS[kind].key).partition('=')[0]}" in message, (name, option)
    assert not whole or option in message, (name, option)


@pytest.mark.long
@pytest.mark.parametrize("kind", find.KINDS)
def test_a_wrong_value_of_any_option_is_refused_by_both_in_the_same_words(kind, refused):
    tried = [(name, *found) for name in find.names(kind) for found in own_options(kind, name)]
    for number, (name, option, whole) in [*enumerate(tried)][:: 1 if FULL else 3]:
        hold_refused(refused, kind, name, option, whole)
        if not number % 3:
            refused(flag_of(kind, name, option, WRONG[1 + number // 3 % 3]))  # whether or not it fits
    assert tried or kind in ("metric", "split", "task", "topology")


@pytest.mark.long
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["data.partition={name: dirichlet, alpha: high}"], "data.partition.alpha: 'high': must be a number"),
        (["data.partition={name: dirichlet, alpha: -1}"], "data.partition"),
        (["algorithm={name: fedprox, mu: x}"], "algorithm.mu: 'x': must be a number"),
        (
            ["algorithm={name: fedavg, trim: 0.1}"],
            "algorithm.trim: belongs to aggregation now: write aggregation: {name",
        ),
        (["data.dataset={name: synthetic, vertices: 9}"], "data.dataset.vertices: is called nodes"),
        (["model.hidden=-1"], "model.hidden: -1 is not a count"),
        (
            ["data.stream={name: class_incremental, classes: 0, every: 1 update}"],
            "data.stream.classes: 0 is not a count",
        ),
        (["measure.metrics=[loss]"], "'loss' is not a metric"),
        (["protocol={name: gossip, rounds: 1}"], "protocol: 'gossip'"),
        (["network.effects=[{name: trace, rates: nowhere.csv}]"], "nowhere.csv: there is no such file"),
        (["clients.table=nowhere.csv"], "nowhere.csv: there is no such file"),
        (["data.dataset={name: tgb, file: nowhere.csv}"], "nowhere.csv: there is no such file"),
        (["grid.data.partition.alpha=[0.1, low]", "data.partition=dirichlet"], "grid.data.partition.alpha.1"),
        (["training=null"], "training: is missing, and 'fedavg' learns"),
    ],
)
def test_what_only_building_the_parts_tells_is_refused_by_both(flags, message, refused):
    assert message in refused(*flags)


def test_what_fits_is_accepted_by_both(refused):
    assert refused("data.partition={name: dirichlet, alpha: 0.3}", "algorithm={name: fedprox, mu: 0.5}") == ""
