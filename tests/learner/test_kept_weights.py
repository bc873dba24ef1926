"""The weights that a run keeps: whose they are, and that nothing about how it was run changes them."""

import plain_nets
import pytest
import small_points
import torch
import ways_of_running

from fedsim.core.errors import ScenarioError
from fedsim.learn.engine import tree
from fedsim.learner import weights
from fedsim.point.checks import check
from fedsim.point.results import folders
from fedsim.point.resume.following import learning_key_of
from fedsim.scenario.schema import Scenario
from fedsim.sweep.engines.local import Local

KEEP = {"measure__keep": "weights"}
IMAGES = {
    "data": {"dataset": "digit_images", "partition": "random", "split": {"train": 0.3, "val": 0.3, "test": 0.4}},
    "model": {"name": "plain_nets.Images", "width": 2},
    "clients": {"count": 3, "speed": "100 MFLOP/s"},
    "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
}  # fmt: skip
LOCAL = {**IMAGES["model"], "buffers": "local"}
RING = {"protocol": {"name": "gossip", "rounds": 2}, "network__topology": {"name": "peers", "graph": "ring"}}


def rounds(count):
    return {**IMAGES["protocol"], "rounds": count}


def kept(folder, **changes):
    """Run a small point and return the weights that it keeps."""
    small_points.run_in(folder, **{**KEEP, **changes})
    return weights.read(folder / weights.FILE)


def same(one, other):
    """Whether two files hold the same names and bits."""
    if one.keys() != other.keys():
        return False
    pairs = [(one[key], other[key]) for key in one]
    return all(same(a, b) if isinstance(a, dict) else torch.equal(a, b) for a, b in pairs)


def test_a_model_of_fedsims_is_a_flat_dict_of_its_names(tmp_path):
    found = kept(tmp_path / "run")
    shapes = {name: tuple(value.shape) for name, value in found.items()}
    assert shapes == {"layer1.weight": (10, 6), "layer1.bias": (6,), "layer2.weight": (6, 4), "layer2.bias": (4,)}


def test_names_are_those_of_the_way_to_each_tensor():
    given = {"a": {"b": torch.zeros(1)}, "c": [torch.ones(2), (torch.ones(3), 4, None)]}
    assert {name: len(value) for name, value in tree.named(given)} == {"a.b": 1, "c.0": 2, "c.1.0": 3}
    assert len([*tree.named(given)]) == len([*tree.leaves(given)])


@pytest.mark.parametrize("name", ["Images", "Adapted"])
def test_a_module_takes_its_state_dict_as_it_is(tmp_path, name):
    data = {} if name == "Images" else {"data": small_points.PLAIN["data"]}
    found = kept(tmp_path / "run", **{**IMAGES, **data, "model": f"plain_nets.{name}"})
    net = plain_nets.Images(1, 10) if name == "Images" else plain_nets.Adapted(10, 4)
    net.load_state_dict(found)
    other = kept(tmp_path / "other", **{**IMAGES, **data, "model": f"plain_nets.{name}", "training__lr": 0.001})
    equal = {key for key in found if torch.equal(found[key], other[key])}
    frozen = {"base.weight", "base.bias"} if name == "Adapted" else set()
    assert equal - {"body.1.num_batches_tracked"} == frozen


def test_each_client_has_its_own_where_it_predicts_with_its_own(tmp_path):
    assert "head.weight" in kept(tmp_path / "averaged", **IMAGES)
    own = kept(tmp_path / "local", **{**IMAGES, "model": LOCAL})
    assert [*own] == [0, 1, 2]
    assert torch.equal(own[0]["head.weight"], own[1]["head.weight"])
    assert not torch.equal(own[0]["body.1.running_mean"], own[1]["body.1.running_mean"])
    peers = kept(tmp_path / "peers", **RING)
    assert [*peers] == [0, 1, 2, 3, 4]
    assert not torch.equal(peers[0]["layer1.weight"], peers[1]["layer1.weight"])


def test_a_file_holds_no_more_than_its_tensors(tmp_path):
    found = kept(tmp_path / "run", **RING)
    numbers = sum(value.untyped_storage().nbytes() for own in found.values() for value in own.values())
    assert numbers == 5 * 4 * (10 * 6 + 6 + 6 * 4 + 4)


@pytest.mark.parametrize("model", [IMAGES["model"], LOCAL], ids=["averaged", "local"])
def test_they_are_the_same_after_an_interruption(tmp_path, model):
    point = small_points.point(**{**IMAGES, **KEEP, "model": model, "protocol": rounds(5)})
    found = []
    for name in ("whole", "interrupted"):
        folder = tmp_path / name
        folder.mkdir()
        if name == "interrupted":
            with pytest.raises(KeyboardInterrupt):
                ways_of_running.stopped_once(point, folder, folder, lambda _: None, ways_of_running.interrupt)
            assert not (folder / weights.FILE).exists()
        ways_of_running.running.run(point, folder, folder, lambda _: None)
        found.append(weights.read(folder / weights.FILE))
    assert same(*found)


def test_the_model_is_that_of_the_end_of_a_budget(tmp_path):
    short = kept(tmp_path / "short", **IMAGES)
    until = kept(tmp_path / "until", **{**IMAGES, "protocol": rounds(9), "measure__until": {"updates": 2}})
    longer = kept(tmp_path / "longer", **{**IMAGES, "protocol": rounds(3)})
    assert same(short, until)
    assert not same(short, longer)


def swept(out, engine, **grid):
    """Run points of two latencies and return their folders and rows."""
    latencies = ("50 ms", "1 s")
    points = [small_points.point(**IMAGES, **KEEP, **grid, network__latency=latency) for latency in latencies]
    with engine:
        ways_of_running.sweep(out, engine, those=points)
    return [folders.place_of(out, point) for point in points], ways_of_running.summary(out)


def test_runs_that_keep_weights_are_trained_and_never_followed(tmp_path):
    places, rows = swept(tmp_path / "out", Local(1))
    assert same(*(weights.read(place / weights.FILE) for place in places))
    assert {row["followed"] for row in rows.values()} == {""}
    assert not (tmp_path / "out" / "records").exists()
    assert learning_key_of(small_points.scenario(**IMAGES))


@pytest.mark.long
def test_they_are_the_same_in_other_processes(tmp_path):
    (one, _), _ = swept(tmp_path / "one", Local(1))
    (other, _), _ = swept(tmp_path / "two", Local(2))
    assert (one / weights.FILE).read_bytes() == (other / weights.FILE).read_bytes()


def test_a_run_whose_weights_are_gone_is_repeated(tmp_path):
    places, _ = swept(tmp_path / "out", Local(1))
    before = weights.read(places[0] / weights.FILE)
    (places[0] / weights.FILE).unlink()
    assert folders.damaged(places[0]) == [weights.FILE]
    kept_since = (places[1] / weights.FILE).stat().st_mtime_ns
    swept(tmp_path / "out", Local(1))
    assert same(before, weights.read(places[0] / weights.FILE))
    assert (places[1] / weights.FILE).stat().st_mtime_ns == kept_since


def test_without_the_key_nothing_is_kept_and_the_id_is_as_it_was(tmp_path):
    small_points.run_in(tmp_path / "run")
    assert not (tmp_path / "run" / weights.FILE).exists()
    assert "keep" not in small_points.scenario().plain()["measure"]
    ids = {small_points.point(**changes).id for changes in ({}, {"measure__keep": None}, KEEP)}
    assert len(ids) == 2


def test_where_nothing_is_learned_there_are_none():
    plain = small_points.scenario(algorithm={"name": "traffic", "up": "1 kB", "down": 0}, **KEEP).plain()
    for key in ("data", "model", "training"):
        del plain[key]
    (point,) = Scenario.model_validate(plain).points()
    assert "measure.keep: 'weights': nothing is learned here" in str(ScenarioError(check.points([point], whole=True)))
