"""One point, from its scenario to its tables: reuses a record, resumes a checkpoint or trains, and closes the record.

Everything random comes from named streams of the point's seed, and simulated time never from the host, so that a
point's tables depend on its scenario alone.  It takes the scenario as checked (`check.py`).
"""

import gc
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import simpy

from analysis.measures.served import covered
from analysis.measures.summarise import summarise
from fedsim.core import logbook
from fedsim.core.errors import UserError
from fedsim.core.progress import ReportProgress
from fedsim.core.record import Recorder
from fedsim.core.seeds import integer, seeded
from fedsim.core.version import __version__
from fedsim.learn.algorithm import title_of
from fedsim.learner.live import Live
from fedsim.learner.recorded import Record, Recorded, ReplayError
from fedsim.learner.views import Views
from fedsim.point.build import costing
from fedsim.point.build.assemble import Built, build
from fedsim.point.loop import Loop
from fedsim.point.results import stamp
from fedsim.point.resume import checkpoint, following
from fedsim.point.resume.checkpoint import EVERY, LOG, Checkpointer, discard
from fedsim.point.standstill import Watchdog
from fedsim.scenario.measure import Measure
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.text.yaml_file import dump

log = logging.getLogger(__name__)


def run(point: Point, folder: Path, data_root: Path, progress: ReportProgress, every: float = EVERY) -> dict[str, Any]:
    """Run one point, write tables, log and resolved scenario into the folder, and return its row of summary.csv.

    The point reuses the records of earlier points beside its folder if they answer all its questions (`following.py`).
    Otherwise it is trained, and keeps a checkpoint, every so many seconds of real time, from which the next call
    resumes; one that does not fit is discarded, which the provenance notes, and the point starts from the beginning.
    Raises UserError if the scenario asks for something that cannot be had, InvariantError if the books do not balance.
    """
    began, out, notes = time.perf_counter(), folder.parent, dict[str, str]()
    stamped = partial(stamp.of, point.scenario)  # takes milliseconds, which points without a checkpoint save
    saved = checkpoint.saved_in(folder, stamped, notes)

    def checkpointer(built: Built, views: Views | None) -> Checkpointer | None:
        return Checkpointer(folder, every, stamped(), built, views, saved, notes) if built.setup else None

    if saved is None and (answers := following.FollowedAnswers(out, point.learning_key, notes)):
        try:
            row, _ = _run(point, folder, data_root, progress, answers)
            others = [name for name in answers.points if name != point.id]  # its own: it was ended when all but done
            return _completed(row, began, notes, " ".join(others) or None)
        except ReplayError:
            pass  # it asks what none of the others has asked
        except (TypeError, ValueError, LookupError) as error:  # an answer that is none; or the point fails once more
            notes["record"] = f"that of {answers.points[-1]} could not be reused ({type(error).__name__}: {error})"
    try:
        row, learner = _run(point, folder, data_root, progress, saved["record"] if saved else {}, checkpointer)
    except ReplayError as error:
        if saved is None:
            raise
        discard(folder)
        row = run(point, folder, data_root, progress, every)
        return _completed(row, began, {"checkpoint": f"did not fit and was discarded: {error}"}, row["followed"])
    if point.learning_key and isinstance(learner, Recorded):
        following.save(out, point.learning_key, point.id, learner.record)
    return _completed(row, began, notes)


def _completed(
    row: dict[str, Any], began: float, notes: Mapping[str, str], followed: str | None = None
) -> dict[str, Any]:
    """Return a row with what the host decides: real time, whose records were used, notes for the provenance."""
    host = {"followed": followed, "real_seconds": time.perf_counter() - began}
    return {**row, **host, "provenance": {**row["provenance"], **notes}}


def _run(
    point: Point, folder: Path, data_root: Path, progress: ReportProgress, record: Record,
    checkpointer_of: Callable[[Built, Views | None], Checkpointer | None] = lambda *_: None,
) -> tuple[dict[str, Any], Live]:  # fmt: skip
    """Run a point after what a record holds, and write its files; return its row and its learner."""
    scenario, recorder = point.scenario, Recorder()
    own = seeded(integer(scenario.seed, "global generators"))  # for parts that draw from those
    with own, logbook.keep(folder / LOG) as messages, Watchdog(progress) as watchdog:
        built = build(scenario, data_root, recorder, record, messages)
        world, observer = built.world, built.observer
        watchdog.watched = world, built.done
        views = observe(built)
        checkpointer = checkpointer_of(built, views)
        loop = Loop(built, recorder, watchdog.report, checkpointer)
        gc.freeze()  # graphs and clients live throughout; collecting garbage among them takes a third of the time
        try:
            status = loop.run()
        finally:
            gc.unfreeze()
        world.end()
        if observer:
            observer.score()
        assert world.ledger is not None
        world.ledger.close()
        log.info("bytes: %s", ", ".join(f"{name} {value:.0f}" for name, value in world.ledger.summary().items()))
        tables = recorder.close(folder)
        if built.done.processed and world.server.requested and not len(tables["updates"]):
            wrong = f"the protocol {scenario.protocol.name!r} asked clients and ended without an update"
            raise UserError(f"{wrong}; write `yield from world.server.update(replies, step)`")
        if views:
            views.close(folder)
        (folder / "scenario.yaml").write_text(described(point, observer is not None), encoding="utf-8", newline="")
        row = _row(built, folder, tables, status)
        if scenario.measure.keep:
            row["weights"] = keep_weights(built, folder)
        if checkpointer:
            checkpointer.end()  # only now: the disk may be full
        else:
            discard(folder)
    return row, built.learner


def observe(built: Built) -> Views | None:
    """Start recording what clients receive if the scenario asks for it, and return the record."""
    if not built.parts.scenario.measure.views:
        return None
    views = Views(built.world.env, built.learner.contents)
    built.world.network.received = views.record
    return views


def keep_weights(built: Built, folder: Path) -> dict[str, int]:
    """Write the weights of the final model, and return the sizes with which a module of its class is built."""
    from fedsim.learner import weights

    assert built.setup is not None
    built.world.clients.catch_up()
    weights.write(folder / weights.FILE, built.learner, built.world.states())
    return {"features": built.setup.task.features, "outputs": built.setup.task.outputs}


def _row(built: Built, folder: Path, tables: Mapping[str, Any], status: str) -> dict[str, Any]:
    """Return the row of summary.csv, and write the table of costs."""
    world, scenario, scored = built.world, built.parts.scenario, built.observer is not None
    row = summed_up(tables, scenario.measure)
    row["updates"] = world.server.version if row["asked"] is not None else None
    row["metric"] = row["metric"] if scored else None
    row["bytes_masking"] = world.exchange.masking_bytes
    row["classes_covered"] = _covered(built, tables) if scored else None
    row["chance"] = _chance(built) if row["metric"] == "accuracy" else None
    row |= _costs(built, folder, tables, row)
    named = scenario.algorithm and built.parts.protocol.asks
    row["method"] = title_of(type(built.parts.algorithm)) if named else None
    row |= {"status": status, "seed": scenario.seed, "sim_seconds": world.env.now}
    return {**row, "provenance": {"device": _device(scenario) if scored else None, "threads": scenario.threads}}


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
    classes = np.zeros(1) if held is None else held().sum(axis=0)
    return float(classes.max() / classes.sum()) if classes.sum() else None


def _device(scenario: Scenario) -> str:
    from fedsim.point.build import learning

    return learning.device_name(scenario.device)


def summed_up(tables: Mapping[str, Any], measure: Measure) -> dict[str, Any]:
    """Return the row of summary.csv that the tables of a point give."""
    return summarise(
        tables, measure.models[0], measure.metrics[0], measure.target, measure.splits[0], measure.target_on
    )


def described(point: Point, learned: bool) -> str:
    """Return the text of a point's resolved scenario, with the versions of what computed it."""
    versions = {"fedsim": __version__, "simpy": simpy.__version__}
    if learned:
        versions["torch"] = stamp.version_of("torch")
    notes = "".join(f"# {name}: {version}\n" for name, version in versions.items())
    return f"# run {point.id}\n{notes}{dump(point.scenario)}"
