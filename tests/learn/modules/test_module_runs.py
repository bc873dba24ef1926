"""Whole runs of a plain module: what its messages weigh, under every protocol, resumed, followed, with codecs."""

import math

import pytest
import small_points

from fedsim.core import wire
from fedsim.core.errors import ScenarioError
from fedsim.core.record import SERVER
from fedsim.core.wire import Spec
from fedsim.net.message import envelope_size
from fedsim.point.checks import check
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, lookup, options

IMAGES = {
    "data": {
        "dataset": "digit_images", "partition": {"name": "dirichlet", "alpha": 1.0},
        "split": {"train": 0.5, "val": 0.2, "test": 0.3},
    },
    "model": {"name": "plain_nets.Images", "width": 3},
    "training": {"optimiser": "sgd", "lr": 0.1, "local_steps": 2},
    "clients": {"count": 5, "speed": "lognormal(100 MFLOP/s, 0.5)"},
}  # fmt: skip
PROTOCOLS = {
    "sync": {"protocol": {"name": "sync", "rounds": 3, "participation": 0.6}},
    "deadline": {"protocol": {"name": "deadline", "rounds": 3, "participation": 1.0, "wait": "5 s"}},
    "buffered": {"protocol": {"name": "buffered", "rounds": 4, "clients": 3, "buffer": 2}},
    "hierarchical": {
        "protocol": {"name": "hierarchical", "rounds": 2, "participation": 1.0}, "network__topology": {
            "name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms",
        },
    },
    "gossip": {"protocol": {"name": "gossip", "rounds": 3}, "network__topology": {"name": "peers", "graph": "ring"}},
    "isolated": {"protocol": {"name": "isolated", "rounds": 3, "participation": 1.0}, "algorithm": "local"},
    "one_shot": {"protocol": "one_shot"},
}  # fmt: skip


def values(tables) -> list[float]:
    return [row["value"] for row in tables["scores"] if row["metric"] == "accuracy"]


@pytest.mark.parametrize("policy", ["average", "local"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_it_runs_under_every_protocol(tmp_path, protocol, policy):
    changes = {**IMAGES, **PROTOCOLS[protocol], "model": {**IMAGES["model"], "buffers": policy}}
    found = values(small_points.run_tables(tmp_path / "run", **changes))
    assert found
    assert all(map(math.isfinite, found))
    assert max(found) > 0.15  # of ten classes


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox", "fed_opt", "fed_dyn", "fed_nova", "scaffold", "local"])
def test_it_runs_with_every_method_that_takes_any_model(tmp_path, algorithm):
    protocol = PROTOCOLS["isolated" if algorithm == "local" else "sync"]
    found = values(small_points.run_tables(tmp_path / "run", **{**IMAGES, **protocol, "algorithm": algorithm}))
    assert max(found) > 0.15


def test_messages_hold_the_parameters_the_buffers_and_their_envelope(tmp_path):
    tables = small_points.run_tables(tmp_path / "run", **IMAGES, **PROTOCOLS["sync"])
    shapes = {
        "body.0.weight": (3, 1, 3, 3), "body.0.bias": (3,), "body.1.weight": (3,), "body.1.bias": (3,),
        "head.weight": (10, 48), "head.bias": (10,),
    }  # fmt: skip
    model = {name: Spec(shape, "float32") for name, shape in shapes.items()}
    moments = {f"body.1.running_{name}": Spec((3,), "float32") for name in ("mean", "var")}
    counted = {"body.1.num_batches_tracked": Spec((), "int64")}
    down = wire.size({"model": model, "buffers": {**moments, **counted}})
    up = wire.size({"update": model, "samples": 0, "buffers": moments})
    told = {row["src"] == SERVER: row["nbytes"] - envelope_size(row["kind"]) for row in tables["transfers"]}
    assert told == {True: down, False: up}


def test_codecs_attackers_and_robust_means_take_it(tmp_path):
    changes = {
        **IMAGES, **PROTOCOLS["sync"], "network__codec": {"up": "int8"}, "aggregation": "median",
        "network__effects": [{"name": "byzantine", "share": 0.2, "attack": "sign_flip"}],
    }  # fmt: skip
    assert all(map(math.isfinite, values(small_points.run_tables(tmp_path / "run", **changes))))


def test_a_file_with_one_module_is_named_alone(tmp_path):
    (tmp_path / "lonely_net.py").write_text("from torch import nn\n\n\nclass Net(nn.Linear):\n    pass\n", "utf-8")
    with lookup.within_reach(tmp_path):
        assert find.find("model", Part(name="lonely_net"), "model").make.__name__ == "Net"
        assert find.module_of("codec", "lonely_net") == "fedsim.net.codecs.lonely_net"  # which adopts nothing


def test_options_are_the_constructors_keywords():
    _, listed = options.of("model", "plain_nets.Images")
    assert [option.name for option in listed] == ["buffers", "width"]
    assert (listed[1].default, listed[1].meaning) == ("4", "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"name": "plain_nets.Images", "widht": 3}}, "has no option 'widht'"),
        ({"model": {"name": "plain_nets.Images", "width": "wide"}}, "must be a whole number"),
        ({"model": "plain_nets.Nothing"}, "has no class 'Nothing'; there are Images, "),
        ({"model": "plain_nets.NoModule"}, "NoModule is no torch.nn.Module"),
        ({"algorithm": "fed_pub"}, "'fed_pub', as it is set, needs layers of fedsim's own"),
        (
            {"algorithm": "fed_pub"},
            "(it does not say any_model = True), and 'plain_nets.Images' is a torch module: say so",
        ),
        ({"algorithm": "fed_proto"}, "'fed_proto' uses embeddings, and 'plain_nets.Images' has none: give it a method"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_runs(changes, message):
    point = small_points.point(**{**IMAGES, **PROTOCOLS["sync"], **changes})
    assert message in str(ScenarioError(check.points([point], whole=True)))
