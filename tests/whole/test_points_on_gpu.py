"""Points on a pretended GPU: nothing mixes devices, and all that is computed is the host's to the last bit.

Algorithms and protocols: `algorithms/test_algorithms_on_gpu`.
"""

import pytest
import same_points
from gpu_points import CHANGING, CODECS, LEARNING, LINKS, MODELS, check_alike, sparse_graph
from mutations import FULL

LINKING = ("gcn", "roland")  # models that are tried where long tests do not run
# Attacks, privacy, protocols and views: those that differ in what they compute.
BESIDE = ("masked", "gossip, int8, forgers, views")
# Learning: what lies on the device in a way of its own.
HELD = (
    "thinned", "adam, decay, forgotten", "trimmed mean", "held out and pooled", "fed_gcn, snapshots",
)  # fmt: skip


def some(names, first):
    return [pytest.param(name, marks=[pytest.mark.long] * (name not in first)) for name in names]


@pytest.mark.parametrize("name", some(MODELS, LINKING))
def test_models_classify_nodes(name):
    check_alike(**{**CHANGING, **MODELS[name]})


@pytest.mark.parametrize("name", some(MODELS, LINKING))
def test_models_predict_links(name):
    check_alike(**{**LINKS, **MODELS[name]})


@pytest.mark.parametrize("name", CODECS)
def test_codecs(name):
    check_alike(**CODECS[name])


@pytest.mark.parametrize("name", some(LEARNING, HELD))
def test_learning(name):
    check_alike(**LEARNING[name])


def test_sparse_features(tmp_path):
    check_alike(**sparse_graph(tmp_path / "graph.npz"))


TRIED = [name for place, name in enumerate(same_points.LEARN) if FULL or place % 3 == 0 or name in BESIDE]


@pytest.mark.parametrize("name", some(TRIED, BESIDE))
def test_attacks_privacy_protocols_and_views(name):
    check_alike(**same_points.changes(name))
