"""The report's section on what was run: axes and replicates, versions, where and when, failed points, the scenarios."""

from collections.abc import Mapping
from html import escape

import pandas as pd

from analysis.axes import ordered, replicates
from analysis.load import Runs
from analysis.page import Cell, paragraph, section, table, text
from analysis.quantity import MISSING, SECONDS, show

MOST = 6  # different values that are shown of one thing


def what_was_run(runs: Runs, finished: pd.DataFrame) -> str:
    """Return the section; `finished` are the points that have results."""
    axes = [*runs.axes, "algorithm", *replicates(finished.columns)]
    rows = [[text(axis), Cell(", ".join(ordered(finished[axis].astype(str))), "", "prose")] for axis in axes]
    whole = {
        point: {f"versions.{name}": value for name, value in found.items()} | runs.provenance.get(point, {})
        for point, found in runs.versions.items()
    }
    rows += [[text(_called(name)), _values(values)] for name, values in _gathered(whole).items()]
    seconds = show(finished["real_seconds"].sum(), SECONDS)
    done, listed = len(finished), len(runs.points)
    words = f"{done} of {listed} points have results, computed in {seconds} of real time in total."
    if followed := int((finished["followed"].fillna("") != "").sum()):
        others = "followed what another point had learned, with the tables that training gives"
        words += f" {followed} of them {others} (column followed of summary.csv)."
    parts = [paragraph(words), table(["what", "values"], rows)]
    odd = runs.points[runs.points["status"] != "done"]
    if len(odd):
        heads = ["point", "status", *axes]
        cells = [[text(str(row[head]) or MISSING) for head in heads] for _, row in odd.iterrows()]
        note = (
            "A failed point is missing from everything above. A stalled point, in which nothing more could happen "
            "before the protocol had finished, is included with what it had reached."
        )
        parts += ["<h3>Points that did not end well</h3>", table(heads, cells), paragraph(note, "note")]
    for run, given in runs.scenarios.items():
        parts.append(
            f"<details><summary>Scenario {escape(run)}, as given</summary><pre>{escape(given)}</pre></details>"
        )
    return section("run", "What was run", *parts)


def _gathered(settings: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the distinct values of each fact recorded of the points, in order."""
    found: dict[str, set[str]] = {}
    for one in settings.values():
        for name, value in one.items():
            found.setdefault(name, set()).add(value)
    return {name: sorted(values) for name, values in found.items()}


def _values(values: list[str]) -> Cell:
    shown = ", ".join(values) if len(values) <= MOST else f"{values[0]} to {values[-1]} ({len(values)} values)"
    return Cell(shown, "", "prose")


def _called(key: str) -> str:
    """Return "git hash" for "git_hash", "version of numpy" for "versions.numpy"."""
    of, _, name = key.rpartition(".")
    return f"version of {name}" if of.endswith("versions") else key.replace("_", " ").replace(".", " ")
