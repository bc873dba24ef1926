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
from fedsim.point import fleet, populations
from fedsim.point.preview import WAYS, Preview, preview
from fedsim.scenario import find, source, stated
from fedsim.scenario.deployment import MeasuredProfile
from fedsim.scenario.options import shown
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point, Scenario
from fedsim.sweep import listing
from fedsim.sweep.display import name

MOST = 6  # conditions examined
HEADS = ("condition", "updates", "asked", "first", "run", "down", "up", "peers")
NOTES = (
    "Estimated without training, over the run's own links and with its own random draws: what one run costs from its "
    "beginning to its end. 'asked' are clients per update, 'first' and 'run' the simulated time of the first update "
    "and of the whole run, the others bytes delivered in it.",
    "Where no size hangs on what was learned, as FedAvg's, times and bytes are exactly the run's.",
)


def explain(console: Console, scenario: Scenario, points: Sequence[Point], data_root: Path, every: bool) -> None:
    """Print what will run and what it will cost.  Raises UserError if a run would refuse the scenario."""

    def tell(lines: Iterator[str] | list[str]) -> None:
        for line in lines:
            console.print(writable(line, console.encoding), soft_wrap=True)

    for title, text in words(scenario, points, every):
        tell(wrapped(f"{title:<11} {text}", console.width, hanging=" " * 14))
    found = conditions(points)
    chosen = found if every else spread(found, MOST)
    tell([""])
    for note in NOTES:
        tell(wrapped(note, console.width))
    few = "all" if len(chosen) == len(found) else f"{len(chosen)} of {len(found)} (all: -v)"
    tell(["", f"Conditions shown: {few}"])
    tell(table([(point, _seen(point, data_root)) for point in chosen], console.width, console.encoding))


def words(scenario: Scenario, points: Sequence[Point], every: bool = False) -> Iterator[tuple[str, str]]:
    """Yield what will run, as pairs of title and text."""
    if scenario.description:
        yield "about", scenario.description
    axes = {axis: len({str(point.axes[axis]) for point in points}) for axis in points[0].axes}
    of = " x ".join(f"{count} {axis}" for axis, count in axes.items())
    yield "points", f"{len(points)}" + (f": {of}" if of else "")
    yield "clients", ", ".join(dict.fromkeys(str(fleet.size(point.scenario)) for point in points))
    yield from zip(chain(["links"], repeat("")), _links(points), strict=False)
    for kind in ("protocol", "algorithm", "sampler", "topology", "transport", "effect", "codec"):
        yield from zip(chain([kind], repeat("")), _parts(kind, points, every), strict=False)


def conditions(points: Sequence[Point]) -> list[Point]:
    """Return the first point of each combination of the axes but the seeds."""
    found: dict[tuple[tuple[str, str], ...], Point] = {}
    for point in points:
        found.setdefault(tuple(_values(point)), point)
    return [*found.values()]


def spread(conditions: Sequence[Point], most: int) -> list[Point]:
    """Return at most `most` conditions, in the grid's order, that show each value of each axis about equally often."""
    shown: Counter[tuple[str, str]] = Counter()
    left, chosen = [*conditions], list[Point]()
    while left and len(chosen) < most:
        news = [sum(1 / (1 + shown[value]) for value in _values(point)) for point in left]
        chosen.append(left.pop(news.index(max(news))))
        shown.update(_values(chosen[-1]))
    return [point for point in conditions if point in chosen]


def table(seen: Sequence[tuple[Point, Preview | str]], width: int, encoding: str = "utf-8") -> Iterator[str]:
    """Yield one line per point: the updates seen, the clients asked for each, and the totals of the run.

    Axes with one value, and columns that are the same in every line, share a line above.
    """
    varying = [
        axis for axis in seen[0][0].axes
        if not is_replicate(axis) and len({str(point.axes[axis]) for point, _ in seen}) > 1
    ]  # fmt: skip
    labels = [
        ", ".join(f"{short(axis)} {point.axes[axis]}" for axis in varying) or name(_conditions_of(point))
        for point, _ in seen
    ]
    shown = [_numbers(found) for _, found in seen if isinstance(found, Preview)]
    same = [head for n, head in enumerate(HEADS[1:]) if len(shown) > 1 and len({row[n] for row in shown}) == 1]
    empty = [head for n, head in enumerate(HEADS[1:]) if shown and all(row[n] in (NONE, size(0)) for row in shown)]
    if together := [f"{head} {shown[0][HEADS.index(head) - 1]}" for head in same if head not in empty]:
        yield from wrapped(f"The same everywhere: {', '.join(together)}", width, hanging="  ")
    kept = [n for n, head in enumerate(HEADS[1:]) if head not in (*same, *empty)]
    rows = [
        [label, *([_numbers(found)[n] for n in kept] if isinstance(found, Preview) else [""] * len(kept))]
        for label, (_, found) in zip(labels, seen, strict=True)
    ]
    rows = [[writable(cell, encoding) for cell in row] for row in rows]
    head, *lines = terminal.layout([HEADS[0], *(HEADS[1 + n] for n in kept)], rows, width)
    yield from head
    for body, (_, found) in zip(lines, seen, strict=True):
        yield from body
        if isinstance(found, str):
            yield from wrapped(found, width, "  ")
        elif note := _note(found):
            yield from wrapped(note, width, "  ")


def _numbers(found: Preview) -> list[str]:
    """Return the cells of a point under all heads but the first."""
    totals, seen = found.totals(), found.seconds
    moved = [NONE] * len(WAYS) if totals is None else [size(totals[way]) for way in WAYS]
    run = NONE if totals is None else duration(totals["seconds"])
    if not seen:
        return ["0", NONE, "no update", run, *moved]
    updates = f"{len(seen)}" if found.share >= 1 else NONE
    return [updates, f"{fmean(found.asked):.4g}", duration(seen[0]), run, *moved]


def _note(found: Preview) -> str:
    """Return what a point's line does not say: why there is no update, or how much of the run was seen; else ""."""
    if not found.seconds:
        return f"no update: {found.why}"
    if found.first_exchange:
        return "no totals: a round has several exchanges, and what the later ones hold hangs on the first"
    if found.share < 1:
        return f"{'estimated from' if found.totals() else 'no totals:'} the first {found.share:.0%} of it: {found.why}"
    return ""


def _conditions_of(point: Point) -> dict[str, Any]:
    return {axis: value for axis, value in point.axes.items() if not is_replicate(axis)}


def _seen(point: Point, data_root: Path) -> Preview | str:
    try:
        return preview(point.scenario, data_root)
    except UnknownSizeError as error:
        return str(error)


def _values(point: Point) -> list[tuple[str, str]]:
    return [(axis, str(value)) for axis, value in _conditions_of(point).items()]


def _links(points: Sequence[Point]) -> Iterator[str]:
    """Yield the quantiles of each measured population, as the first point that has it draws its clients."""
    seen = set[str]()
    for scenario in (point.scenario for point in points):
        if isinstance(scenario.network.profile, MeasuredProfile):
            network = scenario.network
            links = network.model_dump_json(include={"profile", "latency", "uplink", "downlink"})
            if (key := f"{links} {scenario.clients.model_dump_json(include={'count', 'table'})}") not in seen:
                seen.add(key)
                yield populations.described(fleet.rows(scenario, partial(seeds.generator, scenario.seed)))


def _parts(kind: str, points: Sequence[Point], every: bool) -> Iterator[str]:
    """Yield a text for each part of a kind: its name, and each choice of its options."""
    parts: dict[str, dict[str, Part]] = {}
    for point in points:
        for part in (part for other, _, part in point.scenario.parts() if other == kind):
            parts.setdefault(part.name, {})[str(part.options)] = part
    for name_, found in parts.items():
        changed = {key for part in found.values() for key in stated.bare(kind, name_, part.options)}
        values: dict[str, dict[str, None]] = {}
        for part in found.values():
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
