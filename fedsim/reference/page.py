"""Write the page of the reference table: docs/reference.md from its template, and docs/reference_table.html from that.

`docs/reference/summary.md`, written by hand, is a part of it.  The HTML adds what Markdown cannot have: tables that
sort, numbers that lead to the command that reruns them, charts, and matrices of pairs.  It is one file and asks for
nothing from a network.
"""

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, get_args

import vl_convert
from markdown_it import MarkdownIt

from analysis.charts.choosing import interactive
from analysis.charts.library import bundled
from analysis.charts.palette import Palette, with_palette
from analysis.quantity import BYTES, MISSING, SECONDS, show
from analysis.report.cells import key, shown_in_points
from analysis.report.page import Cell, figure, page, paragraph, section, table, template, text
from fedsim.core import whole_files
from fedsim.learn.replies import Disclosed, Readable
from fedsim.reference import curves, results, trials
from fedsim.reference.cell import COSTS, GIVEN, SHARES, Contender, command
from fedsim.reference.comparisons import Pair, Standing
from fedsim.reference.findings import BEST, Findings, Outcome, findings
from fedsim.reference.plan import Plan, ScenarioKeys
from fedsim.reference.results import Results
from fedsim.reference.scores import Cost
from fedsim.reference.trials import PlanTrial
from fedsim.scenario.parts import find

SUMMARY = "summary.md"
COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
HEADING = re.compile(r"^#{1,3} (.+)\n", re.MULTILINE)
HEADS = [
    "contender", *(f"{share.percent} {'B' if share.cost == 'bytes' else 's'}" for share in SHARES),
    f"bytes to {100 * BEST:.0f} %", "time", "get there", "others read",
]  # fmt: skip
NOT_SAID = "not said"
HOW_TO_READ = "How to read the tables"
TEMPLATES = Path(__file__).parent / "templates"
STYLE = f"<style>\n{(TEMPLATES / 'page.css').read_text('utf-8')}</style>"


def write(plan: Plan, known: Results, tried: Sequence[PlanTrial], docs: Path) -> list[Path]:
    """Write reference.md and reference_table.html into the folder `docs`, and return their paths.

    Raises UserError where the tables lack a course or a setting's budgets, and OSError where nothing can be written.
    """
    computed = findings(known, plan.budgets)
    by_hand = docs / "reference" / SUMMARY
    source = markdown(computed, plan, known, tried, by_hand.read_text("utf-8") if by_hand.is_file() else "")
    texts = {docs / "reference.md": source, docs / "reference_table.html": html(computed, plan, source)}
    for path, content in texts.items():
        whole_files.replace(path, content)
    return list(texts)


def markdown(computed: Findings, plan: Plan, known: Results, tried: Sequence[PlanTrial], summary: str) -> str:
    """Return the whole page as Markdown."""
    have = {trial.key for trial in tried}
    return template("page.md.jinja", TEMPLATES).render(
        findings=computed, plan=plan, known=known, summary=COMMENT.sub("", summary).strip(), results=results,
        fewer=[*dict.fromkeys("/".join(one.of[:2]) for one in trials.planned(plan) if one.key not in have)],
        chosen=[(of, *chosen_in_words(keys)) for of, keys in trials.chosen(tried).items()],
        heads=HEADS, shares=SHARES, budgets=budgets, command=command, score=score, to_target=to_target,
        choices=choices, others_read=lambda contender: _disclosed(plan, contender) or NOT_SAID,
    )  # fmt: skip


def html(computed: Findings, plan: Plan, source: str) -> str:
    """Return the whole page as HTML; `source` is its Markdown."""
    _, title, lead, *rest = HEADING.split(source)
    convert = MarkdownIt("commonmark", {"html": False}).enable("table").render
    charts: dict[str, Any] = {}
    palette = Palette(tuple(dict.fromkeys(str(name) for one in computed.outcomes for name in curves.drawn(one))))
    outcomes = {str(outcome.setting): outcome for outcome in computed.outcomes}
    parts: dict[str, str] = {}
    filters = template("filter.html.jinja", TEMPLATES).render(kinds=get_args(Readable))
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        style = "" if parts else STYLE
        if name in outcomes:
            content = _setting(outcomes[name], computed, plan, charts, palette)
            parts[name] = section(_anchor(outcomes[name]), name, style, *content)
        elif body.strip():
            boxes = [filters] if name == HOW_TO_READ else []
            parts[name] = section(name.lower().replace(" ", "-"), name, style, _scrolling(convert(body)), *boxes)
    with bundled() as library:
        return page(title, lead.strip().splitlines()[0], parts, charts, library())


def _scrolling(content: str) -> str:
    """Let the tables of converted Markdown scroll sideways in a narrow window."""
    place = '<div class="wide" tabindex="0" role="group" aria-label="Table">'
    return content.replace("<table>", f"{place}<table>").replace("</table>", "</table></div>")


def chosen_in_words(keys: ScenarioKeys) -> tuple[str, str]:
    """Return a learning rate and options as texts; what is empty is as the scenario and the algorithm are written."""
    return f"{keys.get(trials.LR, '')}", ", ".join(f"{name} {value}" for name, value in keys.get("options", {}).items())


def budgets(outcome: Outcome) -> str:
    """Return a setting's budgets, the number of its seeds and the target as a sentence."""
    limits = f"{show(outcome.budget.bytes, BYTES)} and {show(outcome.budget.seconds, SECONDS)}"
    target = "" if outcome.target != outcome.target else f"; 90 % of the best is {100 * outcome.target:.1f} %"
    return f"Budgets {limits}; {outcome.final.seeds} seeds{target}."


def score(row: Standing | None, seeds: int, bold: str = "") -> str:
    """Return a score in percent with half of its interval: "81.2 ±1.3"; "= 80.9 ±1.5" for who is tied with the leader.

    With fewer seeds than others their number follows: "79.0 (3)".  `bold` surrounds the leader's.
    """
    if row is None or row.status == "unscored":
        return MISSING
    half = (row.score.high - row.score.low) / 2
    number = f"{100 * row.score.mean:.1f}" + ("" if half != half else f" ±{100 * half:.1f}")
    if row.seeds < seeds:
        number = f"{number} ({row.seeds})"
    return f"{bold}{number}{bold}" if row.status == "leader" else f"= {number}" if row.status == "tied" else number


def choices(outcome: Outcome) -> tuple[str, str, str]:
    """Return who leads or is tied with the leader at the end, and who of them reaches the target for least.

    Bytes and seconds are means; who misses the target in a run is not among the cheapest.
    """
    names = [row.contender for row in outcome.final.rows if row.status in ("leader", "tied")]
    sure = [outcome.costs[name] for name in names if outcome.costs[name].reached == outcome.final.seeds]
    fewest, quickest = (min(sure, key=lambda cost: getattr(cost, each), default=None) for each in COSTS)
    return (
        ", ".join(f"`{name}`" for name in names) or MISSING,
        f"`{fewest.contender}`: {show(fewest.bytes, BYTES)}" if fewest else MISSING,
        f"`{quickest.contender}`: {show(quickest.seconds, SECONDS)}" if quickest else MISSING,
    )


def _disclosed(plan: Plan, contender: Contender) -> Disclosed | None:
    method = plan.methods.get(contender.method)
    return find.find("algorithm", method.algorithm, "algorithm").discloses if method else None


def to_target(cost: Cost) -> tuple[str, str, str]:
    """Return bytes and seconds to the target, and how many runs got there: "12.3 MB", "45.6 s", "5 of 5"."""
    return show(cost.bytes, BYTES), show(cost.seconds, SECONDS), f"{cost.reached} of {cost.seeds}"


def _setting(
    outcome: Outcome, computed: Findings, plan: Plan, charts: dict[str, Any], palette: Palette
) -> Iterator[str]:
    yield paragraph(f"{budgets(outcome)} Accuracy in percent, mean ± half the 95 % interval.", "note")
    yield table(HEADS, [[*_row(outcome, plan, row)] for row in outcome.final.rows])
    for row in outcome.final.rows:
        words = escape(command(outcome.setting, row.contender))
        place = escape(_place(outcome, row))
        yield f'<p class="command" id="{place}"><code>{words}</code><a href="#closed">close</a></p>'
    for cost in COSTS:
        spec = curves.chart(outcome, computed.courses, cost)
        if spec is not None:
            name, spec = f"{_anchor(outcome)}-{cost}", with_palette(spec, palette)
            charts[name] = interactive(spec)
            title = spec["title"]
            drawing: str = vl_convert.vegalite_to_svg(spec)
            yield figure(drawing, name, title["text"], title["subtitle"], spec["description"])
    names = [row.contender for row in outcome.final.scored]
    yield template("pairs.html.jinja", TEMPLATES).render(
        names=names, pairs=outcome.pairs, sign_of=sign, in_words=in_words
    )


def _row(outcome: Outcome, plan: Plan, row: Standing) -> Iterator[Cell]:
    place, rerun = _place(outcome, row), command(outcome.setting, row.contender)
    yield text(str(row.contender))
    for share in SHARES:
        standing = outcome.at[share].of(row.contender)
        status = standing.status if standing and standing.status in ("leader", "tied") else ""
        mean = key(standing.score.mean) if standing else ""
        yield Cell(score(standing, outcome.final.seeds), mean, status, place, f"{_difference(standing)}{rerun}")
    cost = outcome.costs[row.contender]
    for words, sorts in zip(to_target(cost), (key(cost.bytes), key(cost.seconds), cost.reached), strict=True):
        yield Cell(words, sorts, "", place, rerun)
    shown = _disclosed(plan, row.contender)
    words = str(shown or NOT_SAID)
    yield Cell(words, words, " ".join(["reads", *(shown.server if shown else ())]))


def _difference(row: Standing | None) -> str:
    """Return the paired difference from the leader in words, "" where there is none."""
    if row is None or row.status not in ("tied", "below"):
        return ""
    gap = row.difference
    ends = f"{shown_in_points(gap.low)} to {shown_in_points(gap.high)}"
    return f"{shown_in_points(gap.mean)} points from the leader ({ends}); "


def sign(pair: Pair) -> str:
    """Return the sign of the second of a pair against the first."""
    if not pair.tested:
        return "·"
    return "=" if not pair.significant else "−" if pair.difference.mean > 0 else "+"


def in_words(pair: Pair) -> str:
    """Return the difference of a pair: "power/sync less fedavg/sync: -1.2 points (-2.0 to -0.4)"."""
    names, gap = f"{pair.second} less {pair.first}: ", pair.difference
    if not gap.units:
        return f"{names}no common seed"
    ends = f" ({shown_in_points(-gap.high)} to {shown_in_points(-gap.low)})" if pair.tested else ""
    return f"{names}{shown_in_points(-gap.mean)} points{ends}"


def _anchor(outcome: Outcome) -> str:
    return "-".join(outcome.setting)


def _place(outcome: Outcome, row: Standing) -> str:
    return f"{outcome.setting}/{row.contender}/{GIVEN}"
