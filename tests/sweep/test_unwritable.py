"""Results that may not be written: one message that names the folder and the mend, exit code 2, earlier points stay."""

import ctypes
import os
import sys
import traceback

import fake_runs
import pytest
from calling import QUICK

import fedsim.point.build.learning
import fedsim.point.run
from fedsim import __main__ as command_line
from fedsim.point.results import folders

VERSION, OVERRIDE = 0x20080522, 0b110  # of Linux's capabilities; to pass over rights to write, to read and to search

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="root must give up what lets it pass over rights")


def obey():
    """Have rights hold for this process, though it may be root's."""
    libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(VERSION, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    sets[0] &= ~OVERRIDE
    assert libc.capset(header, sets) == 0


def commanded(folder, bars=False):
    """Call the command in a child that obeys; return its exit code and messages.  `bars`: in the middle of it."""
    out = folder / "out"
    (folder / "scenario.yaml").write_text(QUICK)

    def run(point, inside, data, told, every):
        row = fake_runs.run(point, inside, data, told)
        if bars and [*out.glob("points/*/row.json")]:
            out.chmod(0o555)
        return row

    if not (pid := os.fork()):
        code = 99
        try:
            sys.stderr, sys.stdout = (folder / "told").open("w", 1), open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            obey()
            fedsim.point.run.run = run
            arguments = [str(folder / "scenario.yaml"), "--out", str(out), "--data", str(folder), "--jobs", "1"]
            code = command_line.main([*arguments, "--no-report"])
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.close()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, " ".join((folder / "told").read_text().split())


def finished(out):
    rows = [row for path in out.glob("points/*/row.json") if (row := folders.finished(path.parent))]
    return [row["run"] for row in rows]


def test_a_folder_that_is_barred_in_the_middle_keeps_its_points_and_goes_on_once_it_is_mended(tmp_path):
    out = tmp_path / "out"
    told = f"{out} cannot be written (Permission denied); finished runs are kept: correct its permissions, and the same"
    expected = 2, f"fedsim: {told} command continues"
    assert commanded(tmp_path, bars=True) == expected
    first = finished(out)
    assert len(first) == 1
    assert commanded(tmp_path) == expected  # barred from its beginning
    assert finished(out) == first
    out.chmod(0o755)
    assert commanded(tmp_path) == (0, "")
    assert len(finished(out)) == 2
    assert (tmp_path / "calls").read_text().split()[::2].count(first[0]) == 1


def test_a_folder_that_is_barred_and_empty_is_reported_before_anything_runs(tmp_path):
    out = tmp_path / "out"
    out.mkdir(0o555)
    told = f"fedsim: {out} cannot be written (Permission denied); give another folder with --out"
    assert commanded(tmp_path) == (2, told)
    assert [*out.iterdir()] == []
    assert not (tmp_path / "calls").exists()
