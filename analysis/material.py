"""What the parts of a report share: the runs' frames, and the folder of drawings and tables."""

import json
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pandas as pd

from analysis import charts, tables
from analysis.choosing import interactive
from analysis.digest import Digest, digest
from analysis.drawing import draw
from analysis.each_period import mean_reached
from analysis.frontier import reach, rule
from analysis.latex import tabular
from analysis.load import Runs
from analysis.looks import Looks, dressed
from analysis.page import figure
from analysis.ranking import ranking
from analysis.terminal import Say, silent
from analysis.verdict import conditions

COUNTED = ["seconds_to_target", "bytes_to_target", "periods_at_target", "target_at_first"]
MOST_DRAWN = 3_000_000  # characters of drawings inside the page, for readers without scripts


def counted(points: pd.DataFrame, kept: Digest) -> pd.DataFrame:
    """Return the points with the costs of their targets counted from the tables: older runs had other rules."""
    curves = dict(list(kept.curves.groupby("point")))
    each = dict(list(kept.targets.groupby("point")))
    found = points.copy()
    for row, point in points[points["target"].notna()].iterrows():
        course = curves.get(point["point"])
        if course is None:
            continue
        if point["target_on"] == "each_period":
            reached = mean_reached(each[point["point"]]) if point["point"] in each else None
        else:
            reached, found.loc[row, "target_on"] = reach(course, point["target"]), rule(course)
        found.loc[row, COUNTED] = [math.nan] * len(COUNTED) if reached is None else [*reached]
    return found


class Material:
    """The finished points of all runs, what is kept of their tables, and what has been drawn so far.

    `scored` says whether anything was scored, `goal` whether there is a target, `reached` whether any run got there,
    `target` the one target of all points, None if there are several or none. `fixed` says whether all scores are on
    the fixed test of all periods, `clock` what the times are: simulated or measured.
    """

    def __init__(self, runs: Runs, folder: Path, say: Say = silent) -> None:
        self.runs, self.folder, self.say = runs, folder, say
        self.charts: dict[str, charts.Spec] = {}  # what the page draws, by the figure's name
        self.room = MOST_DRAWN
        self.axes = list(runs.axes)
        self.by = [*self.axes, "algorithm"]
        points = tables.finished(runs)
        self.kept = digest(runs, points, self.by, say)
        self.looks = Looks(tuple(points["algorithm"].unique()))  # one algorithm, one colour, in every chart
        moved = self.kept.booked.groupby("point")["wire"].sum()
        points = points.assign(bytes_moved=points["point"].map(moved).fillna(0.0).astype("float64"))
        self.points = counted(points, self.kept)
        self.means = tables.means(self.points, self.by)
        targets = self.points["target"].dropna().unique()
        self.reached = bool(self.points["seconds_to_target"].notna().any())
        self.goal = bool(self.points["target"].notna().any())
        self.target = float(targets[0]) if len(targets) == 1 else None
        self.scored = bool(self.points["score"].notna().any())
        self.fixed = len(self.kept.curves) > 0 and bool(self.kept.curves["fixed"].all())
        self.updated = bool(self.points["asked"].notna().any())
        real = {bool(runs.provenance.get(point, {}).get("deployed")) for point in self.points["point"]}
        self.clock = "simulated or measured" if len(real) > 1 else "measured" if True in real else "simulated"
        self.score = " or ".join(sorted(set(self.points["metric"].replace("", "score"))))

    @cached_property
    def ranking(self) -> pd.DataFrame:
        """The methods of each condition, ranked (see ranking.ranking)."""
        return ranking(self.points, self.axes)

    def save(self, name: str, frame: pd.DataFrame) -> None:
        """Write a table as CSV and as LaTeX."""
        frame.to_csv(self.folder / "tables" / f"{name}.csv", index=False)
        (self.folder / "tables" / f"{name}.tex").write_text(tabular(frame), "utf-8")

    def drawn(self, name: str, spec: charts.Spec) -> str:
        """Draw a figure for papers, keep its description for the page, and return its place there."""
        if self.clock != "simulated":
            spec = json.loads(self.timed(json.dumps(spec)))
        self.say(f"drawing chart {len(self.charts) + 1}: {spec['title']['text']}")
        spec = dressed(spec, self.looks)
        svg = draw(spec, self.folder / "figures" / name)
        self.charts[name] = interactive(spec)
        self.room -= len(svg)
        meta = spec["usermeta"]
        drawing = svg if self.room >= 0 else ""
        return figure(drawing, name, spec["title"]["text"], meta["note"], spec["description"], meta["choices"])

    def timed(self, words: str) -> str:
        """Return the words with the time called what it is: simulated, or measured where runs were deployed."""
        return words.replace("simulated time", f"{self.clock} time").replace("Simulated", self.clock.capitalize())

    def rule(self) -> str:
        """Return the rule for when a target counts, if it matters."""
        rules = [charts.RULES[on] for on in self.points["target_on"].dropna().unique() if on in charts.RULES]
        return rules[0] if len(rules) == 1 and self.points["periods"].max() > 1 else ""

    def one_run_each(self) -> tuple[pd.DataFrame, list[str]]:
        """Return one point for each condition and algorithm, and the conditions, the hardest first."""
        shown, named = conditions(self.points, self.axes)
        return shown.drop_duplicates(["condition", "algorithm"]), named

    def stacked(self, name: str, frame: pd.DataFrame, part_of: str, panels: Sequence[str] = ()) -> str:
        """Return the chart of mean bytes as stacked bars."""
        return self.drawn(name, charts.stacked_bytes(frame, part_of, [*panels, *self.axes]))
