"""One self-contained HTML page, figures and CSVs from the folders of finished runs.

Not modelled: the comparison of different metrics in one chart; runs side by side are taken to measure the same.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import (
    along,
    budgets_section,
    charts,
    compute_time,
    fates,
    link_use,
    one_update,
    partition_figures,
    ranked_section,
    robustness_section,
    sections,
    tables,
    waiting,
)
from analysis.answer import caution, compared, conditions, findings, races
from analysis.answer_section import answer_section
from analysis.cautions import cautions
from analysis.choosing import interactive
from analysis.crosses import along as runs_along
from analysis.digest import digest
from analysis.forest import forest
from analysis.glossary import words
from analysis.held_out import held_out, held_out_section
from analysis.latex import tabular
from analysis.load import Runs, load
from analysis.page import figure, page, paragraph, section
from analysis.panels import draw
from analysis.privacy_section import privacy_section
from analysis.question import descriptions, question, setting
from analysis.ranking import headline, ranking
from analysis.repeats import settled
from analysis.sheet import part
from analysis.spread import mean_curves
from analysis.verdict import condition_of, easiest
from analysis.what_was_run import what_was_run

MOST_DRAWN = 3_000_000  # characters of drawings inside the page, for readers without scripts


def write(runs: Sequence[Path], out: Path | None = None) -> Path:
    """Read the runs and write report.html, figures/*.svg, *.png and tables/*.csv; return the page's path.

    Without `out` they go into the first run's folder. Raises stored.NotARunError, naming folder and mend, for
    what is not a finished run, and OSError where `out` cannot be written.
    """
    found = load(runs)
    folder = runs[0] if out is None else out
    report = _Report(found, folder)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    (folder / "tables").mkdir(exist_ok=True)
    title = " · ".join(found.scenarios)
    shown = {name: html for name, html in report.sections().items() if html}
    report.save("points", found.points)
    report.save("summary", report.means)
    lead = f"{_count(len(report.points), 'point')}, {_count(report.points['algorithm'].nunique(), 'algorithm')}"
    lead += "" if report.scored else ". Nothing was scored: this report is about traffic and time"
    path = folder / "report.html"
    path.write_text(page(title, lead, shown, report.charts), "utf-8")
    return path


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


class _Report:
    """What the sections share: the runs' frames, and the folder that drawings and tables go to."""

    def __init__(self, runs: Runs, folder: Path) -> None:
        self.runs, self.folder = runs, folder
        self.charts: dict[str, charts.Spec] = {}  # what the page draws, by the figure's name
        self.room = MOST_DRAWN
        self.axes = list(runs.axes)
        self.by = [*self.axes, "algorithm"]
        points = tables.finished(runs)
        self.kept = digest(runs, points, self.by)
        moved = self.kept.booked.groupby("point")["wire"].sum()
        self.points = points.assign(bytes_moved=points["point"].map(moved).fillna(0.0).astype("float64"))
        self.means = tables.means(self.points, self.by)
        targets = self.points["target"].dropna().unique()
        self.reached = bool(self.points["seconds_to_target"].notna().any())
        self.goal = bool(self.points["target"].notna().any())
        self.target = float(targets[0]) if len(targets) == 1 else None
        self.scored = bool(self.points["score"].notna().any())
        self.updated = bool(self.points["asked"].notna().any())
        self.score = " or ".join(sorted(set(self.points["metric"].replace("", "score"))))

    def sections(self) -> dict[str, str]:
        """Return the page's sections by their headings, each a question; "" for one with nothing to say."""
        scored, first = self.scored, self.answer()
        parts: dict[str, tuple[str, list[str]]] = {
            "Who reaches the target first?": ("target", [self.first()] if scored and self.goal else []),
            "Who is best at the end?": ("best", [self.ranking()] if scored else []),
            "What does it cost?": ("cost", [self.cost(), self.privacy()]),
            f"How does {self.score} develop?": ("develop", [self.curves(), self.budgets()] if scored else []),
            "What is forgotten?": ("forgotten", [self.forgetting(), self.held_out()] if scored else []),
            "What changes along the axes?": ("along", [self.robustness()] if scored else []),
            "Where do the bytes go?": ("bytes", [self.bytes_moved()]),
            "What limits a round?": ("round", self.limits()),
            "How were the data divided?": ("data", [self.partitions(), self.periods()]),
        }
        told = {"Answer": first}
        for heading, (name, found) in parts.items():
            told[heading] = section(name, heading, *filter(None, found)) if any(found) else ""
        return {**told, "What was run": what_was_run(self.runs, self.points), "Glossary": words()}

    def answer(self) -> str:
        """Return the first screen: the question, the answer in words, and one chart."""
        points, axes = self.points, self.axes
        asked = question(self.runs, "What was reached, and at what cost?" if self.scored else "What moved, and when?")
        notes = [setting(points, self.runs.resolved, self.score), caution(points, axes)]
        above = cautions(points, self.runs.points, axes)
        told = findings(points, axes, self.score)
        return answer_section(asked, descriptions(self.runs), told, notes, above, self.headline_chart())

    def headline_chart(self) -> str:
        """Return the one chart of the first screen: times to the target, else final scores, else bytes."""
        if not self.scored:
            return self.by_direction()
        if self.reached:
            return self.to_target("seconds_to_target")
        return self.ranked() if len(self.means) > 1 else self.curve("score_time", "time")

    def first(self) -> str:
        """Return who is first in each condition, and the bytes to the target."""
        if compared(self.points, self.axes) != "algorithm" or self.points["algorithm"].nunique() > 1:
            found, axes = races(self.points, self.axes), conditions(self.points, self.axes)
            self.save("first", sections.firsts_frame(axes, found.times, found.moved, found.best))
            table = sections.firsts(axes, found.times, found.moved, found.best)
        else:
            table = ""
        if not self.reached:
            return paragraph("No run reached its target, so there is no time or traffic to it.") + table
        return self.to_target("bytes_to_target") + table

    def to_target(self, value: str) -> str:
        return self.drawn(value, charts.to_target(self.means, value, self.axes, self.target))

    def limits(self) -> list[str]:
        """Return what a round waits for: the slowest reply, the server's links, computing, and what is lost."""
        lost = sections.losses(self.means, self.axes) if self.updated else ""
        parts = [self.timeline(), self.waiting(), self.link_use(), self.compute_time(), self.transfer_times(), lost]
        return [] if parts == [lost] and not lost else parts

    def save(self, name: str, frame: pd.DataFrame) -> None:
        """Write a table, for computers as CSV and for papers in LaTeX."""
        frame.to_csv(self.folder / "tables" / f"{name}.csv", index=False)
        (self.folder / "tables" / f"{name}.tex").write_text(tabular(frame), "utf-8")

    def drawn(self, name: str, spec: charts.Spec) -> str:
        svg = draw(spec, self.folder / "figures" / name)
        self.charts[name] = interactive(spec)
        self.room -= len(svg)
        return figure(svg if self.room >= 0 else "", name)

    def curves(self) -> str:
        """Return the curves that the first screen does not show."""
        self.save("curves", self.kept.curves)
        shown = [("score_time", "time"), ("score_bytes", "moved")]
        parts = [self.curve(name, x) for name, x in shown if name not in self.charts]
        note = (
            "A curve holds the last score until the next; a run that has ended keeps its last. Bytes are all that had "
            "moved over the links by then."
        )
        return part("curves", "Over time and bytes", *parts, paragraph(note, "note"))

    def curve(self, name: str, x: str) -> str:
        means, axes, same = settled(mean_curves(self.kept.curves, self.by, x), self.axes, [x, "score"])
        spec = charts.score_against(means, x, axes, self.score, self.target)
        return self.drawn(name, spec) + (paragraph(same, "note") if same else "")

    def cost(self) -> str:
        """Return the final score against its cost, and the table of all figures."""
        if not self.scored:
            return sections.summary(self.means, self.axes)
        scored = self.means.dropna(subset="score")
        labels = [condition_of({axis: str(row[axis]) for axis in self.by}) for _, row in scored.iterrows()]
        parts = []
        for name, cost, best in (
            ("trade_time", "sim_seconds", "frontier_time"),
            ("trade_bytes", "bytes_moved", "frontier_bytes"),
        ):
            marks = scored.assign(condition=labels, frontier=scored[best])
            parts.append(self.drawn(name, charts.trade_off(marks, cost, self.score)))
        note = "The Pareto fronts are marked in tables/summary.csv as frontier_time and frontier_bytes."
        fronts = part("fronts", "Score against cost", *parts, paragraph(note, "note")) if len(scored) > 1 else ""
        return fronts + sections.summary(self.means, self.axes)

    def privacy(self) -> str:
        """Return what hiding uploads costs; "" where no run hides anything."""
        return privacy_section(self.points, self.axes, self.score, self)

    def budgets(self) -> str:
        """Return who leads for which budget; "" where a single method was run."""
        return budgets_section.budgets(self.kept.curves, self.axes, self)

    def bytes_moved(self) -> str:
        """Return bytes by direction, step and fate, and what was wasted."""
        booked = self.kept.booked
        self.save("bytes_by_client", self.kept.clients)
        steps = tables.step_bytes(booked, self.points, self.by)
        self.save("bytes_by_step", steps)
        if steps.empty:
            self.save("bytes_by_direction", tables.direction_bytes(booked, self.points, self.by))
            return paragraph("No message was sent.")
        parts = [self.by_direction()] if "bytes_by_direction" not in self.charts else []
        if steps["kind"].nunique() > 1:
            parts += [self.stacked("bytes_by_step", steps, "kind"), self.by_fate()]
        else:
            parts.append(self.by_fate())
        wasted = tables.wasted_bytes(booked, self.points, self.by)
        self.save("bytes_wasted", wasted)
        return "".join([*parts, sections.wasted(wasted, self.axes)])

    def by_direction(self) -> str:
        directions = tables.direction_bytes(self.kept.booked, self.points, self.by)
        self.save("bytes_by_direction", directions)
        return self.stacked("bytes_by_direction", directions, "direction") if len(directions) else ""

    def stacked(self, name: str, frame: pd.DataFrame, part_of: str, panels: Sequence[str] = ()) -> str:
        frame, axes, same = settled(frame, self.axes, ["bytes", "total"], ["algorithm", *panels, part_of])
        spec = charts.stacked_bytes(frame, part_of, [*panels, *axes])
        return self.drawn(name, spec) + (paragraph(same, "note") if same else "")

    def by_fate(self) -> str:
        frame = fates.by_fate(self.kept.booked, self.points, self.by)
        self.save("bytes_by_fate", frame)
        return self.stacked("bytes_by_fate", frame.rename(columns={"kind": "step"}), "fate", ["step"])

    def one_run_each(self) -> tuple[pd.DataFrame, str]:
        """Return one point for each algorithm, all under the easiest condition, and the words that name it."""
        shown, where = easiest(self.points, self.axes)
        return shown.drop_duplicates("algorithm"), where

    def link_use(self) -> str:
        """Return the part on the server's links; "" where no message passed them."""
        points, where = self.one_run_each()
        moved = self.runs.split("transfers")
        frames = [
            link_use.link_use(moved[row["point"]], self.runs.resolved[row["point"]]).assign(algorithm=row["algorithm"])
            for _, row in points.iterrows()
        ]
        frame = pd.concat(frames, ignore_index=True)
        if frame.empty:
            return ""
        self.save("link_use", frame)
        note = (
            "The bytes of each transfer are spread evenly from its start to its end. Full table: tables/link_use.csv."
        )
        drawing = self.drawn("link_use", link_use.used(frame, where))
        return part("links", "Use of the server's links", drawing, paragraph(note, "note"))

    def timeline(self) -> str:
        """Return the part on one update of one run; "" where none folded anything."""
        points, where = self.one_run_each()
        point, algorithm = points["point"].iloc[0], points["algorithm"].iloc[0]
        frame = one_update.one_update(*(self.runs.split(name)[point] for name in ("transfers", "spans", "updates")))
        if frame.empty:
            return ""
        self.save("timeline", frame)
        drawing = self.drawn("timeline", one_update.timeline(frame, f"{algorithm}. {where}"))
        return part("timeline", "One update", drawing, paragraph(one_update.NOTE, "note"))

    def waiting(self) -> str:
        """Return how long replies wait for the slowest; "" where no update had two replies."""
        frame = waiting.waiting(self.points, self.kept.waits, self.by)
        return self._part_of("waiting", frame, waiting.waited, waiting.waiting_section)

    def partitions(self) -> str:
        """Return the part on partitions of snapshots; "" where there are none."""
        frame = partition_figures.partitions(self.kept.partitions, self.by)
        return self._part_of("partitions", frame, partition_figures.divided, partition_figures.partitions_section)

    def _part_of(
        self,
        name: str,
        frame: pd.DataFrame,
        chart: Callable[[pd.DataFrame, list[str]], dict[str, Any]],
        tell: Callable[[pd.DataFrame, list[str], str], str],
    ) -> str:
        """Return the part on a frame, with a chart of it; "" where it is empty."""
        if frame.empty:
            return ""
        self.save(name, frame)
        return tell(frame, self.axes, self.drawn(name, chart(frame, self.axes)))

    def transfer_times(self) -> str:
        """Return the part on how long messages took; "" where scores say more, and where none was delivered."""
        times = self.kept.times
        self.save("transfer_times", times)
        return "" if self.scored or times.empty else sections.transfer_times(times, self.axes)

    def held_out(self) -> str:
        """Return the part on vertices that nobody owns; "" where no run asked them."""
        frame = held_out(self.points, self.kept.held_out, self.by)
        if frame.empty:
            return ""
        self.save("held_out", frame)
        return held_out_section(frame, self.axes, self.score)

    def periods(self) -> str:
        """Return the part on what each period was given; "" where no run has a second one."""
        cells = self.kept.periods
        if cells.empty or cells["period"].max() < 2:
            return ""
        self.save("periods", tables.periods(cells, self.by))
        parts = [
            self.drawn(f"updates_per_period_{axis.replace('.', '_')}", self.updates_had(axis))
            for axis in self.axes
            if self.means["updates_per_period"].nunique() > 1 and len(runs_along(self.means, axis, self.others(axis)))
        ]
        return part("periods", "Updates per period", *parts, sections.periods(self.means, self.axes, self.score))

    def updates_had(self, axis: str) -> charts.Spec:
        others = self.others(axis)
        return along.updates_had(runs_along(self.means, axis, others), axis, others, self.score)

    def others(self, *axes: str) -> list[str]:
        return [other for other in self.axes if other not in axes]

    def ranking(self) -> str:
        """Return the part that ranks the methods of each condition, drawn unless the first screen has it."""
        frame = ranking(self.points, self.axes)
        self.save("ranking", frame.drop(columns="units"))
        measure = ranked_section.NAMES[headline(self.points)]
        return ranked_section.ranked(frame, self.axes, measure, "" if "ranking" in self.charts else self.ranked())

    def ranked(self) -> str:
        frame, axes, same = settled(ranking(self.points, self.axes), self.axes, ["mean", "difference"])
        names = list(self.means["algorithm"].unique())
        drawing = self.drawn("ranking", forest(frame, axes, names, ranked_section.NAMES[headline(self.points)]))
        return drawing + (paragraph(same, "note") if same else "")

    def compute_time(self) -> str:
        """Return the part on computing; "" where nobody computed."""
        frame = compute_time.compute_times(self.points, self.kept.computing, self.axes)
        if frame.empty:
            return ""
        self.save("compute_time", frame)
        return sections.compute_time(frame, self.axes)

    def robustness(self) -> str:
        return robustness_section.robustness_section(self.points, self.means, self.axes, self.target, self)

    def forgetting(self) -> str:
        """Return the scores on each period as periods are learned; "" where there is only one period."""
        cells = tables.forgetting_matrices(self.kept.forgetting, self.by)
        self.save("forgetting", cells)
        if cells.empty or cells["learned"].max() < 2:
            return ""
        # one matrix for each algorithm can be read, dozens cannot: the easiest condition is drawn, the table has all
        shown, place = easiest(cells, self.axes)
        note = "Rows: the period just learned; columns: the period tested. All conditions: tables/forgetting.csv."
        drawing = self.drawn("forgetting", charts.forgetting_matrix(shown, place))
        return part("forgetting", "Score on each period", drawing, paragraph(note, "note"))
