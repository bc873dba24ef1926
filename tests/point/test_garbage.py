"""A point leaves no memory behind, however many objects Python would wait for."""

import gc
import math
import weakref

import numpy as np
import pytest
from small_points import PLAIN

from fedsim.net.network import SimulatedNetwork
from fedsim.point.attempt import attempt
from fedsim.point.checks import check, memory
from fedsim.point.results.folders import LOCK
from fedsim.scenario.schema import Scenario


class World:
    """Something large that refers to itself."""

    def __init__(self, nbytes):
        self.own = self
        self.graph = np.ones(nbytes, np.uint8)  # written to, so that it is there


@pytest.fixture
def _no_collections():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_no_collections")
def test_a_point_that_raises_the_peak_is_collected(tmp_path):
    left = []

    def run(*_):
        world = World(int(memory.peak()))  # more than all that was there before
        left.append(weakref.ref(world))
        return {"status": "done"}

    (tmp_path / LOCK).touch()
    [point] = Scenario.model_validate(PLAIN).points()
    attempt(run, tmp_path, tmp_path, None, {}, point, lambda _: None)
    assert left
    assert left[0]() is None


@pytest.mark.usefixtures("_no_collections")
def test_a_check_leaves_no_network_where_it_has_raised_the_peak(monkeypatch):
    gc.collect()
    before = sum(type(one) is SimulatedNetwork for one in gc.get_objects())
    monkeypatch.setattr(memory, "ROOM", -1.0)
    assert check.points([*Scenario.model_validate(PLAIN).points()]) == []
    assert sum(type(one) is SimulatedNetwork for one in gc.get_objects()) == before


@pytest.mark.usefixtures("_no_collections")
@pytest.mark.parametrize(("grown", "collected"), [(0.0, False), (2 * memory.ROOM, True), (math.inf, True)])
def test_small_points_wait_for_pythons_own_collections(monkeypatch, grown, collected):
    world = World(1)
    left = weakref.ref(world)
    del world
    monkeypatch.setattr(memory, "peak", lambda: 1e9 + grown)
    memory.reclaim(1e9)
    assert (left() is None) == collected


@pytest.mark.usefixtures("_no_collections")
@pytest.mark.parametrize(("turn", "collected"), [("0" * 12, True), (f"{memory.TURNS:012x}", True), ("1", False)])
def test_one_point_of_many_collects_whatever_the_peak(monkeypatch, turn, collected):
    world = World(1)
    left = weakref.ref(world)
    del world
    monkeypatch.setattr(memory, "peak", lambda: 1e9)
    memory.reclaim(1e9, turn)
    assert (left() is None) == collected
