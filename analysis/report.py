"""One self-contained HTML page, figures and CSVs from the folders of finished runs.

Not modelled: the comparison of different metrics in one chart; runs side by side are assumed to measure the same.
"""

from collections.abc import Sequence
from pathlib import Path

from analysis import best_parts, network_parts, score_parts
from analysis.answer import compared
from analysis.glossary import words
from analysis.links import link_in
from analysis.load import load
from analysis.material import Material
from analysis.page import page, section
from analysis.served_parts import served_parts
from analysis.stored import NotARunError
from analysis.terminal import Say, silent
from analysis.what_was_run import what_was_run


def write(runs: Sequence[Path], out: Path | None = None, say: Say = silent) -> Path:
    """Read the runs and write report.html, figures/*.svg, *.pdf and tables/*.csv, *.tex; return the page's path.

    Without `out` they go into the first run's folder. `say` shows what is being done. Raises stored.NotARunError,
    naming folder and remedy, for what is not a finished run or a folder of results with links, and OSError where `out`
    cannot be written.
    """
    if link := link_in(runs[0] if out is None else out):
        raise NotARunError(link)
    say(f"reading {', '.join(map(str, runs))}")
    found = load(runs)
    folder = runs[0] if out is None else out
    material = Material(found, folder, say)
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    (folder / "tables").mkdir(exist_ok=True)
    title = " · ".join(found.scenarios)
    shown = _sections(material)
    material.save("points", found.points)
    material.save("summary", material.means)
    algorithms = material.points["algorithm"].nunique()
    lead = _count(len(material.points), "point") + (f", {algorithms} algorithms" if algorithms > 1 else "")
    lead += "" if material.scored else ". Nothing was scored: this report is about traffic and time"
    path = folder / "report.html"
    say(f"writing {path}")
    path.write_text(page(title, lead, shown, material.charts), "utf-8")
    return path


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _sections(m: Material) -> dict[str, str]:
    """Return the page's sections by their headings, each a question; "" for one with nothing to say."""
    first = best_parts.answer(m)  # before all others, which leave out what it draws
    several = m.points[compared(m.points, m.axes)].nunique() > 1
    scored: dict[str, tuple[str, list[str]]] = (
        {
            f"{'Who reaches the target first' if several else 'What does the target cost'}?": (
                "target",
                [best_parts.first(m)] if m.goal else [],
            ),
            f"{'Who is best' if several else 'What is reached'} at the end?": (
                "best",
                [best_parts.ranking_part(m)] if len(m.means) > 1 else [],
            ),
            "What does it cost?": (
                "cost",
                [score_parts.cost(m), network_parts.costs_part(m), network_parts.privacy_part(m)],
            ),
            f"How does {m.score} develop?": ("develop", score_parts.developing(m)),
            "What is forgotten?": (
                "forgotten",
                [score_parts.recovery_part(m), score_parts.forgetting(m), score_parts.held_out_part(m)],
            ),
            "What changes along the axes?": ("along", [score_parts.robustness_part(m)]),
        }
        if m.scored
        else {
            "What does it cost?": (
                "cost",
                [score_parts.cost(m), network_parts.costs_part(m), network_parts.privacy_part(m)],
            )
        }
    )
    parts = scored | {
        "Who is served?": ("served", served_parts(m)),
        "Where do the bytes go?": ("bytes", [network_parts.bytes_moved(m)]),
        "What limits a round?": ("round", network_parts.limits(m)),
        "How were the data divided?": ("data", [network_parts.partitions(m)]),
    }
    results = {
        heading: m.timed(section(name, heading, *filter(None, found)))
        for heading, (name, found) in parts.items()
        if any(found)
    }
    return {"Answer": first, **results, "What was run": what_was_run(m.runs, m.points), "Glossary": words(m.score)}
