"""Every algorithm keeps the contract with a torch module as the model, and learns what it does with fedsim's own."""

import pytest
import small_points
import torch
from small_points import CHEAPER, SYNC
from test_contract import (
    ALGORITHMS,
    FASTER,
    PROTOCOLS,
    changes,
    check_scores,
    check_sizes,
    check_training,
    check_unchanged,
    is_long,
    watched,
)  # fmt: skip
from values import client_of, server_state

from fedsim.core.errors import ScenarioError
from fedsim.core.record import Recorder
from fedsim.point.build.assemble import build
from fedsim.point.checks import check
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

NET = "fedsim.trial.net.Net"
LAYERED = {"dg_colearn", "fed_ego", "fed_pub", "fedsage_plus", "oasis"}  # train or read layers of fedsim's own
WITHOUT = {"feddgl": {"use_kd": False}, "ghost": {"use_retention": False}}  # what is about layers
PAIRS = {"fed_dslr": {"keep": 2}, "fed_ergnn": {"keep": 2}, "power": {"keep": 2}, "glfc": {"keep": 2}}  # for BatchNorm
TAME = {"fed_twp": {"lambda_loss": 1.0, "lambda_topology": 1.0}}  # under SGD, which its defaults let diverge
MODULAR = [name for name in ALGORITHMS if name not in LAYERED]
FEW = ("fedprox", "fed_proto", "fedgta", "lander")  # a term of the loss, embeddings, own models, parameters beside


def algorithm(name):
    return {"name": name, **CHEAPER.get(name, {}), **WITHOUT.get(name, {}), **PAIRS.get(name, {})}


def built(name):
    return find.build("algorithm", Part.model_validate(algorithm(name)))


def model(name):
    """The module, with BatchNorm as far as the algorithm takes it."""
    needs = built(name).needs
    if "no buffers" in needs:
        return {"name": NET, "norm": False}
    return {"name": NET, "buffers": "local" if "own buffers" in needs else "average"}


def with_module(name, protocol, network="calm"):
    return {**changes(name, protocol, network), "algorithm": algorithm(name), "model": model(name)}


def test_every_algorithm_says_whether_it_takes_a_module():
    assert {name for name in ALGORITHMS if not built(name).any_model} == LAYERED
    assert {name for name in ALGORITHMS if "embed" in built(name).needs} == {
        "fed_dslr", "fed_ergnn", "fed_proto", "fed_twp", "feddgl", "fgssl", "glfc", "lander", "power",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        pytest.param(name, protocol, marks=[pytest.mark.long] * (is_long(name, protocol) or name not in FEW))
        for name in MODULAR
        for protocol in PROTOCOLS
    ],
)
def test_it_keeps_the_contract_with_a_module(name, protocol, tmp_path, monkeypatch):
    watch = watched(monkeypatch, tmp_path, **with_module(name, protocol))
    once = protocol.startswith("one_shot")
    assert watch.updates >= (1 if once else 2)
    check_sizes(watch)
    check_unchanged(watch)
    check_training(watch)
    check_scores(watch.tables["scores"], periods=1 if once else 2)


@pytest.mark.long
@pytest.mark.parametrize("name", MODULAR)
def test_it_is_the_same_again_one_by_one_and_in_a_storm(name, tmp_path):
    given = with_module(name, "sync", "stormy")
    runs = [
        small_points.run_tables(tmp_path / str(k), **given, **how) for k, how in enumerate([{}, {}, {"cohort": "loop"}])
    ]
    assert repr(runs[0]) == repr(runs[1]) == repr(runs[2])


def learned(tmp_path, **options):
    """The models of server and clients after a small point, by the names of their tensors, and the scores."""
    recorder = Recorder()
    point = build(small_points.scenario(**options), tmp_path, recorder)
    point.world.env.run(until=point.done)
    point.world.end()
    point.observer.score()
    own = {str(k): client_of(point, k).memory.get("local") or {} for k in range(5)}
    return flat({"server": server_state(point)["model"], **own}), small_points.rows(recorder, "scores")


def flat(tree, above=""):
    """The tensors of a tree by their names, with dots."""
    return {
        path: leaf
        for key, value in tree.items()
        for path, leaf in (flat(value, f"{above}{key}.") if isinstance(value, dict) else {above + key: value}).items()
    }


UNLINKED = {"data__dataset": {**small_points.PLAIN["data"]["dataset"], "degree": 0.0}}
EQUALS = {"gcn": ("gcn", "Gcn", {}), "mlp": ("mlp", "Mlp", {}), "mlp without edges": ("mlp", "Mlp", UNLINKED)}


@pytest.mark.parametrize("case", EQUALS)
@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.long] * (one not in FEW)) for one in MODULAR])
def test_it_learns_what_it_does_with_an_equal_model_of_fedsims_own(name, case, tmp_path):
    own, module, data = EQUALS[case]
    given = {
        **changes(name, "sync", "calm"), **data, "algorithm": {**algorithm(name), **TAME.get(name, {})},
        "training": {"optimiser": "sgd", "lr": 0.1, "local_steps": 2},
        **({"clients__speed": "lognormal(1 GFLOP/s, 0.5)"} if name in FASTER else {}),
    }  # fmt: skip
    ours, scores = learned(tmp_path, **given, model={"name": own, "hidden": 6, "dropout": 0})
    theirs, others = learned(tmp_path, **given, model={"name": f"equal_nets.{module}", "hidden": 6})
    assert ours.keys() == theirs.keys()
    apart = max(float((ours[key] - theirs[key]).abs().max()) for key in ours)
    assert apart < 1e-4, apart
    assert len(scores) == len(others)
    same = [one["value"] == pytest.approx(other["value"], abs=1e-6) for one, other in zip(scores, others, strict=True)]
    assert sum(same) >= 0.95 * len(same)  # a rounding may turn a node that was undecided
    assert any(torch.any(leaf) for leaf in ours.values())


@pytest.mark.parametrize("name", sorted(LAYERED))
def test_what_trains_layers_of_its_own_is_refused_in_one_sentence(name):
    point = small_points.point(protocol=SYNC, algorithm=algorithm(name), model=NET)
    (problem,) = check.points([point], whole=True)
    assert problem.key == "algorithm"
    assert f"'{name}', as it is set, needs layers of fedsim's own" in problem.message


@pytest.mark.parametrize("name", [one for one in MODULAR if "embed" in built(one).needs])
def test_embeddings_are_asked_of_a_module_that_has_none(name):
    point = small_points.point(protocol=SYNC, algorithm=algorithm(name), model="plain_nets.Convolved")
    (problem,) = check.points([point], whole=True)
    assert problem.key == "model"
    assert f"'{name}' uses embeddings, and 'plain_nets.Convolved' has none: give it a method embed" in problem.message


def refused(tmp_path, **options):
    with pytest.raises(ScenarioError) as caught:
        build(small_points.scenario(**options), tmp_path, Recorder())
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize("name", [one for one in MODULAR if built(one).needs & {"own buffers", "no buffers"}])
def test_buffers_that_the_algorithm_would_lose_are_refused(name, tmp_path):
    given = {**with_module(name, "sync"), "model": {"name": NET, "buffers": "average"}}
    problem = refused(tmp_path, **given)
    assert problem.key == "model.buffers"
    assert "take a module without" in problem.message or "write buffers: local" in problem.message


@pytest.mark.parametrize("name", [one for one in MODULAR if "vectors" in built(one).needs])
def test_rows_that_are_no_vectors_are_refused_where_an_algorithm_makes_rows(name, tmp_path):
    images = {"data__dataset": "digit_images", "model": {"name": "plain_nets.Images", "buffers": "local"}}
    problem = refused(tmp_path, **{**with_module(name, "sync"), **images})
    assert (problem.key, "rows of its own" in problem.message) == ("algorithm", True)
