"""Who is served, drawn: scores and uploads over the clients, who had taken part by when, and how stale uploads were.

Each replicate has its own clients, so that a curve is the mean of theirs at the same share of clients.  Not modelled:
which client is where; tables/clients.csv and the tables of a point say so.
"""

from typing import Any

import altair as alt
import pandas as pd

from analysis.charts.panels import colour, dash, facet, finished, ranges_text, tip, with_panels
from analysis.quantity import MISSING, PERCENT, show
from analysis.report import sections
from analysis.report.cells import Maker
from analysis.report.page import Cell, note, paragraph
from analysis.report.report_context import ReportContext
from analysis.report.sheet import figures_table, part
from analysis.statistics.constant_axes import drawn_once
from analysis.statistics.spread import over_replicates

CURVES = {
    "score": ("share of clients, worst first", "{score}", "{Score} of the clients, from the worst to the best"),
    "uploads": ("share of clients, fewest first", "share of uploads", "Who the delivered uploads are from"),
    "took": ("share of the run", "share of clients", "Clients that have taken part"),
}
BANDS = [(0, "0"), (1, "1"), (2, "2"), (3, "3 to 5"), (6, "6 to 10"), (11, "11 and more")]  # versions


def curves(among: pd.DataFrame, what: str, by: list[str]) -> pd.DataFrame:
    """Return `by`, at, n, and the mean of a quantity's curves over replicates (see served.among)."""
    return over_replicates(among[among["what"] == what], [*by, "at"], ["value"])


def drawn(frame: pd.DataFrame, what: str, axes: list[str], score: str) -> dict[str, Any]:
    """Chart a quantity over shares of the clients, or of the run (see curves)."""
    across, up, title = (words.format(score=score, Score=score.capitalize()) for words in CURVES[what])
    rows = with_panels(drawn_once(frame, axes, ["algorithm", "at"], ["value", "n"]), axes)
    algorithms = list(rows["algorithm"].unique())
    form = alt.Axis(format="%", tickCount=5)
    x = alt.X("at:Q", title=across, axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]))
    y = alt.Y("value:Q", title=up, axis=form)
    line = alt.Chart().mark_line(strokeWidth=1.8, interpolate="linear" if what != "took" else "step-after")
    chart = facet([line.encode(x=x, y=y, color=colour(algorithms), strokeDash=dash(algorithms))], rows, height=150)
    tips = [tip("at", across, ".0%"), tip("value", up, ".1%"), tip("n", "replicates", "d")]
    middle = rows[rows["at"] == 0.5]
    says = "In the middle: " + ranges_text(middle, "value", lambda value: show(value, PERCENT))
    most = int(frame["n"].max())
    return finished(chart, rows, title, f"Mean over {most} replicates" if most > 1 else "", tips, says)


def staleness(among: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `by`, n, and the mean share of uploads in each of BANDS; no rows if all were of the last version."""
    late = among[among["what"] == "behind"]
    if not (late["at"] > 0).any():
        return late.iloc[:0]
    edges = [least for least, _ in BANDS]
    bands = pd.cut(late["at"], [*edges, float("inf")], right=False, labels=[name for _, name in BANDS])
    shares = late.assign(band=bands).pivot_table(
        index=[*by, "run"], columns="band", values="value", aggfunc="sum", fill_value=0.0, observed=False, sort=False
    )
    return over_replicates(shares.reset_index(), by, [name for _, name in BANDS])


def staleness_part(frame: pd.DataFrame, axes: list[str]) -> str:
    """Return the table of the distribution of staleness; "" if all uploads were of the last version."""
    if frame.empty:
        return ""
    names = [name for _, name in BANDS]
    columns = [(name, _share(name)) for name in names]
    rows = figures_table(frame, [*axes, "algorithm"], columns, "staleness", settle=names)
    return part("staleness", "How stale uploads were", rows)


def _share(name: str) -> Maker:
    return lambda row: Cell(show(row[name], PERCENT) if row[name] else MISSING, row[name])


def served_parts(m: ReportContext) -> list[str]:
    """Return the parts, "" for one with nothing to say."""
    found = [sections.served(m.means, m.axes)]
    drawings = []
    for what in CURVES:
        frame = curves(m.kept.among, what, m.by)
        if frame.empty or frame["value"].nunique() < 2:
            continue
        m.save(f"clients_{what}", frame)
        drawings.append(m.drawn(f"clients_{what}", drawn(frame, what, m.axes, m.score)))
    if drawings:
        found.append(part("clients", "From client to client", *drawings, paragraph(note("distributions"), "note")))
    stale = staleness(m.kept.among, m.by)
    if len(stale):
        m.save("staleness", stale)
    return [*found, staleness_part(stale, m.axes)]
