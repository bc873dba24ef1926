"""The report on energy, carbon and money: who pays, between which estimates, and the score against joules and grams.

Present if runs were priced (their section `costs`). All figures are estimates: sums with every figure at its low,
typical and high value; charts and the payers' shares are typical. What had been spent at a scoring is in a point's
costs.parquet.

Not modelled: how likely values within a range are; the ranges of figures are not independent of one another.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pyarrow.parquet as pq

from analysis import amounts
from analysis.axes import short
from analysis.cells import key, placed, ranged
from analysis.charts import replicates_text
from analysis.load import COSTS
from analysis.looks import INK, MIST, SAND, SLATE
from analysis.page import Cell
from analysis.panels import facet, finished, ranges_text, tip, with_panels
from analysis.privacy_section import Files
from analysis.quantity import ENERGY, GRAMS, USD, Units, show
from analysis.score_curves import score_against
from analysis.sheet import part, sheet
from analysis.spread import mean_curves, over_replicates

FILE = "costs.parquet"
PAYERS = {"clients": SLATE, "network": MIST, "server": SAND}
UNITS: Mapping[str, tuple[str, Units]] = {"joules": ("energy", ENERGY), "grams": ("CO2e", GRAMS), "usd": ("money", USD)}
AGAINST = ("joules", "grams")  # what scores are drawn against
NOTE = (
    "Estimates, not measurements: 'low to high' are the sums with every figure at its low and at its high value, all "
    "others are typical. The figures and their sources are in docs/costs.md, or the scenario's own."
)


def costs_section(
    points: pd.DataFrame,
    curves: pd.DataFrame,
    folders: Mapping[str, Path],
    axes: list[str],
    score: str,
    target: float | None,
    files: Files,
) -> str:
    """Write figures and table, and return the part of the page; "" if no run was priced."""
    if "joules" not in points or points["joules"].isna().all():
        return ""
    by = [*axes, "algorithm"]
    priced = points[points["joules"].notna()]
    frame = over_replicates(priced, by, [name for name in COSTS if name in priced])
    files.save("costs", frame)
    drawn = [files.drawn("costs_joules", who_pays(frame, axes))]
    spent = with_costs(curves[curves["point"].isin(priced["point"])], folders) if len(curves) else curves
    for x in AGAINST if len(spent) else ():
        drawn.append(files.drawn(f"score_{x}", score_against(mean_curves(spent, by, x), x, axes, score, target)))
    return part("costs", "Energy, carbon and money", *drawn, _table(frame, axes))


def with_costs(curves: pd.DataFrame, folders: Mapping[str, Path]) -> pd.DataFrame:
    """Return the curves with joules and grams (typical) spent by the time of each scoring."""
    parts = []
    for point, rows in curves.groupby("point", sort=False):
        table = pq.read_table(folders[str(point)] / FILE, columns=["time", *AGAINST]).to_pandas()
        parts.append(rows.merge(table.groupby("time", as_index=False)[[*AGAINST]].sum(), on="time", how="left"))
    return pd.concat(parts, ignore_index=True)


def who_pays(frame: pd.DataFrame, axes: list[str]) -> dict[str, Any]:
    """Chart typical energy by who pays as stacked bars, and the range of the whole: one bar a condition."""
    across = amounts.linear([frame["joules_high"].max()], ENERGY)
    rows = pd.concat(
        [
            frame.assign(payer=payer, place=place, amount=across.of(frame[f"joules_{payer}"]))
            for place, payer in enumerate(PAYERS)
        ],
        ignore_index=True,
    )
    rows = rows.assign(low=across.of(rows["joules_low"]), high=across.of(rows["joules_high"]))
    kept = [*axes, "algorithm", "n", "payer", "place", "amount", "low", "high", "joules"]
    rows = with_panels(rows[kept], axes)
    down = alt.Y("algorithm:N", title=None, sort=list(frame["algorithm"].unique()))
    x = alt.X("amount:Q", stack="zero", title=across.title("energy"), axis=across.axis())
    tint = alt.Color("payer:N", title=None, scale=alt.Scale(domain=[*PAYERS], range=[*PAYERS.values()]))
    bars = alt.Chart().mark_bar(height={"band": 0.7}).encode(x=x, y=down, color=tint, order="place:Q")
    whole = alt.Chart().mark_rule(strokeWidth=2, color=INK).encode(x="low:Q", x2="high:Q", y=down)
    chart = facet([bars, whole], rows, height=max(60, 26 * frame["algorithm"].nunique()))
    tips = [tip("payer", "drawn by"), tip("amount", "energy", expression=across.expression("amount"))]
    tips += [tip(end, end, expression=across.expression(end)) for end in ("low", "high")]
    says = "Whole bars: " + ranges_text(frame, "joules", lambda value: show(value, ENERGY))
    note = f"Bars are typical estimates, the line runs from low to high; means over {replicates_text(frame)}"
    return finished(chart, rows, "Energy, by who draws it", note, tips, says)


def _table(frame: pd.DataFrame, axes: list[str]) -> str:
    heads = [*map(short, axes), "algorithm"]
    for quantity, (name, _) in UNITS.items():
        heads += [name, f"{name}, low to high", *(f"{name}, {payer}" for payer in PAYERS)]
        heads += [f"{name} to target"] if quantity == "joules" else []
    rows = []
    for _, row in frame.iterrows():
        cells = placed(row, [*axes, "algorithm"])
        for quantity, (_, units) in UNITS.items():
            low, high = row[f"{quantity}_low"], row[f"{quantity}_high"]
            cells += [_mean(row, quantity, units), Cell(ranged(low, high, units), key(low))]
            cells += [_mean(row, f"{quantity}_{payer}", units) for payer in PAYERS]
            cells += [_mean(row, f"{quantity}_to_target", units)] if quantity == "joules" else []
        rows.append(cells)
    note = f"{NOTE} Means over replicates, whose spread is in the full table."
    return sheet(heads, rows, "costs", len(axes) + 1, note)


def _mean(row: "pd.Series[Any]", name: str, units: Units) -> Cell:
    return Cell(show(row[name], units), key(row[name]))
