"""Write event files for TensorBoard into the point's folder: `tensorboard --logdir runs/NAME` shows all points.

Every curve is there twice: in `by_time` a step is a simulated millisecond, in `by_bytes` a byte moved; the wall time is
the simulated second in both.  The settings of the scenario are hyper-parameters.  Equal tables give equal files.

Scores lose precision: the format keeps single precision only.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from analysis.logger import Finished, Logger
from analysis.measures.course import MOVED, course, milliseconds
from analysis.read.stored import tables

FOLDER, FILE = "tensorboard", "events.out.tfevents.0"
VERSION = "brain.Event:2"  # the first record of an event file


@dataclass(frozen=True)
class Tensorboard(Logger):
    """Writes `tensorboard/by_time` and `tensorboard/by_bytes`; always beside the point's tables."""

    needs: ClassVar[str | None] = "tensorboard"

    def logged(self, point: Finished) -> bool:
        """Return whether there are event files."""
        return (point.folder / FOLDER).is_dir()

    def log(self, point: Finished) -> None:
        """Write the event files, under another name first."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        first = [Event(file_version=VERSION)]
        settings = {**point.settings(), **point.axes}
        first.append(Event(summary=hparams_pb(settings, trial_id=point.point, start_time_secs=0)))
        by_time, by_bytes = [*first], [first[0]]
        for name, rows in course(tables(point.folder)).items():
            for time, moved, value in rows[["time", "moved", "value"]].itertuples(index=False):
                summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
                by_time.append(Event(wall_time=time, step=milliseconds(time), summary=summary))
                if name != MOVED:
                    by_bytes.append(Event(wall_time=time, step=int(moved), summary=summary))
        hidden = point.folder / f".{FOLDER}.partial"
        shutil.rmtree(hidden, ignore_errors=True)
        _write(hidden / "by_time", by_time)
        _write(hidden / "by_bytes", by_bytes)
        hidden.replace(point.folder / FOLDER)


def _write(folder: Path, events: list[Any]) -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter

    folder.mkdir(parents=True)
    with (folder / FILE).open("wb") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString(deterministic=True))
        writer.flush()
