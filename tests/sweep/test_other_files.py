"""A folder that is not one of results keeps its files, and so does the scenario that is run."""

from pathlib import Path

import pytest
from test_simulation import SEND

from fedsim import __main__ as command_line
from fedsim.scenario.text import yaml_text

TEXT = yaml_text.text_of(SEND)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("send.yaml").write_text(TEXT, encoding="utf-8")
    return tmp_path


def run(scenario, *flags):
    return command_line.main([scenario, "--no-report", "--jobs", "1", *flags])


@pytest.mark.parametrize("name", ["summary.csv", "scenario.yaml"])
def test_files_of_somebody_else_are_kept(here, capsys, name):
    Path(name).write_text("mine\n", encoding="utf-8")
    assert run("send.yaml", "--out", ".") == 2
    assert "holds other files of the same names: give another folder with --out" in capsys.readouterr().err
    assert sorted(path.name for path in here.iterdir()) == sorted(["send.yaml", name])
    assert Path(name).read_text(encoding="utf-8") == "mine\n"


def test_a_scenario_is_not_replaced_by_what_flags_make_of_it(here, capsys):
    Path("scenario.yaml").write_text(TEXT, encoding="utf-8")
    assert run("scenario.yaml", "--out", ".") == 0
    assert Path("scenario.yaml").read_text(encoding="utf-8") == TEXT
    assert run("scenario.yaml", "--out", ".", "--set", "protocol.rounds=1") == 2
    assert "would be replaced, with what --set changes: give another --out" in capsys.readouterr().err
    assert Path("scenario.yaml").read_text(encoding="utf-8") == TEXT


@pytest.mark.parametrize("left", [["scenario.yaml"], ["scenario.yaml", "summary.csv"]])
def test_what_an_interrupted_call_has_left_is_continued(here, left):
    assert run("send.yaml", "--out", "out") == 0
    kept = {name: Path("out", name).read_text(encoding="utf-8") for name in left}
    for name, text in kept.items():
        Path("other").mkdir(exist_ok=True)
        Path("other", name).write_text(text, encoding="utf-8")
    assert run("send.yaml", "--out", "other") == 0
    assert Path("other", "summary.csv").read_text(encoding="utf-8").count(",done,") == 2


def test_other_axes_go_into_a_folder_of_results(here):
    assert run("send.yaml", "--out", "out") == 0
    assert run("send.yaml", "--out", "out", "--set", "protocol.rounds=1") == 0
    assert Path("out/scenario.yaml").read_text(encoding="utf-8").endswith("# with --set protocol.rounds=1\n")


def test_a_folder_of_results_is_continued_whatever_its_summary_holds(here):
    assert run("send.yaml", "--out", "out") == 0
    Path("out/summary.csv").write_text("spoilt\n", encoding="utf-8")
    assert run("send.yaml", "--out", "out") == 0
    assert Path("out/summary.csv").read_text(encoding="utf-8").count(",done,") == 2
