"""The engine that the command line names, from the flags that concern it."""

import os

from fedsim.core.errors import UserError
from fedsim.sweep.engines.local import Local
from fedsim.sweep.engines.ray import Ray


def choose(
    name: str,
    jobs: int | None,
    gpus: float | None,
    address: str | None,
    points: int | None = None,
    plugins: bool = True,
) -> Local | Ray:
    """Return the engine for that many points (None: unknown), not started; `plugins`: see `Ray`.

    Raises UserError if a flag is given that this engine does not use.
    """
    if name == "ray":
        return Ray(jobs, address, gpus or 0.0, plugins)
    if gpus is not None:
        remedy = "leave it out, or give --engine ray"
        raise UserError(
            f"--gpus-per-point: the local engine does not assign GPUs; its workers share those available; {remedy}"
        )
    if address is not None:
        raise UserError("--ray-address has no effect with the local engine; leave it out, or give --engine ray")
    most = jobs or os.cpu_count() or 1
    return Local(most if points is None else min(most, max(points, 1)))
