"""What is in the way in a folder of results, and an interrupt, are one line each and never a traceback."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fedsim import __main__ as command_line
from fedsim.core.errors import UserError, brief
from fedsim.core.whole_files import Unwritable, reported
from fedsim.point.results import folders

ROOT = Path(__file__).resolve().parents[2]
STUDY = """\
name: study
clients: {count: 4, speed: 1 GFLOP/s}
network: {latency: 30 ms, uplink: 5 Mbit/s, downlink: 20 Mbit/s}
protocol: {name: sync, rounds: 1, clients: 2}
algorithm: {name: algorithms.traffic, down: 1 kB, up: 2 kB}
"""


@pytest.fixture
def study(tmp_path, monkeypatch, capsys):
    """Return a function that runs a small study into a folder, and returns the exit code and what was said."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)

    def run(*flags):
        code = command_line.main(["study.yaml", "--out", "out", "--jobs", "1", "--no-report", *flags])
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return code, said

    return run


@pytest.mark.parametrize("name", ["scenario.yaml", "summary.csv"])
@pytest.mark.parametrize("flag", [[], ["--fresh"]])
def test_a_folder_in_the_place_of_a_file_is_named(study, name, flag):
    (Path("out") / name / "kept").mkdir(parents=True)
    code, said = study(*flag)
    assert code == 2
    assert f"out/{name}: Is a directory" in said
    assert "move that away" in said
    assert (Path("out") / name / "kept").is_dir()


WITHOUT = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]  # root's exemptions


@pytest.mark.skipif(os.name == "nt", reason="permissions")
def test_a_point_without_permission_is_named(study):
    root = os.geteuid() == 0
    if root and not shutil.which(WITHOUT[0]):
        pytest.skip("permissions do not hold for root")
    assert study() == (0, "")
    (point,) = folders.folders(Path("out"))
    command = [*(WITHOUT if root else []), sys.executable, "-m", "fedsim", "study.yaml", "--out", "out", "--jobs", "1"]
    point.chmod(0)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
    finally:
        point.chmod(0o755)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"fedsim: out cannot be used ({point}: Permission denied): move that away or correct its permissions"
    )


def test_what_cannot_be_reached_is_named_and_other_faults_are_not_hidden(tmp_path):
    point = tmp_path / "abcdefabcdef"
    for number in (errno.EACCES, errno.EISDIR, errno.ENOTDIR):
        with pytest.raises(Unwritable, match=rf"\({point}/row.json: "), reported(tmp_path):
            raise OSError(number, os.strerror(number), str(point / "row.json"))
    with pytest.raises(OSError, match="timed out"), reported(tmp_path):
        raise OSError(errno.ETIMEDOUT, "timed out")


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_fresh_removes_a_link_and_not_what_it_leads_to(study):
    assert study() == (0, "")
    (point,) = folders.folders(Path("out"))
    point.rename("elsewhere")
    point.symlink_to(Path("elsewhere").absolute())
    folders.clear(Path("out"))
    assert not point.is_symlink()
    assert (Path("elsewhere") / "row.json").is_file()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_a_pipe_in_the_place_of_the_holder_blocks_nothing(study):
    Path("out").mkdir()
    os.mkfifo("out/.holder")
    before = signal.signal(signal.SIGALRM, lambda number, frame: pytest.fail("blocked"))
    signal.alarm(30)
    try:
        code, said = study()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert (code, said) == (0, "") or "neither a file nor a folder" in said


def test_an_out_folder_whose_name_is_too_long_is_a_mistake(study):
    code, said = study("--out", "o" * 5000)
    assert code == 2
    assert len(said) < 600


@pytest.mark.parametrize("key", ["a." * 2000 + "a=1", "grid." + "a." * 2000 + "a=[1]"])
def test_a_key_of_many_parts_is_a_mistake(study, key):
    code, said = study("--set", key)
    assert code == 2
    assert "parts" in said


@pytest.mark.parametrize(
    "flags",
    [
        *(["--set", f"{key}={'x' * 100_000}"] for key in ("name", "protocol.rounds", "algorithm.name", "y" * 100_000)),
        ["--set", "z" * 500_000],
        ["--set", "protocol.rounds=" + "a b " * 30_000],
        ["--jobs", "9" * 100_000 + "x"],
        ["--no-such-flag" + "x" * 100_000],
    ],
    ids=range(8),
)
def test_messages_quote_what_was_given_briefly(study, capsys, flags):
    try:
        _, said = study(*flags)
    except SystemExit:  # of argparse
        said = capsys.readouterr().err
    assert 20 < len(said) < 2500


def test_brief_messages_keep_their_ends():
    assert brief("a 'b c': d\nsecond 'line'") == "a 'b c': d\nsecond 'line'"
    long = str(UserError(f"--set name={'x' * 900}: name: {'y z' * 300!r} is too long"))
    assert long == f"--set name={'x' * 195}...: name: '{('y z' * 300)[:199]}...' is too long"
    words = brief("word " * 1000)
    assert len(words) < 2100
    assert words.startswith("word word")
    assert words.endswith("word ")


COMMANDS = {  # a module that each command imports
    "fedsim": "rich", "fedsim.analysis": "pandas", "fedsim.calibrate": "numpy", "fedsim.deploy": "rich",
    "fedsim.reference": "rich",
}  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="Windows has no os.kill with SIGINT for a process alone")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupt_while_modules_are_imported_is_a_line(command, tmp_path):
    (tmp_path / f"{COMMANDS[command]}.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", command], env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("", "interrupted\n")
    assert done.returncode == -signal.SIGINT  # 130 in a shell
