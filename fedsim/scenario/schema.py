"""The pydantic model of a scenario file, and the points of its grid.

Values are in SI units once validated; a dump in JSON mode writes them as texts with units that read back
exactly.  Parts' options stay as written, and those of a point include every default of their classes, which
are imported.  The sections are described in modules of their own, and axes are combined in `combinations.py`.
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
from fedsim.scenario import combinations, grid
from fedsim.scenario.costs import Costs
from fedsim.scenario.deployment import ClientsSection, NetworkSection, Server
from fedsim.scenario.learning import CohortSection, Data, Privacy, Training
from fedsim.scenario.measure import Measure
from fedsim.scenario.part import Part, Section
from fedsim.scenario.parts import options
from fedsim.scenario.text import paths

HOST = ("device", "threads", "cohort.memory")  # settings of the computation: results change by rounding at most
LABELS = ("name", "description")
AVERAGE = Part(name="mean")
ADDED = ("batch", "neighbours")  # keys of training that change no id where they say nothing
OPTIONAL = (*combinations.UNROLLED, "costs")  # left out of a file where they are empty


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

    name: Name = Field(description="Names the folder of the results, runs/NAME.")
    description: str = Field(default="", description="A sentence for readers.")
    seed: int = Field(default=0, ge=0, description="Everything random draws from it.")
    data: Data | None = Field(default=None, description="Needed where something is learned.")
    model: Part | None = Field(default=None, description="Needed where something is learned.")
    task: Part = Part(name="node_classification")
    training: Training | None = Field(default=None, description="Needed where something is learned.")
    clients: ClientsSection
    network: NetworkSection
    server: Server = Server()
    protocol: Part
    algorithm: Part | None = Field(default=None, description="Needed by every protocol that asks clients.")
    aggregation: Part = Field(default=AVERAGE, description="How the server combines the differences of a cohort.")
    privacy: Privacy = Privacy()
    measure: Measure = Measure()
    costs: Costs | None = Field(default=None, description="Energy, carbon and money; without it none is computed.")
    cohort: CohortSection = CohortSection()
    device: Device = Field(default="auto", description="auto (a GPU where there is one), cpu, cuda or cuda:1.")
    threads: Count = Field(default=1, description="Number of torch threads per worker.")
    grid: dict[str, list[Any]] = Field({}, description="Dotted keys and the values of each: one run per combination.")
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
        clients, network, until = self.clients, self.network, self.measure.until
        needed: list[tuple[str, Any, str]] = []  # keys, their values, and what may be given instead
        if clients.table is None:
            needed.append(("clients.count", clients.count, "or name a clients.table"))
        if clients.table is None and network.profile is None:
            instead = "or name a network.profile or a clients.table"
            needed += [(f"network.{key}", getattr(network, key), instead) for key in ("latency", "uplink", "downlink")]
        if until is not None and until.spends:
            needed.append(("costs", self.costs, "since measure.until has a budget of it, such as costs: {country: US}"))
        message = "is missing and has no default; give it"
        return [Problem(key, f"{message}, {instead}") for key, value, instead in needed if value is None]

    def parts(self) -> list[tuple[str, str, Part]]:
        """Return all parts as (kind, key, part)."""
        data, network = self.data, self.network
        scored = {"metric": self.measure.metrics, "split": self.measure.splits} if self.model else {}
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
            ("aggregation", "aggregation", self.aggregation if self.aggregation != AVERAGE else None),
            *(
                (kind, f"measure.{kind}s.{n}", Part(name=name))
                for kind, names in scored.items()
                for n, name in enumerate(names)
            ),
        ]
        return [(kind, key, part) for kind, key, part in given if part is not None]

    def plain(self) -> dict[str, Any]:
        """Return the scenario as in a file, every default spelled out, quantities with their units."""
        return self.model_dump(mode="json", exclude={key for key in OPTIONAL if not getattr(self, key)})

    def spelled_out(self, known: dict[str, Part] | None = None) -> Self:
        """Return the same scenario with the defaults of all parts written out; their files are imported.

        `known` caches such parts over many scenarios.
        """
        known = {} if known is None else known
        complete = self
        for kind, key, part in self.parts():
            if key.startswith("measure."):
                continue  # names without options
            identity = json.dumps([kind, part.name, part.options], default=repr)
            if identity not in known:
                known[identity] = options.spelled_out(kind, part)
            complete = _with_part(complete, key.split("."), known[identity])
        return complete

    def id(self) -> str:
        """Return 12 hexadecimal digits of everything that affects results: not labels or the host's settings.

        It does not depend on whether a default is written out, but changes if a default changes.
        """
        return self.spelled_out().digest()

    def digest(self) -> str:
        """Return 12 hexadecimal digits of the scenario as written."""
        added = {"costs": None, "aggregation": AVERAGE}  # keys that change no id where they say nothing
        left_out = {name for name, default in added.items() if getattr(self, name) == default}
        own = self.model_dump(exclude={*HOST, *LABELS, *combinations.UNROLLED, *left_out}) | {
            "cohort": self.cohort.mode
        }
        if own["training"] is not None:  # as do these
            own["training"] = {
                key: value for key, value in own["training"].items() if key not in ADDED or value is not None
            }
        settings = units.canonical(paths.by_contents(own))
        text = json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    def points(self) -> "Iterator[Point]":
        """Yield a point for each combination; what is varied changes fastest, then the grid's last axis.

        Raises ScenarioError, before the first point, if a value does not fit its key or two points are the
        same.
        """
        known: dict[str, Part] = {}
        points = []
        for combination in combinations.resolve(self.plain(), type(self)):
            written, scenario = combination.scenario, combination.scenario.spelled_out(known)
            axes, places = combination.axes, combination.places
            points.append(Point(scenario.digest(), scenario, axes, places, written.digest()))
        grid.refuse_twins([(point.id, point.axes) for point in points])
        yield from points


def _with_part(holder: Any, steps: list[str], part: Part) -> Any:
    """Return a section or a list with the part in place of what is at these steps of a key."""
    if not steps:
        return part
    first, *rest = steps
    if isinstance(holder, list):
        number = int(first)
        return [*holder[:number], _with_part(holder[number], rest, part), *holder[number + 1 :]]
    return holder.model_copy(update={first: _with_part(getattr(holder, first), rest, part)})


@dataclass(frozen=True)
class Point:
    """One combination of a scenario's axes: its id, its scenario without axes, and the value of each axis.

    The scenario has every default of its parts written out.  `axes` holds the values as written, parts as
    compact texts; `places` the keys of the file that set its keys; `written` is the digest of the scenario
    before defaults were written out, which identifies a point after a default has changed.  Points with the
    same `learning_key` learn the same, so that one may reuse the record of another
    (`point/resume/following.py`); without a key, a point does not.
    """

    id: str
    scenario: Scenario
    axes: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)
    written: str = ""
    learning_key: str = ""
