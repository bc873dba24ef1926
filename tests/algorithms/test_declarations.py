"""What the classes of algorithms declare of their methods is true, and does not outlive a method that is overridden."""

import inspect
from dataclasses import dataclass
from typing import ClassVar, get_args

import pytest
import small_points
from contexts import with_algorithm

from algorithms.dg_colearn import DGCoLearn
from algorithms.fedavg import FedAvg
from algorithms.fedprox import FedProx
from algorithms.power import Power
from fedsim.learn.algorithm import Algorithm, Needs, title_of
from fedsim.point.checks import fit
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

OPTIONS = {"traffic": {"down": "1 B", "up": "1 B"}}  # those that an algorithm needs
SHIPPED = [find.build("algorithm", Part(name=name, options=OPTIONS.get(name, {}))) for name in find.names("algorithm")]


def title(algorithm):
    return title_of(type(algorithm))


each_algorithm = pytest.mark.parametrize("algorithm", SHIPPED, ids=title)


@each_algorithm
def test_its_declarations_are_true_of_its_methods(algorithm):
    own = type(algorithm)
    assert algorithm.own_steps == (own.steps is not Algorithm.steps)
    assert algorithm.sees_more == (own.sees is not Algorithm.sees)
    averages = [getattr(own, name) is getattr(FedAvg, name, None) for name in ("update", "upload_like", "steps")]
    assert algorithm.averages == (all(averages) and algorithm.talks)


@pytest.mark.parametrize("algorithm", [one for one in SHIPPED if isinstance(one, FedAvg)], ids=title)
def test_one_that_declares_to_follow_the_aggregation_takes_its_average_from_fedavg(algorithm):
    if algorithm.aggregates and type(algorithm).update is not FedAvg.update:
        source = inspect.getsource(inspect.getmodule(type(algorithm).update))
        assert "self.aggregate(" in source or "super().update(" in source


@each_algorithm
def test_nothing_else_is_declared_where_exchanges_are_prepared(algorithm):
    assert not algorithm.prepares or algorithm.own_steps


class Adds:
    """What a user may write below an algorithm."""

    def update(self, state, replies, step):
        return {**super().update(state, replies, step), "seen": [reply.upload for reply in replies]}


class More:
    def upload_like(self, job):
        return {**super().upload_like(job), "more": 0}


class Twice:
    def steps(self, state):
        return ("train", "train")


@pytest.mark.parametrize("base", [FedAvg, FedProx, Power])
@pytest.mark.parametrize("change", [Adds, More, Twice])
def test_privacy_is_never_promised_for_a_method_that_was_overridden_without_a_word(base, change):
    class Mine(change, base):
        pass

    @dataclass(frozen=True)
    class Below(Mine):
        mu: float = 1.0

    options = {"transfer": False} if base is Power else {}
    assert base(**options).averages
    assert not Mine(**options).averages
    assert not Below(**options).averages


def test_privacy_of_an_undeclared_update_is_refused_before_the_run():
    class Mine(Adds, FedAvg):
        pass

    scenario = small_points.scenario(privacy={"clip": 1.0})
    assert [*fit._unprotected(with_algorithm(scenario, FedAvg()))] == []
    assert [key for key, _ in fit._unprotected(with_algorithm(scenario, Mine()))] == ["privacy.clip"]


def test_a_class_that_declares_it_anew_is_believed_and_those_below_it_too():
    class Mine(FedAvg):
        averages = True
        aggregates = True

        def update(self, state, replies, step):
            return super().update(state, replies, step)

    class Below(Mine):
        def work(self, job):
            return super().work(job)

    assert Mine().averages
    assert Mine().aggregates
    assert Below().averages


def test_an_update_that_does_not_declare_to_follow_the_aggregation_refuses_it():
    class Mine(Adds, FedAvg):
        pass

    assert FedAvg().aggregates
    assert not Mine().aggregates


def test_steps_and_views_that_nobody_declared_are_taken_to_be_there():
    class Mine(Twice, FedAvg):
        def sees(self, memory, graph):
            return {**graph}

    class Plain(FedAvg):
        def sees(self, memory, graph):
            return graph

        sees_more: ClassVar[bool] = False

    assert Mine().own_steps
    assert Mine().sees_more
    assert not Plain().sees_more
    assert not Plain().own_steps


def test_every_declaration_names_methods_of_the_contract():
    declared = FedAvg.declares
    flags = {"averages", "aggregates", "own_steps", "sees_more", "evolves", "any_model", "any_targets", "discloses"}
    assert set(declared) == flags
    assert all(callable(getattr(FedAvg, method)) for methods, _ in declared.values() for method in methods)


@each_algorithm
def test_what_it_needs_of_a_module_is_known_and_asked_only_where_modules_are_taken(algorithm):
    assert algorithm.needs <= {*get_args(Needs)}
    assert algorithm.any_model or type(algorithm).__name__ in ("FedDGL", "Ghost") or not algorithm.needs


def test_a_title_is_not_inherited():
    class Mine(DGCoLearn):
        pass

    assert title_of(DGCoLearn) == "DG-CoLearn"
    assert title_of(Mine) == "Mine"
