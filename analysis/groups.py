"""Group conditions that have the same answer, so that it is stated once for all of them.

Conditions are split recursively by the axis that separates their answers best, until each part has a single answer.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

from analysis.axes import number, ordered, short

T = TypeVar("T")
MOST = 5  # values that are listed one by one
Way = tuple[tuple[str, tuple[str, ...]], ...]  # axes and selected values of each


@dataclass(frozen=True)
class Group(Generic[T]):
    """Conditions of one answer: the values that they have in common, and the members."""

    way: Way
    members: tuple[T, ...]


def grouped(
    members: Sequence[T], place: Callable[[T], Mapping[str, str]], answer: Callable[[T], Hashable]
) -> list[Group[T]]:
    """Return the members in groups of one answer each, those of one axis's values in their order."""
    if len({answer(member) for member in members}) < 2:
        return [Group((), tuple(members))]
    values = {axis: ordered(place(member)[axis] for member in members) for axis in place(members[0])}
    varied = [axis for axis in values if len(values[axis]) > 1]
    if not varied:  # indistinguishable conditions: keep them all
        return [Group((), (member,)) for member in members]

    def parts(axis: str) -> dict[str, list[T]]:
        return {value: [m for m in members if place(m)[axis] == value] for value in values[axis]}

    axis = min(varied, key=lambda one: sum(len({answer(m) for m in part}) for part in parts(one).values()))
    found = {value: grouped(part, place, answer) for value, part in parts(axis).items()}
    alike: dict[Hashable, list[str]] = {}
    for value, groups in found.items():
        answers = tuple((group.way, answer(group.members[0])) for group in groups)
        alike.setdefault(answers, []).append(value)
    return [group for same in alike.values() for group in _merged(axis, same, found)]


def _merged(axis: str, values: Sequence[str], found: Mapping[str, Sequence[Group[T]]]) -> Iterator[Group[T]]:
    """Yield the groups that several values of an axis share."""
    for several in zip(*(found[value] for value in values), strict=True):
        members = tuple(member for group in several for member in group.members)
        yield Group(((axis, tuple(values)), *several[0].way), members)


def where(way: Way, all_values: Mapping[str, Sequence[str]]) -> str:
    """Return "at participation 0.3 and latency 10 ms", or "" if nothing is selected."""
    return ", ".join(_place(axis, values, all_values[axis]) for axis, values in way)


def _place(axis: str, values: Sequence[str], of: Sequence[str]) -> str:
    text = listed(values, of)
    if text.count(",") >= MOST - 1:
        return f"at {len(values)} of {len({*of})} values of {short(axis)}"
    return f"{'at' if _measured(values) else 'with'} {short(axis)} {text}"


def listed(values: Sequence[str], of: Sequence[str]) -> str:
    """Return "10 ms", "10 ms and 1 s", or "10 ms to 1 s" for three or more that follow one another in `of`."""
    line = [value for value in ordered(of) if value in values]
    places = [ordered(of).index(value) for value in line]
    if len(line) > 2 and _measured(line) and all(b == a + 1 for a, b in pairwise(places)):
        return f"{line[0]} to {line[-1]}"
    return joined(line)


def joined(names: Sequence[str], word: str = "and") -> str:
    """Return "a", "a and b", "a, b and c"."""
    return f"{', '.join(names[:-1])} {word} {names[-1]}" if len(names) > 1 else "".join(names)


def everywhere(group: Group[T], place: Callable[[T], Mapping[str, str]]) -> str:
    """Return "at every latency" for the axes that the group holds all values of, or "" if it is one condition."""
    places = [place(member) for member in group.members]
    said = {axis for axis, _ in group.way}
    varied = [axis for axis in places[0] if axis not in said and len({one[axis] for one in places}) > 1]
    if not varied:
        return ""
    combined = 1
    for axis in places[0]:
        combined *= len({one[axis] for one in places})
    if combined != len(places) or len(varied) > 2:
        return "in every condition" if not group.way else "in all of these conditions"
    return f"at every {joined([short(axis) for axis in varied])}"


def _measured(values: Sequence[str]) -> bool:
    """Return whether values are numbers or draws of them, such as "10 ms" or "lognormal(50 ms, 0.5)"."""
    return all(number(value) is not None or ("(" in value and value[-2:-1].isdigit()) for value in values)
