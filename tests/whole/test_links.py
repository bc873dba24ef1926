"""A folder of results from a stranger: no link in it leads out of it, whatever its name; it may be one itself."""

import os
import shutil

import fake_runs
import pytest
import yaml
from small_points import PLAIN
from small_sweeps import HERE, Listener, names, table

from analysis import __main__ as analysis
from analysis.read.links import link_in
from fedsim import __main__ as command_line
from fedsim import simulate
from fedsim.core import whole_files
from fedsim.core.errors import UserError
from fedsim.point.results import folders
from fedsim.point.results.folders import HOLDER, LOCK, OLD, PARTIAL, RECORDS
from fedsim.point.resume import checkpoint

MINE = '''\
"""FedAvg that fails where it is to."""

from dataclasses import dataclass

from algorithms.fedavg import FedAvg


@dataclass(frozen=True)
class Mine(FedAvg):
    """FedAvg that fails if it is bad."""

    bad: bool = False

    def update(self, state, replies, step):
        if self.bad:
            raise RuntimeError("this one breaks")
        return super().update(state, replies, step)
'''


ID = "0123456789ab"


def contents(folder):
    """Everything below a folder: what is there, the bytes of files, and where links lead."""
    found = {}
    for path in sorted(folder.rglob("*")):
        key = str(path.relative_to(folder))
        found[key] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def led_out(place, outside):
    """Put a link in the place of a file or a folder, to a copy outside that holds what others would miss."""
    shutil.rmtree(outside, ignore_errors=True)
    outside.mkdir()
    if place.is_file():
        shutil.copy(place, outside / "it")
        place.unlink()
    else:
        if place.is_dir():
            shutil.copytree(place, outside / "it")
            shutil.rmtree(place)
        else:  # nothing yet: it may be taken for either
            (outside / "it" / checkpoint.FOLDER).mkdir(parents=True)
            checkpoint.path_in(outside / "it").write_bytes(b"no checkpoint")
        (outside / "it" / "precious").write_text("mine")
        (outside / "it" / "scenario.yaml").write_text("mine")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside / "it")


def places(whole, ids):
    """Every name below a folder of results, and those that exist while something is written there."""
    there = [path.relative_to(whole) for path in sorted(whole.rglob("*"))]
    hidden = [path.with_name(f".{path.name}.partial") for path in there if path.parts[0] != "report"]
    own = [f"{PARTIAL}{ID}", f"points/{OLD}{ids[0]}", f"{PARTIAL}{ID}/{checkpoint.FOLDER}", HOLDER, LOCK]
    return [*there, *hidden, *(whole.relative_to(whole) / name for name in own)]


def test_no_link_among_the_names_of_a_sweep_leads_out_of_its_folder(make, tmp_path):
    swept = make("well", "fail", seeds=[1])
    swept.run(fake_runs.run, HERE, Listener())
    whole, outside, ids = tmp_path / "whole", tmp_path / "outside", [*map(folders.name_of, swept.points)]
    swept.out.rename(whole)
    seen = places(whole, ids)
    wanted = {"summary.csv", "scenario.yaml", f"points/{ids[1]}/error.log", f"points/{ids[0]}", ".summary.csv.partial"}
    assert wanted <= {*map(str, seen)}
    for name in seen:
        for fresh in (False, True):
            shutil.rmtree(swept.out, ignore_errors=True)
            shutil.copytree(whole, swept.out)
            led_out(swept.out / name, outside)
            if PARTIAL in str(name) or OLD in str(name):
                shutil.rmtree(swept.out / "points" / ids[0])
            before, inside = contents(outside), contents(swept.out)
            with pytest.raises(UserError, match="is a link, and in a folder of results no link is followed"):
                swept.run(fake_runs.run, HERE, Listener(), fresh)
            assert contents(outside) == before
            assert contents(swept.out) == inside


def test_a_pipe_among_the_names_of_a_sweep_is_refused(make):
    if not hasattr(os, "mkfifo"):
        pytest.skip("this system has no pipes with names")
    swept = make(seeds=[1])
    swept.run(fake_runs.run, HERE, Listener())
    os.mkfifo(swept.out / ".scenario.yaml.partial")
    with pytest.raises(UserError, match="partial is neither a file nor a folder"):
        swept.run(fake_runs.run, HERE, Listener())


def test_the_folder_itself_may_be_a_link_and_so_may_what_others_put_there(make, tmp_path):
    swept, scratch = make(seeds=[1, 2]), tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "notes").symlink_to(tmp_path)
    swept.out.parent.mkdir()
    swept.out.symlink_to(scratch, target_is_directory=True)
    for fresh in (False, False, True):
        swept.run(fake_runs.run, HERE, Listener(), fresh)
        assert [row["status"] for row in table(scratch)] == ["done", "done"]
    assert swept.out.is_symlink()
    assert (scratch / "notes").is_symlink()
    assert [name for name in names(scratch) if name.startswith(".")] == []


def test_a_file_that_is_written_replaces_a_link_in_its_place_and_in_that_of_its_hidden_name(tmp_path):
    mine = tmp_path / "mine"
    for name in ("given", ".given.partial"):
        mine.write_text("mine")
        (tmp_path / name).symlink_to(mine)
        whole_files.replace(tmp_path / "given", "new")
        assert (mine.read_text(), (tmp_path / "given").read_text()) == ("mine", "new")
        (tmp_path / "given").unlink()
        os.link(mine, tmp_path / name)
        whole_files.replace(tmp_path / "given", b"new")
        assert (mine.read_text(), (tmp_path / "given").read_text()) == ("mine", "new")
        (tmp_path / "given").unlink()


def test_what_is_given_as_an_object_is_not_written_through_a_link(tmp_path):
    out, outside = tmp_path / "out", tmp_path / "outside"
    out.mkdir()
    outside.mkdir()
    (out / "inputs").symlink_to(outside, target_is_directory=True)
    graph = {"x": [[0.0, 1.0]] * 8, "edge_index": [[0, 1], [1, 2]], "y": [0, 1] * 4}
    with pytest.raises(UserError, match="inputs is a link"):
        simulate(PLAIN, out=out, graph=graph, progress=False)
    assert contents(outside) == {}


def test_trials_are_not_searched_through_a_link(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({**PLAIN, "algorithm": "fedprox"}))
    (tmp_path / "out").mkdir()
    led_out(tmp_path / "out" / "tuning", tmp_path / "outside")
    (tmp_path / "outside" / "it" / "trials.csv").write_text("mine")
    before = contents(tmp_path / "outside")
    assert command_line.main(["own.yaml", "--tune", "2", "--out", "out", "--fresh"]) == 2
    assert "out/tuning is a link" in capsys.readouterr().err
    assert contents(tmp_path / "outside") == before


@pytest.mark.long
def test_no_link_among_all_that_a_run_leaves_leads_out_of_its_folder(tmp_path, monkeypatch, capsys):
    """The command with report, timelines, records and a failed point, and the command of reports."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "mine.py").write_text(MINE)
    grid = {"algorithm": ["fedavg", {"name": "lab.mine", "bad": True}], "network.latency": ["50 ms", "1 s"]}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({**PLAIN, "grid": grid, "measure": {"views": False}}))
    out, whole, outside = tmp_path / "out", tmp_path / "whole", tmp_path / "outside"

    def command(*words):
        return command_line.main(["own.yaml", "--out", "out", "--jobs", "1", *words])

    assert command("--trace") == 1
    assert analysis.main(["out"]) == 0
    ids = [path.name for path in folders.folders(out)]
    out.rename(whole)
    seen = places(whole, ids)
    made = {*map(str, seen)}
    assert {"report/report.html", "figures", "tables", "results.txt", f"points/{ids[0]}/trace.json.gz", RECORDS} <= made
    assert len(seen) > 150
    for name in seen:
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(whole, out)
        led_out(out / name, outside)
        cached = RECORDS in name.parts[:-1]  # not used, and replaced
        assert bool(link_in(out)) is not cached, name
        if len(name.parts) == 1 or cached:
            before = contents(outside)
            codes = {
                command("--no-report"),
                command("--no-report", "--fresh"),
                *([] if cached else [analysis.main(["out"])]),
            }
            assert contents(outside) == before, name
            assert codes == {1 if cached else 2}, name
            capsys.readouterr()
