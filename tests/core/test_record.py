"""The tables: a dataclass each, a field a column, written whole or not at all."""

from dataclasses import fields

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsim.core import record
from fedsim.core.record import SERVER, ArrivalRow, PartitionRow, Recorder, ScoreRow, SpanRow, TransferRow, UpdateRow

ROWS = [
    TransferRow(0.0, 1.5, SERVER, 3, "train", 2, 100, 152, "delivered"),
    UpdateRow(2.0, 1, "train", 4, 2, 1, 1, 0.5),
    SpanRow(3, 0.5, 1.0, "train"),
    ArrivalRow(0.0, 3, 0, 0),
    ScoreRow(2.0, 1, 3, 0, 1, "global", "test", "accuracy", 0.25, 8),
    TransferRow(1.0, 2.5, 3, SERVER, "train", 2, 2**40, 0, "lost"),
    PartitionRow(0.0, 0, 4, 20, 30, 5, 9, 0, 2**40, 6, 0.8),
]


def test_rows_come_back_as_they_were_added(tmp_path):
    recorder = Recorder()
    for row in ROWS:
        recorder.add(row)
    recorder.close(tmp_path)
    for name, table in record.TABLES.items():
        read = pq.read_table(tmp_path / f"{name}.parquet").to_pylist()
        assert [table(**row) for row in read] == [row for row in ROWS if type(row) is table]


def test_columns_are_the_fields_with_their_types_even_without_a_row(tmp_path):
    Recorder().close(tmp_path)
    types = {float: pa.float64(), int: pa.int64(), str: pa.string(), float | None: pa.float64(), int | None: pa.int64()}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{name}.parquet" for name in record.TABLES)
    for name, table in record.TABLES.items():
        schema = pq.read_schema(tmp_path / f"{name}.parquet")
        assert [(field.name, field.type) for field in schema] == [(f.name, types[f.type]) for f in fields(table)]


def test_a_table_can_be_read_while_rows_still_come():
    recorder = Recorder()
    recorder.add(ROWS[0])
    before = recorder.tables()["transfers"]
    recorder.add(ROWS[5])
    assert (before.num_rows, recorder.tables()["transfers"].num_rows) == (1, 2)


def test_a_row_of_no_table_is_refused():
    class Stray(record.Row):
        pass

    with pytest.raises(KeyError):
        Recorder().add(Stray())


def test_writing_leaves_nothing_half_done(tmp_path):
    (tmp_path / "spans.parquet").write_text("from before")
    recorder = Recorder()
    recorder.add(ROWS[2])
    recorder.close(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".parquet"]
    assert pq.read_table(tmp_path / "spans.parquet").num_rows == 1
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system says
        recorder.close(tmp_path / "nowhere")


def test_the_same_rows_make_the_same_bytes(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        recorder = Recorder()
        for row in ROWS:
            recorder.add(row)
        recorder.close(tmp_path / folder)
    for name in record.TABLES:
        one, two = ((tmp_path / folder / f"{name}.parquet").read_bytes() for folder in ("one", "two"))
        assert one == two


def test_many_rows_at_once_are_the_rows_one_by_one_in_the_order_of_their_ends():
    one_by_one, at_once = Recorder(), Recorder()
    rows = [SpanRow(3, 0.0, 1.0, "offline"), SpanRow(1, 0.0, 1.0, "offline"), SpanRow(2, 0.5, 3.0, "offline")]
    for row in (ROWS[2], *rows):
        one_by_one.add(row)
    at_once.extend(SpanRow, {"client": [3, 1, 2], "start": [0.0, 0.0, 0.5], "end": [1.0, 1.0, 3.0], "what": "offline"})
    at_once.add(ROWS[2])
    assert at_once.tables()["spans"].to_pylist() == one_by_one.tables()["spans"].to_pylist()
    assert at_once.tables()["spans"]["client"].to_pylist() == [1, 3, 3, 2]
    at_once.extend(SpanRow, {"client": [], "start": [], "end": [], "what": "offline"})
    assert at_once.tables()["spans"].num_rows == 4


@pytest.mark.parametrize(
    "columns",
    [
        {"client": [1], "start": [0.0], "end": [1.0]},
        {"client": [1], "start": [0.0], "end": [1.0], "what": "train", "why": "?"},
        {"client": [1, 2], "start": [0.0], "end": [1.0], "what": "train"},
        {"client": 1, "start": 0.0, "end": 1.0, "what": "train"},
    ],
)
def test_columns_that_do_not_make_rows_are_refused(columns):
    with pytest.raises(ValueError, match="columns of SpanRow"):
        Recorder().extend(SpanRow, columns)


@pytest.mark.parametrize("many", [1, 5, 10_000])
def test_rows_and_batches_stay_in_the_order_in_which_they_came(monkeypatch, many):
    monkeypatch.setattr(record, "MANY", many)
    recorder = Recorder()
    for version in range(4):
        recorder.add(ArrivalRow(0.0, -1, 0, version))
        for client in (2 * version, 2 * version + 1):
            both = [client, client + 100]
            recorder.extend(ArrivalRow, {"time": [0.0, 1.0], "client": both, "period": client % 2, "version": version})
    rows = recorder.tables()["arrivals"].to_pydict()
    assert rows["client"] == [at for v in range(4) for at in (-1, 2 * v, 2 * v + 100, 2 * v + 1, 2 * v + 101)]
    assert rows["version"] == [version for version in range(4) for _ in range(5)]
    assert rows["period"] == [0, 0, 0, 1, 1] * 4
