"""`--explain`: describe what a scenario runs, and estimate what runs of some of its points cost, without training.

At most MOST conditions (points that differ in more than a seed) are examined, or all with `every`.  Options at their
defaults everywhere are shown with `every` only.

`preview` says what the estimates leave out.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console

from analysis import terminal
from analysis.axes import is_replicate, short
from analysis.terminal import wrapped, writable
from fedsim.core import seeds
from fedsim.core.amounts import NONE, duration, size
from fedsim.core.errors import UnknownSizeError
from fedsim.point.build import fleet, populations
from fedsim.point.preview import WAYS, Preview, preview
from fedsim.scenario.deployment import MeasuredProfile
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, options, source
from fedsim.scenario.parts.options import shown
from fedsim.scenario.schema import Point, Scenario
from fedsim.sweep import listing
from fedsim.sweep.display import name

MOST = 6  # conditions examined
HEADS = ("updates", "asked", "first", "run", "down", "up", "peers")
NOTES = (
    "Estimated without training, over the run's own links and with its own random draws: what one run costs from its "
    "beginning to its end. 'asked' are clients per update, 'first' and 'run' the simulated time of the first update "
    "and of the whole run, the others bytes delivered in it.",
    "Where no size hangs on what was learned, as FedAvg's, times and bytes are exactly the run's.",
)


def explain(console: Console, scenario: Scenario, points: Sequence[Point], data_root: Path, every: bool) -> None:
    """Print what will run and what it will cost.  Raises UserError if a run would refuse the scenario."""
    for title, text in words(scenario, points, every):
        terminal.show(console, wrapped(f"{title:<11} {text}", console.width, hanging=" " * 14))
    chosen, known = examined(points, every)
    few = "all" if len(chosen) == known else f"{len(chosen)} of {known} (all: -v)"
    notes = [line for note in NOTES for line in wrapped(note, console.width)]
    terminal.show(console, ["", *notes, "", f"Conditions shown: {few}"])
    previews = [(point, seen(point, data_root)) for point in chosen]
    terminal.show(console, table(previews, console.width, console.encoding))


def estimates(points: Sequence[Point], data_root: Path, every: bool) -> dict[str, Any]:
    """Return what is known of the conditions that are shown, and how many there are."""
    chosen, known = examined(points, every)
    estimated = [{"axes": point.axes, "note": noted(one)} | (one.plain() if isinstance(one, Preview) else {})
            for point in chosen for one in [seen(point, data_root)]]  # fmt: skip
    return {"conditions": estimated, "of": known}


def words(scenario: Scenario, points: Sequence[Point], every: bool = False) -> Iterator[tuple[str, str]]:
    """Yield what will run, as pairs of title and text."""
    if scenario.description:
        yield "about", scenario.description
    axes = {axis: len({str(point.axes[axis]) for point in points}) for axis in points[0].axes}
    of = " x ".join(f"{count} {axis}" for axis, count in axes.items())
    yield "runs", f"{len(points)}" + (f": {of}" if of else "")
    yield "clients", ", ".join(dict.fromkeys(str(fleet.size(point.scenario)) for point in points))
    yield from zip(chain(["links"], repeat("")), _links(points), strict=False)
    for kind in ("protocol", "algorithm", "sampler", "topology", "transport", "effect", "codec"):
        yield from zip(chain([kind], repeat("")), _parts(kind, points, every), strict=False)


def conditions(points: Sequence[Point]) -> list[Point]:
    """Return the first point of each combination of the axes but the seeds."""
    first: dict[tuple[tuple[str, str], ...], Point] = {}
    for point in points:
        first.setdefault(tuple(_values(point)), point)
    return [*first.values()]


def examined(points: Sequence[Point], every: bool) -> tuple[list[Point], int]:
    """Return the conditions that are examined, and how many there are in all."""
    known = conditions(points)
    return known if every else spread(known, MOST), len(known)


def spread(conditions: Sequence[Point], most: int) -> list[Point]:
    """Return at most `most` conditions, in the grid's order, that show each value of each axis about equally often."""
    shown: Counter[tuple[str, str]] = Counter()
    left, chosen = [*conditions], list[Point]()
    while left and len(chosen) < most:
        news = [sum(1 / (1 + shown[value]) for value in _values(point)) for point in left]
        chosen.append(left.pop(news.index(max(news))))
        shown.update(_values(chosen[-1]))
    return [point for point in conditions if point in chosen]


def table(previews: Sequence[tuple[Point, Preview | str]], width: int, encoding: str = "utf-8") -> Iterator[str]:
    """Yield one line per condition: the updates seen, the clients asked for each, and the totals of the run.

    Axes with one value, and columns that are the same in every line, share a line above.
    """
    varying = [axis for axis, _ in _values(previews[0][0]) if len({str(point.axes[axis]) for point, _ in previews}) > 1]
    rows = [_cells(estimate) for _, estimate in previews]
    shown = [row for row, (_, estimate) in zip(rows, previews, strict=True) if isinstance(estimate, Preview)]
    same = [head for head in HEADS if len(shown) > 1 and len({row[head] for row in shown}) == 1]
    empty = [head for head in HEADS if shown and all(row[head] in (NONE, size(0)) for row in shown)]
    if shared := [f"{head} {shown[0][head]}" for head in same if head not in empty]:
        yield from wrapped(f"The same everywhere: {', '.join(shared)}", width, hanging="  ")
    heads = [head for head in HEADS if head not in (*same, *empty)]
    cells = []
    for (point, _), row in zip(previews, rows, strict=True):
        label = ", ".join(f"{short(axis)} {point.axes[axis]}" for axis in varying) or name(dict(_values(point)))
        cells.append([writable(cell, encoding) for cell in (label, *(row[head] for head in heads))])
    head, *lines = terminal.layout(["condition", *heads], cells, width)
    yield from head
    for body, (_, estimate) in zip(lines, previews, strict=True):
        yield from body
        if note := noted(estimate):
            yield from wrapped(note, width, "  ")


def _cells(estimate: Preview | str) -> dict[str, str]:
    """Return a condition's cells by their heads, empty if there is no estimate."""
    if isinstance(estimate, str):
        return dict.fromkeys(HEADS, "")
    totals, seen = estimate.totals(), estimate.seconds
    moved = [NONE] * len(WAYS) if totals is None else [size(totals[way]) for way in WAYS]
    run = NONE if totals is None else duration(totals["seconds"])
    if not seen:
        return dict(zip(HEADS, ["0", NONE, "no update", run, *moved], strict=True))
    updates = f"{len(seen)}" if estimate.share >= 1 else NONE
    return dict(zip(HEADS, [updates, f"{fmean(estimate.asked):.4g}", duration(seen[0]), run, *moved], strict=True))


def noted(seen: Preview | str) -> str:
    """Return what a point's line does not say: why there is no update, or how much of the run was seen; else ""."""
    if isinstance(seen, str):
        return seen
    if not seen.seconds:
        return f"no update: {seen.why}"
    if seen.first_exchange:
        return "no totals: a round has several exchanges, and what the later ones hold hangs on the first"
    if seen.share < 1:
        return f"{'estimated from' if seen.totals() else 'no totals:'} the first {seen.share:.0%} of it: {seen.why}"
    return ""


def seen(point: Point, data_root: Path) -> Preview | str:
    """Return the preview of a point, or why there is none."""
    try:
        return preview(point.scenario, data_root)
    except UnknownSizeError as error:
        return str(error)


def _values(point: Point) -> list[tuple[str, str]]:
    """Return the values of the axes but the seeds."""
    return [(axis, str(value)) for axis, value in point.axes.items() if not is_replicate(axis)]


def _links(points: Sequence[Point]) -> Iterator[str]:
    """Yield the quantiles of each measured population, as the first point that has it draws its clients."""
    seen = set[str]()
    for scenario in (point.scenario for point in points):
        if isinstance(scenario.network.profile, MeasuredProfile):
            links = scenario.network.model_dump_json(include={"profile", "latency", "uplink", "downlink"})
            if (key := f"{links} {scenario.clients.model_dump_json(include={'count', 'table'})}") not in seen:
                seen.add(key)
                yield populations.described(fleet.rows(scenario, partial(seeds.generator, scenario.seed)))


def _parts(kind: str, points: Sequence[Point], every: bool) -> Iterator[str]:
    """Yield a text for each part of a kind: its name, and each choice of its options."""
    parts: dict[str, dict[str, Part]] = {}
    for point in points:
        for part in (part for other, _, part in point.scenario.parts() if other == kind):
            parts.setdefault(part.name, {})[str(part.options)] = part
    for name_, variants in parts.items():
        changed = {key for part in variants.values() for key in options.bare(kind, part).options}
        values: dict[str, dict[str, None]] = {}
        for part in variants.values():
            for key, value in _options(kind, part):
                if key in changed or (every and value is not None):
                    values.setdefault(key, {})[shown(value)] = None
        choices = ", ".join(f"{key}={' | '.join(texts)}" for key, texts in values.items())
        yield f"{name_}: {listing.line(kind, name_)}" + (f"; {choices}" if choices else "")


def _options(kind: str, part: Part) -> Iterator[tuple[str, Any]]:
    """Yield a part's options as the scenario writes them, with the class's defaults for the others."""
    built: Any = find.build(kind, part)
    for field in source.option_fields(type(built)):
        yield field.name, part.options.get(field.name, getattr(built, field.name))
