"""The pydantic model of a scenario file, and the points of its grid.

Values are in SI units once validated; a dump in JSON mode writes them as texts with units that read back exactly.
Parts' options stay as written, and those of a point include every default.  The sections are described in modules
of their own, and axes are combined in `combinations.py`.  Nothing here imports torch.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

from pydantic import BeforeValidator as Before
from pydantic import Field, WithJsonSchema, model_validator

from fedsim.core import units
from fedsim.core.errors import Problem
from fedsim.core.units import Count
from fedsim.scenario import combinations, grid, paths, stated
from fedsim.scenario.client_data import Data
from fedsim.scenario.costs import Costs
from fedsim.scenario.deployment import Clients, Network, Server
from fedsim.scenario.local_training import CohortSection, Training
from fedsim.scenario.measure import Measure
from fedsim.scenario.part import Part
from fedsim.scenario.privacy import Privacy
from fedsim.scenario.section import Section

HOST = ("device", "threads", "cohort.memory")  # settings of the computation: results change by rounding at most
LABELS = ("name", "description")
OPTIONAL = (*combinations.UNROLLED, "costs")  # left out of a file where they are empty

Known = dict[str, Part]  # parts with their defaults written out, by their original form


def _folder_name(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"\w[\w.+-]{0,99}(?<!\.)", value):
        raise ValueError(f"{value!r} cannot name a folder; use letters, digits, '_', '-' and '.', 100 at most")
    if isinstance(value, str) and re.fullmatch(r"(con|prn|aux|nul|(com|lpt)[\d¹²³])(\..*)?", value, re.IGNORECASE):
        raise ValueError(f"{value!r} names a device on Windows, where no folder can be called so; give another name")
    return value


def _device(value: Any) -> Any:
    if not isinstance(value, str) or not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value):
        raise ValueError(f"{value!r} is not a device; write auto, cpu, cuda or cuda:0")
    return value


Name = Annotated[str, Before(_folder_name), WithJsonSchema({"type": "string", "pattern": r"^\w[\w.+-]*$"})]
Device = Annotated[str, Before(_device), WithJsonSchema({"type": "string", "pattern": r"^(auto|cpu|cuda(:\d+)?)$"})]


class Scenario(Section):
    """A scenario file."""

    name: Name
    description: str = ""
    seed: int = Field(default=0, ge=0)
    data: Data | None = Field(default=None, description="Needed where something is learned.")
    model: Part | None = Field(default=None, description="Needed where something is learned.")
    task: Part = Part(name="node_classification")
    training: Training | None = Field(default=None, description="Needed where something is learned.")
    clients: Clients
    network: Network
    server: Server = Server()
    protocol: Part
    algorithm: Part | None = Field(default=None, description="Needed by every protocol that asks clients.")
    privacy: Privacy = Privacy()
    measure: Measure = Measure()
    costs: Costs | None = Field(default=None, description="Energy, carbon and money; without it none is computed.")
    cohort: CohortSection = CohortSection()
    device: Device = "auto"
    threads: Count = Field(default=1, description="Number of torch threads per worker.")
    grid: dict[str, list[Any]] = Field({}, description="Dotted keys and the values of each: one point per combination.")
    vary: dict[str, list[Any]] = Field(
        {}, description="Dotted keys that are varied one at a time, while the others keep the scenario's value."
    )
    when: dict[str, dict[str, dict[str, Any]]] = Field(
        {}, description="Further keys to set when a dotted key has a value: KEY, then VALUE, then dotted keys."
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_from_grid(cls, value: Any) -> Any:
        return grid.filled(value, cls)

    @model_validator(mode="after")
    def _grid_is_sound(self) -> Self:
        unrolled = any(getattr(self, key) for key in combinations.UNROLLED)  # a point has none of these keys
        problems = combinations.problems(self, self.plain(), frozenset((*HOST, *LABELS))) if unrolled else []
        if problems := [*problems, *self._missing()]:
            raise grid.GridError(problems)
        return self

    def _missing(self) -> list[Problem]:
        """Return the required values that neither a key, nor a table, nor a profile gives."""
        clients, network = self.clients, self.network
        alone = {"clients.count": clients.count} if clients.table is None else {}
        if clients.table is None and network.profile is None:
            alone |= {f"network.{key}": getattr(network, key) for key in ("latency", "uplink", "downlink")}
        until = self.measure.until
        if until is not None and until.spends and self.costs is None:
            alone |= {"costs": None}
        hints = {
            "costs": "since measure.until has a budget of it, such as costs: {country: US}",
            "clients.count": "or name a clients.table",
            "network": "or name a network.profile or a clients.table",
        }
        return [
            Problem(key, f"is missing and has no default; give it, {hints.get(key) or hints['network']}")
            for key, value in alone.items()
            if value is None
        ]

    def parts(self) -> list[tuple[str, str, Part]]:
        """Return all parts as (kind, key, part)."""
        data, network, metrics = self.data, self.network, self.measure.metrics if self.model else []
        given: list[tuple[str, str, Part | None]] = [
            ("dataset", "data.dataset", data.dataset if data else None),
            ("partition", "data.partition", data.partition if data else None),
            ("stream", "data.stream", data.stream if data else None),
            ("model", "model", self.model),
            ("task", "task", self.task if self.model else None),
            ("sampler", "clients.sampler", self.clients.sampler),
            ("topology", "network.topology", network.topology),
            ("transport", "network.transport", network.transport),
            *(("effect", f"network.effects.{number}", effect) for number, effect in enumerate(network.effects)),
            ("codec", "network.codec.up", network.codec.up),
            ("codec", "network.codec.down", network.codec.down),
            ("protocol", "protocol", self.protocol),
            ("algorithm", "algorithm", self.algorithm),
            *(("metric", f"measure.metrics.{n}", Part(name=name)) for n, name in enumerate(metrics)),
        ]
        return [(kind, key, part) for kind, key, part in given if part is not None]

    def plain(self) -> dict[str, Any]:
        """Return the scenario as in a file, every default spelled out, quantities with their units."""
        return self.model_dump(mode="json", exclude={key for key in OPTIONAL if not getattr(self, key)})

    def spelled_out(self, known: "Known | None" = None) -> Self:
        """Return the same scenario with the defaults of all parts written out, as far as their sources state them.

        `known` caches such parts over many scenarios.
        """
        known = {} if known is None else known
        data, network, codec = self.data, self.network, self.network.codec

        def part(kind: str, given: Part | None) -> Part | None:
            if given is None:
                return None
            key = json.dumps([kind, given.name, given.options], default=repr)
            if key not in known:
                known[key] = Part(name=given.name, options=stated.spelled_out(kind, given.name, given.options))
            return known[key]

        parts = {kind: part(kind, getattr(self, kind)) for kind in ("model", "task", "protocol", "algorithm")}
        kinds = ("dataset", "partition", "stream")
        links = {
            "topology": part("topology", network.topology),
            "transport": part("transport", network.transport),
            "effects": [part("effect", effect) for effect in network.effects],
            "codec": codec.model_copy(update={"up": part("codec", codec.up), "down": part("codec", codec.down)}),
        }
        cohort = {"sampler": part("sampler", self.clients.sampler)}
        sections = {
            "data": data and data.model_copy(update={kind: part(kind, getattr(data, kind)) for kind in kinds}),
            "clients": self.clients.model_copy(update=cohort),
            "network": network.model_copy(update=links),
        }
        return self.model_copy(update={**parts, **sections})

    def id(self) -> str:
        """Return 12 hexadecimal digits of everything that affects results: not labels or the host's settings.

        It does not depend on whether a default is written out, but changes if a default changes.
        """
        return self.spelled_out().digest()

    def digest(self) -> str:
        """Return 12 hexadecimal digits of the scenario as written."""
        left_out = {"costs"} if self.costs is None else set[str]()
        own = self.model_dump(exclude={*HOST, *LABELS, *combinations.UNROLLED, *left_out}) | {
            "cohort": self.cohort.mode
        }
        settings = units.canonical(paths.by_contents(own))
        text = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    def points(self) -> "Iterator[Point]":
        """Yield a point for each combination; what is varied changes fastest, then the grid's last axis.

        Raises ScenarioError, before the first point, if a value does not fit its key or two points are the same.
        """
        found = combinations.resolve(self.plain(), type(self))
        known: Known = {}
        whole = [one.scenario.spelled_out(known) for one in found]
        points = [
            Point(scenario.digest(), scenario, one.axes, one.places, one.scenario.digest())
            for scenario, one in zip(whole, found, strict=True)
        ]
        grid.refuse_twins([(point.id, point.axes) for point in points])
        yield from points


@dataclass(frozen=True)
class Point:
    """One combination of a scenario's axes: its id, its scenario without axes, and the value of each axis.

    The scenario has every default of its parts written out.  `axes` holds the values as written, parts as compact
    texts; `places` the keys of the file that set its keys; `written` is the digest of the scenario before defaults were
    written out, which identifies a point after a default has changed.  Points with the same `root` learn from the same,
    so that one may follow the record of another (`point/following.py`); without a root, a point does not.
    """

    id: str
    scenario: Scenario
    axes: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)
    written: str = ""
    root: str = ""
