"""Effects declare the hooks that they override; an override that is not declared is refused, never ignored."""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass

import numpy as np
import pytest
import yaml
from netlab import world
from scenario_texts import TRAFFIC

from fedsim.core.errors import UserError
from fedsim.net import effects
from fedsim.net.effect import HOOKS, Effect, check_hooks
from fedsim.net.effects.jitter import Jitter
from fedsim.point.parts import Parts
from fedsim.point.rehearsal import problems
from fedsim.scenario.schema import Scenario


def shipped():
    """The classes of all files in `effects/`."""
    modules = [
        importlib.import_module(f"{effects.__name__}.{each.name}") for each in pkgutil.iter_modules(effects.__path__)
    ]
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, Effect) and kind.__module__ == module.__name__
    ]


def test_every_file_of_effects_holds_one():
    assert len(shipped()) == len([*pkgutil.iter_modules(effects.__path__)]) > 10


@pytest.mark.parametrize("kind", shipped(), ids=lambda kind: kind.__name__)
def test_every_shipped_effect_declares_just_what_it_overrides(kind):
    overrides = {
        hook for hook in HOOKS if any(hook in vars(base) for base in kind.__mro__[: kind.__mro__.index(Effect)])
    }
    assert {hook for hook, flag in HOOKS.items() if getattr(kind, flag)} == overrides
    assert overrides, "an effect without a hook has no effect"
    assert kind.calm <= kind.drives, "calm is said of what an effect drives"
    check_hooks(object.__new__(kind))


def test_the_hooks_are_all_methods_of_the_contract():
    assert set(HOOKS) == {name for name, value in vars(Effect).items() if inspect.isfunction(value)}
    assert not any(getattr(Effect, flag) for flag in HOOKS.values())


@pytest.mark.parametrize(("hook", "flag"), HOOKS.items())
def test_an_override_that_is_not_declared_is_refused(hook, flag):
    kind = type("Fog", (Effect,), {hook: lambda self, *args: None, "__module__": "mylab.fog"})
    with pytest.raises(UserError, match=rf"Fog \(mylab\.fog\) overrides '{hook}' but .* add the line '{flag} = True'"):
        world(effects=[kind()])


@pytest.mark.parametrize(("hook", "flag"), HOOKS.items())
def test_a_declaration_without_a_method_is_refused(hook, flag):
    kind = type("Fog", (Effect,), {flag: True})
    with pytest.raises(UserError, match=f"declares '{flag} = True' but does not override '{hook}'"):
        world(effects=[kind()])


def test_an_heir_inherits_hooks_with_their_declarations():
    @dataclass(frozen=True)
    class Doubled(Jitter):
        def shape(self, transfer, rng):
            super().shape(transfer, rng)
            super().shape(transfer, rng)

    here = world(effects=[Doubled(0.01)])
    assert here.network._shaping == here.network.effects
    assert world(effects=[type("Plain", (Effect,), {})()]).network._shaping == ()


def test_only_declared_hooks_are_asked_for_a_stay():
    @dataclass(frozen=True)
    class Leaves(Effect):
        seconds: float
        limits_stay = True

        def stay(self, rng):
            return self.seconds

    here = world(effects=[Leaves(3.0), Jitter(0.0), Leaves(2.0)])
    assert here.network.makes_leave
    assert here.network.stay(np.random.default_rng(0)) == 2.0
    assert not world(effects=[Jitter(0.0)]).network.makes_leave


def test_a_scenario_with_such_an_effect_is_refused_before_it_runs(tmp_path, monkeypatch):
    (tmp_path / "hooklab").mkdir()
    (tmp_path / "hooklab" / "__init__.py").touch()
    (tmp_path / "hooklab" / "mist.py").write_text(
        '"""Mist."""\n\nfrom dataclasses import dataclass\n\nfrom fedsim.net.effect import Effect\n\n\n'
        '@dataclass(frozen=True)\nclass Mist(Effect):\n    """Mist over the links."""\n\n'
        "    def shape(self, transfer, rng):\n        transfer.jitter += 1.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    plain = yaml.safe_load(TRAFFIC) | {"grid": {}}
    plain["network"]["effects"] = [{"name": "hooklab.mist"}]
    (problem,) = problems(Parts(Scenario.model_validate(plain)))
    assert problem.key == "network.effects.0"
    assert "Mist (hooklab.mist) overrides 'shape' but does not declare it" in problem.message
