"""One deployed run: the protocol on the wall clock, and then the scores and the tables.

Tables are those of a simulated run, in the same format.  Transfers and spans are measured: seconds since the first
question, by the server's clock.  A transfer's `wire_bytes` are what the carrier made of the message; bytes of its
polls and of the layers below it are not seen from here.

Not modelled: resuming.  A run that is interrupted starts again.
"""

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsim.core import logbook
from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.core.record import Recorder
from fedsim.deploy import identity
from fedsim.deploy.assemble import Deployed, assemble, packages
from fedsim.deploy.post import Post
from fedsim.deploy.question import END, HELLO, Answer, Question, pack, unpack
from fedsim.deploy.real_time import Inbox, RealTime
from fedsim.learn.algorithm import title_of
from fedsim.point import learning
from fedsim.point.run import described, summed_up
from fedsim.scenario.schema import Point

Report = Callable[[Progress], None]
REPORT_EVERY = 1.0  # seconds between two reports of progress
PATIENCE = 120.0  # seconds for every client to answer the first question


def run(point: Point, folder: Path, data_root: Path, post: Post, progress: Report) -> dict[str, Any]:
    """Run a point over real messages, write its tables into the folder, and return its row of summary.csv.

    Raises UserError if clients do not answer or have packages of another run, or if none of them could do its work.
    """
    scenario, recorder, began = point.scenario, Recorder(), time.perf_counter()
    with logbook.keep(folder / "run.log"):
        greeting = Inbox(RealTime(), post)
        code = identity.code(scenario)
        expected = [identity.described(scenario, own) for own in packages(scenario, data_root)]
        about = _greet(greeting, [{**one, **code} for one in expected])
        inbox = Inbox(RealTime(), post)
        inbox.continue_from(greeting)
        built = assemble(scenario, data_root, inbox, recorder, [*map(identity.digest, expected)])
        status = inbox.run(built.done, _reporter(built, progress))
        seconds = inbox.env.now
        built.world.end()
        if built.observer.version < built.host.version:  # else it was, when it came: real time has gone on since
            built.observer.score()
        built.learner.settle(built.host.memories, recorder.extend)
        _part(inbox, len(built.world.clients))
    tables = recorder.close(folder)
    if not built.host.version and built.host.faults:
        raise UserError(f"no client could do its work; the first said: {built.host.faults[0]}")
    (folder / "scenario.yaml").write_text(described(point, True), encoding="utf-8", newline="")
    row = summed_up(tables, scenario.measure)
    own: dict[str, Any] = {
        "updates": built.host.version,
        "bytes_masking": None,
        "classes_covered": None,
        "chance": None,
        "followed": None,
    }
    own |= {"status": status, "seed": scenario.seed, "sim_seconds": seconds}
    own |= {"method": title_of(type(built.parts.algorithm)), "real_seconds": time.perf_counter() - began}
    notes: dict[str, Any] = {"deployed": "seconds are real", "clients": about, "faults": built.host.faults[:20]}
    notes["missed"] = [f"client {one}: {built.host.missed[one]} of its {built.host.given[one]} jobs were lost"
                       for one in sorted(built.host.missed)]  # fmt: skip
    if built.host.starts:
        notes["start"] = statistics.median(built.host.starts)
    device = {"device": learning.device_name(scenario.device), "threads": scenario.threads}
    return {**row, **own, "provenance": {**device, **notes}}


def _greet(inbox: Inbox, expected: Sequence[Mapping[str, str]]) -> list[str]:
    """Ask every client who it is, and return what they said of themselves; their memories begin anew.

    `expected` are the descriptions of what the clients should have.
    """
    clients = len(expected)
    events = [inbox.ask(client, pack(Question(HELLO)))[0] for client in range(clients)]
    until, found = time.monotonic() + PATIENCE, []
    while not all(event.triggered for event in events):
        if time.monotonic() > until:
            silent = [client for client, event in enumerate(events) if not event.triggered]
            raise UserError(f"client {silent[0]} does not answer, {len(silent)} of {clients} in all; is it running?")
        inbox.deliver(1.0)
    for client, event in enumerate(events):
        brought = inbox.wait(event)
        if brought.data is None:
            raise UserError(f"client {client} does not answer: {brought.error}")
        answer = unpack(Answer, brought.data)
        if answer.error or answer.refused:
            raise UserError(f"client {client}: {answer.error or answer.refused}")
        if answer.client != client:
            raise UserError(f"client {client} has the package of client {answer.client}; give each its own")
        if differ := identity.differences(json.loads(answer.message), expected[client]):
            remedy = "write the packages anew with --package and the same settings, and copy them to the clients"
            raise UserError(f"client {client} has the package of another run ({differ}): {remedy}")
        found.append(answer.about)
    return sorted({*found})


def _part(inbox: Inbox, clients: int) -> None:
    """Have every client forget what it has kept for the scores."""
    for event in [inbox.ask(client, pack(Question(END)))[0] for client in range(clients)]:
        inbox.wait(event)


def _reporter(built: Deployed, progress: Report) -> Callable[[], bool]:
    last = 0.0

    def between() -> bool:
        nonlocal last
        now = built.world.env.now
        if now - last > REPORT_EVERY:
            last = now
            progress(Progress(now, min(1.0, built.parts.protocol.share(built.world)), None, built.host.version))
        return False

    return between
