"""The parts of a report on the best methods: the answer, times and bytes to the target, and the ranking."""

import re
from collections.abc import Sequence

from analysis.charts import totals
from analysis.charts.forest import forest
from analysis.read.question import descriptions, question, setting
from analysis.report import ranked_section, sections
from analysis.report.cautions import cautions
from analysis.report.network_parts import by_direction
from analysis.report.page import paragraph, template
from analysis.report.report_context import ReportContext
from analysis.report.score_parts import curve
from analysis.statistics.answer import Grid, compared, grid
from analysis.statistics.constant_axes import settled


def answer(m: ReportContext) -> str:
    """Return the first screen: the question, who is first where, and one chart."""
    points, axes = m.points, m.axes
    asked = question(m.runs, "What was reached, and at what cost?" if m.scored else "What moved, and when?")
    found = grid(points, axes, m.score, m.races)
    scored = setting(points, m.runs.resolved, m.score, m.fixed)
    above = cautions(points, m.runs.points, axes, m.fixed)
    return answer_section(asked, descriptions(m.runs), above, found, scored, headline_chart(m))


def headline_chart(m: ReportContext) -> str:
    """Return the one chart of the first screen: times to the target, else final scores, else bytes."""
    if not m.scored:
        return by_direction(m)
    if m.reached:
        return to_target(m, "seconds_to_target")
    return ranked(m) if len(m.means) > 1 else curve(m, "score_time", "time")


def first(m: ReportContext) -> str:
    """Return the bytes to the target, and its cost on each period where it counts on each; save who is first where."""
    if m.points[compared(m.points, m.axes)].nunique() > 1:
        m.save("first", sections.firsts_frame(m.races))
    table = ""
    if len(m.kept.targets):
        m.save("targets", m.kept.targets)
        table = sections.each_period(m.kept.targets, m.by)
    if not m.reached:
        return paragraph("No run reached its target, so there is no time or traffic to it.") + table
    return to_target(m, "bytes_to_target") + table


def to_target(m: ReportContext, value: str) -> str:
    """Return the chart of the seconds or bytes to the target."""
    return m.drawn(value, totals.to_target(m.means, value, m.axes, m.target, m.rule(), m.clock))


def ranking_part(m: ReportContext) -> str:
    """Return the part that ranks the methods of each condition, with a chart unless the first screen has it."""
    m.save("ranking", m.ranking.drop(columns="units"))
    return ranked_section.ranked(m.ranking, m.axes, m.score, "" if "ranking" in m.charts else ranked(m))


def ranked(m: ReportContext) -> str:
    """Return the chart of the ranking."""
    frame, axes, same = settled(m.ranking, m.axes, ["mean", "difference"])
    drawing = m.drawn("ranking", forest(frame, axes, list(m.means["algorithm"].unique()), m.score))
    return drawing + (paragraph(same, "note") if same else "")


def answer_section(
    asked: str, descriptions: Sequence[str], cautions: Sequence[str], grid: Grid, scored: str, chart: str
) -> str:
    """Return the section: `cautions` are shown above the grid, `scored` says what was scored."""
    more = f"{grid.left_out} conditions more are in tables/first.csv." if grid.left_out else ""
    return template("answer.html.jinja").render(
        asked=asked, descriptions=descriptions, cautions=cautions, grid=grid, more=more, scored=scored, chart=chart,
        unbroken=_unbroken,
    )  # fmt: skip


def _unbroken(words: str) -> str:
    """Return the words, no line of which ends between a number and its unit."""
    return re.sub(r"(?<=\d) (?=(?:%|[mµn]?s|min|h|d|[kMGT]?B)(?!\w))", "\u00a0", words)
