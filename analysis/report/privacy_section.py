"""The report's section on privacy: accuracy, bytes and epsilon of each condition in one table and one chart.

Present if runs used differential privacy or secure aggregation. The bytes of masking are the growth of the payload of
all messages to and from clients; their share is of all payload delivered.

Not modelled: guarantees against anyone who sees more than the models; docs/privacy.md defines epsilon.
"""

import math
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.charts import amounts
from analysis.charts.panels import colour, facet, finished, ranges_text, shape, share, tip, with_panels
from analysis.quantity import BYTES, MISSING, PERCENT, SECONDS, show
from analysis.report.cells import LAST, figure, plain
from analysis.report.page import Cell
from analysis.report.report_context import ReportContext
from analysis.report.sheet import figures_table, part
from analysis.statistics.spread import over_replicates

FIGURES = ["score", "epsilon", "bytes_up", "bytes_down", "bytes_masking", "sim_seconds"]
NO_BOUND = "no bound"


def privacy_section(points: pd.DataFrame, axes: list[str], score: str, files: ReportContext) -> str:
    """Write the figure and table, and return the section; "" if no run uses privacy."""
    frame = private(points, axes)
    if frame.empty:
        return ""
    files.save("privacy", frame)
    bounded = frame[np.isfinite(frame["epsilon"]) & frame["score"].notna()]
    drawing = [files.drawn("privacy", against_epsilon(bounded, axes, score))] if len(bounded) else []
    return part("privacy", "Privacy", *drawing, _table(frame, axes, score))


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
    up = share("score", score, scale=alt.Scale(zero=False))
    marks = alt.Chart().mark_point(filled=True, opacity=0.85).encode(
        x=across, y=up, color=colour(algorithms), shape=shape(algorithms),
        size=alt.Size("moved:Q", title=amount.title("payload"), scale=alt.Scale(zero=True, range=[0, 300])),
    )  # fmt: skip
    chart = facet([marks], rows, height=200)
    note = "A smaller epsilon is more private; runs without a bound are only in the table; mean over replicates"
    tips = [tip("epsilon", "epsilon", ".3~g"), tip("score", score, ".1%")]
    tips += [tip("moved", "payload", amount), tip("n", "replicates", "d")]
    says = ranges_text(rows, "score", lambda value: show(value, PERCENT))
    return finished(chart, rows, f"{score} at the end against epsilon".capitalize(), note, tips, says)


def _table(frame: pd.DataFrame, axes: list[str], score: str) -> str:
    payload = {"payload up": "bytes_up", "payload down": "bytes_down", "masking": "bytes_masking"}
    columns = [(score, figure("score", PERCENT)), ("epsilon", _epsilon)]
    columns += [(head, figure(name, BYTES)) for head, name in payload.items()]
    columns += [("masking, share", plain("masking_share", PERCENT)), ("time", figure("sim_seconds", SECONDS))]
    return figures_table(frame, [*axes, "algorithm"], columns, "privacy", no_bound=NO_BOUND)


def _epsilon(row: "pd.Series[Any]") -> Cell:
    value = float(row["epsilon"])
    if math.isnan(value):
        return Cell(MISSING, "")
    return Cell(NO_BOUND, LAST) if math.isinf(value) else Cell(f"{value:.2f}", value)
