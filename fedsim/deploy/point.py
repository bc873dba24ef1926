"""One point of a deployed sweep: its packages, a federation if none is given, and its run."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedsim.core.progress import Progress
from fedsim.deploy import federation, package
from fedsim.deploy.assemble import packages
from fedsim.deploy.submit import submit
from fedsim.point.parts import Parts
from fedsim.scenario.schema import Point


def deployed(
    point: Point, folder: Path, data: Path, progress: Callable[[Progress], None], *,
    superlink: str | None = None, beside: Sequence[Path] = (),
) -> dict[str, Any]:  # fmt: skip
    """Deploy a point, write its tables into the folder, and return its row.

    Without a SuperLink's name, one is started here, with a SuperNode for each client; its logs are in the point's
    folder as `flower/`.  Raises UserError for a mistake of the user.
    """
    work, logs = Path(tempfile.mkdtemp(prefix="fedsim-deploy-")), folder.parent / "flower" / point.id
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    try:
        if superlink is not None:
            count = len(Parts(point.scenario).columns["latency"])
            return submit(
                point, folder, data, count, progress, connection=superlink, work=work, logs=logs, beside=beside
            )
        owns = packages(point.scenario, data)
        places = [work / f"client-{own.client}" for own in owns]
        for own, place in zip(owns, places, strict=True):
            package.write(place, point.scenario, own)
        with federation.local(places, work, logs) as name:
            variables = federation.environment(work / "home")
            return submit(
                point, folder, data, len(owns), progress,
                connection=name, work=work, logs=logs, beside=beside, variables=variables,
            )  # fmt: skip
    finally:
        shutil.rmtree(work, ignore_errors=True)
