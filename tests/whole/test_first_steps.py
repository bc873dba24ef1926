"""What a newcomer types first is answered with help, a summary, and the line of the mistake."""

import re

import pytest

from fedsim import __main__ as command_line
from fedsim.sweep import arguments

STUDY = """\
name: study
clients: {count: 4, speed: 1 GFLOP/s}
network: {latency: 30 ms, uplink: 5 Mbit/s, downlink: 20 Mbit/s}
protocol: {name: sync, rounds: 2, participation: 0.5}
algorithm: {name: algorithms.traffic, down: 1 kB, up: 2 kB}
"""
BROKEN = """\
from dataclasses import dataclass

from algorithms.traffic import Traffic as Base

{0}
@dataclass(frozen=True)
class Broken(Base):
    extra: int = 1

    def __post_init__(self):
        {1}

    @property
    def learns(self):
        return False

    def operations_of(self, *words):
        return {{}}["lost"]
"""


@pytest.fixture
def fedsim(tmp_path, monkeypatch, capsys):
    """Return a function that gives words to the command, and returns exit code, output and messages."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(STUDY)

    def run(*words):
        try:
            code = command_line.main([*words])
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return code, said.out, said.err

    return run


def test_no_arguments_show_the_help(fedsim):
    code, out, err = fedsim()
    assert (code, err) == (0, "")
    assert out.startswith("usage:")
    assert "--init FOLDER" in out


def test_workers_are_jobs():
    parsed = arguments.parser().parse_args(["study.yaml", "--workers", "3"])
    assert parsed.jobs == 3


@pytest.mark.parametrize("flag", ["--fres", "--frsh", "--refresh", "--fresh-start", "--worker", "--freshh"])
def test_what_removes_results_is_never_suggested(fedsim, flag):
    code, _, err = fedsim("study.yaml", flag, "2")
    assert code == 2
    assert "did you mean --fresh" not in err


def test_a_list_names_the_kinds_first(fedsim):
    code, out, _ = fedsim("--list")
    first = " ".join(out.split("\n\n")[0].split())
    assert code == 0
    assert first.startswith("Kinds: algorithm, aggregation, protocol, topology")
    assert "model" in first


def test_a_dry_run_of_many_points_shows_their_axes_and_all_on_request(fedsim):
    sets = ("--set", "grid.seed=[0,1,2,3,4,5]", "--set", "grid.network.latency=[10 ms, 20 ms, 1 s, 2 s]")
    code, out, _ = fedsim("study.yaml", "--dry-run", *sets)
    summary = out.split("\n# run")[0]
    assert code == 0
    assert "24 runs" in summary
    assert "latency (4): 10 ms, 20 ms, 1 s, 2 s" in summary
    assert "seed (6): 0, 1, 2, 3, 4, 5" in summary
    assert "Every combination" in summary
    assert len(summary.splitlines()) < 10
    assert out.count("# run") == 1
    _, out, _ = fedsim("study.yaml", "--dry-run", "-v", *sets)
    rows = out.split("\n# run")[0].splitlines()
    assert len([row for row in rows if re.match("[0-9a-f]{12}", row)]) == 24
    _, out, _ = fedsim("study.yaml", "--dry-run", *sets[:2])
    assert len(re.findall("^[0-9a-f]{12}", out, re.MULTILINE)) == 6


def test_points_that_are_not_every_combination_are_said_to_be_so(fedsim, tmp_path):
    text = STUDY + "vary: {network.latency: [%s], seed: [%s]}\n"
    latencies, seeds = (", ".join(f"{number} ms" for number in range(1, 12)), ", ".join(map(str, range(1, 14))))
    (tmp_path / "study.yaml").write_text(("seed: 0\n" + text) % (latencies, seeds))
    code, out, err = fedsim("study.yaml", "--dry-run")
    assert (code, err) == (0, "")
    assert "Not every combination" in out


def test_a_value_that_a_class_refuses_is_blamed_on_the_flag_that_set_it(fedsim):
    code, _, err = fedsim("study.yaml", "--set", "protocol.participation=0")
    assert code == 2
    assert err.startswith("fedsim: --set protocol.participation=0: protocol.participation: 0: must be more than 0")
    assert "line" not in err
    _, _, err = fedsim("study.yaml", "--set", "protocol.clients=2")
    assert err.startswith("fedsim: study.yaml, line 4, with --set protocol.clients=2: protocol: give either")


@pytest.mark.parametrize("when", ["import", "build"])
def test_an_error_in_a_file_of_the_users_is_told_with_its_line(fedsim, tmp_path, monkeypatch, when):
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"broken_at_{when}"
    fails = "{}['lost']"
    text = BROKEN.format(fails if when == "import" else "", fails if when == "build" else "pass")
    (tmp_path / "firststeps").mkdir()
    (tmp_path / "firststeps" / f"{name}.py").write_text(text)
    line = next(number for number, each in enumerate(text.splitlines(), 1) if fails in each)
    code, _, err = fedsim("study.yaml", "--set", f"algorithm.name=firststeps.{name}", "--jobs", "1")
    assert code == 2
    assert f"KeyError: 'lost' (firststeps/{name}.py, line {line})" in err


def test_an_error_in_an_effect_while_a_point_runs_is_told_with_its_line(fedsim, tmp_path):
    text = (
        "from dataclasses import dataclass\nfrom typing import ClassVar\n\nfrom fedsim.net.effect import Effect\n\n"
        "@dataclass(frozen=True)\nclass Lost(Effect):\n    shapes: ClassVar[bool] = True\n\n"
        "    def shape(self, transfer, rng):\n        {}['lost']\n"
    )
    (tmp_path / "effects").mkdir()
    (tmp_path / "effects" / "lost.py").write_text(text)
    code, out, err = fedsim("study.yaml", "--set", "network.effects=[lost]", "--jobs", "1", "--no-report")
    assert code == 1
    assert "KeyError: 'lost' (effects/lost.py, line 11)" in out + err
