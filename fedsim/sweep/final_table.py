"""Format the results of a study as text: a summary that fits the terminal, and the full table for a file.

Rows that differ only in their seeds are one line: mean ± standard deviation.  Lines are grouped by condition, one per
method (or per value of the last axis, if all have the same method); what does not vary is stated once.  Columns that do
not fit are only in the file: no number is ever cut.  Below them stands who is first under each condition, as in the
report; many conditions have this alone.
"""

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.axes import is_replicate, short
from analysis.statistics.answer import grid
from analysis.terminal import columns_that_fit, layout, table, wrapped, writable
from fedsim.core.amounts import NONE, duration, given, number, size, spread
from fedsim.core.errors import UserError
from fedsim.core.whole_files import replace, unwritable
from fedsim.point.attempt import SummaryRow

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
class SummaryColumn:
    """A column of summary.csv: its title, its format, and whether it is shown when empty."""

    key: str
    title: str
    form: Callable[..., str]
    always: bool = False


COLUMNS = (  # the most important first: the last are dropped if there is no room
    SummaryColumn("score", "score", number, True),
    SummaryColumn("seconds_to_target", "time to target", duration),
    SummaryColumn("bytes_to_target", "bytes to target", size),
    SummaryColumn("fm", "FM", number),
    SummaryColumn("sim_seconds", "simulated", duration, True),
    SummaryColumn("bytes_up", "up", size, True),
    SummaryColumn("bytes_down", "down", size, True),
    SummaryColumn("bytes_peer", "between peers", size),
)


@dataclass(frozen=True)
class Group:
    """The rows that differ only in their seeds, and the displayed values of the other axes."""

    values: dict[str, str]
    rows: list[SummaryRow]


def show(console: Console, rows: Sequence[SummaryRow], axes: Sequence[str], out: Path) -> None:
    """Print the answer, and write the full table beside the summary.  Raises UserError if it cannot be written."""
    console.print()
    for line in answer(rows, axes, console.width, console.encoding):
        console.print(line, soft_wrap=True)
    try:
        replace(out / "results.txt", full(rows, axes))
    except OSError as error:
        raise unwritable(out, error) or UserError(f"{out / 'results.txt'}: {error.strerror}") from None
    console.print()
    tables = f"full table: {out / 'results.txt'}; each run: {out / 'summary.csv'}"
    for note in filter(None, (failures(rows, str(out)), refusals(rows), tables)):
        console.print(note, soft_wrap=True)


def answer(rows: Sequence[SummaryRow], axes: Sequence[str], width: int, encoding: str = "utf-8") -> Iterator[Text]:
    """Yield the results, line by line, for a terminal of this width and encoding."""
    groups = grouped(rows, axes)
    varying = [axis for axis in groups[0].values if len({group.values[axis] for group in groups}) > 1]
    columns = _columns(rows)
    same = [column for column in columns if len(groups) > 1 and len({_cell(group, column) for group in groups}) == 1]
    yield from map(Text, wrapped(writable(_summary(rows, groups), encoding), width))
    everywhere = [f"{short(axis)} {value}" for axis, value in groups[0].values.items() if axis not in varying]
    everywhere += [f"{_title(column, rows)} {text}" for column in same if (text := _cell(groups[0], column)) != NONE]
    if any(column.key == "seconds_to_target" and _cell(groups[0], column) == NONE for column in same):
        everywhere.append(f"{_target(rows)} not reached")
    if everywhere and len(rows) > 1:
        same_text = writable(f"The same everywhere: {', '.join(everywhere)}", encoding)
        yield from map(Text, wrapped(same_text, width, hanging="  "))
    yield from map(Text, wrapped(rule, width) if (rule := _rule(rows)) else ())
    yield Text("")
    across = METHOD if METHOD in varying else varying[-1] if varying else ""
    outer = [axis for axis in varying if axis != across]
    blocks: dict[str, list[Group]] = {}
    for group in groups:
        blocks.setdefault(_condition(group, outer), []).append(group)
    left = [column for column in columns if column not in same]
    if len(groups) + len(blocks) <= MOST_LINES or not across:
        yield from _blocks(blocks, across, left, rows, width, encoding)
        yield Text("")
    if len(groups) > 1:
        yield from _first(rows, axes, width, encoding)


def full(rows: Sequence[SummaryRow], axes: Sequence[str]) -> str:
    """Return the full table as text: every axis and column, one line per condition and method."""
    groups, columns = grouped(rows, axes), _columns(rows)
    labels = [[*groups[0].values] or ["run"], *([*group.values.values()] or [_alone(group)] for group in groups)]
    sizes = [max(map(len, column)) for column in zip(*labels, strict=True)]
    # All axes form one label, at the left.
    first, *rest = ["  ".join(f"{cell:<{size}}" for cell, size in zip(label, sizes, strict=True)) for label in labels]
    body = [[label, *(_cell(group, column) for column in columns)] for label, group in zip(rest, groups, strict=True)]
    lines = table([first, *(_title(column, rows) for column in columns)], body, UNBOUNDED)
    return "\n".join([_summary(rows, groups), "", *lines, ""])


def _rule(rows: Sequence[SummaryRow]) -> str:
    """Return the rule for when a target counts, "" if there is no target or only one period."""
    rules = {row.get("target_on") for row in rows if row.get("target") is not None}
    several = max(given(rows, "periods"), default=0.0) > 1
    return RULES.get(str(next(iter(rules))), "") if several and len(rules) == 1 else ""


def grouped(rows: Sequence[SummaryRow], axes: Sequence[str]) -> list[Group]:
    """Return the rows grouped by the values of their axes without the seeds, in their order."""
    axes = [axis for axis in axes if not is_replicate(axis)]
    conditions: dict[tuple[str, ...], list[SummaryRow]] = {}
    for row in rows:
        conditions.setdefault(tuple(str(row[axis]) for axis in axes), []).append(row)
    methods = _methods([*conditions.values()])
    groups = []
    for replicates, method in zip(conditions.values(), methods, strict=True):
        values = {axis: str(replicates[0][axis]) for axis in axes if axis != "algorithm"}
        groups.append(Group(values | ({METHOD: method or NONE} if any(methods) else {}), replicates))
    return groups


def failures(rows: Sequence[SummaryRow], where: str) -> str | None:
    """Return a sentence on failed runs, or None if there are none; `where` is the folder of results."""
    if not (failed := [str(row["run"]) for row in rows if row["status"] == "failed"]):
        return None
    logs = f"{where}/points/{failed[0] if len(failed) == 1 else '*'}/error.log"
    return f"failed: {len(failed)} of {_counted(rows)}, see {logs}; the same command repeats them"


def refusals(rows: Sequence[SummaryRow]) -> str | None:
    """Return a sentence on replies that held numbers that are not finite, or None if there were none."""
    if not (counts := [int(count) for count in given(rows, "refused") if count]):
        return None
    where = f"in {len(counts)} of {len(rows)} runs" if len(rows) > 1 else "in this run"
    cause = "the training diverged (lower its learning rate, or set training.clip), or an effect or codec made them"
    replies = "1 reply" if sum(counts) == 1 else f"{sum(counts)} replies"
    return f"refused: {replies} {where} held numbers that are not finite and were not aggregated: {cause}"


def _blocks(
    blocks: Mapping[str, list[Group]], across: str, columns: Sequence[SummaryColumn], rows: Sequence[SummaryRow],
    width: int, encoding: str,
) -> Iterator[Text]:  # fmt: skip
    """Yield one block per condition: its name, and a line for each value of the compared axis."""
    indent = "  " if any(blocks) else ""
    groups = [group for block in blocks.values() for group in block]
    labels = [group.values.get(across) or _alone(group) for group in groups]
    cells = [[writable(_cell(group, column), encoding) for column in columns] for group in groups]
    titles = [_title(column, rows) for column in columns]
    sizes = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    head = short(across) if across else "run"
    count = columns_that_fit(sizes, max(map(len, [head, *labels])), width - len(indent)) if columns else 0
    lines = [[label, *texts[:count]] for label, texts in zip(labels, cells, strict=True)]
    # One table, so that the columns of all blocks are aligned.
    heads, *bodies = layout([head, *titles[:count]], lines, width, indent)
    yield from (Text(line, style="bold") for line in heads)
    left = iter(bodies)
    for name, block in blocks.items():
        yield from (Text(line, style="bold") for line in (wrapped(name, width, hanging="  ") if name else ()))
        yield from (Text(line) for _, body in zip(block, left, strict=False) for line in body)
    if len(titles) > count:
        yield from map(Text, wrapped(f"Not shown here: {', '.join(titles[count:])}.", width))


def _first(rows: Sequence[SummaryRow], axes: Sequence[str], width: int, encoding: str) -> Iterator[Text]:
    """Yield who is first under each condition: a grid, or where it is too wide a list."""
    done = [row for row in rows if row["status"] != "failed"]
    points = _points(done, axes)
    if points.empty:
        return
    others = [axis for axis in axes if axis != "algorithm" and not is_replicate(axis)]
    leaders = grid(points, others, _title(COLUMNS[0], done))
    drawn = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
    for head in leaders.heads:
        drawn.add_column(writable(head, encoding), no_wrap=True)
    for label, entries in leaders.rows:
        drawn.add_row(*(writable(text, encoding) for text in (label, *("\n".join(each.parts) for each in entries))))
    console = Console(width=width, file=io.StringIO(), color_system=None)
    yield Text(writable(f"{leaders.title}:", encoding), style="bold")
    if len(leaders.heads) > 2 and Console(width=UNBOUNDED).measure(drawn).maximum <= width:
        with console.capture() as lines:
            console.print(drawn)
        yield from (Text(writable(line.rstrip(), encoding)) for line in lines.get().splitlines())
    else:
        for label, entries in leaders.rows:
            for head, entry in zip(leaders.heads[1:], entries, strict=True):
                place = ", ".join(filter(None, (f"{leaders.heads[0]} {label}".removeprefix("condition "), head)))
                text = f"{place}: {', '.join(entry.parts)}".lstrip(" :")
                yield from map(Text, wrapped(writable(text, encoding), width, hanging="  "))
    if leaders.left_out:
        yield Text(f"... and {leaders.left_out} conditions more, which the full table has")
    yield from map(Text, wrapped(writable(leaders.note, encoding), width))


def _points(rows: Sequence[SummaryRow], axes: Sequence[str]) -> pd.DataFrame:
    """Return finished rows as the frame that `analysis.statistics.answer` takes, methods by their names."""
    names = _methods([[row] for row in rows])
    numbers = ["score", "am", "fm", "target", "seconds_to_target", "bytes_to_target", "target_at_first", "sim_seconds"]
    return pd.DataFrame([
        {axis: str(row[axis]) for axis in axes if axis != "algorithm"}
        | {name: math.nan if row.get(name) is None else float(row[name]) for name in numbers}
        | {"algorithm": name, "seed": str(row.get("seed")), "bytes_moved": sum(row.get(part) or 0.0 for part in MOVED)}
        for row, name in zip(rows, names, strict=True)
    ])  # fmt: skip


def _methods(conditions: Sequence[Sequence[SummaryRow]]) -> list[str]:
    """Return each condition's method by its published name, or as in the scenario if two would share a name.

    Failed runs have no published name: where all of a condition failed, it is that of the same algorithm elsewhere.
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


def _columns(rows: Sequence[SummaryRow]) -> list[SummaryColumn]:
    """Return the columns that have a value, without those of targets if the scenario has none."""
    aimed = bool(given(rows, "target"))
    return [
        column for column in COLUMNS
        if column.always or given(rows, column.key) or (aimed and column.key.endswith("_to_target"))
    ]  # fmt: skip


def _title(column: SummaryColumn, rows: Sequence[SummaryRow]) -> str:
    if column.key.endswith("_to_target"):
        return column.title.replace("target", _target(rows))
    if column.key == "sim_seconds":
        return "measured" if all((row.get("provenance") or {}).get("deployed") for row in rows) else column.title
    metrics = {str(row.get("metric")) for row in rows if row.get("metric")}
    return next(iter(metrics)).replace("_", " ") if column.key == "score" and len(metrics) == 1 else column.title


def _target(rows: Sequence[SummaryRow]) -> str:
    targets = {*given(rows, "target")}
    return f"{targets.pop():g}" if len(targets) == 1 else "target"


def _cell(group: Group, column: SummaryColumn) -> str:
    return spread(group.rows, column.key, column.form)


def _condition(group: Group, outer: Sequence[str]) -> str:
    names = {axis: short(axis) for axis in group.values}
    clash = [name for name in names.values() if [*names.values()].count(name) > 1]
    return ", ".join(f"{axis if names[axis] in clash else names[axis]} {group.values[axis]}" for axis in outer)


def _alone(group: Group) -> str:
    """Return what a line without axes is called: its run, or how many there are."""
    return str(group.rows[0]["run"]) if len(group.rows) == 1 else f"all {len(group.rows)}"


def _summary(rows: Sequence[SummaryRow], groups: Sequence[Group]) -> str:
    """Return the number of runs, and what a line means."""
    least, most = (of((len(group.rows) for group in groups), default=1) for of in (min, max))
    each = f"{most}" if least == most else f"{least} to {most}"
    means = f"; mean ± standard deviation of {each} runs with different seeds" if most > 1 else ""
    return _counted(rows) + means


def _counted(rows: Sequence[SummaryRow]) -> str:
    return f"{len(rows)} run{'s' * (len(rows) != 1)}"
