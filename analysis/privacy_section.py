"""The report's section on privacy: accuracy, bytes and epsilon of each condition in one table and one chart.

Present if runs used differential privacy or secure aggregation. The bytes of masking are the growth of the payload of
all messages to and from clients; their share is of all payload delivered.

Not modelled: guarantees against anyone who sees more than the models; docs/privacy.md defines epsilon.
"""

import math
from typing import Any, Protocol

import altair as alt
import numpy as np
import pandas as pd

from analysis import amounts
from analysis.axes import short
from analysis.cells import LAST, figure, placed
from analysis.page import Cell
from analysis.panels import colour, facet, finished, ranges_text, shape, tip, with_panels
from analysis.quantity import BYTES, MISSING, PERCENT, SECONDS, show
from analysis.sheet import part, sheet
from analysis.spread import over_replicates

FIGURES = ["score", "epsilon", "bytes_up", "bytes_down", "bytes_masking", "sim_seconds"]
NO_BOUND = "no bound"


class Files(Protocol):
    """Where tables and drawings go."""

    def save(self, name: str, frame: pd.DataFrame) -> None:
        """Write a table."""

    def drawn(self, name: str, spec: dict[str, Any]) -> str:
        """Write a drawing and return it as a part of the page."""


def privacy_section(points: pd.DataFrame, axes: list[str], score: str, files: Files) -> str:
    """Write the figure and table, and return the section; "" if no run uses privacy."""
    frame = private(points, axes)
    if frame.empty:
        return ""
    files.save("privacy", frame)
    bounded = frame[np.isfinite(frame["epsilon"]) & frame["score"].notna()]
    drawing = [files.drawn("privacy", against_epsilon(bounded, axes, score))] if len(bounded) else []
    note = (
        "Epsilon covers everything that one client takes part in, at the scenario's delta, against anyone who sees "
        f"the models, as long as the server is trusted; '{NO_BOUND}' where uploads are clipped but no noise is added, "
        "an en dash where nothing is released privately. The share of masking is that of all payload delivered."
    )
    return part("privacy", "Privacy", *drawing, _table(frame, axes, score, note))


def private(points: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return means and `_sd` over replicates of FIGURES, with masking_share: `axes`, algorithm, n and these.

    If any condition uses privacy all are included, otherwise none.
    """
    if points[["epsilon", "bytes_masking"]].isna().all(axis=None):
        return points.iloc[:0]
    rows = over_replicates(points, [*axes, "algorithm"], FIGURES)
    rows["epsilon_sd"] = rows["epsilon_sd"].where(np.isfinite(rows["epsilon"]))
    return rows.assign(masking_share=rows["bytes_masking"].fillna(0.0) / (rows["bytes_up"] + rows["bytes_down"]))


def against_epsilon(frame: pd.DataFrame, axes: list[str], score: str) -> dict[str, Any]:
    """Chart score against epsilon, the size of a mark its bytes: `axes`, algorithm, score, epsilon, bytes, n."""
    moved = frame["bytes_up"] + frame["bytes_down"]
    amount = amounts.linear([float(moved.max())], BYTES)
    algorithms = list(frame["algorithm"].unique())
    # noise determines epsilon, so it makes no panels
    panels = [axis for axis in axes if not axis.startswith("privacy.") or axis.endswith("secure_aggregation")]
    rows = with_panels(frame.assign(moved=amount.of(moved)), panels)
    wide = frame["epsilon"].min() > 0 and frame["epsilon"].max() / frame["epsilon"].min() > 5
    scale_of = alt.Scale(type="log") if wide else alt.Scale(zero=True)
    across = alt.X("epsilon:Q", title="epsilon", scale=scale_of)
    up = alt.Y("score:Q", title=score, axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(zero=False))
    marks = alt.Chart().mark_point(filled=True, opacity=0.85).encode(
        x=across, y=up, color=colour(algorithms), shape=shape(algorithms),
        size=alt.Size("moved:Q", title=amount.title("payload"), scale=alt.Scale(zero=True, range=[0, 300])),
    )  # fmt: skip
    chart = facet([marks], rows, height=200)
    note = "A smaller epsilon is more private; runs without a bound are only in the table; mean over replicates"
    tips = [tip("epsilon", "epsilon", ".3~g"), tip("score", score, ".1%")]
    tips += [tip("moved", "payload", expression=amount.expression("moved")), tip("n", "replicates", "d")]
    says = ranges_text(rows, "score", lambda value: show(value, PERCENT))
    return finished(chart, rows, f"Final {score} against epsilon", note, tips, says)


def _table(frame: pd.DataFrame, axes: list[str], score: str, note: str) -> str:
    heads = [
        *(short(axis) for axis in axes),
        "algorithm",
        score,
        "epsilon",
        "up",
        "down",
        "masking",
        "masking, share",
        "time",
    ]
    rows = [_row(row, axes) for _, row in frame.iterrows()]
    return sheet(heads, rows, "privacy", len(axes) + 1, note)


def _row(row: pd.Series, axes: list[str]) -> list[Cell]:
    return [
        *placed(row, [*axes, "algorithm"]),
        figure(row, "score", PERCENT),
        _epsilon(row),
        *(figure(row, name, BYTES) for name in ("bytes_up", "bytes_down", "bytes_masking")),
        Cell(show(row["masking_share"], PERCENT), float(row["masking_share"])),
        figure(row, "sim_seconds", SECONDS),
    ]


def _epsilon(row: pd.Series) -> Cell:
    value = float(row["epsilon"])
    if math.isnan(value):
        return Cell(MISSING, "")
    return Cell(NO_BOUND, LAST) if math.isinf(value) else Cell(f"{value:.2f}", value)
