"""docs/reference.md: the sentences, and one table for each setting."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from analysis.quantity import BYTES, MISSING, SECONDS, show
from fedsim.reference.findings import Findings, Outcome
from fedsim.reference.sentences import sentences
from fedsim.reference.standings import Standing
from fedsim.reference.terms import SHARES, command
from fedsim.reference.to_target import PART, Cost
from fedsim.reference.words import (
    ABOUT,
    HOW_TO_READ,
    INTRODUCTION,
    PAIRS,
    TITLE,
    about_flips,
    budgets_of,
    counted_pairs,
)

MADE = "## How it was made"


def markdown(found: Findings, made: str) -> str:
    """Return the whole page; `made` says how long the study took, and what was left out and why."""
    parts = [
        f"# {TITLE}",
        f"{INTRODUCTION} {ABOUT}",
        "\n".join(f"{place}. {sentence}" for place, sentence in enumerate(sentences(found), 1)),
        f"{MADE}\n\n{made.strip()}",
        f"## How to read the tables\n\n{HOW_TO_READ}",
        *_deployments(found),
        f"## What changes with halved links\n\n{about_flips(found)}",
        *_flips(found),
        f"## Pairs that cannot be told apart\n\n{PAIRS}",
        *_pairs(found),
    ]
    return "\n\n".join(parts) + "\n"


def made_in(page: str) -> str:
    """Return what a page says on how it was made, as it was given to `markdown`."""
    return page.split(f"\n{MADE}\n", 1)[1].split("\n## ", 1)[0].strip()


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are aligned to the right."""
    ruled = "|".join(["---", *["---:"] * (len(heads) - 1)])
    return "\n".join([_line(heads), f"|{ruled}|", *map(_line, rows)])


def score(row: Standing | None, seeds: int) -> str:
    """Return a score in percent with its half interval: "**81.2 ±1.3**" for the leader, "= 80.9 ±1.5" for who is level;
    with fewer seeds than others their number: "79.0 (3)".
    """
    if row is None or row.kind == "none":
        return MISSING
    half = (row.score.high - row.score.low) / 2
    number = f"{100 * row.score.mean:.1f}" + ("" if half != half else f" ±{100 * half:.1f}")
    if row.seeds < seeds:
        number = f"{number} ({row.seeds})"
    return f"**{number}**" if row.kind == "leader" else f"= {number}" if row.kind == "level" else number


def spent(cost: Cost) -> tuple[str, str, str]:
    """Return bytes and seconds to the target, and how many runs got there: "12.3 MB", "45.6 s", "5 of 5"."""
    return show(cost.bytes, BYTES), show(cost.seconds, SECONDS), f"{cost.reached} of {cost.seeds}"


def _deployments(found: Findings) -> Iterator[str]:
    last = ""
    for one in found.outcomes:
        if one.setting.deployment != last:
            last = one.setting.deployment
            yield f"## {last.capitalize()}"
        yield f"### {one.setting}\n\n{_command(one)}\n\n{_table(one)}"


def _command(one: Outcome) -> str:
    first = one.final.rows[0].contender
    return f"{budgets_of(one)} A row alone: `{command(one.setting, first)}`, with the row's name for `{first}`."


def heads() -> list[str]:
    """Return the heads of a setting's table."""
    six = [f"{budget.percent} {'B' if budget.cost == 'bytes' else 's'}" for budget in SHARES]
    return ["contender", *six, f"bytes to {100 * PART:.0f} %", "time", "get there"]


def _table(one: Outcome) -> str:
    rows = [
        [
            f"`{row.contender}`",
            *(score(one.at[budget].of(row.contender), one.final.seeds) for budget in SHARES),
            *spent(one.costs[row.contender]),
        ]
        for row in one.final.rows
    ]
    return table(heads(), rows)


def _flips(found: Findings) -> Iterator[str]:
    rows = [
        [
            f"{one.setting}, {one.budget}",
            f"`{one.given}`",
            f"`{one.halved}`",
            "yes" if one.significant else "no",
        ]
        for one in found.flips
    ]
    if rows:
        yield table(["setting and budget", "leads as given", "leads with halved links", "significant"], rows)


def _pairs(found: Findings) -> Iterator[str]:
    for one in found.outcomes:
        lines = [
            f"- `{name}` and {', '.join(f'`{pair.other}`' for pair in own)}"
            for name, own in groupby(one.level_pairs, key=lambda pair: pair.one)
        ]
        listed = "\n\n{}\n".format("\n".join(lines)) if lines else ""
        yield f"<details><summary>{one.setting}: {counted_pairs(one)}</summary>{listed}\n</details>"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
