"""The state of a learner as plain values, for the checkpoint of a point, and back.

It is one structure, packed at once (`preserve.py`), so that shared objects stay shared.  Pending jobs stay untrained,
so that they are grouped as they would have been.  Not kept: what the clock holds, which a replay restores.
"""

from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from fedsim.learner.recorded import LOGGED, Record, Recorded
from fedsim.learner.upload import Upload

ARRAY = 1  # msgpack's number of an array in a record


def packed(record: Record) -> bytes:
    """Return a record as bytes."""
    return msgpack.packb(record, default=_array)  # type: ignore[no-any-return]


def unpacked(data: bytes) -> Record:
    """Return the record from its bytes.  Raises ValueError, TypeError or one of msgpack's errors for other bytes."""
    found = msgpack.unpackb(data, ext_hook=_grown, strict_map_key=False)
    if not isinstance(found, dict) or not isinstance(found.get(LOGGED, {}), dict):
        raise TypeError(f"a record holds answers by key, and is no {type(found).__name__}")
    return found


def held(learner: Recorded) -> dict[str, Any]:
    """Return the state of a learner whose jobs are trained by a cohort (`learn/cohort.py`)."""
    trained, values = learner.trained, learner.values()
    cohort: Any = trained.backend
    uploads: dict[int, Any] = {}
    for value in (*values.values(), *(client.last for client in trained.clients.values())):
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
            for client in trained.clients.values()
        },
        "guard": trained.guard.notes() if trained.guard else None,
        "outputs": trained.scoring.outputs.notes() if trained.scoring else {},
        "streams": trained.rng.states(),
    }


def resume(learner: Recorded, saved: Mapping[str, Any]) -> None:
    """Restore the state of a learner that has replayed up to the checkpoint."""
    trained = learner.trained
    cohort: Any = trained.backend
    pending, jobs = saved["pending"], saved["jobs"]
    promises = [cohort.submit(job) for job, _ in jobs[:pending]]
    promises += [cohort.settled(job, upload) for job, upload in jobs[pending:]]
    uploads = []
    for place, client, step, changed, opened in saved["uploads"]:
        upload = trained.upload(promises[place], trained.clients[client], step, changed)
        upload.opened = opened
        uploads.append(upload)
    for number, (memory, last, notes) in saved["clients"].items():
        client = trained.clients[number]
        client.remembered, client.notes = memory, notes
        client.last = None if last is None else uploads[last]
    if trained.guard:
        trained.guard.reopen(saved["guard"])
    if trained.scoring:
        trained.scoring.outputs.resume(saved["outputs"])
    trained.rng.move(saved["streams"])
    learner.resume({**saved["trees"], **{key: uploads[number] for key, number in saved["tickets"].items()}})


def _array(value: Any) -> msgpack.ExtType:
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a record holds plain answers and arrays, not {type(value).__name__}")
    return msgpack.ExtType(ARRAY, msgpack.packb([value.dtype.str, list(value.shape), value.tobytes()]))


def _grown(code: int, data: bytes) -> Any:
    dtype, shape, raw = msgpack.unpackb(data)
    return np.frombuffer(raw, dtype).reshape(shape).copy()
