"""A chart of a sweep's scores over simulated time or over bytes, for notebooks: one line per point.

Scores are means over the periods met so far; if there are several, the axis says so.  Long curves are thinned evenly,
keeping their first and last values.  Not modelled: means and intervals over seeds, which the report has.
"""

from html import escape
from typing import Any, Protocol

import altair as alt
import numpy as np
import pandas as pd

from analysis.axes import ordered, short
from analysis.frontier import curve
from analysis.quantity import BYTES, SECONDS, unit_for
from fedsim.core.errors import UserError

MOST = 300  # values of a curve
AXES = {"time": ("time", "simulated time", SECONDS), "bytes": ("moved", "bytes moved, all directions", BYTES)}
LABELS = ("line", "panel")
WIDTH, HEIGHT, COLUMNS, FRAME = 380, 240, 3, 380


class Scored(Protocol):
    """What a chart needs of a sweep's result (`result.py`)."""

    @property
    def folder(self) -> object:
        """Where it lies."""
        ...

    @property
    def points(self) -> pd.DataFrame:
        """A row for each point."""
        ...

    @property
    def scores(self) -> pd.DataFrame:
        """The scores of all points."""
        ...

    @property
    def transfers(self) -> pd.DataFrame:
        """The transfers of all points."""
        ...

    @property
    def conditions(self) -> list[str]:
        """The axes but the seeds."""
        ...

    def labels(self, axis: str) -> dict[Any, str]:
        """Return how each value of an axis is written."""
        ...


class Offline:
    """A chart whose pages hold their scripts: to show or to save it asks no other machine."""

    def save(self, fp: Any, format: str | None = None, **options: Any) -> None:
        """Write a page, or a picture; see Altair."""
        page = (format or str(fp).rpartition(".")[2]) == "html"
        super().save(fp, format, **({"inline": True} if page else {}) | options)  # type: ignore[misc]

    def to_html(self, *args: Any, **options: Any) -> str:
        """Return a page; see Altair."""
        page: str = super().to_html(*args, **{"inline": True, **options})  # type: ignore[misc]
        return page

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
        # A page of its own: a notebook may have loaded another version of the same scripts.
        style = f"border: 0; width: 100%; height: {FRAME}px"
        return {"text/html": f'<iframe title="scores" style="{style}" srcdoc="{escape(self.to_html())}"></iframe>'}


class Lines(Offline, alt.Chart):  # type: ignore[misc]
    """One panel."""


class Panels(Offline, alt.FacetChart):  # type: ignore[misc]
    """Several panels."""


def chart(result: Scored, over: str, metric: str | None, split: str) -> Any:
    """Return the chart; see `Result.plot`."""
    if over not in AXES:
        raise UserError(f"plot({over!r}): unknown axis; give {' or '.join(map(repr, AXES))}")
    scores, transfers = result.scores, result.transfers
    if not len(scores):
        raise UserError(f"plot: nothing was scored in {result.folder}; nothing was learned, or no point has ended")
    metric = metric or str(scores["metric"].iloc[0])
    if wrong := [(what, name) for what, name in (("metric", metric), ("split", split)) if name not in {*scores[what]}]:
        what, name = wrong[0]
        there = ", ".join(ordered(scores[what].astype(str)))
        raise UserError(f"plot: there are no scores of the {what} {name!r}; there are {there}")
    model = "global" if "global" in {*scores["model"]} else str(scores["model"].iloc[0])
    axis, title, units = AXES[over]
    rows = pd.concat(
        _thinned(curve(scores[scores["point"] == point], transfers[transfers["point"] == point], model, metric, split))
        .assign(point=point, seed=int(own["seed"].iloc[0]), **_labels(result, own))
        for point, own in result.points[result.points["status"] != "failed"].groupby("point", sort=False)
    )  # fmt: skip
    scale, unit = unit_for(float(rows[axis].max()), units)
    rows = rows.assign(place=rows[axis] / scale)[["place", "score", "point", "seed", *LABELS]]
    place = f"{title} ({unit})"
    several = ", mean over the periods met so far" if scores["period"].nunique() > 1 else ""
    tips = [alt.Tooltip("place:Q", title=place, format=".4g"), alt.Tooltip("score:Q", format=".3f")]
    lines = (
        Lines(width=WIDTH, height=HEIGHT)
        .mark_line(interpolate="step-after", point=bool(rows.groupby("point").size().min() < 2))
        .encode(
            x=alt.X("place:Q", title=place),
            y=alt.Y("score:Q", title=f"{metric}{several}", scale=alt.Scale(zero=False)),
            color=alt.Color("line:N", title=None, sort=None, legend=alt.Legend(orient="top", labelLimit=300)),
            detail="point:N",
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("line", "panel", "seed")] + tips,
        )
    )
    data = alt.InlineData(values=_records(rows))
    if rows["panel"].nunique() < 2:
        lines.data = data
        return lines
    panels = Panels(data=data, spec=lines, facet=alt.Facet("panel:N", title=None, sort=None), columns=COLUMNS)
    return panels.resolve_scale(x="independent")  # a slow network would compress the others


def _labels(result: Scored, own: pd.DataFrame) -> dict[str, str]:
    """Return the label that colours a point's line, and its panel."""
    row, axes = own.iloc[0], result.conditions
    colour = [axis for axis in axes if axis == "algorithm"] or axes
    shown = {axis: result.labels(axis)[row[axis]] for axis in axes}
    line = ", ".join(shown[axis] if axis == "algorithm" else f"{short(axis)} {shown[axis]}" for axis in colour)
    return {
        "line": line or "score",
        "panel": ", ".join(f"{short(axis)} {shown[axis]}" for axis in axes if axis not in colour),
    }


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(MOST, len(rows))).round().astype(int))
    return rows.iloc[chosen]


def _records(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    return [{str(key): value for key, value in row.items()} for row in rows.to_dict("records")]
