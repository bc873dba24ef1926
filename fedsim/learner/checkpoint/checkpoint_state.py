"""The state of a learner as plain values, for the checkpoint of a point, and back.

It is one structure, packed at once (`preserve.py`), so that shared objects stay shared.  Pending jobs stay
untrained, so that they are grouped as they would have been.  Not kept: what the clock holds, which a replay
restores.
"""

from collections.abc import Mapping
from typing import Any

from fedsim.learner.client import Upload
from fedsim.learner.recorded import Recorded


def held(learner: Recorded) -> dict[str, Any]:
    """Return the state of a learner whose jobs are trained by a cohort (`learn/engine/cohort.py`)."""
    values = learner.values()
    cohort: Any = learner.backend
    uploads: dict[int, Any] = {}
    for value in (*values.values(), *(client.last for client in learner.clients.values())):
        if isinstance(value, Upload):
            uploads[id(value)] = value
    pending = cohort.pending
    promises = {id(one): one for one in pending}
    promises |= {id(one.promise): one.promise for one in uploads.values() if one.promise.done()}
    place = {key: number for number, key in enumerate(promises)}
    # An upload of an interrupted job is neither pending nor done, and is not needed any more.
    kept = {key: one for key, one in uploads.items() if id(one.promise) in place}
    number_of = {key: number for number, key in enumerate(kept)}
    return {
        "trees": {key: value for key, value in values.items() if not isinstance(value, Upload)},
        "tickets": {key: number_of[id(one)] for key, one in values.items() if id(one) in number_of},
        "jobs": [(one.job, one.value() if one.done() else None) for one in promises.values()],
        "pending": len(pending),
        "uploads": [
            (place[id(one.promise)], one.owner.number, one.step, bool(one.transforms), one.opened)
            for one in kept.values()
        ],
        "clients": {
            client.number: (client.remembered, number_of.get(id(client.last)), client.notes)
            for client in learner.clients.values()
        },
        "privacy": learner.privacy.notes() if learner.privacy else None,
        "outputs": learner.scoring.outputs.notes() if learner.scoring else {},
        "streams": learner.rng.states(),
    }


def resume(learner: Recorded, saved: Mapping[str, Any]) -> None:
    """Restore the state of a learner that has replayed up to the checkpoint."""
    cohort: Any = learner.backend
    pending, jobs = saved["pending"], saved["jobs"]
    promises = [cohort.submit(job) for job, _ in jobs[:pending]]
    promises += [cohort.settled(job, upload) for job, upload in jobs[pending:]]
    uploads = []
    for place, client, step, changed, opened in saved["uploads"]:
        upload = learner.upload(promises[place], learner.clients[client], step, changed)
        upload.opened = opened
        uploads.append(upload)
    for number, (memory, last, notes) in saved["clients"].items():
        client = learner.clients[number]
        client.remembered, client.notes = memory, notes
        client.last = None if last is None else uploads[last]
    if learner.privacy:
        learner.privacy.reopen(saved["privacy"])
    if learner.scoring:
        learner.scoring.outputs.resume(saved["outputs"])
    learner.rng.move(saved["streams"])
    learner.resume({**saved["trees"], **{key: uploads[number] for key, number in saved["tickets"].items()}})
