"""A chart of scores over simulated time or over bytes, for notebooks: one line per run.

Scores are means over the periods met so far; if there are several, the axis says so.  Long curves are thinned evenly,
keeping their first and last values.  Not modelled: means and intervals over seeds, which the report has.
"""

from html import escape
from typing import Any

import altair as alt
import pandas as pd

from analysis.charts.panels import evenly
from analysis.quantity import BYTES, SECONDS, unit_for
from fedsim.core.errors import UserError

MOST = 300  # values of a curve
AXES = {"time": ("time", "simulated time", SECONDS), "bytes": ("moved", "bytes moved, all directions", BYTES)}
LABELS = ("line", "panel")
WIDTH, HEIGHT, COLUMNS, FRAME = 380, 240, 3, 380


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


def chart(curves: pd.DataFrame, over: str, title: str) -> Any:
    """Return the chart of curves: the `score` over `time` or `moved`, coloured by `line`, in panels by `panel`.

    `title` is that of the scores.  Raises UserError if `over` is not in AXES.
    """
    if over not in AXES:
        raise UserError(f"plot({over!r}): unknown axis; give {' or '.join(map(repr, AXES))}")
    axis, name, units = AXES[over]
    runs = [rows for _, rows in curves.groupby("run", sort=False)]
    rows = pd.concat(rows.iloc[evenly([*range(len(rows))], MOST)] for rows in runs)
    scale, unit = unit_for(float(rows[axis].max()), units)
    rows = rows.assign(place=rows[axis] / scale)[["place", "score", "run", "seed", *LABELS]]
    place = f"{name} ({unit})"
    tips = [alt.Tooltip("place:Q", title=place, format=".4g"), alt.Tooltip("score:Q", format=".3f")]
    lines = (
        Lines(width=WIDTH, height=HEIGHT)
        .mark_line(interpolate="step-after", point=bool(rows.groupby("run").size().min() < 2))
        .encode(
            x=alt.X("place:Q", title=place),
            y=alt.Y("score:Q", title=title, scale=alt.Scale(zero=False)),
            color=alt.Color("line:N", title=None, sort=None, legend=alt.Legend(orient="top", labelLimit=300)),
            detail="run:N",
            tooltip=[alt.Tooltip(f"{column}:N") for column in (*LABELS, "seed")] + tips,
        )
    )
    data = alt.InlineData(values=[{str(key): value for key, value in row.items()} for row in rows.to_dict("records")])
    if rows["panel"].nunique() < 2:
        lines.data = data
        return lines
    panels = Panels(data=data, spec=lines, facet=alt.Facet("panel:N", title=None, sort=None), columns=COLUMNS)
    return panels.resolve_scale(x="independent")  # a slow network would compress the others
