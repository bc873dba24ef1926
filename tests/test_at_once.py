"""Dataclasses whose fields are set at once: no different to those who make and read them."""

import dataclasses
import inspect

import pytest

from fedsim.core.at_once import at_once


@dataclasses.dataclass(frozen=True)
class Plain:
    first: int
    second: str = "two"


Quick = at_once(dataclasses.make_dataclass("Quick", [("first", int), ("second", str, "two")], frozen=True))


def test_it_is_made_replaced_and_frozen_as_any_other():
    assert dataclasses.astuple(Quick(1)) == dataclasses.astuple(Plain(1)) == (1, "two")
    assert dataclasses.replace(Quick(1), second="x") == Quick(1, "x")
    assert inspect.signature(Quick) == inspect.signature(Plain)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Quick(1).first = 2
    for wrong in ((), (1, "x", 3)):
        with pytest.raises(TypeError, match="argument"):
            Quick(*wrong)


@pytest.mark.parametrize("odd", [{"slots": True}, {"kw_only": True}, {"namespace": {"__post_init__": print}}])
def test_classes_that_it_cannot_serve_are_refused(odd):
    cls = dataclasses.make_dataclass("Odd", [("first", int)], frozen=True, **odd)
    with pytest.raises(TypeError, match="Odd has fields"):
        at_once(cls)
