"""Effects declare the hooks that they override; an override that is not declared is refused, never ignored."""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass

import numpy as np
import pytest
from netlab import world

from fedsim.net import effects
from fedsim.net.effect import HOOKS, Effect
from fedsim.net.effects.jitter import Jitter


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
def test_a_class_has_the_flags_of_the_hooks_that_it_overrides(kind):
    overrides = {
        hook for hook in HOOKS if any(hook in vars(base) for base in kind.__mro__[: kind.__mro__.index(Effect)])
    }
    assert {hook for hook, flag in HOOKS.items() if getattr(kind, flag)} == overrides
    assert overrides, "an effect without a hook has no effect"
    assert kind.changes_presence_only <= kind.drives, "said of what an effect drives"


def test_the_hooks_are_all_methods_of_the_contract():
    assert set(HOOKS) == {name for name, value in vars(Effect).items() if inspect.isfunction(value)}
    assert not any(getattr(Effect, flag) for flag in HOOKS.values())


def test_an_heir_inherits_hooks_with_their_flags():
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

        def stay(self, rng):
            return self.seconds

    here = world(effects=[Leaves(3.0), Jitter(0.0), Leaves(2.0)])
    assert here.network.makes_leave
    assert here.network.stay(np.random.default_rng(0)) == 2.0
    assert not world(effects=[Jitter(0.0)]).network.makes_leave
