"""The engine that the command line names, from the flags that concern it."""

import os
from argparse import Namespace

from fedsim.core.errors import UserError
from fedsim.sweep.engines.local import Local
from fedsim.sweep.engines.ray import Ray

Engine = Local | Ray


def choose(given: Namespace, runs: int | None = None) -> Engine:
    """Return the engine that the flags ask for, not started, for that many runs (None: unknown).

    Raises UserError if a flag is given that this engine does not use.
    """
    if given.engine == "ray":
        return Ray(given.jobs, given.ray_address, given.gpus_per_run or 0.0, not given.no_plugins)
    if given.gpus_per_run is not None:
        raise UserError("--gpus-per-run: local workers share the GPUs there are; leave it out, or give --engine ray")
    if given.ray_address is not None:
        raise UserError("--ray-address has no effect with the local engine; leave it out, or give --engine ray")
    most = given.jobs or os.cpu_count() or 1
    return Local(most if runs is None else min(most, max(runs, 1)))
