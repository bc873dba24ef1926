"""The report's section on what was run: axes and replicates, versions, where and when, failed points, the scenarios."""

from html import escape

import pandas as pd

from analysis.axes import ordered, replicates
from analysis.quantity import MISSING, SECONDS, show
from analysis.read.load import Runs
from analysis.report.page import Cell, note, paragraph, section, table, text

MOST = 6  # different values that are shown of one thing


def what_was_run(runs: Runs, finished: pd.DataFrame) -> str:
    """Return the section; `finished` are the points that have results."""
    axes = [*runs.axes, "algorithm", *replicates(finished.columns)]
    rows = [[text(axis), Cell(", ".join(ordered(finished[axis].astype(str))), "", "prose")] for axis in axes]
    facts: dict[str, set[str]] = {}
    for run, versions in runs.versions.items():
        named = {f"versions.{name}": version for name, version in versions.items()}
        for name, value in (named | runs.provenance.get(run, {})).items():
            facts.setdefault(name, set()).add(value)
    rows += [[text(_called(name)), _values(sorted(values))] for name, values in facts.items()]
    seconds = show(finished["real_seconds"].sum(), SECONDS)
    done, listed = len(finished), len(runs.points)
    words = f"{done} of {listed} runs have results, computed in {seconds} of real time in total."
    if followed := int((finished["followed"].fillna("") != "").sum()):
        others = "followed what another run had learned, with the tables that training gives"
        words += f" {followed} of them {others} (column followed of summary.csv)."
    parts = [paragraph(words), table(["what", "values"], rows)]
    odd = runs.points[runs.points["status"] != "done"]
    if len(odd):
        heads = ["run", "status", *axes]
        cells = [[text(str(row[head]) or MISSING) for head in heads] for _, row in odd.iterrows()]
        parts += ["<h3>Runs that did not end well</h3>", table(heads, cells), paragraph(note("not_done"), "note")]
    for run, given in runs.scenarios.items():
        summary = f"<summary>Scenario {escape(run)}, as given</summary>"
        parts.append(f"<details>{summary}<pre>{escape(given)}</pre></details>")
    return section("run", "What was run", *parts)


def _values(values: list[str]) -> Cell:
    shown = ", ".join(values) if len(values) <= MOST else f"{values[0]} to {values[-1]} ({len(values)} values)"
    return Cell(shown, "", "prose")


def _called(key: str) -> str:
    """Return "git hash" for "git_hash", "version of numpy" for "versions.numpy"."""
    of, _, name = key.rpartition(".")
    return f"version of {name}" if of.endswith("versions") else key.replace("_", " ").replace(".", " ")
