"""The tables of a run: one dataclass and one Parquet file per table, one field per column.

Rows are kept in columns in memory and written once, whole, when the point has ended; a point that was
interrupted leaves no table.  What can be derived from the tables belongs in `analysis`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.core.arrays import Array

UNCOUNTED = -1  # the work was not counted
SERVER = -1  # the server's number in `src` and `dst`; clients count from zero


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""


@dataclass(frozen=True, slots=True)
class TransferRow(Row):
    """One message's passage over the links, written when it has ended.

    `nbytes` is the message (envelope and payload), `wire_bytes` what really moved for it, with headers and
    retransmissions, and only the part that had moved when it was cut.  `fate` is one of: `delivered`; `late`, it
    arrived after the protocol had stopped waiting; `discarded`, it arrived in time and was not used (too stale for the
    protocol, not finite, or the server restarted or the run ended before it was folded); `cut`, it was interrupted
    after some bytes had moved; `lost`, it was interrupted before any had.  `arrived` is the second in which it ended,
    whatever its fate.
    """

    sent: float
    arrived: float
    src: int
    dst: int
    kind: str
    version: int
    nbytes: int
    wire_bytes: int
    fate: str


@dataclass(frozen=True, slots=True)
class UpdateRow(Row):
    """One aggregation of replies into the server's state; `asked` is the sum of folded, lost, late and refused.

    Replies with values that are not finite are `refused`.

    `staleness` is the mean number of versions by which folded replies were behind, counted from what each client had
    downloaded; 0 if none was folded.  A row with the step `restart` means that the server has lost its state: no client
    was asked, and `staleness` is how many updates the restored checkpoint is behind.  Versions continue.
    `epsilon` is that of all releases so far at the scenario's delta, infinite without noise; empty if nothing is
    released privately.

    `wanted` is how many clients the protocol would have asked, had enough been available: in the first exchange of a
    round the number given by `clients` or `participation` (times `over` under `deadline`, summed over all edges and
    their rounds under `hierarchical`), in later ones the clients that continue.  It is empty if there is no such
    number: asynchronous updates, peers, late replies that are folded one by one, and restarts.
    """

    time: float
    version: int
    step: str
    asked: int
    folded: int
    lost: int
    late: int
    staleness: float
    refused: int = 0
    epsilon: float | None = None
    wanted: int | None = None


@dataclass(frozen=True, slots=True)
class SpanRow(Row):
    """A stretch of a client's time, or of the server's (-1) and an edge aggregator's (below).

    `train`; `mask` (it answers an exchange of secure aggregation); `mix` (a peer updates its own state and merges what
    others have sent); `offline`; `left` (an instant: it left in the middle of its work); `serve` (a server computes;
    waiting for a core is not counted); `down` (the server restarts); `start` (a deployed client's process starts, for
    the job that follows).
    """

    client: int
    start: float
    end: float
    what: str


@dataclass(frozen=True, slots=True)
class ArrivalRow(Row):
    """A period has reached a client; `version` is the server's at that moment."""

    time: float
    client: int
    period: int
    version: int


@dataclass(frozen=True, slots=True)
class PartitionRow(Row):
    """The ownership of nodes in a snapshot of a changing graph; `time` is when the first client's period of it
    arrived.

    `owners` is how many clients own a node.  Edges are undirected and those of the snapshot: all, those `cut` between
    clients (or with an unowned end), and those within the client with the most.  `moved` nodes had another owner one
    snapshot before.  `scanned` is how many entries of adjacency rows were read to divide it, each direction of an edge
    by itself, or -1 where the partition does not count them.  `unowned` nodes are present without an owner.
    `majority` is the share of a client's two most frequent labels in its labelled nodes, averaged over clients that
    own such nodes; -1 if there are none.
    """

    time: float
    snapshot: int
    owners: int
    nodes: int
    edges: int
    cut: int
    largest: int
    moved: int
    scanned: int
    unowned: int
    majority: float


@dataclass(frozen=True, slots=True)
class ScoreRow(Row):
    """One metric of one client on one period's graph.

    `period` is the period scored, `seen` how many periods had reached the client by then, `model` whose parameters
    were scored (`global`: what the server would send it; `local`: what its last job left it with), `weight` the number
    of nodes behind the value, so that pooled means can be formed.  Where the metric is no mean over nodes or
    links, a row of the server (`client` -1) holds the score of all clients' predictions of that period at that moment,
    taken as one test, unless `measure.over` is `clients`; its `seen` is the most periods that any of them had met.

    The metrics `exchanged_up` and `exchanged_down` are no scores but the bytes, without envelopes and headers, that the
    client would send and receive to predict on this split's graph of a later period.  Each scoring states them in full.
    Nothing of it travels, so that they are in no row of the transfers.

    Rows with period < seen score periods that the client has met.  A row with period >= seen (in fact they are equal)
    is prequential: taken when the period reached the client, by the models of that moment, before any training on it;
    `seen` does not count it.
    """

    time: float
    version: int
    client: int
    period: int
    seen: int
    model: str
    split: str
    metric: str
    value: float
    weight: int


TABLES: dict[str, type[Row]] = {
    "transfers": TransferRow,
    "updates": UpdateRow,
    "spans": SpanRow,
    "arrivals": ArrivalRow,
    "partitions": PartitionRow,
    "scores": ScoreRow,
}
ARROW = {float: pa.float64(), int: pa.int64(), str: pa.string(), float | None: pa.float64(), int | None: pa.int64()}
# Columns that sort rows written in batches, out of order; rows that compare equal keep the order of writing.
ORDER: dict[str, list[tuple[str, str]]] = {
    "transfers": [(key, "ascending") for key in ("arrived", "sent", "src", "dst")],
    "spans": [(key, "ascending") for key in ("end", "start", "client")],
}
MANY = 10_000  # rows of batches that are kept until they are converted together
Cells = Sequence[Any] | Array | float | str
SINGLE = (int, float, str)  # one value for all rows of a batch
Batch = tuple[int, Mapping[str, Cells]]  # its number of rows, and its columns


class Recorder:
    """Collect rows and write the tables of one point, those of transfers and spans in the order of their ends."""

    def __init__(self) -> None:
        """Start with empty tables."""
        self.rows = 0  # calls that have added some
        self._names = {table: [field.name for field in fields(table)] for table in TABLES.values()}
        self._open: dict[type[Row], dict[str, list[Any]]] = {  # rows added one by one since the last batch
            table: {name: [] for name in names} for table, names in self._names.items()
        }
        self._batches: dict[type[Row], list[Batch]] = {table: [] for table in self._names}  # the rows before these
        self._waiting = dict.fromkeys(self._names, 0)  # the rows of batches
        self._converted: dict[type[Row], list[pa.Table]] = {table: [] for table in self._names}  # those before them

    def add(self, row: Row) -> None:
        """Append one row to the table of its class."""
        self.rows += 1
        for name, column in self._open[type(row)].items():
            column.append(getattr(row, name))

    def extend(self, table: type[Row], columns: Mapping[str, Cells]) -> None:
        """Append many rows at once: equally long columns, or one value for all rows.

        Raises ValueError if columns are missing, unknown or not equally long.
        """
        if columns.keys() != self._open[table].keys():
            raise ValueError(f"the columns of {table.__name__} are {self._names[table]}, not {list(columns)}")
        lengths = {len(column) for column in columns.values() if not isinstance(column, SINGLE)}
        if len(lengths) != 1:
            raise ValueError(f"the columns of {table.__name__} must be equally long, not {sorted(lengths)}")
        if count := lengths.pop():
            self.rows += 1
            if self._open[table][self._names[table][0]]:
                self._close_rows(table)
            self._batches[table].append((count, columns))
            self._waiting[table] += count
            if self._waiting[table] >= MANY:
                self._convert(table)

    def tables(self) -> dict[str, pa.Table]:
        """Return the tables so far, by file name."""
        tables = {}
        for name, table in TABLES.items():
            self._convert(table)
            joined = pa.concat_tables([_schema(table).empty_table(), *self._converted[table]]).combine_chunks()
            self._converted[table] = [joined]
            tables[name] = joined.sort_by(ORDER[name]) if name in ORDER else joined
        return tables

    def kept(self, table: type[Row]) -> bytes:
        """Return the rows of a table so far, serialised."""
        self._convert(table)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _schema(table), options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            for part in self._converted[table]:
                writer.write_table(part)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def reopen(self, table: type[Row], data: bytes) -> None:
        """Restore a table from the rows that `kept` returned."""
        self._open[table] = {name: [] for name in self._names[table]}
        self._converted[table] = [pa.ipc.open_stream(data).read_all()]

    def close(self, folder: Path) -> dict[str, pa.Table]:
        """Write every table into the folder, each under a temporary name first, and return them by file name.

        Raises OSError if the folder cannot be written.
        """
        tables = self.tables()
        for name, table in tables.items():
            path = folder / f"{name}.parquet"
            partial = path.with_suffix(".partial")
            pq.write_table(table, partial, compression="zstd")
            partial.replace(path)
        return tables

    def _close_rows(self, table: type[Row]) -> None:
        """Make a batch of the rows that were added one by one."""
        columns = self._open[table]
        count = len(columns[self._names[table][0]])
        self._batches[table].append((count, columns))
        self._waiting[table] += count
        self._open[table] = {name: [] for name in self._names[table]}

    def _convert(self, table: type[Row]) -> None:
        """Convert the rows so far to Arrow, in order; that costs as much for a few rows as for many."""
        self._close_rows(table)
        if self._waiting[table]:
            columns = {name: _joined(name, self._batches[table]) for name in self._names[table]}
            self._converted[table].append(pa.table(columns, schema=_schema(table)))
            self._batches[table], self._waiting[table] = [], 0


def _joined(name: str, batches: Sequence[Batch]) -> Any:
    """Return one column of several batches."""
    parts = [(count, columns[name]) for count, columns in batches if count]
    if all(isinstance(part, SINGLE) and part == parts[0][1] for _, part in parts):
        return pa.repeat(parts[0][1], sum(count for count, _ in parts))
    if len(parts) == 1:
        return parts[0][1]
    return np.concatenate([np.full(count, part) if isinstance(part, SINGLE) else part for count, part in parts])


def _schema(table: type[Row]) -> pa.Schema:
    return pa.schema([(field.name, ARROW[field.type]) for field in fields(table)])  # type: ignore[index]
