"""How a graph that changes was divided, snapshot by snapshot: cut edges, the largest part, moved nodes, majorities.

Figures are shares, so that snapshots of different size can be compared. Not modelled: spread between clients.
"""

from typing import Any

import altair as alt
import pandas as pd

from analysis.charts.panels import colour, dash, facet, finished, ranges_text, shape, share, tip, with_panels
from analysis.charts.totals import spread_note
from analysis.quantity import COUNT, PERCENT, show
from analysis.report.cells import plain
from analysis.report.sheet import figures_table, part
from analysis.statistics.constant_axes import drawn_once
from analysis.statistics.spread import over_replicates

SHARES = {
    "cut_share": "edges cut",
    "largest_share": "edges within the largest part",
    "moved_share": "nodes moved",
    "unowned_share": "nodes without an owner",
    "majority": "two most frequent labels",
}


def partitions(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `by`, snapshot, n, and mean and `_sd` over replicates of owners and SHARES; empty where none is known.

    `rows` are those of the table of all points, with `by`.
    """
    if rows.empty:
        return pd.DataFrame(columns=[*by, "snapshot", "n"])
    edges, nodes = rows["edges"].where(rows["edges"] > 0), rows["nodes"].where(rows["nodes"] > 0)
    rows = rows.assign(
        cut_share=rows["cut"] / edges,
        largest_share=rows["largest"] / edges,
        moved_share=rows["moved"] / nodes,
        unowned_share=rows["unowned"] / nodes,
        majority=rows["majority"].where(rows["majority"] >= 0),
    )
    return over_replicates(rows, [*by, "snapshot"], ["owners", *SHARES])


def divided(frame: pd.DataFrame, axes: list[str]) -> dict[str, Any]:
    """Chart the shares over snapshots (see partitions)."""
    known = [column for column in SHARES if frame[column].notna().any()]
    some = [column for column in known if (frame[column] > 0).any()]  # all-zero shares are in the table only
    sides = [frame.assign(side=SHARES[column], y=frame[column]) for column in some or known]
    rows = drawn_once(
        pd.concat(sides, ignore_index=True).dropna(subset="y"), axes, ["algorithm", "side", "snapshot"], ["y"]
    )
    rows = with_panels(rows, axes, "side")
    algorithms = list(frame["algorithm"].unique())
    x = alt.X("snapshot:O", axis=alt.Axis(labelAngle=0, labelOverlap=True))
    y = share("y", None)
    tint = colour(algorithms, symbolStrokeWidth=0)
    layers = [
        alt.Chart().mark_line(strokeWidth=2).encode(x=x, y=y, color=tint, strokeDash=dash(algorithms)),
        alt.Chart().mark_point(filled=True, size=45, opacity=1).encode(x=x, y=y, color=tint, shape=shape(algorithms)),
    ]
    chart = facet(layers, rows, height=150, width=170, y="independent")
    tips = [
        tip("side", "what"),
        tip("snapshot", "snapshot", "d"),
        tip("y", "share", ".1%"),
        tip("n", "replicates", "d"),
    ]
    says = ranges_text(rows, "y", lambda value: show(value, PERCENT), by="side")
    return finished(chart, rows, "How snapshots were partitioned", spread_note(frame), tips, says)


def partitions_section(frame: pd.DataFrame, axes: list[str], drawing: str) -> str:
    """Return the part of the page with its drawing (see partitions)."""
    by = [*axes, "algorithm"]
    means = frame.groupby(by, sort=False, dropna=False)[["owners", *SHARES]].mean().reset_index()
    columns = [("owners", plain("owners", COUNT)), *((head, plain(name, PERCENT)) for name, head in SHARES.items())]
    return part("partitions", "Partitions", drawing, figures_table(means, by, columns, "partitions"))
