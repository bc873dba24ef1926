"""Runs that would not end end with what they wait for, or say it while they wait; inputs without end are refused."""

import logging
import threading

import pytest

from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.point import run, standstill
from fedsim.point.checks import check
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import paths

LATE = "start_s,client,direction,bytes\n0,0,up,400\n1e15,1,down,7\n"
FILES = {"late.csv": LATE, "close.txt": "0 5\n1e-9 6\n", "long.txt": "0\n1e12\n"}
TICKS = {"name": "straggler", "factor": 2.0, "every": "8 s", "length": "2 s"}


def scenario(folder, up="1 kB", protocol="one_shot", **network):
    for name, text in FILES.items():
        (folder / name).write_text(text)
    plain = {
        "name": "endless", "clients": {"count": 2, "speed": "1 GFLOP/s"},
        "network": {"latency": "1 ms", "uplink": "1 bit/s", "downlink": "1 Mbit/s", **network},
        "protocol": protocol, "algorithm": {"name": "traffic", "down": "1 kB", "up": up, "operations": 0},
    }  # fmt: skip
    return Scenario.model_validate(paths.made_absolute(plain, folder))


def ended(one, folder):
    with pytest.raises(UserError) as error:
        run.run(*one.points(), folder, folder, lambda progress: None)
    assert "one_shot.py, _collect" in str(error.value)
    return str(error.value)


def test_a_clock_that_no_event_brings_forward_ends_the_run(tmp_path, monkeypatch):
    build = run.build

    def spinning(*args, **options):
        built = build(*args, **options)
        built.world.env.process(spin(built.world.env))
        return built

    def spin(env):
        while True:
            yield env.timeout(1.0 if env.now < 0.5 else 1e-300)

    monkeypatch.setattr(run, "build", spinning)
    monkeypatch.setattr(standstill, "AT_ONCE", 9000)
    assert "the clock stands at 1 s" in ended(scenario(tmp_path), tmp_path)


def test_events_in_which_nothing_ends_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(standstill, "QUIET", 5000)
    message = ended(scenario(tmp_path, "900 TB", effects=[TICKS]), tmp_path)
    assert "no transfer or computation finished in" in message
    assert "900,000,000,000,0" in message  # the bytes of the transfer that is waited for


def test_a_time_that_floats_do_not_resolve_ends_the_run(tmp_path):
    assert "the next event is at 7" in ended(scenario(tmp_path, "900 TB"), tmp_path)


@pytest.mark.parametrize(
    ("network", "protocol", "where"),
    [
        ({}, {"name": "replay", "transfers": "late.csv"}, "start_s"),
        ({"effects": [{"name": "trace", "trace": "close.txt"}]}, "one_shot", "line 2"),
        ({"effects": [{"name": "trace", "trace": "long.txt"}]}, "one_shot", "'window'"),
        ({"effects": [{"name": "dropout", "rate": "1e12/s"}]}, "one_shot", "'rate'"),
        ({"effects": [{"name": "churn", "online": "1e-12 s", "offline": "1 s"}]}, "one_shot", "'online'"),
    ],
)  # fmt: skip
def test_inputs_whose_runs_would_have_no_end_are_refused(network, protocol, where, tmp_path):
    problems = check.points([*scenario(tmp_path, protocol=protocol, **network).points()])
    assert [where in problem.message for problem in problems] == [True]


def test_a_run_says_what_it_does_while_its_clock_stands(caplog):
    """The display only: real time must not reach run.log."""
    said, texts = threading.Event(), []

    def report(progress):
        texts.append(progress.doing)
        if progress.doing:
            said.set()

    with caplog.at_level(logging.WARNING), standstill.Watchdog(report, silence=0.05) as watchdog:
        watchdog.report(Progress(0.0, 0.0, None, 0))
        assert said.wait(60)
    assert texts[0] == ""
    assert "the run is being set up" in texts[1]
    assert not caplog.text
