"""One point, from its scenario to its tables: runs the clock of its world, and closes the record.

Everything random comes from named streams of the point's seed, and simulated time never from the host, so that a
point's tables depend on its scenario alone.  It takes the scenario as checked (`check.py`).
"""

import gc
import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import simpy

from analysis.served import covered
from analysis.summarise import summarise
from fedsim.clock import budget
from fedsim.clock.world import World
from fedsim.core import logbook
from fedsim.core.progress import Progress
from fedsim.core.record import Recorder
from fedsim.core.units import LATEST
from fedsim.core.version import __version__
from fedsim.learn.algorithm import title_of
from fedsim.learner.recorded import Record, Recorded, ReplayError
from fedsim.point import costing, following, interrupts, stamp, standstill
from fedsim.point.assemble import Built, build, observe
from fedsim.point.checkpoint import EVERY, Keeper
from fedsim.point.checkpoint_file import discard
from fedsim.point.parts import Parts
from fedsim.scenario.measure import Measure
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.yaml_file import dump

Report = Callable[[Progress], None]
REPORT_EVERY = 0.2  # seconds between two reports of progress

log = logging.getLogger(__name__)


def run(point: Point, folder: Path, data_root: Path, progress: Report, every: float = EVERY) -> dict[str, Any]:
    """Run one point, write tables, log and resolved scenario into the folder, and return its row of summary.csv.

    The point follows the records of earlier points beside its folder if they answer all its questions (`following.py`).
    Otherwise it is trained, and keeps a checkpoint, every so many seconds of real time, from which the next call
    resumes; one that does not fit is discarded, which the provenance notes, and the point starts from the beginning.
    Raises UserError if the scenario asks for something that cannot be had, Breach if the books do not balance.
    """
    began, out = time.perf_counter(), folder.parent
    keeper = Keeper(folder, every, folder / "run.log", stamp.of(point.scenario))
    resumes, notes = keeper.resumes, keeper.notes
    if not resumes and (answers := following.Answers(out, point.root, notes)):
        try:
            with logbook.keep(folder / "run.log"):
                row, _ = _run(point, folder, data_root, progress, answers=answers)
            others = [name for name in answers.points if name != point.id]  # its own: it was ended when all but done
            return _whole(row, began, notes, " ".join(others) or None)
        except ReplayError:
            pass  # it asks what none of the others has asked
        except (TypeError, ValueError, LookupError) as error:  # an answer that is none; or the point fails once more
            notes["record"] = f"that of {answers.points[-1]} could not be followed ({type(error).__name__}: {error})"
    try:
        with logbook.keep(folder / "run.log"):
            row, learner = _run(point, folder, data_root, progress, keeper)
    except ReplayError as error:
        if not resumes:
            raise
        discard(folder)
        row = run(point, folder, data_root, progress, every)
        return _whole(row, began, {"checkpoint": f"did not fit and was discarded: {error}"}, row["followed"])
    if point.root and learner.trained.algorithm.learns:
        following.save(out, point.root, point.id, learner.record)
    return _whole(row, began, notes)


def _whole(row: dict[str, Any], began: float, notes: Mapping[str, str], followed: str | None = None) -> dict[str, Any]:
    """Return a row with what the host decides: real time, whose records were used, notes for the provenance."""
    own = {"followed": followed, "real_seconds": time.perf_counter() - began}
    return {**row, **own, "provenance": {**row["provenance"], **notes}}


def _run(
    point: Point,
    folder: Path,
    data_root: Path,
    progress: Report,
    keeper: Keeper | None = None,
    answers: Record | None = None,
) -> tuple[dict[str, Any], Recorded]:
    """Run a point that takes checkpoints, or has all answers; return its row and its learner."""
    with standstill.noted(progress) as note:
        return _run_noted(point, folder, data_root, note, keeper, answers)


def _run_noted(
    point: Point, folder: Path, data_root: Path, note: standstill.Note, keeper: Keeper | None, answers: Record | None
) -> tuple[dict[str, Any], Recorded]:
    scenario, recorder = point.scenario, Recorder()
    built = build(scenario, data_root, recorder, keeper, answers=answers)
    world, observer = built.world, built.observer
    note.world, note.done, bounds = world, built.done, standstill.Bounds(world, built.done, recorder)
    views = observe(built, keeper) if scenario.measure.views and keeper else None
    gc.freeze()  # graphs and clients live throughout; collecting garbage among them takes a third of the time
    try:
        with interrupts.held_back() as check:
            status = _run_clock(built, note.report, keeper if observer else None, check, bounds)
    finally:
        gc.unfreeze()
    world.end()
    if observer:
        observer.score()
    _close(world)
    tables = recorder.close(folder)
    if views:
        views.close(folder)
    (folder / "scenario.yaml").write_text(described(point, observer is not None), encoding="utf-8", newline="")
    row = summed_up(tables, scenario.measure)
    row["updates"] = world.server.version if row["asked"] is not None else None
    row["metric"] = row["metric"] if observer else None
    row["bytes_masking"] = None if world.clients.masks is None else world.clients.masks.added
    row["classes_covered"] = _covered(built, tables) if observer else None
    row["chance"] = _chance(built) if row["metric"] == "accuracy" else None
    row |= _costs(built, folder, tables, row)
    if keeper:
        keeper.end()  # only now: the disk may be full
    own = {"status": status, "seed": scenario.seed, "sim_seconds": world.env.now, "method": _title(built.parts)}
    device = {"device": _device(scenario) if observer else None, "threads": scenario.threads}
    return {**row, **own, "provenance": device}, built.learner


def _costs(built: Built, folder: Path, tables: Mapping[str, Any], row: Mapping[str, Any]) -> Mapping[str, float | None]:
    """Write the table of costs and return their columns; none without prices.

    To reach a target on each period takes seconds that belong to no moment of the run, and so no known costs.
    """
    if built.world.costs is None:
        return {}
    prices = built.world.costs.prices
    spent = costing.write(folder, prices, tables, built.world.env.now)
    moment = row["seconds_to_target"] if row["target_on"] != "each_period" else None
    return costing.row(prices, tables, spent, moment)


def _covered(built: Built, tables: Mapping[str, Any]) -> float | None:
    """Return how much of the label classes those hold that took part; None where there are no labels or uploads."""
    held = built.world.network.traits.held
    if held is None or built.parts.protocol.shares_only:
        return None
    return covered(held(), tables["transfers"].select(["src", "dst", "fate"]).to_pandas())


def _chance(built: Built) -> float | None:
    """Return the share of the largest label class, which a constant answer gets right; None without labels."""
    held = built.world.network.traits.held
    if held is None:
        return None
    classes = held().sum(axis=0)
    return float(classes.max() / classes.sum()) if classes.sum() else None


def _device(scenario: Scenario) -> str:
    from fedsim.point import learning

    return learning.device_name(scenario.device)


def _run_clock(
    built: Built, progress: Report, keeper: Keeper | None, check: Callable[[], None], bounds: standstill.Bounds
) -> str:
    """Step the clock until the protocol ends, a budget is used up, or no event is left; return the status.

    `check` is called between events.  Raises UserError where the run would not end (`standstill.py`).
    """
    world, observer, _, parts, done = built
    protocol = parts.protocol
    env, until, last = world.env, parts.scenario.measure.until, 0.0
    end = math.inf if until is None or until.time is None else until.time
    while not done.processed:
        check()
        ahead = env.peek()
        if ahead == float("inf"):
            return "stalled"
        if ahead > end:
            if env.now < end:
                env.run(until=end)
            return "done"
        if ahead > LATEST:
            raise bounds.beyond(ahead)
        updated = world.server.updated
        _step(env, keeper)
        bounds.passed()
        if until is not None and budget.spent(until, world):
            while updated.triggered and not updated.processed:  # processes that wait for this update come first
                _step(env, keeper)
            return "done"
        if time.perf_counter() - last > REPORT_EVERY:
            last = time.perf_counter()
            share = protocol.share(world) if until is None else max(protocol.share(world), budget.used(until, world))
            progress(Progress(env.now, min(1.0, share), observer.latest if observer else None, world.server.version))
    return "done"


def _step(env: simpy.Environment, keeper: Keeper | None) -> None:
    env.step()
    if keeper:
        keeper.passed()


def _title(parts: Parts) -> str | None:
    """Return the published name of the scenario's algorithm, or None if the protocol needs none."""
    return title_of(type(parts.algorithm)) if parts.scenario.algorithm and parts.protocol.asks else None


def _close(world: World) -> None:
    """Have the ledger compare the meters with the rows, and log the bytes by fate."""
    assert world.ledger is not None
    world.ledger.close()
    log.info("bytes: %s", ", ".join(f"{name} {value:.0f}" for name, value in world.ledger.summary().items()))


def summed_up(tables: Mapping[str, Any], measure: Measure) -> dict[str, Any]:
    """Return the row of summary.csv that the tables of a point give."""
    return summarise(
        tables["transfers"], tables["updates"], tables["scores"], arrivals=tables["arrivals"], spans=tables["spans"],
        target=measure.target, model=measure.models[0], metric=measure.metrics[0], split=measure.splits[0],
        target_on=measure.target_on,
    )  # fmt: skip


def described(point: Point, learned: bool) -> str:
    """Return the text of a point's resolved scenario, with the versions of what computed it."""
    versions: Mapping[str, str] = {"fedsim": __version__, "simpy": simpy.__version__}
    if learned:
        from fedsim.point import learning

        versions = {**versions, **learning.versions()}
    notes = "".join(f"# {name}: {version}\n" for name, version in versions.items())
    return f"# point {point.id}\n{notes}{dump(point.scenario)}"
