"""Interrupted anywhere, a point leaves a checkpoint that fits, and its tables are those of a whole run in the end."""

import os
import random
import signal
import sys
import threading

import pytest
import small_points

from fedsim.learner.live import Live
from fedsim.point.loop import held_back
from fedsim.point.resume import checkpoint
from fedsim.point.resume.checkpoint import discard, path_in
from fedsim.point.run import run

LATER = [("begin", 1), ("begin", 3), ("open", 2), ("score", 2)]
CHANGES = {"algorithm": {"name": "power", "rebuild_steps": 4}, "network__effects": small_points.EFFECTS}
MIDDLES = [("aggregate", 2), *(pytest.param(*one, marks=pytest.mark.long) for one in LATER)]
ALWAYS = 0.0  # seconds between checkpoints


@pytest.fixture(autouse=True)
def heeded():
    """Heed Ctrl-C as Python does, also where the tests run in the background of a shell, which has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="module")
def after_every_event():
    """Take a checkpoint after each event, however long that takes."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checkpoint, "SHARE", 0)
        yield


def run_in(folder):
    """Run or resume the point in a folder."""
    folder.mkdir(exist_ok=True)
    return run(small_points.point(**CHANGES), folder, folder, lambda progress: None, ALWAYS)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The tables of a point that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    run_in(folder)
    return small_points.files(folder)


def check_resumed(folder, whole):
    row = run_in(folder)
    assert "checkpoint" not in row["provenance"]  # none was discarded
    assert small_points.files(folder) == whole
    assert not path_in(folder).parent.exists()


def nth_call(monkeypatch, name, number, act):
    """Have the learner's method do something else first when it is called for the n-th time."""
    made, calls = getattr(Live, name), 0

    def called(self, *args):
        nonlocal calls
        calls += 1
        if calls == number:
            act()
        return made(self, *args)

    monkeypatch.setattr(Live, name, called)


def press():
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


def break_off():
    raise KeyboardInterrupt


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no os.kill with SIGINT for a process alone")
@pytest.mark.parametrize("act", [pytest.param(press, marks=pytest.mark.long), break_off])
@pytest.mark.parametrize(("name", "number"), MIDDLES)
def test_in_the_middle_of_an_event(name, number, act, tmp_path, whole, monkeypatch):
    with monkeypatch.context() as patched:
        nth_call(patched, name, number, act)
        with pytest.raises(KeyboardInterrupt):
            run_in(tmp_path / "point")
    assert path_in(tmp_path / "point").exists()
    check_resumed(tmp_path / "point", whole)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timer")
# Python can be interrupted between opening a file and entering the `with` that closes it
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(6))
def test_at_any_moment_and_again_while_it_is_resumed(seed, tmp_path, whole, monkeypatch):
    draw = random.Random(seed)
    before = signal.signal(signal.SIGALRM, lambda *_: break_off())
    try:
        for _ in range(draw.choice((1, 2, 3))):
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.001, 0.6))
            try:
                run_in(tmp_path / "point")
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    check_resumed(tmp_path / "point", whole)


def test_a_checkpoint_that_was_being_written_is_removed_too(tmp_path):
    path_in(tmp_path).parent.mkdir()
    path_in(tmp_path).with_suffix(".partial").write_bytes(b"half")
    discard(tmp_path)
    assert [*tmp_path.iterdir()] == []


def twice(noted):
    with held_back(lambda: noted.append(1)):
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_the_first_interrupt_is_noted_and_waits_for_the_end_and_the_second_does_not():
    noted = []
    with pytest.raises(KeyboardInterrupt):
        twice(noted)
    assert noted == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_of_others_stay_and_so_do_other_threads():
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("theirs"))
    try:
        with held_back(lambda: seen.append("noted")):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["theirs"]

    def elsewhere():
        with held_back(lambda: seen.append("noted")):
            seen.append("through")

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == ["theirs", "through"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
