"""Name the algorithms of a sweep in reports: by their published names, and by options where these differ.

A run writes an algorithm's published name into the column `method` of its summary. Two algorithms with the same
name also show the options in which they differ, "Fed-ERGNN (beta 0.1)", except options that are axes themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

NAME = "name"
INLINE = r"\binline_[0-9a-f]{10}\."


@dataclass(frozen=True)
class Given:
    """An algorithm as one run's axis has it: the run, the axis's value, the published name ("" if not known), options.

    Among the options is the name of the algorithm's file. Options that vary under the same value are left out.
    """

    run: str
    value: str
    title: str
    options: Mapping[str, str]


def labels(points: pd.DataFrame, scenarios: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> pd.Series:
    """Return the name of each point's algorithm; `points` have the columns results, algorithm and method.

    `scenarios` are the points' resolved ones, empty where a point has none.
    """
    own = {axis.split(".")[1] for axis in axes if axis.startswith("algorithm.")}
    given = [*_given(points, scenarios, own)]
    names: dict[tuple[str, str], str] = {}
    for title in dict.fromkeys(one.title for one in given):
        alike = [one for one in given if one.title == title]
        names |= _apart(alike) if title else {(one.run, one.value): one.value for one in alike}
    keys = zip(points["results"], points["algorithm"], strict=True)
    return pd.Series([names[key] for key in keys], index=points.index, dtype="str")


def without_digests(names: pd.Series) -> pd.Series:
    """Return names of classes that were given in Python without the digest of their source, if they stay distinct."""
    short = names.str.replace(INLINE, "", regex=True)
    return short if short.nunique() == names.nunique() else names


def _given(points: pd.DataFrame, scenarios: Sequence[Mapping[str, Any]], own: set[str]) -> Iterator[Given]:
    options = pd.Series([_options(scenario) for scenario in scenarios], index=points.index, dtype="object")
    for (run, value), rows in points.groupby(["results", "algorithm"], sort=False):
        alike = shared([one for one in options[rows.index] if one])
        title = next((name for name in rows["method"] if name), "")
        yield Given(str(run), str(value), title, {key: text for key, text in alike.items() if key not in own})


def shared(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the items that all of these have."""
    first = dict(parts[0]) if parts else {}
    return {key: value for key, value in first.items() if all(part.get(key) == value for part in parts)}


def _apart(alike: Sequence[Given]) -> dict[tuple[str, str], str]:
    """Return a label for each algorithm of one published name."""
    keys = dict.fromkeys(key for one in alike for key in one.options if key != NAME)
    differing = [key for key in keys if len({one.options.get(key) for one in alike}) > 1]
    names = {(one.run, one.value): _label(one, differing) for one in alike}
    if _mixed(alike, names):
        names = {(one.run, one.value): _label(one, [NAME, *differing]) for one in alike}
    if _mixed(alike, names):
        names = {(one.run, one.value): f"{one.title} ({one.value})" for one in alike}
    return names


def _mixed(alike: Sequence[Given], names: Mapping[tuple[str, str], str]) -> bool:
    """Return whether one label would name two values of one run's axis, or two files."""
    places = {(one.run, names[one.run, one.value]) for one in alike}
    files = {(one.options.get(NAME), names[one.run, one.value]) for one in alike}
    return len(places) < len(alike) or len(files) > len(set(names.values()))


def _label(one: Given, differing: Sequence[str]) -> str:
    known = [(key, one.options[key]) for key in differing if key in one.options]
    options = [value if key == NAME else f"{key} {value}" for key, value in known]
    return f"{one.title} ({', '.join(options)})" if options else one.title


def _options(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Return an algorithm's options as texts, and the name of its file; nothing where there is no algorithm."""
    part = scenario.get("algorithm")
    if isinstance(part, str):
        return {NAME: part}
    if not isinstance(part, dict):
        return {}
    given = {**part, **(part.get("options") or {})}
    return {str(key): _text(value) for key, value in given.items() if key != "options"}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return " + ".join(map(_text, value)) or "none"
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
