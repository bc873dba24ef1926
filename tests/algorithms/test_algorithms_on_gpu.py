"""Every algorithm on a pretended GPU, and under every protocol where long tests run.

Nothing may mix devices, and tables, states and memories are the host's to the last bit.
"""

import typing
from dataclasses import fields

import pytest
from gpu_points import CHANGING, LINKS, check_alike, sparse_graph
from mutations import FULL
from test_contract import ALGORITHMS, PROTOCOLS, changes, each_algorithm

from fedsim.core.errors import ScenarioError
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

SHORT = {
    "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
    "data__stream": {"name": "class_incremental", "classes": 2, "every": "1 updates"},
    "training": {"optimiser": "adam", "lr": 0.05, "local_steps": 1},
    "clients": {"count": 3, "speed": "1 GFLOP/s"},
    "measure": {"metrics": ["accuracy"], "models": ["global", "local"]},
}
FIRST = ("dg_colearn", "fedavg", "feddgl", "ghost", "power")  # those that are tried where long tests do not run
CHEAPER = {
    "power": {"name": "power", "rebuild_steps": 1, "restarts": 0},
    "fedsage_plus": {"name": "fedsage_plus", "generator_epochs": 1, "encoder": 4, "latent": 3, "narrow": 4, "wide": 5},
}


def short(algorithm):
    options = changes(algorithm, "sync", "calm")
    options.pop("clients__speed", None)
    return {**options, **SHORT, "algorithm": CHEAPER.get(algorithm, options["algorithm"])}


@pytest.mark.parametrize(
    "algorithm", [pytest.param(name, marks=[pytest.mark.long] * (name not in FIRST)) for name in ALGORITHMS]
)
def test_algorithms(algorithm):
    check_alike(**short(algorithm))


@pytest.mark.parametrize(
    "algorithm", [pytest.param(name, marks=[pytest.mark.long] * (name != "fed_ergnn")) for name in ALGORITHMS]
)
def test_sparse_features(algorithm, tmp_path):
    data = sparse_graph(tmp_path / "graph.npz")["data__dataset"]
    check_alike(**{**short(algorithm), "data__dataset": data})


def choices():
    """Yield every other value of an algorithm's own switches and choices, with its name."""
    for name in ALGORITHMS:
        kind = type(find.build("algorithm", Part(name=name)))
        hints = typing.get_type_hints(kind)
        for field in (one for one in fields(kind) if one.name in kind.__annotations__):
            values = [True, False] if hints[field.name] is bool else ()
            if typing.get_origin(hints[field.name]) is typing.Literal:
                values = typing.get_args(hints[field.name])
            yield from ((name, field.name, value) for value in values if value != field.default)
    yield "fed_ego", "sigma", 0.5


@pytest.mark.long
@pytest.mark.parametrize(("algorithm", "option", "value"), [*choices()][:: 1 if FULL else 4])
def test_options(algorithm, option, value):
    options = short(algorithm)
    options["algorithm"] = {**options["algorithm"], option: value}
    try:
        check_alike(**options)
    except ScenarioError as refused:
        pytest.skip(str(refused))


@pytest.mark.long
@pytest.mark.parametrize("data", [CHANGING, LINKS], ids=["snapshots", "links"])
@each_algorithm
def test_graphs_that_change(algorithm, data):
    options = {**short(algorithm), **data}
    try:
        check_alike(**options)
    except ScenarioError as refused:
        pytest.skip(str(refused))


def pairs():
    """Return FedAvg under every protocol, and each other algorithm under some; all pairs with FULL."""
    return [
        (algorithm, protocol)
        for row, algorithm in enumerate(ALGORITHMS)
        for column, protocol in enumerate(PROTOCOLS)
        if FULL or algorithm == "fedavg" or (row + column) % 4 == 0
    ]


@pytest.mark.long
@pytest.mark.parametrize(("algorithm", "protocol"), pairs())
def test_protocols(algorithm, protocol):
    check_alike(**changes(algorithm, protocol, "calm"))


def test_what_is_cheaper_here_is_an_algorithm():
    assert {*CHEAPER} <= {*ALGORITHMS}
