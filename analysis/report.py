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
from analysis.choosing import interactive
from analysis.crosses import along as runs_along
from analysis.digest import digest
from analysis.forest import forest
from analysis.heat_maps import forgetting_matrix
from analysis.held_out import held_out, held_out_section
from analysis.load import Runs, load
from analysis.looks import Looks, dressed
from analysis.page import figure, page, paragraph, section
from analysis.panels import draw
from analysis.privacy_section import privacy_section
from analysis.ranking import headline, ranking
from analysis.score_curves import score_against
from analysis.spread import mean_curves
from analysis.verdict import condition_of, easiest

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
    parts = {
        "Which is first": report.scored and sections.first(report.means, report.axes),
        "Ranking": report.scored and report.ranking(),
        "Summary": sections.summary(report.means, report.axes),
        "Curves": report.scored and report.curves(),
        "Held out": report.held_out(),
        "Equal budgets": report.scored and report.budgets(),
        "Periods": report.periods(),
        "Bytes": report.bytes_moved(),
        "Link use": report.link_use(),
        "One update": report.timeline(),
        "Waiting": report.waiting(),
        "Privacy": privacy_section(report.points, report.axes, report.score, report),
        "Transfer times": report.transfer_times(),
        "Computing time": report.compute_time(),
        "Robustness": report.scored and report.robustness(),
        "Forgetting": report.scored and report.forgetting(),
        "Partitions": report.partitions(),
        "Losses": report.updated and sections.losses(report.means, report.axes),
        "What was run": sections.what_was_run(found, report.points),
        "Words": sections.words(),
    }
    shown = {name: part for name, part in parts.items() if part}
    report.save("points", found.points)
    report.save("summary", report.means)
    lead = f"{_count(len(report.points), 'point')}, {_count(report.points['algorithm'].nunique(), 'algorithm')}"
    lead += "" if report.scored else ". Nothing was scored: this report is about traffic and time"
    path = folder / "report.html"
    path.write_text(page(title, lead, shown, report.charts), "utf-8", newline="")
    return path


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


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
        self.looks = Looks(tuple(points["algorithm"].unique()))  # one algorithm, one colour, in every chart
        self.points = points.assign(bytes_moved=points["point"].map(moved).fillna(0.0).astype("float64"))
        self.means = tables.means(self.points, self.by)
        targets = self.points["target"].dropna().unique()
        self.reached = bool(self.points["seconds_to_target"].notna().any())
        self.target = float(targets[0]) if len(targets) == 1 else None
        self.scored = bool(self.points["score"].notna().any())
        self.updated = bool(self.points["asked"].notna().any())
        self.score = " or ".join(sorted(set(self.points["metric"].replace("", "score"))))

    def save(self, name: str, frame: pd.DataFrame) -> None:
        frame.to_csv(self.folder / "tables" / f"{name}.csv", index=False, lineterminator="\n")

    def drawn(self, name: str, spec: charts.Spec) -> str:
        spec = dressed(spec, self.looks)
        svg = draw(spec, self.folder / "figures" / name)
        self.charts[name] = interactive(spec)
        self.room -= len(svg)
        title = spec["title"]
        return figure(svg if self.room >= 0 else "", name, title["text"], title["subtitle"], spec["description"])

    def curves(self) -> str:
        curves = self.kept.curves
        self.save("curves", curves)
        parts = []
        for name, x in (("score_time", "time"), ("score_bytes", "moved")):
            means = mean_curves(curves, self.by, x)
            parts.append(self.drawn(name, score_against(means, x, self.axes, self.score, self.target)))
            if "whole" in curves and curves["whole"].notna().any():
                means = mean_curves(curves, self.by, x, "whole")
                spec = score_against(means, x, self.axes, self.score, self.target, whole=True)
                parts.append(self.drawn(name.replace("score", "whole"), spec))
        if self.reached:
            for value in ("seconds_to_target", "bytes_to_target"):
                parts.append(
                    self.drawn(value, charts.to_target(self.means, value, self.axes, self.target, self.rule()))
                )
        else:
            why = "No target was set" if self.points["target"].isna().all() else "No run reached its target"
            parts.append(paragraph(f"{why}, so there is no time or traffic to it."))
        scored = self.means.dropna(subset="score")
        labels = [condition_of({axis: str(row[axis]) for axis in self.by}) for _, row in scored.iterrows()]
        for name, cost, best in (
            ("trade_time", "sim_seconds", "frontier_time"),
            ("trade_bytes", "bytes_moved", "frontier_bytes"),
        ):
            marks = scored.assign(condition=labels, frontier=scored[best])
            parts.append(self.drawn(name, charts.trade_off(marks, cost, self.score)))
        note = (
            "Curves hold the last score until the next; a run that has ended keeps its last. Bytes count all that "
            "moved over the links by then. Points whose mean nobody beats are marked in tables/summary.csv."
        )
        return section("curves", "Curves", *parts, paragraph(note, "note"))

    def rule(self) -> str:
        """Return from when on a target counts, where that matters."""
        rules = [charts.RULES[on] for on in self.points["target_on"].dropna().unique() if on in charts.RULES]
        return rules[0] if len(rules) == 1 and self.points["periods"].max() > 1 else ""

    def budgets(self) -> str:
        """Return the section on who leads for which budget; "" where a single method was run."""
        return budgets_section.budgets(self.kept.curves, self.axes, self)

    def bytes_moved(self) -> str:
        booked = self.kept.booked
        directions = tables.direction_bytes(booked, self.points, self.by)
        steps = tables.step_bytes(booked, self.points, self.by)
        self.save("bytes_by_direction", directions)
        self.save("bytes_by_step", steps)
        self.save("bytes_by_client", self.kept.clients)
        if steps.empty:
            return section("bytes", "Bytes", paragraph("No message was sent."))
        parts = [self.drawn("bytes_by_direction", charts.stacked_bytes(directions, "direction", self.axes))]
        if steps["kind"].nunique() > 1:
            parts.append(self.drawn("bytes_by_step", charts.stacked_bytes(steps, "kind", self.axes)))
        parts.append(self.by_fate())
        wasted = tables.wasted_bytes(booked, self.points, self.by)
        self.save("bytes_wasted", wasted)
        parts.append(sections.wasted(wasted, self.axes))
        return section("bytes", "Bytes", *parts)

    def by_fate(self) -> str:
        frame = fates.by_fate(self.kept.booked, self.points, self.by)
        self.save("bytes_by_fate", frame)
        return self.drawn(
            "bytes_by_fate", charts.stacked_bytes(frame.rename(columns={"kind": "step"}), "fate", ["step", *self.axes])
        )

    def one_run_each(self) -> tuple[pd.DataFrame, str]:
        """Return one point an algorithm, all under the easiest condition, and the words that name it."""
        shown, where = easiest(self.points, self.axes)
        return shown.drop_duplicates("algorithm"), where

    def link_use(self) -> str:
        """Return the section on the server's links; "" where no message passed them."""
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
        note = "Every transfer's bytes are spread evenly from its sending to its end. The numbers: tables/link_use.csv."
        drawing = self.drawn("link_use", link_use.used(frame, where))
        return section("links", "Link use", drawing, paragraph(note, "note"))

    def timeline(self) -> str:
        """Return the section on one update of one run; "" where none folded anything."""
        points, where = self.one_run_each()
        point, algorithm = points["point"].iloc[0], points["algorithm"].iloc[0]
        frame = one_update.one_update(*(self.runs.split(name)[point] for name in ("transfers", "spans", "updates")))
        if frame.empty:
            return ""
        self.save("timeline", frame)
        drawing = self.drawn("timeline", one_update.timeline(frame, f"{algorithm}. {where}"))
        return section("timeline", "One update", drawing, paragraph(one_update.NOTE, "note"))

    def waiting(self) -> str:
        """Return the section on waiting for the slowest; "" where no update had two replies."""
        frame = waiting.waiting(self.points, self.kept.waits, self.by)
        return self._told("waiting", frame, waiting.waited, waiting.waiting_section)

    def partitions(self) -> str:
        """Return the section on partitions of snapshots; "" where there are none."""
        frame = partition_figures.partitions(self.kept.partitions, self.by)
        return self._told("partitions", frame, partition_figures.divided, partition_figures.partitions_section)

    def _told(
        self,
        name: str,
        frame: pd.DataFrame,
        chart: Callable[[pd.DataFrame, list[str]], dict[str, Any]],
        tell: Callable[[pd.DataFrame, list[str], str], str],
    ) -> str:
        """Return the section on a frame, with a chart of it; "" where it is empty."""
        if frame.empty:
            return ""
        self.save(name, frame)
        return tell(frame, self.axes, self.drawn(name, chart(frame, self.axes)))

    def transfer_times(self) -> str:
        """Return the section on how long messages took; "" where scores say more, and where none was delivered."""
        times = self.kept.times
        self.save("transfer_times", times)
        return "" if self.scored or times.empty else sections.transfer_times(times, self.axes)

    def held_out(self) -> str:
        """Return the section on vertices that nobody owns; "" where no run asked them."""
        frame = held_out(self.points, self.kept.held_out, self.by)
        if frame.empty:
            return ""
        self.save("held_out", frame)
        return held_out_section(frame, self.axes, self.score)

    def periods(self) -> str:
        """Return the section on what each period was given; "" where no run has a second one."""
        cells = self.kept.periods
        if cells.empty or cells["period"].max() < 2:
            return ""
        self.save("periods", tables.periods(cells, self.by))
        parts = [
            self.drawn(f"updates_per_period_{axis.replace('.', '_')}", self.updates_had(axis))
            for axis in self.axes
            if self.means["updates_per_period"].nunique() > 1 and len(runs_along(self.means, axis, self.others(axis)))
        ]
        note = (
            "How many updates the server made from a client's arrival of a period to its next, or to the end of the "
            "run; the slower the network, the fewer if data arrive by the clock. Period by period: tables/periods.csv."
        )
        table = sections.periods(self.means, self.axes, self.score)
        return section("periods", "Updates had per period", *parts, table, paragraph(note, "note"))

    def updates_had(self, axis: str) -> charts.Spec:
        others = self.others(axis)
        return along.updates_had(runs_along(self.means, axis, others), axis, others, self.score)

    def others(self, *axes: str) -> list[str]:
        return [other for other in self.axes if other not in axes]

    def ranking(self) -> str:
        """Return the section that ranks the methods of each condition, with intervals."""
        frame = ranking(self.points, self.axes)
        self.save("ranking", frame)
        names = list(self.means["algorithm"].unique())
        measure = ranked_section.NAMES[headline(self.points)]
        drawing = self.drawn("ranking", forest(frame, self.axes, names, measure))
        return ranked_section.ranked(frame, self.axes, measure, drawing)

    def compute_time(self) -> str:
        """Return the section on computing; "" where nobody computed."""
        frame = compute_time.compute_times(self.points, self.kept.computing, self.axes)
        if frame.empty:
            return ""
        self.save("compute_time", frame)
        return sections.compute_time(frame, self.axes)

    def robustness(self) -> str:
        return robustness_section.robustness_section(self.points, self.means, self.axes, self.target, self)

    def forgetting(self) -> str:
        cells = tables.forgetting_matrices(self.kept.forgetting, self.by)
        self.save("forgetting", cells)
        if cells["learned"].max() < 2:
            words = "There is only one period, so nothing can be forgotten."
            return section("forgetting", "Forgetting", paragraph(words))
        # one matrix an algorithm can be read, dozens cannot: draw the easiest condition, leave the rest to the table
        shown, place = easiest(cells, self.axes)
        note = "Rows: the period just learned; columns: the period tested. All conditions are in tables/forgetting.csv."
        drawing = self.drawn("forgetting", forgetting_matrix(shown, place))
        return section("forgetting", "Forgetting", drawing, paragraph(note, "note"))
