"""The report on energy, carbon and money: who pays, between which estimates, and the score against joules and grams.

Present if runs were priced (their section `costs`). All figures are estimates: sums with every figure at its low,
typical and high value; charts and the payers' shares are typical. What had been spent at a scoring is in a point's
costs.parquet.

Not modelled: how likely values within a range are; the ranges of figures are not independent of one another.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from analysis.charts import amounts
from analysis.charts.palette import MIST, SAND, SLATE
from analysis.charts.panels import finished, ranges_text, tip, with_panels
from analysis.charts.score_curves import score_against
from analysis.charts.totals import replicates_text, stacked
from analysis.quantity import ENERGY, GRAMS, USD, Units, show
from analysis.read.load import COSTS
from analysis.report.cells import Maker, key, plain, ranged
from analysis.report.page import Cell
from analysis.report.report_context import ReportContext
from analysis.report.sheet import figures_table, part
from analysis.statistics.spread import mean_curves, over_replicates

FILE = "costs.parquet"
PAYERS = {"clients": SLATE, "network": MIST, "server": SAND}
UNITS: Mapping[str, tuple[str, Units]] = {"joules": ("energy", ENERGY), "grams": ("CO2e", GRAMS), "usd": ("money", USD)}
AGAINST = ("joules", "grams")  # what scores are drawn against


def costs_section(
    points: pd.DataFrame,
    curves: pd.DataFrame,
    folders: Mapping[str, Path],
    axes: list[str],
    score: str,
    target: float | None,
    files: ReportContext,
) -> str:
    """Write figures and table, and return the part of the page; "" if no run was priced."""
    if "joules" not in points or points["joules"].isna().all():
        return ""
    by = [*axes, "algorithm"]
    priced = points[points["joules"].notna()]
    frame = over_replicates(priced, by, [name for name in COSTS if name in priced])
    files.save("costs", frame)
    drawn = [files.drawn("costs_joules", who_pays(frame, axes))]
    spent = with_costs(curves[curves["run"].isin(priced["run"])], folders) if len(curves) else curves
    for x in AGAINST if len(spent) else ():
        drawn.append(files.drawn(f"score_{x}", score_against(mean_curves(spent, by, x), x, axes, score, target)))
    return part("costs", "Energy, carbon and money", *drawn, _table(frame, axes))


def with_costs(curves: pd.DataFrame, folders: Mapping[str, Path]) -> pd.DataFrame:
    """Return the curves with joules and grams (typical) spent by the time of each scoring."""
    parts = []
    for point, rows in curves.groupby("run", sort=False):
        table = pq.read_table(folders[str(point)] / FILE, columns=["time", *AGAINST]).to_pandas()
        parts.append(rows.merge(table.groupby("time", as_index=False)[[*AGAINST]].sum(), on="time", how="left"))
    return pd.concat(parts, ignore_index=True)


def who_pays(frame: pd.DataFrame, axes: list[str]) -> dict[str, Any]:
    """Chart typical energy by who pays as stacked bars, and the range of the whole: one bar a condition."""
    across = amounts.linear([frame["joules_high"].max()], ENERGY)
    named = [*axes, "algorithm", "n", "joules", "joules_low", "joules_high"]
    rows = frame.melt(named, [f"joules_{payer}" for payer in PAYERS], "payer", "amount")
    amounts_of = {"amount": "amount", "low": "joules_low", "high": "joules_high"}
    rows = rows.assign(**{name: across.of(rows[column]) for name, column in amounts_of.items()})
    rows["payer"] = rows["payer"].str.removeprefix("joules_")
    rows = with_panels(rows.assign(place=rows["payer"].map([*PAYERS].index)), axes)
    chart = stacked(rows, "payer", PAYERS, across, "energy")
    tips = [tip("payer", "drawn by"), tip("amount", "energy", across)]
    tips += [tip(end, end, across) for end in ("low", "high")]
    says = "Whole bars: " + ranges_text(frame, "joules", lambda value: show(value, ENERGY))
    note = f"Bars are typical estimates, the line runs from low to high; means over {replicates_text(frame)}"
    return finished(chart, rows, "Energy, by who draws it", note, tips, says)


def _table(frame: pd.DataFrame, axes: list[str]) -> str:
    columns: list[tuple[str, Maker]] = []
    for quantity, (name, units) in UNITS.items():
        columns += [(name, plain(quantity, units)), (f"{name}, low to high", _range(quantity, units))]
        columns += [(f"{name}, {payer}", plain(f"{quantity}_{payer}", units)) for payer in PAYERS]
        columns += [(f"{name} to target", plain(f"{quantity}_to_target", units))] if quantity == "joules" else []
    return figures_table(frame, [*axes, "algorithm"], columns, "costs")


def _range(quantity: str, units: Units) -> Maker:
    low, high = f"{quantity}_low", f"{quantity}_high"
    return lambda row: Cell(ranged(row[low], row[high], units), key(row[low]))
