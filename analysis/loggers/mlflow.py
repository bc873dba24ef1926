"""Log each point as an MLflow run: its settings as parameters, its curves and its row of the summary as metrics.

Every curve is there twice: under NAME.by_time a step is a simulated millisecond, under NAME.by_bytes a byte moved; the
timestamp is simulated milliseconds in both.  Without `to`, a tracking URI, runs go to mlflow.db beside the points:
`mlflow ui --backend-store-uri sqlite:///runs/NAME/mlflow.db` shows them.  A point is identified by its tags, its id
and when it ended: one that was run again is logged again, as a separate run.  MLflow's telemetry is switched off unless
MLFLOW_DISABLE_TELEMETRY says otherwise.

What it does not model: artifacts; the tables stay where they are.
"""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from analysis.logger import Finished, LogError, Logger
from analysis.measures.course import course, milliseconds
from analysis.read.stored import tables

TAG, ENDED = "fedsim.run", "fedsim.ended"
BATCH = {"metrics": 1000, "params": 100}  # the most that MLflow takes at once
LONGEST = 6000  # characters of a parameter


@dataclass(frozen=True)
class Mlflow(Logger):
    """Logs to the tracking URI `to`; the experiment has the scenario's name."""

    needs: ClassVar[str | None] = "mlflow"

    def __post_init__(self) -> None:
        """Quieten MLflow and its telemetry; it reads these settings once, when it is imported."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)

    def logged(self, point: Finished) -> bool:
        """Return whether a finished run has the point's tags.  Raises LogError if MLflow cannot be reached."""
        with _mlflow_errors():
            client = self._client(point)
            experiment = client.get_experiment_by_name(point.run)
            tags = " and ".join(f"tags.`{tag}` = '{value}'" for tag, value in _tags(point).items())
            which = f"{tags} and attributes.status = 'FINISHED'"
            return experiment is not None and bool(client.search_runs([experiment.experiment_id], which))

    def log(self, point: Finished) -> None:
        """Log the point; an interrupted run is marked as failed, and the point is logged again next time."""
        from mlflow.entities import Param

        metrics = [*_metrics(point)]
        params = [Param(key, str(value)[:LONGEST]) for key, value in {**point.settings(), **point.axes}.items()]
        title = ", ".join(f"{axis} {value}" for axis, value in point.axes.items()) or point.point
        with _mlflow_errors():
            client = self._client(point)
            experiment = client.get_experiment_by_name(point.run)
            number = experiment.experiment_id if experiment else client.create_experiment(point.run)
            run = client.create_run(number, start_time=0, tags=_tags(point), run_name=title).info.run_id
            status = "FAILED"
            try:
                for some in _batches(metrics, BATCH["metrics"]):
                    client.log_batch(run, metrics=some)
                for some in _batches(params, BATCH["params"]):
                    client.log_batch(run, params=some)
                status = "FINISHED"
            finally:
                client.set_terminated(run, status, end_time=max(metric.timestamp for metric in metrics))

    def _client(self, point: Finished) -> Any:
        from mlflow.tracking import MlflowClient

        return MlflowClient(self.to or f"sqlite:///{(point.folder.parents[1] / 'mlflow.db').absolute().as_posix()}")


@contextmanager
def _mlflow_errors() -> Iterator[None]:
    """Turn MLflow's exceptions into LogError."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        raise LogError(f"MLflow: {error}") from error


def _tags(point: Finished) -> dict[str, str]:
    """Return the tags that identify a point's run."""
    return {TAG: point.point, ENDED: str(_row(point)["provenance"]["ended"])}


def _row(point: Finished) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((point.folder / "row.json").read_text("utf-8"))
    return row


def _metrics(point: Finished) -> Iterator[Any]:
    from mlflow.entities import Metric

    last = 0
    for name, rows in course(tables(point.folder)).items():
        key = name.replace(" ", "_")
        for time, moved, value in rows[["time", "moved", "value"]].itertuples(index=False):
            last = max(last, milliseconds(time))
            yield Metric(f"{key}.by_time", float(value), milliseconds(time), milliseconds(time))
            yield Metric(f"{key}.by_bytes", float(value), milliseconds(time), int(moved))
    for key, value in _row(point).items():
        if isinstance(value, int | float) and value == value:
            yield Metric(key, float(value), last, 0)


def _batches(items: list[Any], most: int) -> Iterator[list[Any]]:
    return (items[start : start + most] for start in range(0, len(items), most))
