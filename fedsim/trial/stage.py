"""The small deployments on which algorithms are tried; their data are drawn from a seed, and nothing is downloaded.

The first that an algorithm accepts is taken: most learn from a graph cut into periods by classes; some ask
for clients that know their edges to others, or for a graph that changes.  Plain SGD trains: under Adam an
error by a factor would not show.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError
from fedsim.point.build import learning, prepared
from fedsim.point.build.parts import Parts
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point, Scenario

CLIENTS = 4
ROUNDS: Sequence[Sequence[int]] = ((0, 1, 2, 3), (0, 2, 3), (1, 2), (0, 1, 2, 3))  # who is asked in each
GRAPH = {"name": "synthetic", "nodes": 120, "classes": 4, "features": 12, "degree": 4.0}
SPLIT = {"train": 0.5, "val": 0.2, "test": 0.3}
DRIFTING = {"name": "drifting", "nodes": 120, "edges": 300, "snapshots": 4, "classes": 3, "features": 6}
PLAIN: Mapping[str, Any] = {
    "name": "trial",
    "seed": 5,
    "model": {"name": "gcn", "hidden": 8},
    "training": {"optimiser": "sgd", "lr": 0.1, "local_steps": 2},
    "clients": {"count": CLIENTS, "speed": "lognormal(10 GFLOP/s, 0.3)"},
    "network": {"latency": "50 ms", "uplink": "lognormal(4 Mbit/s, 0.3)", "downlink": "20 Mbit/s"},
    "server": {"speed": "100 GFLOP/s"},
    "protocol": {"name": "sync", "rounds": 4, "participation": 0.6},
    "measure": {"metrics": ["accuracy"], "models": ["global", "local"], "splits": ["test", "val"]},
    "device": "cpu",
}
STATIC = {"dataset": GRAPH, "partition": "random", "split": SPLIT, "stream": "static"}
DATA: Sequence[Mapping[str, Any]] = (
    {"data": {**STATIC, "stream": {"name": "class_incremental", "classes": 2, "every": "2 updates"}}},
    {"data": {**STATIC, "stream": {"name": "static", "numbered": True}}},
    {
        "data": {
            "dataset": DRIFTING, "partition": "random",
            "stream": {"name": "snapshots", "steps": 4, "every": "1 update"},
        },
        "model": {"name": "roland", "hidden": 6},
    },
)  # fmt: skip


@dataclass(frozen=True)
class Stage:
    """An algorithm by its name and options, and the keys of the scenario that it is tried on."""

    part: Part
    keys: Mapping[str, Any]

    def scenario(self, **changes: Any) -> Scenario:
        """Return the scenario; `changes` replace whole sections, or one of their keys, as `training__lr`."""
        plain = {**PLAIN, **self.keys, "algorithm": {"name": self.part.name, **self.part.options}}
        for key, value in changes.items():
            section, _, inner = key.partition("__")
            plain[section] = {**plain[section], inner: value} if inner else value
        return Scenario.model_validate(plain)

    def point(self, **changes: Any) -> Point:
        """Return the scenario as the one point that it is."""
        (only,) = self.scenario(**changes).points()
        return only

    def setup(self) -> learning.LearningSetup:
        """Return a new instance of the algorithm, and what its clients learn from.

        Raises UserError where it refuses the deployment.
        """
        prepared.periods_of.cache_clear()  # what was tried before may have changed the data in place
        return learning.prepare(Parts(self.scenario()), Path())


def accepted(part: Part) -> Stage:
    """Return the first deployment on which the algorithm starts.  Raises UserError where it refuses all of them."""
    refusals = []
    for keys in DATA:
        stage = Stage(part, keys)
        try:
            stage.setup().algorithm.start()
        except UserError as error:
            refusals.append(str(error))
        except Exception:  # a fault of the author's code, which playing it meets again and reports
            return stage
        else:
            return stage
    raise UserError(f"the algorithm refuses every deployment of --try; the first one because: {refusals[0]}")


@contextmanager
def folder() -> Iterator[Path]:
    """Lend a folder for the results of runs."""
    with tempfile.TemporaryDirectory(prefix="fedsim-try-") as path:
        yield Path(path)
