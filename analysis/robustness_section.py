"""The report's part on the numeric axes of a sweep: the share of AM that is kept, AM itself, and heat maps.

If runs have several periods the headline is AM, and the score is shown beside it only where the two differ: they are
equal if all clients have met all periods by the last scoring.
"""

from itertools import combinations
from typing import Protocol

import numpy as np
import pandas as pd

from analysis import along, charts, crosses, robustness, sections
from analysis.axes import best_end, is_numeric, replicates, short
from analysis.groups import joined
from analysis.heat_maps import heat
from analysis.page import paragraph
from analysis.ranked_section import NAMES
from analysis.ranking import headline
from analysis.sheet import part
from analysis.spread import over_replicates
from analysis.unchanging import every, flat, settled


class Files(Protocol):
    """Where tables and drawings go."""

    def save(self, name: str, frame: pd.DataFrame) -> None:
        """Write a table."""

    def drawn(self, name: str, spec: charts.Spec) -> str:
        """Write a drawing and return it as a part of the page."""


def robustness_section(
    points: pd.DataFrame, means: pd.DataFrame, axes: list[str], target: float | None, files: Files
) -> str:
    """Write the figures and tables, and return the part of the page; "" if no method was run along an axis."""
    numeric = [axis for axis in axes if is_numeric(points[axis])]
    measures = _measures(points)
    by = ["algorithm", *replicates(points.columns)]
    rows, left, _ = settled(points, axes, measures, by)
    parts = [_unchanged(axis, measures) for axis in numeric if axis not in left]
    for axis in (axis for axis in numeric if axis in left):
        others = [other for other in left if other != axis]
        found = crosses.along(rows, axis, others)
        for place, measure in enumerate(measures if len(found) else []):
            parts += _absolute(found, axis, others, measure, files)
            parts += _kept(found, axis, others, measure, f"robustness_{measure}" if place else "robustness", files)
    if not parts:
        return ""
    return part("robustness", "Robustness", *parts, *_heat_maps(means, numeric, axes, measures, target, files))


def _unchanged(axis: str, measures: list[str]) -> str:
    names = joined([NAMES[measure] for measure in measures])
    verb = "is" if len(measures) == 1 else "are"
    return paragraph(f"{names} {verb} the same at every {short(axis)}.")


def _measures(points: pd.DataFrame) -> list[str]:
    """Return the headline, and the score too if it differs."""
    first = headline(points)
    same = np.allclose(points["am"], points["score"], rtol=0, atol=1e-9, equal_nan=True)
    return [first] if first == "score" or same else [first, "score"]


def _absolute(rows: pd.DataFrame, axis: str, others: list[str], measure: str, files: Files) -> list[str]:
    levels = crosses.along(robustness.levels(rows, axis, others, measure), axis, others)
    if levels.empty:
        return []
    files.save(f"{measure}_along_{axis}", levels.drop(columns="units"))
    if flat(levels, axis, ["algorithm", *others], ["mean"]):
        return [paragraph(f"{NAMES[measure]} is the same at every {every(axis, levels)}, to within 0.5 %.")]
    spec = along.absolute(levels, axis, others, NAMES[measure])
    return [files.drawn(f"{measure}_along_{_name(axis)}", spec)]


def _kept(rows: pd.DataFrame, axis: str, others: list[str], measure: str, prefix: str, files: Files) -> list[str]:
    shares = robustness.shares(rows, axis, others, measure).dropna(subset="share")
    shares = crosses.along(shares, axis, others)
    if shares.empty:
        return []
    by, what, reference = ["algorithm", *others], NAMES[measure], best_end(axis, list(rows[axis]))
    kept = over_replicates(shares, [*by, axis, "x"], ["share"])
    areas = over_replicates(robustness.areas(shares, others), by, ["area"])
    files.save(f"{prefix}_{axis}", kept)
    files.save(f"{prefix}_area_{axis}", areas)
    if flat(kept, axis, by, ["share"]):
        return []  # nothing is lost, as the headline along the axis shows
    spec = along.robustness(kept, axis, others, f"{short(axis)} {reference}", what)
    return [
        files.drawn(f"{prefix}_{_name(axis)}", spec),
        sections.areas(areas, axis, others, reference, what, f"{prefix}_area_{axis}"),
    ]


def _heat_maps(
    means: pd.DataFrame, numeric: list[str], axes: list[str], measures: list[str], target: float | None, files: Files
) -> list[str]:
    """Return heat maps over the first pair of axes of which all combinations were run."""
    for pair in combinations(numeric, 2):
        others = [axis for axis in axes if axis not in pair]
        rows = crosses.crossed(means, pair, others)
        if len(rows):
            goals = ["seconds_to_target", "bytes_to_target"] if rows["seconds_to_target"].notna().any() else []
            return [
                files.drawn(f"heat_{value}", heat(shown, value, pair, left, target))
                for value in [*measures, *goals, "bytes_moved"]
                for shown, left in [_settled_map(rows, value, pair, others)]
                if len(shown)
            ]
    return []


def _settled_map(
    rows: pd.DataFrame, value: str, pair: tuple[str, str], others: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that a map is drawn from and its further axes; no rows if one of the pair changes nothing."""
    shown, left, _ = settled(rows, [*pair, *others], [value])
    return (shown, [axis for axis in left if axis not in pair]) if {*pair} <= {*left} else (rows.iloc[:0], others)


def _name(axis: str) -> str:
    return axis.replace(".", "_")
