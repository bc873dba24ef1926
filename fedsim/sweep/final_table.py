"""Format a sweep's results as text: a summary that fits the terminal, and the full table for a file.

Rows that differ only in their seeds are one line: mean ± standard deviation.  Lines are grouped by condition, one per
method (or per value of the last axis, if all have the same method); what does not vary is stated once.  Columns that do
not fit are only in the file: no number is ever cut.  Below them stands who is first under each condition, as in the
report; many conditions have this alone.
"""

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.answer import grid
from analysis.axes import is_replicate, short
from analysis.terminal import columns_that_fit, layout, table, wrapped, writable
from fedsim.core.amounts import NONE, duration, given, number, size, spread

Row = Mapping[str, Any]
MOST_LINES = 60  # of the summary; above it only who is first is shown
METHOD = "method"
RULES = {
    "all_periods": "A target counts on the test of all periods, arrived or not.",
    "met_periods": "A target counts once all periods have arrived.",
    "each_period": "Times and bytes to the target are means over the periods, each counted from its arrival.",
}
MOVED = ("bytes_up", "bytes_down", "bytes_peer", "bytes_wasted")
UNBOUNDED = 10_000  # characters of a line in the file


@dataclass(frozen=True)
class Column:
    """A column of summary.csv: its title, its format, and whether it is shown when empty."""

    key: str
    title: str
    form: Callable[..., str]
    always: bool = False


COLUMNS = (  # the most important first: the last are dropped if there is no room
    Column("score", "score", number, True),
    Column("seconds_to_target", "time to target", duration),
    Column("bytes_to_target", "bytes to target", size),
    Column("fm", "FM", number),
    Column("sim_seconds", "simulated", duration, True),
    Column("bytes_up", "up", size, True),
    Column("bytes_down", "down", size, True),
    Column("bytes_peer", "between peers", size),
)


@dataclass(frozen=True)
class Group:
    """The rows that differ only in their seeds, and the displayed values of the other axes."""

    values: dict[str, str]
    rows: list[Row]


def answer(rows: Sequence[Row], axes: Sequence[str], width: int, encoding: str = "utf-8") -> Iterator[Text]:
    """Yield the results, line by line, for a terminal of this width and encoding."""
    groups = grouped(rows, axes)
    varying = [axis for axis in shown_axes(groups) if len({group.values[axis] for group in groups}) > 1]
    columns = _columns(rows)
    same = [column for column in columns if len(groups) > 1 and len({_cell(group, column) for group in groups}) == 1]
    for line in wrapped(writable(_summary(rows, groups), encoding), width):
        yield Text(line)
    everywhere = [f"{short(axis)} {value}" for axis, value in groups[0].values.items() if axis not in varying]
    everywhere += [f"{_title(column, rows)} {text}" for column in same if (text := _cell(groups[0], column)) != NONE]
    if any(column.key == "seconds_to_target" and _cell(groups[0], column) == NONE for column in same):
        everywhere.append(f"{_target(rows)} not reached")
    if everywhere:
        same_text = writable(f"The same everywhere: {', '.join(everywhere)}", encoding)
        for line in wrapped(same_text, width, hanging="  "):
            yield Text(line)
    for line in wrapped(rule, width) if (rule := _rule(rows)) else ():
        yield Text(line)
    yield Text("")
    across = METHOD if METHOD in varying else varying[-1] if varying else ""
    outer = [axis for axis in varying if axis != across]
    blocks = [(name, [*own]) for name, own in groupby(_sorted(groups, outer), lambda group: _condition(group, outer))]
    left = [column for column in columns if column not in same]
    if len(groups) + len(blocks) <= MOST_LINES or not across:
        yield from _blocks(blocks, across, left, rows, width, encoding)
        yield Text("")
    if len(groups) > 1:
        yield from _first(rows, axes, width, encoding)


def full(rows: Sequence[Row], axes: Sequence[str]) -> str:
    """Return the full table as text: every axis and column, one line per condition and method."""
    groups, columns = grouped(rows, axes), _columns(rows)
    axes = shown_axes(groups)
    labels = [axes or ["point"], *([*group.values.values()] or [_alone(group)] for group in groups)]
    sizes = [max(map(len, column)) for column in zip(*labels, strict=True)]
    # All axes form one label, at the left.
    first, *rest = ["  ".join(f"{cell:<{size}}" for cell, size in zip(label, sizes, strict=True)) for label in labels]
    body = [[label, *(_cell(group, column) for column in columns)] for label, group in zip(rest, groups, strict=True)]
    return "\n".join([_summary(rows, groups), "", *table([first, *_titles(columns, rows)], body, UNBOUNDED), ""])


def _rule(rows: Sequence[Row]) -> str:
    """Return the rule for when a target counts, "" if there is no target or only one period."""
    rules = {row.get("target_on") for row in rows if row.get("target") is not None}
    several = max(given(rows, "periods"), default=0.0) > 1
    return RULES.get(str(next(iter(rules))), "") if several and len(rules) == 1 else ""


def grouped(rows: Sequence[Row], axes: Sequence[str]) -> list[Group]:
    """Return the rows grouped by the values of their axes without the seeds, in their order."""
    axes = [axis for axis in axes if not is_replicate(axis)]
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(str(row[axis]) for axis in axes), []).append(row)
    methods = _methods([*found.values()])
    groups = []
    for own, method in zip(found.values(), methods, strict=True):
        values = {axis: str(own[0][axis]) for axis in axes if axis != "algorithm"}
        groups.append(Group({**values, **({METHOD: method or NONE} if any(methods) else {})}, own))
    return groups


def shown_axes(groups: Sequence[Group]) -> list[str]:
    """Return the axes of the groups, the method last."""
    return [*groups[0].values] if groups else []


def failures(rows: Sequence[Row], where: str) -> str | None:
    """Return a sentence on failed points, or None if there are none; `where` is the folder of results."""
    failed = [str(row["point"]) for row in rows if row["status"] == "failed"]
    if not failed:
        return None
    logs = f"{where}/{failed[0]}.log" if len(failed) == 1 else f"{where}/*.log"
    return f"failed: {len(failed)} of {_count(len(rows))}, see {logs}; the same command runs them again"


def refusals(rows: Sequence[Row]) -> str | None:
    """Return a sentence on replies that held numbers that are not finite, or None if there were none."""
    counts = [int(count) for row in rows for count in given([row], "refused") if count]
    if not counts:
        return None
    where = f"in {len(counts)} of {len(rows)} points" if len(rows) > 1 else "in this point"
    cause = "the training diverged (lower its learning rate, or set training.clip), or an effect forged them"
    replies = "1 reply" if sum(counts) == 1 else f"{sum(counts)} replies"
    return f"refused: {replies} {where} held numbers that are not finite and were not aggregated: {cause}"


def _blocks(
    blocks: Sequence[tuple[str, list[Group]]],
    across: str,
    columns: Sequence[Column],
    rows: Sequence[Row],
    width: int,
    encoding: str,
) -> Iterator[Text]:
    """Yield one block per condition: its name, and a line for each value of the compared axis."""
    indent = "  " if any(name for name, _ in blocks) else ""
    groups = [group for _, own in blocks for group in own]
    labels = [group.values.get(across) or _alone(group) for group in groups]
    cells = [[writable(_cell(group, column), encoding) for column in columns] for group in groups]
    titles = _titles(columns, rows)
    sizes = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    head = short(across) if across else "point"
    count = columns_that_fit(sizes, max(map(len, [head, *labels])), width - len(indent)) if columns else 0
    lines = [[label, *own[:count]] for label, own in zip(labels, cells, strict=True)]
    # One table, so that the columns of all blocks are aligned.
    heads, *bodies = layout([head, *titles[:count]], lines, width, indent)
    yield from (Text(line, style="bold") for line in heads)
    left = iter(bodies)
    for name, own in blocks:
        yield from (Text(line, style="bold") for line in (wrapped(name, width, hanging="  ") if name else ()))
        yield from (Text(line) for _, body in zip(own, left, strict=False) for line in body)
    if len(titles) > count:
        yield from (Text(line) for line in wrapped(f"Not shown here: {', '.join(titles[count:])}.", width))


def _first(rows: Sequence[Row], axes: Sequence[str], width: int, encoding: str) -> Iterator[Text]:
    """Yield who is first under each condition: a grid, or where it is too wide a list."""
    done = [row for row in rows if row["status"] != "failed"]
    points = _points(done, axes)
    if points.empty:
        return
    metrics = {str(row.get("metric")) for row in done if row.get("metric")}
    found = grid(points, [axis for axis in axes if axis != "algorithm" and not is_replicate(axis)],
                 next(iter(metrics)).replace("_", " ") if len(metrics) == 1 else "score")  # fmt: skip
    drawn = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for head in found.heads:
        drawn.add_column(writable(head, encoding), no_wrap=True)
    for label, entries in found.rows:
        drawn.add_row(*(writable(text, encoding) for text in (label, *("\n".join(each.parts) for each in entries))))
    console = Console(width=width, file=io.StringIO(), color_system=None)
    yield Text(writable(f"{found.title}:", encoding), style="bold")
    if len(found.heads) > 2 and Console(width=UNBOUNDED).measure(drawn).maximum <= width:
        with console.capture() as lines:
            console.print(drawn)
        yield from (Text(writable(line.rstrip(), encoding)) for line in lines.get().splitlines())
    else:
        for label, entries in found.rows:
            for head, entry in zip(found.heads[1:], entries, strict=True):
                place = ", ".join(filter(None, (f"{found.heads[0]} {label}".removeprefix("condition "), head)))
                text = f"{place}: {', '.join(entry.parts)}".lstrip(" :")
                yield from (Text(line) for line in wrapped(writable(text, encoding), width, hanging="  "))
    if found.left_out:
        yield Text(f"... and {found.left_out} conditions more, which the full table has")
    yield from (Text(line) for line in wrapped(writable(found.note, encoding), width))


def _points(rows: Sequence[Row], axes: Sequence[str]) -> pd.DataFrame:
    """Return finished rows as the frame that `analysis.answer` takes, methods by their names."""
    names = _methods([[row] for row in rows])
    numbers = ["score", "am", "fm", "target", "seconds_to_target", "bytes_to_target", "target_at_first", "sim_seconds"]
    return pd.DataFrame([
        {axis: str(row[axis]) for axis in axes if axis != "algorithm"}
        | {name: math.nan if row.get(name) is None else float(row[name]) for name in numbers}
        | {"algorithm": name, "seed": str(row.get("seed")), "bytes_moved": sum(row.get(part) or 0.0 for part in MOVED)}
        for row, name in zip(rows, names, strict=True)
    ])  # fmt: skip


def _methods(conditions: Sequence[Sequence[Row]]) -> list[str]:
    """Return each condition's method by its published name, or as in the scenario if two would share a name.

    Failed points have no published name: where all of a condition failed, it is that of the same algorithm elsewhere.
    """
    written = [str(rows[0].get("algorithm") or "") for rows in conditions]
    published = [next((str(row[METHOD]) for row in rows if row.get(METHOD)), "") for rows in conditions]
    elsewhere = {w: name for w, name in zip(written, published, strict=True) if name}
    named = [
        name or (elsewhere.get(w) if all(row["status"] == "failed" for row in rows) else None) or w
        for w, name, rows in zip(written, published, conditions, strict=True)
    ]
    clash = {name for name in named if len({w for w, n in zip(written, named, strict=True) if n == name}) > 1}
    return [w if name in clash else name for w, name in zip(written, named, strict=True)]


def _columns(rows: Sequence[Row]) -> list[Column]:
    """Return the columns that have a value, without those of targets if the scenario has none."""
    aimed = bool(given(rows, "target"))
    return [
        column for column in COLUMNS
        if column.always or given(rows, column.key) or (aimed and column.key.endswith("_to_target"))
    ]  # fmt: skip


def _titles(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    return [_title(column, rows) for column in columns]


def _title(column: Column, rows: Sequence[Row]) -> str:
    if column.key.endswith("_to_target"):
        return column.title.replace("target", _target(rows))
    if column.key == "sim_seconds":
        return "measured" if all((row.get("provenance") or {}).get("deployed") for row in rows) else column.title
    metrics = {str(row.get("metric")) for row in rows if row.get("metric")}
    return next(iter(metrics)).replace("_", " ") if column.key == "score" and len(metrics) == 1 else column.title


def _target(rows: Sequence[Row]) -> str:
    targets = {*given(rows, "target")}
    return f"{next(iter(targets)):g}" if len(targets) == 1 else "target"


def _cell(group: Group, column: Column) -> str:
    return spread(group.rows, column.key, column.form)


def _condition(group: Group, outer: Sequence[str]) -> str:
    names = {axis: short(axis) for axis in group.values}
    clash = [name for name in names.values() if [*names.values()].count(name) > 1]
    return ", ".join(f"{axis if names[axis] in clash else names[axis]} {group.values[axis]}" for axis in outer)


def _sorted(groups: Sequence[Group], outer: Sequence[str]) -> list[Group]:
    """Return the groups with those of one condition together, otherwise in their order."""
    order = {condition: n for n, condition in enumerate(dict.fromkeys(_condition(group, outer) for group in groups))}
    return sorted(groups, key=lambda group: order[_condition(group, outer)])


def _alone(group: Group) -> str:
    return ", ".join(str(row["point"]) for row in group.rows[:1])


def _summary(rows: Sequence[Row], groups: Sequence[Group]) -> str:
    """Return the number of points, and what a line means."""
    sizes = {len(group.rows) for group in groups}
    each = f"{min(sizes)} to {max(sizes)}" if len(sizes) > 1 else str(*sizes)
    spread_ = f"; mean ± standard deviation of {each} runs with different seeds" if max(sizes, default=1) > 1 else ""
    return f"{_count(len(rows))}{spread_}"


def _count(number_: int, what: str = "point") -> str:
    return f"{number_} {what}" if number_ == 1 else f"{number_} {what}s"
