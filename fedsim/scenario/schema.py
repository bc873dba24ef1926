"""Pydantic models of scenario files, and the points of their grids.

Values are in SI units once validated; a dump in JSON mode writes them as texts with units that read back exactly.
A part's options stay as written, and those of a point include every default; their types belong to the part's own
file.  Nothing here imports torch.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator as After
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_serializer, model_validator
from pydantic import BeforeValidator as Before

from fedsim.core import units
from fedsim.core.errors import Problem
from fedsim.core.table import File
from fedsim.core.units import (
    Bytes,
    Count,
    Every,
    Flops,
    FlopsDraw,
    Fraction,
    Rate,
    RateDraw,
    Seconds,
    SecondsDraw,
    Updates,
)
from fedsim.scenario import combinations, find, grid, paths, wording

HOST = (
    "device",
    "threads",
    "cohort.memory",
)  # settings of the computation, which change results by rounding at most
LABELS = ("name", "description")


class Section(BaseModel):
    """A mapping with known keys only."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Part(BaseModel):
    """A part: the name of its file, with the options of its class: `power`, or `{name: power, keep: 4}`."""

    model_config = ConfigDict(frozen=True)

    name: str
    options: dict[str, Any] = {}

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, Part):
            return value
        if not isinstance(value, dict):
            shown = "nothing" if value is None else repr(value)
            raise ValueError(f"{shown}: must be the name of a file, or {{name: ..., option: ...}}")
        if "name" not in value:
            raise ValueError("lacks the key 'name': write the name of a file, or {name: ..., option: ...}")
        if odd := next((key for key, inner in value.items() if isinstance(inner, float) and not isfinite(inner)), None):
            raise ValueError(f"option {odd!r} is {value[odd]}: a number must be finite; leave it out or give another")
        if set(value) == {"name", "options"} and isinstance(value["options"], dict):
            return value
        return {"name": value["name"], "options": {key: inner for key, inner in value.items() if key != "name"}}

    @model_serializer
    def _short(self) -> Any:
        return {"name": self.name, **self.options} if self.options else self.name

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe both ways of writing a part."""
        named = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return {"anyOf": [{"type": "string"}, named], "description": cls.__doc__}


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


def _positive(budget: float) -> float:
    if budget == 0:
        raise ValueError("a budget of 0 is used up before anything happens; give more, or leave it out")
    return budget


def _some(share: float) -> float:
    if share == 0:
        raise ValueError("0 would leave nothing; give a share above 0, up to 1")
    return share


def _distinct(values: Any) -> Any:
    if isinstance(values, list) and len(set(map(repr, values))) < len(values):
        raise wording.Entries(f"{values} names something twice")
    return values


Name = Annotated[str, Before(_folder_name), WithJsonSchema({"type": "string", "pattern": r"^\w[\w.+-]*$"})]
Device = Annotated[str, Before(_device), WithJsonSchema({"type": "string", "pattern": r"^(auto|cpu|cuda(:\d+)?)$"})]


class Split(Section):
    """How each client's vertices are divided, as shares of them."""

    train: Fraction = 0.2
    val: Fraction = 0.4
    test: Fraction = 0.4
    by: Literal["class", "client", "given"] = Field(
        default="class",
        description="The shares are of each class at a client, or of all that it holds; given: the data set's own "
        "split, and the shares are not used.",
    )
    numpy_seed: int | None = Field(default=None, ge=0, description="Split with NumPy's legacy generator and this seed.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.train == 0:
            raise ValueError("train is 0, so nothing could be learned; give it a share")
        if abs(self.train + self.val + self.test - 1) > 1e-9:
            raise ValueError(f"train + val + test is {self.train + self.val + self.test:.6g}: it must be 1")
        if self.by != "class" and self.numpy_seed is not None:
            raise ValueError(f"numpy_seed divides class by class; leave it out, or 'by: {self.by}'")
        return self


class Keep(Section):
    """How much of each client's data is kept, for studies of sparse data; the rest is removed at random."""

    features: Annotated[Fraction, After(_some)] = Field(
        default=1.0, description="Share of feature entries kept; the others become zero."
    )
    edges: Annotated[Fraction, After(_some)] = Field(default=1.0, description="Undirected edges.")
    labels: Annotated[Fraction, After(_some)] = Field(default=1.0, description="Share of training labels kept.")
    fanout: Count | None = Field(default=None, description="Largest number of neighbours of a vertex at its client.")


class Data(Section):
    """The graph, its partition among clients, how much of it is kept, and when it arrives."""

    dataset: Part
    partition: Part = Part(name="louvain")
    split: Split = Split()
    keep: Keep = Keep()
    stream: Part = Part(name="static")


class Training(Section):
    """A client's local training in one job."""

    optimiser: Literal["adam", "sgd"]
    lr: float = Field(gt=0, allow_inf_nan=False)
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    momentum: float = Field(default=0.0, ge=0, lt=1)
    local_steps: Count = 1
    keep_state: bool = Field(default=True, description="Keep the optimiser's state from one job to the next.")
    clip: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Largest norm of a client's gradient; default: no limit."
    )
    schedule: Literal["constant", "cosine"] = Field(
        default="constant", description="The learning rate over a job's local steps; cosine: down towards 1e-5."
    )


class CohortSection(Section):
    """How clients that train at the same time are computed: `loop`, or `{mode: loop, memory: 2 GiB}`."""

    mode: Literal["union", "loop"] = Field(
        default="union", description="Train clients in one computation, or one by one."
    )
    memory: Bytes = Field(default=2**30, description="Approximate memory of one computation; larger ones are split.")

    @model_validator(mode="before")
    @classmethod
    def _grown(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"mode": value}
        if not isinstance(value, dict | CohortSection):
            shown = "nothing" if value is None else repr(value)
            raise ValueError(f"{shown}: must be union, loop, or a mapping as {{mode: union, memory: 2 GiB}}")
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe both ways of writing it."""
        whole = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{"type": "string", "enum": whole["properties"]["mode"]["enum"]}, whole]}


class Clients(Section):
    """The number of clients, their speed, and how those to ask are chosen."""

    count: Count | None = Field(default=None, description="Number of clients; default: as many as the table lists.")
    speed: FlopsDraw | None = Field(default=None, description="Floating-point operations per second.")
    table: File | None = Field(
        default=None,
        description="CSV of clients: client, uplink_mbps, downlink_mbps, rtt_ms, jitter_ms, loss_up, loss_down, "
        "gflops, up_burst_bytes, down_burst_bytes, up_buffer_bytes, down_buffer_bytes; missing values are drawn.",
    )
    sampler: Part = Part(name="uniform")


class ServerLink(Section):
    """The server's shared links; none means unlimited."""

    ingress: Rate | None = Field(default=None, description="Carries all uploads.")
    egress: Rate | None = Field(default=None, description="Carries all downloads.")
    ingress_buffer: Bytes | None = Field(default=None, description="Queue; default max(64 kB, 100 ms of the rate).")
    egress_buffer: Bytes | None = Field(default=None, description="Queue; default max(64 kB, 100 ms of the rate).")
    ingress_burst: Bytes = Field(default=0, description="Bytes that may pass an idle link at once (token bucket).")
    egress_burst: Bytes = Field(default=0, description="Bytes that may pass an idle link at once (token bucket).")


class CodecSection(Section):
    """The codec that compresses messages, for each direction; null: none."""

    up: Part | None = None
    down: Part | None = None


class Network(Section):
    """Links, topology, codecs and effects."""

    model: Literal["fluid", "naive"] = "fluid"
    topology: Part = Part(name="star")
    profile: str | dict[str, Fraction] | None = Field(
        default=None, description="A named kind of access link, or shares of several; explicit keys take precedence."
    )
    latency: SecondsDraw | None = Field(default=None, description="One way.")
    uplink: RateDraw | None = None
    downlink: RateDraw | None = None
    server: ServerLink = ServerLink()
    effects: list[Part] = []
    codec: CodecSection = CodecSection()
    congestion_control: Literal["cubic", "reno", "bbr"] = "cubic"
    tls_rtts: int = Field(default=0, ge=0, description="Round trips of the encryption's handshake.")
    reuse: bool = Field(default=False, description="Keep connections open between messages.")
    tcp: dict[str, Any] = Field(default={}, description="Further constants of the transfer model (fedsim/net/tcp.py).")


class SecureAggregation(Section):
    """Messages of pairwise masking (fedsim/net/masking.py): true, or a mapping with its options."""

    on: bool = True
    neighbours: int | None = Field(
        default=None,
        ge=2,
        multiple_of=2,
        description="Number of other clients with which a client shares its secrets; null: all.",
    )
    threshold: Fraction = Field(default=0.5, description="More than this share of them must answer.")
    bits: int = Field(default=32, ge=8, le=64, description="Bits per value before it is added to others.")

    @model_validator(mode="before")
    @classmethod
    def _grown(cls, value: Any) -> Any:
        return {"on": value} if isinstance(value, bool) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe both ways of writing it."""
        return {"anyOf": [{"type": "boolean"}, handler.resolve_ref_schema(handler(schema))]}


class Privacy(Section):
    """Protection of uploads: differential privacy if `clip` is given, and secure aggregation."""

    clip: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Largest norm of an upload's difference."
    )
    noise: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Standard deviation of the noise on their sum, as a multiple of clip.",
    )
    delta: float = Field(
        default=1e-5, gt=0, lt=1, description="Epsilon is reported at this delta; it should be well below 1 / clients."
    )
    secure_aggregation: SecureAggregation = SecureAggregation(on=False)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.noise and self.clip is None:
            raise ValueError(f"noise is {self.noise:g} and there is no clip: it is a multiple of clip; give one")
        return self


class Server(Section):
    """The server as a computer: its aggregations take simulated time."""

    speed: Flops = 50e9
    cores: Count = 1


Scored = Literal["train", "val", "test", "all_periods", "held_out", "pooled", "across"]
SPLITS = (
    "What is scored, of the periods that clients have met; 'all_periods': the test vertices of all periods of the "
    "stream, met or not, the same test at every moment; 'held_out': the vertices that no client owns; 'pooled': all "
    "clients' test vertices as one graph; 'across': links between clients, where links are predicted on snapshots."
)
TARGET_ON = (
    "What a target counts on: 'all_periods': the score over all periods, once every period of the run has arrived; "
    "'each_period': the score of each period alone, from its arrival on, means over periods."
)


class Until(Section):
    """The end of the run: a time, or budgets (fedsim/clock/budget.py); the first one used up ends it."""

    time: Annotated[Seconds | None, After(_positive)] = Field(default=None, description="Simulated.")
    updates: Count | None = None
    bytes: Annotated[Bytes | None, After(_positive)] = Field(default=None, description="Up and down, on the wire.")
    bytes_up: Annotated[Bytes | None, After(_positive)] = Field(default=None, description="From clients, on the wire.")
    bytes_down: Annotated[Bytes | None, After(_positive)] = Field(default=None, description="To clients, on the wire.")

    @model_validator(mode="before")
    @classmethod
    def _grown(cls, value: Any) -> Any:
        if isinstance(value, str | int | float):
            return {"time": value}
        if value == {}:
            raise ValueError(f"names no budget; there are {', '.join(cls.model_fields)}")
        return value

    @model_serializer(mode="wrap")
    def _short(self, whole: Any) -> Any:
        given = {name: value for name, value in whole(self).items() if value is not None}
        return given["time"] if set(given) == {"time"} else given

    def limits(self) -> dict[str, float]:
        """Return the budgets that are set, other than time."""
        given = {name: getattr(self, name) for name in type(self).model_fields if name != "time"}
        return {name: most for name, most in given.items() if most is not None}

    @property
    def metered(self) -> bool:
        """Whether there is a budget of bytes, so that they must be counted as they move."""
        return any(name.startswith("bytes") for name in self.limits())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe both ways of writing it."""
        return {"anyOf": [{"type": "string", "examples": ["10 min"]}, handler.resolve_ref_schema(handler(schema))]}


class Measure(Section):
    """What is scored, how often, and when the run ends."""

    metrics: Annotated[list[str], Before(_distinct), Field(min_length=1)] = ["accuracy"]
    models: Annotated[list[Literal["global", "local"]], Before(_distinct), Field(min_length=1)] = ["global"]
    splits: Annotated[list[Scored], Before(_distinct), Field(min_length=1, description=SPLITS)] = ["test"]
    every: Every = Updates(1)
    until: Until | None = Field(default=None, description="End of the run: a simulated time, or budgets.")
    target: Fraction | None = Field(default=None, description="A score; the cost of reaching it is reported.")
    target_on: Literal["all_periods", "each_period"] = Field(default="all_periods", description=TARGET_ON)
    views: bool = Field(
        default=False, description="Record everything that every client receives, array by array: views/."
    )


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
        hints = {"clients.count": "or name a clients.table", "network": "or name a network.profile or a clients.table"}
        return [
            Problem(key, f"is missing and has no default; give it, {hints.get(key) or hints['network']}")
            for key, value in alone.items()
            if value is None
        ]

    def parts(self) -> list[tuple[str, str, Part]]:
        """Return all parts as (kind, key, part)."""
        data, network = self.data, self.network
        given: list[tuple[str, str, Part | None]] = [
            ("dataset", "data.dataset", data.dataset if data else None),
            ("partition", "data.partition", data.partition if data else None),
            ("stream", "data.stream", data.stream if data else None),
            ("model", "model", self.model),
            ("task", "task", self.task if self.model else None),
            ("sampler", "clients.sampler", self.clients.sampler),
            ("topology", "network.topology", network.topology),
            *(("effect", f"network.effects.{number}", effect) for number, effect in enumerate(network.effects)),
            ("codec", "network.codec.up", network.codec.up),
            ("codec", "network.codec.down", network.codec.down),
            ("protocol", "protocol", self.protocol),
            ("algorithm", "algorithm", self.algorithm),
        ]
        return [(kind, key, part) for kind, key, part in given if part is not None]

    def plain(self) -> dict[str, Any]:
        """Return the scenario as in a file, every default spelled out, quantities with their units."""
        return self.model_dump(mode="json", exclude={key for key in combinations.UNROLLED if not getattr(self, key)})

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
                known[key] = Part(name=given.name, options=find.spelled_out(kind, given.name, given.options))
            return known[key]

        parts = {kind: part(kind, getattr(self, kind)) for kind in ("model", "task", "protocol", "algorithm")}
        kinds = ("dataset", "partition", "stream")
        links = {
            "topology": part("topology", network.topology),
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
        own = self.model_dump(exclude={*HOST, *LABELS, *combinations.UNROLLED}) | {"cohort": self.cohort.mode}
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
    written out, which identifies a point after a default has changed.
    """

    id: str
    scenario: Scenario
    axes: dict[str, Any]
    places: dict[str, str] = field(default_factory=dict)
    written: str = ""
