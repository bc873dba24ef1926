"""Read `analysis/claims.yaml`: tables of numbers as they are shown, and the claims that they make.

A cell is text; each number of it that is ours is a claim, named TABLE/ROW/COLUMN, with /1, /2 or the metric behind it
where a cell holds several:

    73.7    69.4 ± 4.9    73.7 (62 to 85)    69.4 ± 4.9 / 34.8 ± 7.6    -12.0 (-22.4 to -1.5)    9.5 s / 1.2 MB: FedAvg

A claim can be rerun if its table names a scenario, its column the metric, and its row the options that select its runs;
`set` of the table, the column and the row together are the options of the command.  A metric is a column of summary.csv
("am"), or an average over periods, a model and a split of the scores table ("la local held_out"), of the scenario's
first metric unless another follows ("la global all_pairs mrr"), or a count of the table `partitions` over its edges
("cut partitions", mean over snapshots); `less` names the row that it is the difference to, paired.

Not modelled: what is compared with the printed number and how; `verdict` says it in words.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from fedsim.core.errors import UserError

FILE = Path(__file__).resolve().parents[1] / "claims.yaml"
NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?"
VALUE = re.compile(rf"({NUMBER})(?: ± ({NUMBER}))?(?: \(({NUMBER}) to ({NUMBER})[^)]*\))?")


class ClaimsError(UserError):
    """What is wrong with the file, or with what was asked of it."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, what its numbers are, and the options that select its runs."""

    head: str
    printed: bool = False  # published numbers, not ours
    metrics: Sequence[str] = ()  # of the numbers in a cell, in their order; {model} stands for the row's
    less: str | None = None  # the row that the numbers are differences to, if they are
    set: Sequence[str] = ()
    judged: bool = True  # whether printed numbers and verdicts are about it


@dataclass(frozen=True)
class Row:
    """A row of a table: its cells, and the options that select its runs."""

    cells: Sequence[str]
    set: Sequence[str] = ()
    cell_set: Mapping[str, Sequence[str]] = field(default_factory=dict)  # further options, by the head of the column
    verdict: str = ""  # how ours relates to the printed number
    model: str = "global"  # whose scores they are


@dataclass(frozen=True)
class Table:
    """A table of a page of the documentation."""

    table: str
    seeds: str  # how many there are of what
    interval: str  # what ± and the brackets cover
    columns: Sequence[Column]
    rows: Sequence[Row]
    scenario: str | None = None  # None: no command is known
    set: Sequence[str] = ()
    labels: int = 1  # leading columns that name the row
    note: str = ""


@dataclass(frozen=True)
class Claim:
    """One measured number of the documentation."""

    name: str
    table: Table
    value: float
    decimals: int
    spread: float | None = None  # the number after ±
    low: float | None = None
    high: float | None = None
    metric: str | None = None
    options: Sequence[str] = ()
    baseline: Sequence[str] | None = None  # the options of what it is the difference to
    baseline_metric: str | None = None
    printed: str = ""
    verdict: str = ""
    text: str = field(default="", compare=False)

    @property
    def command(self) -> str | None:
        """Return the command of its runs; None where none is known."""
        if self.table.scenario is None:
            return None
        return " ".join(["python -m fedsim", self.table.scenario, *(f"--set '{option}'" for option in self.options)])


def read(path: Path = FILE) -> list[Table]:
    """Return the tables of the file.  Raise ClaimsError where it is no such file, with the table and the key."""
    if not path.is_file():
        raise ClaimsError(f"there is no {path}, which is part of the source checkout and is not installed")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ClaimsError(f"{path} cannot be read: {error}") from error
    return [_table(path, entry) for entry in raw]


def _table(path: Path, raw: Mapping[str, Any]) -> Table:
    where = f"{path}: table {raw.get('table')!r}"
    try:
        columns = [Column(**column) for column in raw["columns"]]
        rows = [Row(**row) for row in raw["rows"]]
        table = Table(**{**raw, "columns": columns, "rows": rows})
    except (KeyError, TypeError) as error:
        raise ClaimsError(f"{where}: {error}; the keys are those of Table, Column and Row in {__file__}") from error
    for number, row in enumerate(rows, 1):
        if len(row.cells) != len(columns):
            raise ClaimsError(f"{where}: row {number} has {len(row.cells)} cells for {len(columns)} columns")
        if not all(isinstance(cell, str) for cell in row.cells):
            raise ClaimsError(f"{where}: row {number} has cells that are no text; put their numbers in quotes")
    for row in rows:
        if unknown := [head for head in row.cell_set if head not in {column.head for column in columns}]:
            raise ClaimsError(f"{where}: cell_set: {unknown[0]!r} is the head of no column")
    heads = {row.cells[0] for row in rows}
    for column in columns:
        if column.less is not None and column.less not in heads:
            raise ClaimsError(f"{where}: less: {column.less!r} names no row; there are {', '.join(sorted(heads))}")
    return table


def claims(tables: Sequence[Table]) -> list[Claim]:
    """Return all claims of the tables.  Raise ClaimsError where two of them have one name."""
    found = [claim for table in tables for claim in of(table)]
    twice = [name for name, count in Counter(claim.name for claim in found).items() if count > 1]
    if twice:
        raise ClaimsError(f"two claims are named {twice[0]!r}: rows or columns of the table have the same name")
    return found


def of(table: Table) -> Iterator[Claim]:
    """Yield the claims of a table, row by row."""
    heads = _distinct([slug(column.head) or f"column{i}" for i, column in enumerate(table.columns, 1)])
    named = _distinct([slug(" ".join(label)) for label in _labels(table)])
    by_label = {row.cells[0]: row for row in table.rows}
    for row, label in zip(table.rows, named, strict=True):
        printed = ""
        for place, (column, head, cell) in enumerate(zip(table.columns, heads, row.cells, strict=True)):
            if column.printed:
                printed = cell
            elif place >= table.labels:
                less = by_label[column.less] if column.less is not None else None
                about = (row, printed) if column.judged else (replace(row, verdict=""), "")
                yield from _claims_of(table, f"{table.table}/{label}/{head}", cell, column, *about, less)


def _claims_of(
    table: Table, name: str, cell: str, column: Column, row: Row, printed: str, less: Row | None
) -> Iterator[Claim]:
    parts, theirs = cell.replace("**", "").split(" / "), printed.split(" / ")  # the best of a row may be in bold
    for i, match in enumerate([VALUE.match(part) for part in parts]):
        if match is None:
            continue
        value, spread, low, high = (float(number.replace(",", "")) if number else None for number in match.groups())
        assert value is not None
        known = row.set and (less is None or less.set) and i < len(column.metrics)
        metric, other = (column.metrics[i].format(model=one.model) if known and one else None for one in (row, less))
        yield Claim(
            name if len(parts) == 1 else f"{name}/{slug(metric) if metric else i + 1}",
            table, value, len(match[1].partition(".")[2]), spread, low, high, metric,
            [*table.set, *column.set, *row.set, *row.cell_set.get(column.head, ())],
            [*table.set, *column.set, *less.set] if less else None, other,
            theirs[i] if len(theirs) == len(parts) else printed, row.verdict, parts[i],
        )  # fmt: skip


def _labels(table: Table) -> Iterator[list[str]]:
    """Yield the labels of each row; an empty one is that of the row above."""
    above = [""] * table.labels
    for row in table.rows:
        above = [cell or before for cell, before in zip(row.cells, above, strict=False)]
        yield above


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names with -2, -3 and so on behind those that come again."""
    seen: Counter[str] = Counter()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return numbered


def slug(text: str) -> str:
    """Return the text in lower case, Greek letters spelled, with underscores for all but letters and digits."""
    spelled = re.sub("[α-ω]", lambda letter: unicodedata.name(letter[0]).rpartition(" ")[2], text.lower())
    return re.sub(r"[^0-9a-z]+", "_", spelled.lower()).strip("_")
