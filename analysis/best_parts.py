"""The parts of a report on the best methods: the answer, times and bytes to the target, and the ranking."""

from analysis import charts, ranked_section, sections
from analysis.answer import caution, compared, conditions, findings, races
from analysis.answer_section import answer_section
from analysis.cautions import cautions
from analysis.forest import forest
from analysis.material import Material
from analysis.network_parts import by_direction
from analysis.page import paragraph
from analysis.question import descriptions, question, setting
from analysis.ranking import headline
from analysis.score_parts import curve
from analysis.unchanging import settled
from analysis.whole_stream import last_arrival


def answer(m: Material) -> str:
    """Return the first screen: the question, the answer in words, and one chart."""
    points, axes = m.points, m.axes
    asked = question(m.runs, "What was reached, and at what cost?" if m.scored else "What moved, and when?")
    notes = [setting(points, m.runs.resolved, m.score), caution(points, axes)]
    if m.goal and set(points["target_on"]) == {"all_periods"}:
        notes.insert(1, last_arrival(m.kept.curves))
    above = cautions(points, m.runs.points, axes)
    found = findings(points, axes, m.score, m.kept.curves if m.scored else None)
    return answer_section(asked, descriptions(m.runs), found, notes, above, headline_chart(m))


def headline_chart(m: Material) -> str:
    """Return the one chart of the first screen: times to the target, else final scores, else bytes."""
    if not m.scored:
        return by_direction(m)
    if m.reached:
        return to_target(m, "seconds_to_target")
    return ranked(m) if len(m.means) > 1 else curve(m, "score_time", "time")


def first(m: Material) -> str:
    """Return who is first in each condition, and the bytes to the target."""
    if compared(m.points, m.axes) != "algorithm" or m.points["algorithm"].nunique() > 1:
        found, axes = races(m.points, m.axes), conditions(m.points, m.axes)
        m.save("first", sections.firsts_frame(axes, found.times, found.moved, found.best))
        table = sections.firsts(axes, found.times, found.moved, found.best)
    else:
        table = ""
    if len(m.kept.targets):
        m.save("targets", m.kept.targets)
        table += sections.each_period(m.kept.targets, m.by)
    if not m.reached:
        return paragraph("No run reached its target, so there is no time or traffic to it.") + table
    return to_target(m, "bytes_to_target") + table


def to_target(m: Material, value: str) -> str:
    """Return the chart of the seconds or bytes to the target."""
    return m.drawn(value, charts.to_target(m.means, value, m.axes, m.target, m.rule()))


def ranking_part(m: Material) -> str:
    """Return the part that ranks the methods of each condition, with a chart unless the first screen has it."""
    m.save("ranking", m.ranking.drop(columns="units"))
    measure = ranked_section.NAMES[headline(m.points)]
    return ranked_section.ranked(m.ranking, m.axes, measure, "" if "ranking" in m.charts else ranked(m))


def ranked(m: Material) -> str:
    """Return the chart of the ranking."""
    frame, axes, same = settled(m.ranking, m.axes, ["mean", "difference"])
    names = list(m.means["algorithm"].unique())
    drawing = m.drawn("ranking", forest(frame, axes, names, ranked_section.NAMES[headline(m.points)]))
    return drawing + (paragraph(same, "note") if same else "")
