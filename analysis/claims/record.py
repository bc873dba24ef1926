"""Write the table of README from a finished run: who is first under each condition, as the report's first screen says.

Each cell holds the mean time and bytes of the method that is first, and its name with those that are tied; the last
column who ends highest, at one latency, because that changes nothing at the end.  Each number has the options that
select its runs, so that it can be rerun as every other claim.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis.axes import ordered
from analysis.claims.file import FILE, ClaimsError
from analysis.measures.tables import finished
from analysis.read.load import load
from analysis.statistics.answer import NOBODY, races
from analysis.statistics.significance import Comparison
from fedsim.core import whole_files

TABLE, SCENARIO = "sparse_clients", "scenarios/sparse_clients.yaml"
DOWN, ACROSS = "protocol.participation", "network.latency"
END = "highest at the end"


def record(run: Path, path: Path = FILE) -> None:
    """Replace the table in the claims file by what the run has found.

    Raises ClaimsError where the run has other axes than the scenario's.
    """
    entry = yaml.safe_dump([_entry(run)], sort_keys=False, allow_unicode=True, width=math.inf, default_flow_style=None)
    others = re.sub(rf"^- table: {TABLE}\n(?:[ #].*\n|\n)*", "", path.read_text("utf-8"), flags=re.MULTILINE)
    whole_files.replace(path, others.rstrip("\n") + f"\n{entry}")


def _entry(run: Path) -> dict[str, Any]:
    """Return the table's entry."""
    runs = load([run])
    if [*runs.axes] != [ACROSS, DOWN]:
        raise ClaimsError(f"{run}: its axes are {', '.join(runs.axes) or 'none'}; expected results of {SCENARIO}")
    points = finished(runs).assign(bytes_moved=0.0)
    known, chosen = races(points, runs.axes), _options(run, points)
    latencies = ordered(points[ACROSS])
    at = {(one.condition[DOWN], one.condition[ACROSS]): place for place, one in enumerate(known.times)}
    metrics = {latency: ["seconds_to_target", "bytes_to_target"] for latency in latencies} | {END: ["score"]}
    columns: list[dict[str, Any]] = [{"head": "participation"}]
    for head, latency in zip(metrics, [*latencies, latencies[0]], strict=True):
        columns.append({"head": head, "metrics": metrics[head], "set": [f"grid.{ACROSS}=[{latency}]"]})
    rows = []
    for row in ordered(points[DOWN]):
        places = [at[row, latency] for latency in latencies]
        first = [_cell(known.times[place], known.moved[place]) for place in places]
        best = known.best[places[0]]
        end = f"{100 * best.means[best.leaders[0]]:.1f} %: {', '.join(best.leaders)}"
        cells = [f"{float(row):.0%}".replace("%", " %"), *first, end]
        of = dict(zip(metrics, [*(known.times[place] for place in places), best], strict=True))
        sets = {head: [chosen[one.leaders[0]]] for head, one in of.items() if one.leaders}
        rows.append({"cells": cells, "set": [f"grid.{DOWN}=[{row}]"], "cell_set": sets})
    interval = "none of its own: a number holds within that of the rerun"
    return {
        "table": TABLE, "scenario": SCENARIO, "seeds": "five", "interval": interval, "columns": columns, "rows": rows,
    }  # fmt: skip


def _cell(fast: Comparison, cheap: Comparison) -> str:
    if not fast.leaders:
        return NOBODY
    first = fast.leaders[0]
    return f"{_figures(fast.means[first])} s / {_figures(cheap.means[first] / 1e6)} MB: {', '.join(fast.leaders)}"


def _figures(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _options(run: Path, points: pd.DataFrame) -> Mapping[str, str]:
    """Return the option that selects each method, as the scenario of the run writes it."""
    raw = yaml.safe_load((run / "scenario.yaml").read_text(encoding="utf-8"))
    written: Sequence[Any] = raw["grid"]["algorithm"]
    found = {}
    for name, given in points[["algorithm", "algorithm_as_given"]].drop_duplicates().itertuples(index=False):
        own = [one for one in written if (one["name"] if isinstance(one, dict) else one) == given.partition("(")[0]]
        if len(own) != 1:
            raise ClaimsError(f"{run}: {given} is not one entry of its grid's algorithms")
        text = yaml.safe_dump(own[0], default_flow_style=True, sort_keys=False).removesuffix("...\n").strip()
        found[str(name)] = f"grid.algorithm=[{text}]"
    return found
