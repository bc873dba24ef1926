"""What the parts of a report share: the runs' frames, and the folder of drawings and tables."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd

from analysis.axes import conditions
from analysis.charts import totals
from analysis.charts.choosing import interactive
from analysis.charts.drawing import draw
from analysis.charts.palette import Palette, with_palette
from analysis.measures import tables
from analysis.measures.digest import digest
from analysis.read.load import Runs
from analysis.report.latex import tabular
from analysis.report.page import figure
from analysis.statistics.answer import Races, races
from analysis.statistics.ranking import ranking
from analysis.terminal import Say, silent

MOST_DRAWN = 3_000_000  # characters of drawings inside the page, for readers without scripts


class ReportContext:
    """The finished points of all runs, what is kept of their tables, and what has been drawn so far.

    `scored` says whether anything was scored, `goal` whether there is a target, `reached` whether any run got there,
    `target` the one target of all points, None if there are several or none. `fixed` says whether all scores are on
    the fixed test of all periods, `clock` what the times are: simulated or measured.
    """

    def __init__(self, runs: Runs, folder: Path, say: Say = silent) -> None:
        self.runs, self.folder, self.say = runs, folder, say
        self.charts: dict[str, totals.Spec] = {}  # what the page draws, by the figure's name
        self.room = MOST_DRAWN
        self.axes = list(runs.axes)
        self.by = [*self.axes, "algorithm"]
        points = tables.finished(runs)
        self.kept = digest(runs, points, self.by, say)
        self.looks = Palette(tuple(points["algorithm"].unique()))  # one algorithm, one colour, in every chart
        moved = self.kept.booked.groupby("run")["wire"].sum()
        points = points.assign(bytes_moved=points["run"].map(moved).fillna(0.0).astype("float64"))
        self.points = points.copy()  # in one block: the last bits of its means depend on that
        self.means = tables.means(self.points, self.by)
        targets = self.points["target"].dropna().unique()
        self.reached = bool(self.points["seconds_to_target"].notna().any())
        self.goal = bool(self.points["target"].notna().any())
        self.target = float(targets[0]) if len(targets) == 1 else None
        self.scored = bool(self.points["score"].notna().any())
        self.fixed = len(self.kept.curves) > 0 and bool(self.kept.curves["fixed"].all())
        self.updated = bool(self.points["asked"].notna().any())
        real = {bool(runs.provenance.get(point, {}).get("deployed")) for point in self.points["run"]}
        self.clock = "simulated or measured" if len(real) > 1 else "measured" if True in real else "simulated"
        self.score = " or ".join(sorted(set(self.points["metric"].replace("", "score"))))

    @cached_property
    def races(self) -> Races:
        """Who is first in each condition (see answer.races)."""
        return races(self.points, self.axes)

    @cached_property
    def ranking(self) -> pd.DataFrame:
        """The methods of each condition, ranked (see ranking.ranking)."""
        return ranking(self.points, self.axes)

    def save(self, name: str, frame: pd.DataFrame) -> None:
        """Write a table as CSV and as LaTeX."""
        frame.to_csv(self.folder / "tables" / f"{name}.csv", index=False)
        (self.folder / "tables" / f"{name}.tex").write_text(tabular(frame), "utf-8")

    def drawn(self, name: str, spec: totals.Spec) -> str:
        """Draw a figure for papers, keep its description for the page, and return its place there."""
        self.say(f"drawing chart {len(self.charts) + 1}: {spec['title']['text']}")
        spec = with_palette(spec, self.looks)
        svg = draw(spec, self.folder / "figures" / name)
        self.charts[name] = interactive(spec)
        self.room -= len(svg)
        meta = spec["usermeta"]
        drawing = svg if self.room >= 0 else ""
        return figure(drawing, name, spec["title"]["text"], meta["note"], spec["description"], meta["choices"])

    def timed(self, words: str) -> str:
        """Return a section with the time called what it is: simulated, or measured where runs were deployed."""
        return words.replace("simulated time", f"{self.clock} time").replace("Simulated", self.clock.capitalize())

    def rule(self) -> str:
        """Return the rule for when a target counts, if it matters."""
        rules = [totals.RULES[on] for on in self.points["target_on"].dropna().unique() if on in totals.RULES]
        return rules[0] if len(rules) == 1 and self.points["periods"].max() > 1 else ""

    def one_run_each(self) -> tuple[pd.DataFrame, list[str]]:
        """Return one point for each condition and algorithm, and the conditions, the hardest first."""
        shown, named = conditions(self.points, self.axes)
        return shown.drop_duplicates(["condition", "algorithm"]), named

    def stacked(self, name: str, frame: pd.DataFrame, part_of: str, panels: Sequence[str] = ()) -> str:
        """Return the chart of mean bytes as stacked bars."""
        return self.drawn(name, totals.stacked_bytes(frame, part_of, [*panels, *self.axes]))
