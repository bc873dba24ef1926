"""An algorithm in the context that a run hands in."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import small_points
from contexts import with_algorithm, within
from learnlab import drawn_task

from algorithms.fedavg import FedAvg
from algorithms.fedprox import FedProx
from fedsim.core.errors import ScenarioError, UserError
from fedsim.learn.algorithm import Algorithm
from fedsim.point.build import learning
from fedsim.point.build.parts import Parts
from fedsim.scenario.part import Part
from fedsim.scenario.parts import defaults, find, options, source
from fedsim.sweep import objects

NAMES = ("task", "overview", "learning_rate", "local_steps", "momentum", "clients")


@pytest.mark.parametrize("name", NAMES)
def test_without_a_context_the_error_says_how_to_get_one(name):
    with pytest.raises(RuntimeError, match=r"FedProx has no context yet.*dataclasses\.replace"):
        getattr(FedProx(), name)


def test_a_scenario_s_settings_reach_its_algorithm():
    training = {"optimiser": "sgd", "lr": 0.02, "momentum": 0.5, "local_steps": 4}
    prox = {"name": "fedprox", "mu": 0.3}
    parts = Parts(small_points.scenario(training=training, algorithm=prox))
    lesson = learning.prepare(parts, Path())
    own = lesson.algorithm
    assert (own.learning_rate, own.local_steps, own.momentum, own.clients) == (0.02, 4, 0.5, 5)
    assert own.task is lesson.task
    assert own.mu == 0.3
    assert parts.algorithm.context is None  # the algorithm itself is left as it was
    adam = small_points.scenario(training={**training, "optimiser": "adam"}, algorithm=prox)
    assert learning.prepare(Parts(adam), Path()).algorithm.momentum == 0.0


def test_a_changed_copy_keeps_its_context_and_contexts_make_no_other_algorithm():
    algorithm = within(FedProx(mu=0.1), drawn_task())
    assert replace(algorithm, mu=0.2).task is algorithm.task
    assert algorithm == FedProx(mu=0.1) != FedProx(mu=0.2)
    assert repr(algorithm) == repr(FedProx(mu=0.1))


@pytest.mark.parametrize("name", find.names("algorithm"))
def test_a_context_is_no_option(name):
    cls, shown = options.of("algorithm", name)
    assert "context" not in [option.name for option in shown]
    assert "context" not in [field.name for field in source.option_fields(cls)]
    assert "context" not in defaults.of(cls)
    with pytest.raises(ScenarioError, match="has no option 'context'"):
        find.build("algorithm", Part(name=name, options={"context": 1}))


def test_an_object_with_a_context_is_written_as_one_without():
    algorithm = within(FedProx(mu=0.1), drawn_task())
    assert objects.plain(algorithm, {}) == objects.plain(FedProx(mu=0.1), {}) == {"name": "fedprox", "mu": 0.1}


def test_an_algorithm_with_an_init_of_its_own_is_refused_by_name():
    class Stubborn(FedAvg):
        def __init__(self):
            super().__init__()

    with pytest.raises(ScenarioError, match=r"Stubborn cannot be handed its context .*frozen dataclass"):
        learning.prepare(with_algorithm(small_points.scenario(), Stubborn()), Path())


@pytest.mark.parametrize(
    ("base", "head", "field", "message"),
    [
        ("from fedsim.learn.algorithm import Algorithm as Base", "@dataclass", "mu: float = 0.1",
         r"write @dataclass\(frozen=True\)"),
        ("from algorithms.fedavg import FedAvg as Base", "@dataclass(frozen=True, kw_only=True)", "momentum: float",
         r"mine.py: Mine defines 'momentum'.*a run provides.*such as own_momentum"),
    ],
    ids=["not frozen", "an option named like what a run provides"],
)  # fmt: skip
def test_a_class_that_no_context_fits_is_refused_with_the_remedy(base, head, field, message, tmp_path, monkeypatch):
    (tmp_path / "own_lab").mkdir()
    text = f"from dataclasses import dataclass\n{base}\n\n\n{head}\nclass Mine(Base):\n    {field}\n"
    (tmp_path / "own_lab" / "mine.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_lab", raising=False)
    monkeypatch.delitem(sys.modules, "own_lab.mine", raising=False)
    with pytest.raises(ScenarioError, match=message):
        find.build("algorithm", Part(name="own_lab.mine"))


@pytest.mark.parametrize("name", [*NAMES, "context"])
@pytest.mark.parametrize("line", ["{}: float = 0.9", "{}: float", "{} = 0.9", "def {}(self): return 0.9"])
def test_nothing_may_replace_what_a_run_provides(name, line):
    text = f"@dataclass(frozen=True, kw_only=True)\nclass Mine(FedAvg):\n    {line.format(name)}"
    with pytest.raises(UserError, match=rf"^Mine defines '{name}'.*a run provides.*own_{name}"):
        exec(text, {"dataclass": dataclass, "FedAvg": FedAvg, "__name__": "own_lab.mine"})


@pytest.mark.parametrize("name", [name for name in vars(Algorithm) if not name.startswith("_") and name != "context"])
def test_no_option_may_replace_a_method_or_a_declaration(name):
    with pytest.raises(UserError, match=rf"^Mine defines '{name}'.*give the option another name, such as own_{name}"):
        type("Mine", (FedAvg,), {"__annotations__": {name: int}, name: 3})


@pytest.mark.parametrize("bases", ["Options, FedAvg", "FedAvg, Options"])
def test_an_option_of_a_class_beside_the_algorithm_is_one_of_its_own(bases):
    @dataclass(frozen=True)
    class Options:
        clients: int = 3

    with pytest.raises(UserError, match=r"Options .* defines 'clients'"):
        exec(f"class Mine({bases}): pass", {"FedAvg": FedAvg, "Options": Options, "__name__": "own_lab.mine"})


def test_declarations_and_methods_may_be_made_anew():
    @dataclass(frozen=True)
    class Mine(FedAvg):
        title: ClassVar[str] = "Own"
        averages = True
        schedule: int = 3  # in the context, but not of the algorithm

        def steps(self, state):
            return ("train",)

    assert Mine().schedule == 3


def test_a_plain_class_and_a_field_without_a_default_fit_below():
    @dataclass(frozen=True)
    class Needs(Algorithm):
        wanted: int

        def start(self):
            return {}

        download = work = update = start

    assert Needs(3).wanted == 3
    with pytest.raises(TypeError):
        Needs(3, None)  # a context goes by its name alone
