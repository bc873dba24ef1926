"""Drawn stand-ins of large graphs of events: sizes and laws as published, and the path of a user's own file."""

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter

from fedsim.core.errors import UserError
from fedsim.data.datasets.drawn_events import SHAPES, DrawnEvents
from fedsim.data.datasets.tgb import Tgb
from fedsim.data.time import popularity
from fedsim.data.time.temporal import events
from fedsim.data.time.windows import bounds_of, snapshots_of


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))


def test_weights_follow_the_law_whose_largest_and_median_are_known():
    coin, reddit = SHAPES["tgbl_coin"], SHAPES["tgbn_reddit"]
    own = popularity.weights(coin.sources, coin.least, 2 * coin.events)
    assert own.sum() == pytest.approx(2 * coin.events, rel=1e-3)
    assert [own[0], np.median(own)] == pytest.approx([2.47e6, 18.4], rel=5e-3)
    own = popularity.weights(reddit.sources, reddit.least, reddit.events)
    assert [own[0], np.median(own)] == pytest.approx([390_686, 1512], rel=1e-3)
    own = popularity.zipf(reddit.targets, reddit.events)
    assert [own[0], own[-1]] == pytest.approx([3.81e6, 5463], rel=5e-3)
    with pytest.raises(ValueError, match="more than"):
        popularity.weights(10, 5, 49)


@pytest.mark.parametrize("like", SHAPES)
def test_a_thousandth_has_a_thousandth_of_everything(like):
    ends, times = DrawnEvents(like=like, scale=0.001).events(3)
    shape, count = SHAPES[like], round(SHAPES[like].events / 1000)
    assert ends.shape == (2, count)
    assert len(np.unique(times)) == round(shape.ticks / 1000)
    assert (np.diff(times) >= 0).all()
    assert shape.span[0] <= times[0] <= times[-1] < shape.span[1]
    assert (ends[0] != ends[1]).all()
    sources, targets = round(shape.sources / 1000), round(shape.targets / 1000) or 0
    assert len(np.unique(ends)) == sources + max(targets, 2 if targets else 0)
    if targets:
        assert ends[0].max() < sources <= ends[1].min()  # users and subreddits


@pytest.mark.parametrize("surprise", [0.05, 0.12, 0.4])
def test_the_surprise_is_the_one_asked(surprise):
    own = popularity.weights(3000, 10, 80_000)
    who = popularity.Popularity(own, own, False)
    ends = popularity.pairs(who, 40_000, surprise, np.random.default_rng(1))
    key = ends[0] * 3000 + ends[1]
    before, after = key[:34_000], key[34_000:]
    assert len(np.setdiff1d(after, before)) / 6000 == pytest.approx(surprise, abs=0.01)


def test_events_that_are_too_few_are_refused():
    own = popularity.weights(100, 1, 100)
    with pytest.raises(ValueError, match="too few"):
        popularity.pairs(popularity.Popularity(own, own, False), 40, 0.1, np.random.default_rng(0))


def test_it_is_drawn_once_for_each_seed_and_read_as_a_users_file(tmp_path):
    data = DrawnEvents(scale=0.001)
    graph = data.load(tmp_path, 1)
    file = data.file(1)
    text, stamp = file.read_text(), file.stat().st_mtime_ns
    assert text.startswith("source,destination,timestamp\n")
    again = data.load(tmp_path, 1)
    assert file.stat().st_mtime_ns == stamp
    own = Tgb(file=file).load(tmp_path, 0)
    for key in ("edges", "since", "until", "x"):
        assert torch.equal(graph[key], again[key])
        assert torch.equal(graph[key], own[key])
    assert not torch.equal(data.load(tmp_path, 2)["since"], graph["since"])
    assert torch.equal(DrawnEvents(scale=0.001, drawn=1).load(tmp_path, 7)["edges"], graph["edges"])


def test_users_of_a_drawn_reddit_have_the_class_of_their_subreddit_and_subreddits_none(tmp_path):
    y = DrawnEvents(like="tgbn_reddit", scale=0.002).load(tmp_path, 0)["y"]
    users = round(SHAPES["tgbn_reddit"].sources * 0.002)
    assert (y[:users] >= 0).all()
    assert (y[users:] == -1).all()


def test_classes_are_where_weights_are_largest_in_sum(tmp_path):
    (tmp_path / "events.csv").write_text("source,destination,timestamp\nanna,x,1\nbert,x,2\ncora,y,3\n")
    (tmp_path / "labels.csv").write_text(
        "timestamp,source,destination,weight\n1,anna,p,0.6\n1,anna,q,0.5\n2,anna,q,0.2\n1,cora,p,1\n1,annabel,z,9\n"
    )
    graph = Tgb(file=tmp_path / "events.csv", labels=tmp_path / "labels.csv").load(tmp_path, 0)
    assert graph["y"].tolist() == [1, -1, 0, -1, -1]  # anna, bert, cora, x, y; of the classes p, q, z


def test_names_of_nodes_that_events_number_are_refused(tmp_path):
    (tmp_path / "events.csv").write_text("source,destination,timestamp\n1,2,1\n2,3,2\n")
    (tmp_path / "labels.csv").write_text("timestamp,source,destination,weight\n1,anna,2,1\n")
    with pytest.raises(UserError, match="names"):
        Tgb(file=tmp_path / "events.csv", labels=tmp_path / "labels.csv").load(tmp_path, 0)


def test_a_scale_that_means_nothing_is_refused():
    for scale in (0, 2, float("nan")):
        with pytest.raises(ValueError, match="scale"):
            TypeAdapter(DrawnEvents).validate_python({"scale": scale})


@pytest.mark.parametrize("window", [1, 3])
def test_events_are_cut_into_snapshots_as_a_look_at_each_finds(window):
    rng = np.random.default_rng(0)
    graph = events(rng.integers(0, 30, (2, 400)), np.sort(rng.random(400) * 100), 30)
    bounds = bounds_of(graph, 8, None)
    for t, snapshot in enumerate(snapshots_of(graph, bounds, window)):
        begin, end = float(bounds[max(0, t - window + 1)]), float(bounds[t + 1])
        since = graph["since"]
        inside = (since >= begin) & ((since < end) | (t == 7))
        expected = torch.unique(graph["edges"][0, inside] * 30 + graph["edges"][1, inside])
        assert torch.equal(snapshot["edges"][0] * 30 + snapshot["edges"][1], expected)
