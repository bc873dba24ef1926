"""One self-contained HTML page, figures and CSVs from the folders of finished runs.

Not modelled: the comparison of different metrics in one chart; runs side by side are assumed to measure the same.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.charts.library import bundled
from analysis.read.links import link_in
from analysis.read.load import load
from analysis.read.stored import NotARunError
from analysis.report import best_parts, network_parts, score_parts
from analysis.report.costs_section import costs_section
from analysis.report.page import page, section, template
from analysis.report.privacy_section import privacy_section
from analysis.report.report_context import ReportContext
from analysis.report.robustness_section import robustness_section
from analysis.report.served_section import served_parts
from analysis.report.what_was_run import what_was_run
from analysis.statistics.answer import compared
from analysis.terminal import Say, silent


@pd.option_context("mode.string_storage", "python")  # in small frames Arrow's texts take a tenth of all the time
def write(runs: Sequence[Path], out: Path | None = None, say: Say = silent) -> Path:
    """Read the runs and write report.html, figures/*.svg, *.pdf and tables/*.csv, *.tex; return the page's path.

    Without `out` they go into the first run's folder. `say` shows what is being done. Raises stored.NotARunError,
    naming folder and remedy, for what is not a finished run or a folder of results with links, and OSError where `out`
    cannot be written.
    """
    if link := link_in(runs[0] if out is None else out):
        raise NotARunError(link)
    with bundled() as library:
        say(f"reading {', '.join(map(str, runs))}")
        loaded = load(runs)
        folder = runs[0] if out is None else out
        material = ReportContext(loaded, folder, say)
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        (folder / "tables").mkdir(exist_ok=True)
        title = " · ".join(loaded.scenarios)
        shown = _sections(material)
        material.save("runs", loaded.points)
        material.save("summary", material.means)
        algorithms = material.points["algorithm"].nunique()
        count = len(material.points)
        lead = f"{count:,} run{'' if count == 1 else 's'}" + (f", {algorithms} algorithms" if algorithms > 1 else "")
        lead += "" if material.scored else ". Nothing was scored: this report is about traffic and time"
        path = folder / "report.html"
        say(f"writing {path}")
        path.write_text(page(title, lead, shown, material.charts, library()), "utf-8")
    return path


def _sections(m: ReportContext) -> dict[str, str]:
    """Return the page's sections by their headings, each a question; "" for one with nothing to say."""
    first = best_parts.answer(m)  # before all others, which leave out what it draws
    several = m.points[compared(m.points, m.axes)].nunique() > 1
    parts = []
    if m.scored:
        target, best = "Who reaches the target first?", "Who is best at the end?"
        if not several:
            target, best = "What does the target cost?", "What is reached at the end?"
        parts.append((target, "target", [best_parts.first(m)] if m.goal else []))
        parts.append((best, "best", [best_parts.ranking_part(m)] if len(m.means) > 1 else []))
    costs = costs_section(m.points, m.kept.curves, m.runs.folders, m.axes, m.score, m.target, m)
    privacy = privacy_section(m.points, m.axes, m.score, m)
    parts.append(("What does it cost?", "cost", [score_parts.cost(m), costs, privacy]))
    if m.scored:
        forgotten = [score_parts.recovery_part(m), score_parts.forgetting(m), score_parts.held_out_part(m)]
        changes = robustness_section(m)
        parts += [
            (f"How does {m.score} develop?", "develop", score_parts.developing(m)),
            ("What is forgotten?", "forgotten", forgotten),
            ("What changes along the axes?", "along", [changes]),
        ]
    parts += [
        ("Who is served?", "served", served_parts(m)),
        ("Where do the bytes go?", "bytes", [network_parts.bytes_moved(m)]),
        ("What limits a round?", "round", network_parts.limits(m)),
        ("How were the data divided?", "data", [network_parts.partitions(m)]),
    ]
    results = {head: m.timed(section(name, head, *filter(None, html))) for head, name, html in parts if any(html)}
    glossary = template("glossary.html.jinja").render(score=m.score)
    return {"Answer": first, **results, "What was run": what_was_run(m.runs, m.points), "Glossary": glossary}
