"""What a call finds damaged or changed since the last one is noticed, reported and computed again, and nothing else."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path

import fake_runs
import msgpack
import pytest
import small_points
import test_following as following
import yaml
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from small_sweeps import HERE, Listener, calls, names, table

from fedsim import simulate
from fedsim.core.errors import UserError
from fedsim.core.version import __version__
from fedsim.learner.recorded import LOGGED
from fedsim.point.results import folders, stale
from fedsim.point.results.folders import RECORDS, locked, place_of
from fedsim.point.resume import checkpoint
from fedsim.point.resume.checkpoint import Damaged
from fedsim.point.resume.following import FollowedAnswers, save

DAMAGES = st.tuples(st.sampled_from(["cut", "flip"]), st.floats(0, 1, exclude_max=True), st.integers(0, 7))
ROOT = Path(__file__).resolve().parents[2]
NOTHING_LEFT = "cut", 0.0, 0
STAMP = '{"fedsim": "1"}'


def damage(path, how, where, bit):
    """Cut a file short at a place, or flip one of the bits there."""
    data = path.read_bytes()
    place = int(where * len(data))
    rest = b"" if how == "cut" else bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]
    path.write_bytes(data[:place] + rest)


@given(DAMAGES)
@example(NOTHING_LEFT)
@settings(max_examples=400)
def test_a_checkpoint_is_whole_or_known_to_be_damaged(how):
    with tempfile.TemporaryDirectory() as name:
        folder, contents = Path(name), {"steps": 3, "values": bytes(range(256))}
        checkpoint.write(folder, STAMP, contents)
        assert (checkpoint.stamp_in(folder), checkpoint.read(folder)) == (STAMP, contents)
        damage(checkpoint.path_in(folder), *how)
        for use in (checkpoint.read, checkpoint.check):
            try:
                usable = checkpoint.stamp_in(folder) == STAMP  # or it counts as made from other sources
                use(folder)
            except Damaged:
                usable = False
            assert not usable


def test_there_is_no_stamp_without_a_checkpoint(tmp_path):
    assert checkpoint.stamp_in(tmp_path) is None


@given(st.sampled_from([*folders.FILES, folders.SUMS]), DAMAGES)
@example("scores.parquet", NOTHING_LEFT)
@example(folders.SUMS, NOTHING_LEFT)
@settings(max_examples=400)
def test_every_damaged_file_of_a_point_is_named(name, how):
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for number, file in enumerate(folders.FILES):
            (folder / file).write_bytes(bytes(range(number, 120 + number)))
        folders.write_sums(folder)
        assert folders.damaged(folder) == []
        damage(folder / name, *how)
        found = folders.damaged(folder)
        assert len(found) == 1 if name == folders.SUMS else found == [name]


def test_the_sums_are_those_that_other_programs_check(tmp_path):
    if not (program := shutil.which("sha256sum")):
        pytest.skip("sha256sum is not installed")
    for name in folders.FILES:
        (tmp_path / name).write_text(name)
    folders.write_sums(tmp_path)
    for damaged in (False, True):
        done = subprocess.run([program, "--check", folders.SUMS], cwd=tmp_path, capture_output=True, check=False)
        assert bool(done.returncode) == damaged
        (tmp_path / "row.json").write_text("other")


@pytest.mark.parametrize("how", [NOTHING_LEFT, ("cut", 0.5, 0), ("flip", 0.5, 3)])
def test_a_point_with_a_damaged_table_runs_again_and_the_others_do_not(make, tmp_path, how):
    swept = make(seeds=[1, 2])
    swept.run(fake_runs.run, HERE, Listener())
    first, second = swept.points
    path, listener = place_of(swept.out, first) / "transfers.parquet", Listener()
    whole = path.read_bytes()
    damage(path, *how)
    swept.run(fake_runs.run, HERE, listener)
    assert listener.notes == ["1 of 2 runs is repeated: transfers.parquet missing or damaged"]
    assert path.read_bytes() == whole
    assert calls(tmp_path) == [first.id, second.id, first.id]


@pytest.mark.long
def test_a_report_names_the_damaged_table_and_the_same_call_computes_it_again(tmp_path):
    def simulated():
        return simulate(small_points.PLAIN, out=tmp_path / "runs", progress=False)

    first = simulated()
    (path,) = tmp_path.glob("runs/points/*/scores.parquet")
    whole = path.read_bytes()
    damage(path, "cut", 0.5, 0)
    remedy = "run the scenario again, which computes this run anew"
    with pytest.raises(UserError, match=rf"scores\.parquet: cannot be read \(.*\); {remedy}$"):
        first.report()
    again = simulated()
    assert path.read_bytes() == whole
    assert again.runs.drop(columns="real_seconds").equals(first.runs.drop(columns="real_seconds"))


@pytest.mark.parametrize("gone", [False, True])
def test_a_row_that_is_cut_short_or_missing_is_computed_again(make, tmp_path, gone):
    swept, listener = make(seeds=[1]), Listener()
    rows = swept.run(fake_runs.run, HERE, Listener())
    path = place_of(swept.out, swept.points[0]) / "row.json"
    path.unlink() if gone else damage(path, "cut", 0.7, 0)
    assert swept.run(fake_runs.run, HERE, listener) == rows
    assert listener.notes == ["1 of 1 run is repeated: row.json missing or damaged"]
    assert len(calls(tmp_path)) == 2


@pytest.mark.parametrize("other", [False, True])
def test_results_of_this_version_without_sums_are_computed_again_and_others_taken_as_they_are(make, tmp_path, other):
    swept, listener = make(seeds=[1]), Listener()
    swept.run(fake_runs.run, HERE, Listener())
    folder = place_of(swept.out, swept.points[0])
    (folder / folders.SUMS).unlink()
    damage(folder / "scores.parquet", "cut", 0.5, 0)
    if other:
        made = (folder / stale.FILE).read_text()
        (folder / stale.FILE).write_text(made.replace(f'"fedsim":"{__version__}"', '"fedsim":"0.0.1"'))
    swept.run(fake_runs.run, HERE, listener)
    assert listener.notes == ([] if other else ["1 of 1 run is repeated: SHA256SUMS missing or damaged"])
    assert len(calls(tmp_path)) == (1 if other else 2)
    assert folders.damaged(folder) == ([folders.SUMS] if other else [])


def test_a_summary_that_is_damaged_is_written_again(make):
    swept = make(seeds=[1, 2])
    swept.run(fake_runs.run, HERE, Listener())
    whole = table(swept.out)
    damage(swept.out / "summary.csv", "cut", 0.8, 0)
    swept.run(fake_runs.run, HERE, Listener())
    assert table(swept.out) == whole


@given(DAMAGES)
@example(NOTHING_LEFT)
@settings(max_examples=200)
def test_a_damaged_record_is_not_followed_which_is_noted(how):
    with tempfile.TemporaryDirectory() as name:
        out, notes = Path(name), {}
        save(out, "root", "one", {number.to_bytes(2): number for number in range(300)})
        assert len(FollowedAnswers(out, "root")) > 300
        packed = zlib.decompress((out / RECORDS / "root" / "one").read_bytes())
        path = out / RECORDS / "root" / "one"
        damage(path, *how)
        with suppress(zlib.error):  # some bits are filling, and mean nothing
            assume(zlib.decompress(path.read_bytes()) != packed)
        assert not FollowedAnswers(out, "root", notes)
        assert notes == {"record": "that of one is damaged and was not followed"}


PLAIN_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.binary(max_size=9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.binary(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OTHERS = st.builds(msgpack.packb, PLAIN_VALUES | st.builds(msgpack.ExtType, st.just(1), st.binary(max_size=20)))


@given(OTHERS | st.binary(max_size=40))
@example(msgpack.packb([1, 2, 3]))
@example(msgpack.packb({b"logged": 7}))
@example(msgpack.packb({"answer": msgpack.ExtType(1, msgpack.packb([["no"], [2], b"dtype"]))}))
@settings(max_examples=300)
def test_a_record_that_unpacks_to_something_else_is_not_followed_which_is_noted(packed):
    with tempfile.TemporaryDirectory() as name:
        out, notes = Path(name), {}
        save(out, "root", "one", {})
        (out / RECORDS / "root" / "one").write_bytes(zlib.compress(packed))
        found = FollowedAnswers(out, "root", notes)
        assert isinstance(found.get(b"logged", {}), dict)
        try:
            answers = isinstance(msgpack.unpackb(packed, strict_map_key=False), dict) and not notes
        except (ValueError, TypeError):
            answers = False
        assert answers or (not found and notes == {"record": "that of one is damaged and was not followed"})


def no_record(place):
    place.unlink()
    place.write_bytes(zlib.compress(msgpack.packb([1])))


def no_answers(place):
    """A record of the same questions, none of which has an answer."""
    found = msgpack.unpackb(zlib.decompress(place.read_bytes()), strict_map_key=False)
    place.write_bytes(zlib.compress(msgpack.packb({key: None for key in found if key != LOGGED})))


def dangling(place):
    place.unlink()
    place.symlink_to("nowhere")


def emptied(place):
    place.unlink()
    place.mkdir()


def file_for_root(place):
    shutil.rmtree(place.parent)
    place.parent.write_text("no folder")


def dangling_root(place):
    shutil.rmtree(place.parent)
    place.parent.symlink_to("nowhere", target_is_directory=True)


def file_for_all(place):
    shutil.rmtree(place.parent.parent)
    place.parent.parent.write_text("no folder")


@pytest.mark.parametrize(
    "spoil", [no_record, no_answers, dangling, emptied, file_for_root, dangling_root, file_for_all]
)
def test_a_point_whose_record_cannot_be_followed_is_trained_and_keeps_its_own(spoil, tmp_path):
    leader, follower = (following.point({}, latency) for latency in (following.NEAR, following.FAR))
    following.run_in(tmp_path / "out", leader)
    (place,) = tmp_path.glob(f"out/{RECORDS}/*/*")
    spoil(place)
    row, folder = following.run_in(tmp_path / "out", follower)
    alone, other = following.run_in(tmp_path / "alone", following.point({}, following.FAR, rooted=False))
    assert following.files(folder) == following.files(other)
    assert row["followed"] is None
    assert ("record" in row["provenance"]) == (spoil is not file_for_all)
    assert "record" not in alone["provenance"]
    assert (place.parent / follower.id).is_file()


def interrupted(swept, point):
    """Leave behind what an interrupted point leaves, and return its folder."""
    folder = swept.out / f"{folders.PARTIAL}{point.id}"
    folder.mkdir(parents=True)
    checkpoint.write(folder, "none", {})
    return folder


def test_a_damaged_checkpoint_begins_anew_and_the_sweep_says_so(make):
    swept, listener = make(seeds=[1, 2]), Listener()
    folder = interrupted(swept, swept.points[0])
    damage(checkpoint.path_in(folder), *NOTHING_LEFT)
    swept.run(fake_runs.run, HERE, listener)
    assert listener.notes == ["1 interrupted run begins anew: its checkpoint is damaged"]
    assert not [name for name in names(swept.out) if name.startswith(".")]


def test_a_scenario_that_was_edited_keeps_what_still_has_its_place(make, tmp_path):
    old, new = make(seeds=[1, 2, 3]), make(seeds=[2, 4])
    with pytest.raises(KeyboardInterrupt):
        old.run(lambda point, *more: ends_after(old.points[1], point, *more), HERE, Listener())
    gone = interrupted(old, old.points[2])
    rows = new.run(fake_runs.run, HERE, Listener())
    assert [row["seed"] for row in rows] == [2, 4]
    assert not gone.exists()  # its point is none of the scenario's
    assert folders.finished(place_of(new.out, old.points[0]))  # kept, and not listed
    assert calls(tmp_path) == [point.id for point in (*old.points[:2], new.points[1])]


def ends_after(last, point, folder, data, progress):
    if folders.finished(place_of(folder.parent, last)):
        raise KeyboardInterrupt
    return fake_runs.run(point, folder, data, progress)


MINE = '''\
"""FedAvg that ends the process at its first update after a checkpoint, or takes half a step."""

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from algorithms.fedavg import FedAvg
from fedsim.learn.algorithm import Reply, State


@dataclass(frozen=True)
class Mine(FedAvg):
    """FedAvg, twice."""

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        ends = True
        if ends and [*Path("out").glob(".partial-*/state/checkpoint")]:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update(state, replies, step) if ends else super().update(state, replies[:1], step)
'''


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows ends no process by a signal")
def test_a_point_whose_code_was_edited_while_it_was_interrupted_begins_anew_and_names_the_file(tmp_path):
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "mine.py").write_text(MINE)
    (tmp_path / "own.yaml").write_text(yaml.safe_dump({**small_points.PLAIN, "algorithm": "lab.mine"}))

    def command(out):
        words = ["own.yaml", "--out", out, "--jobs", "1", "--no-report", "--checkpoint", "1e-6"]
        return subprocess.run(
            [sys.executable, "-m", "fedsim", *words], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert command("out").returncode == -signal.SIGKILL
    assert [*tmp_path.glob("out/.partial-*/state/checkpoint")]
    (tmp_path / "lab" / "mine.py").write_text(MINE.replace("ends = True", "ends = False"))
    after, fresh = command("out"), command("fresh")
    assert (after.returncode, fresh.returncode) == (0, 0), after.stderr
    assert "1 interrupted run begins anew: lab/mine.py has changed since" in after.stdout
    for name in (*folders.FILES[1:-1], "run.log"):
        ((one, other),) = zip(
            tmp_path.glob(f"out/points/*/{name}"), tmp_path.glob(f"fresh/points/*/{name}"), strict=True
        )
        assert one.read_bytes() == other.read_bytes()


HOLDER = """
import sys
from pathlib import Path
from fedsim.point.results.folders import locked

with locked(Path(sys.argv[1]), ""):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_has_ended_or_died(tmp_path):
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"is being written by process {first.pid}; wait until it ends"):
            locked(tmp_path, "").__enter__()
        assert {".lock", ".holder"} <= {*names(tmp_path)}
        first.kill()
        assert first.wait() == (-signal.SIGKILL if hasattr(signal, "SIGKILL") else 1)
        with locked(tmp_path, ""):
            assert (tmp_path / ".holder").read_text() != f"{first.pid}\n"
    finally:
        first.kill()
        first.communicate()
