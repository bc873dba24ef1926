import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from fedsim.core import table
from fedsim.core.errors import UserError
from fedsim.core.table import Column, FilePath, Place, read, read_lines

COLUMNS = [
    Column("client", whole=True, low=0),
    Column("rate", required=False, low=0.0, high=100.0),
    Column("kind", required=False, choices=("fast", "slow")),
]


def write(tmp_path, text):
    path = tmp_path / "clients.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_come_in_any_order_with_their_types(tmp_path):
    found, lines = read_lines(write(tmp_path, "rate, client ,kind\n 2.5,0,fast\n\n1e1, 7 ,\n,8,slow\n"), COLUMNS)
    assert list(found) == ["rate", "client", "kind"]
    assert (found["client"].dtype, found["client"].tolist()) == (np.int64, [0, 7, 8])
    assert found["rate"].dtype == np.float64
    np.testing.assert_array_equal(found["rate"], [2.5, 10.0, math.nan])
    assert found["kind"].tolist() == ["fast", "", "slow"]
    assert lines.tolist() == [2, 4, 5]


def test_a_column_that_is_not_required_may_be_left_out(tmp_path):
    assert list(read(write(tmp_path, "client\n3\n"), COLUMNS)) == ["client"]


def test_quotes_other_line_ends_and_a_byte_order_mark_are_read(tmp_path):
    path = write(tmp_path, b'\xef\xbb\xbfclient,kind\r\n"1","slow"\r\n2,"fast"\r\n')
    assert read(path, COLUMNS)["client"].tolist() == [1, 2]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2**63 - 1), st.floats(0, 100), st.sampled_from(["fast", "slow"])),
        min_size=1,
        max_size=50,
    ),
    st.permutations([0, 1, 2]),
    st.integers(1, 7),
)
def test_what_is_written_is_read_exactly(tmp_path_factory, rows, order, chunk):
    path = tmp_path_factory.mktemp("tables") / "t.csv"
    named = [("client", "rate", "kind"), *rows]
    path.write_text("".join(",".join(str(row[i]) for i in order) + "\n" for row in named))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "CHUNK", chunk)
        found, lines = read_lines(path, COLUMNS)
    assert [*zip(*(found[name].tolist() for name in named[0]), strict=True)] == rows
    assert lines.tolist() == [*range(2, len(rows) + 2)]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "no header; the first line names the columns: client, rate, kind"),
        ("\nclient\n1\n", 1, "no header"),
        ("1,2\n3,4\n", 1, "a number where the header should be"),
        ("client;rate\n1;2\n", 1, "separated by ';'; write commas"),
        ("client\trate\n1\t2\n", 1, r"separated by '\\t'; write commas"),
        ("client,rat\n1,2\n", 1, "no column 'rat'; did you mean 'rate'. There are: client, rate, kind"),
        ("client,rate,\n1,2,\n", 1, "no column ''"),
        ("client,rate,client\n1,2,1\n", 1, "'client' appears twice"),
        ("rate\n2\n", 1, "column 'client' is missing"),
        ("client,rate\n1,2\n1\n", 3, "1 cell, but the header names 2 columns"),
        ("client,rate\n1,2,3\n", 2, "3 cells, but the header names 2 columns"),
        ("client,rate\n1,2\n\n2,x\n", 4, "column 'rate': 'x' is not a number"),
        ("client,rate\n1,2\n,3\n", 3, "column 'client': an empty cell; write a whole number"),
        ("client\n1\n2.5\n", 3, "column 'client': 2.5 is not a whole number"),
        ("client\n99999999999999999999\n", 2, "column 'client': 99999999999999999999 is not a whole number"),
        ("client\n-1\n", 2, "column 'client': -1 is out of range; it must be at least 0"),
        ("client,rate\n1,100.5\n", 2, "column 'rate': 100.5 is out of range; it must be at least 0 and at most 100"),
        ("client,rate\n1,1e308\n", 2, "column 'rate': 1e.308 is too large to compute with"),
        ("client,rate\n1,nan\n", 2, "'nan' is not a number"),
        ("client,rate\n1,inf\n", 2, "'inf' is not a number"),
        ("client,rate\n1,1_0\n", 2, "'1_0' is not a number"),
        ("client,rate\n1,10 Mbit/s\n", 2, "'10 Mbit/s' is not a number; write it plain"),
        ("client,kind\n1,fats\n", 2, "column 'kind': 'fats' is not one of those known; did you mean 'fast'"),
        ('client\n"1\n', 2, "not CSV"),
        (b"client\n1\n\xff\n", 3, "not UTF-8 text; save the file as UTF-8"),
    ],
)
def test_what_is_wrong_is_reported_with_file_and_line(tmp_path, text, line, message):
    path = write(tmp_path, text)
    with pytest.raises(UserError, match=message) as caught:
        read(path, COLUMNS)
    assert str(caught.value).startswith(f"{path}, line {line}: ")


def test_a_table_without_rows_or_without_a_file_is_reported(tmp_path):
    path = write(tmp_path, "client\n\n")
    with pytest.raises(UserError, match="a header without rows"):
        read(path, COLUMNS)
    with pytest.raises(UserError, match=r"there is no such file; did you mean .*clients\.csv"):
        read(tmp_path / "client.csv", COLUMNS)
    with pytest.raises(UserError, match="cannot be read"):
        read(tmp_path, COLUMNS)


def test_a_required_word_must_be_there(tmp_path):
    with pytest.raises(UserError, match="line 2: column 'kind': an empty cell; write one of: a, b"):
        read(write(tmp_path, "kind,n\n,1\n"), [Column("kind", choices=("a", "b")), Column("n")])


@dataclass(frozen=True)
class Options:
    one: FilePath | None = None
    any: Place | None = None


def test_options_that_name_files_are_checked(tmp_path):
    path = write(tmp_path, "client\n1\n")
    adapter = TypeAdapter(Options)
    built = adapter.validate_python({"one": str(path), "any": str(tmp_path)})
    assert (built.one, built.any) == (path, Path(tmp_path))
    assert adapter.dump_python(built, mode="json") == {"one": str(path), "any": str(tmp_path)}
    assert "anyOf" in adapter.json_schema()["properties"]["one"]
    for value, message in [
        (str(tmp_path / "cliens.csv"), r"there is no such file; did you mean .*clients\.csv"),
        (str(tmp_path), "is a folder; name a file in it"),
        (7, "7 is not a path"),
        ("", "'' is not a path"),
    ]:
        with pytest.raises(ValidationError, match=message):
            adapter.validate_python({"one": value})
    with pytest.raises(ValidationError, match="there is no such file"):
        adapter.validate_python({"any": str(tmp_path / "nowhere")})


def test_whole_numbers_may_be_written_as_data_frames_write_them(tmp_path):
    path = tmp_path / "whole.csv"
    path.write_text("client\n3.0\n1e6\n9007199254740993\n")
    assert read(path, [Column("client", whole=True)])["client"].tolist() == [3, 1_000_000, 9007199254740993]
