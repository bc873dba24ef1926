"""Files that a scenario names: seen from its folder, told by their contents."""

from pathlib import Path

import pytest

from fedsim.scenario.text import yaml_file
from fedsim.scenario.text.paths import by_contents, fingerprint, made_absolute

SCENARIO = """
name: small
clients: {table: clients.csv}
network: {uplink: 1 Mbit/s, downlink: 1 Mbit/s, latency: 1 ms}
protocol: {name: replay, transfers: sub/transfers.csv}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "clients.csv").write_text("client\n0\n1\n")
    (tmp_path / "sub" / "transfers.csv").write_text("start_s,client,direction,bytes\n0,0,up,10\n")
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    return tmp_path


def test_only_what_looks_like_a_file_and_is_there_becomes_absolute(folder, monkeypatch):
    monkeypatch.chdir("/")
    (folder / "digits").write_text("a file that is called like a data set")
    given = {
        "table": "clients.csv",
        "dataset": "digits",
        "name": "clients.csv",
        "more": ["sub/transfers.csv", "no.csv"],
    }
    made = made_absolute(given, folder)
    assert made["table"] == str(folder / "clients.csv")
    assert made["more"] == [str(folder / "sub" / "transfers.csv"), "no.csv"]
    assert (made["dataset"], made["name"]) == ("digits", "clients.csv")


def test_the_scenarios_folder_comes_before_the_working_folder(folder, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("other")
    (other / "clients.csv").write_text("client\n0\n")
    (other / "mine.csv").write_text("client\n0\n")
    monkeypatch.chdir(other)
    assert made_absolute("clients.csv", folder) == str(folder / "clients.csv")
    assert made_absolute("mine.csv", folder) == str(other / "mine.csv")


def one(path: Path):
    (point,) = yaml_file.load(path / "scenario.yaml")[0].points()
    return point


def test_a_points_id_is_made_from_the_contents_of_its_tables_and_not_from_their_place(folder, tmp_path_factory):
    first = one(folder).id
    moved = tmp_path_factory.mktemp("moved") / "deep"
    moved.parent.mkdir(exist_ok=True)
    folder.rename(moved)
    assert one(moved).id == first
    (moved / "sub" / "transfers.csv").write_text("start_s,client,direction,bytes\n0,0,up,11\n")
    assert one(moved).id != first


def test_a_folder_is_told_by_the_names_and_contents_of_its_files(tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "a").write_text("1")
    (folder / "b").write_text("2")
    before = fingerprint(folder)
    assert by_contents({"trace": str(folder)}) == {"trace": f"contents {before}"}
    (folder / "b").rename(folder / "c")
    renamed = fingerprint(folder)
    (folder / "c").write_text("3")
    assert len({before, renamed, fingerprint(folder)}) == 3


def test_texts_that_name_no_file_stay(tmp_path):
    assert by_contents(["lognormal(50 ms, 0.5)", "/no/such/file.csv", 3, None]) == [
        "lognormal(50 ms, 0.5)", "/no/such/file.csv", 3, None,
    ]  # fmt: skip
    assert made_absolute("uniform(1 s, 2 s)", tmp_path) == "uniform(1 s, 2 s)"


@pytest.mark.parametrize("name", ["/" + "x" * 300, "x" * 300 + "/y.csv", "a/" + "x" * 300 + ".csv", "a\0/b.csv"])
def test_names_that_no_system_takes_are_no_files(name, tmp_path):
    assert by_contents({"table": name}) == {"table": name}
    assert made_absolute({"table": name}, tmp_path) == {"table": name}


def test_the_files_further_below_a_folder_do_not_count(tmp_path):
    (tmp_path / "a").write_text("1")
    before = fingerprint(tmp_path)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b").write_text("2")
    assert fingerprint(tmp_path) == before


def test_names_of_parts_are_no_files(tmp_path):
    assert by_contents({"name": str(tmp_path)}) == {"name": str(tmp_path)}
