"""The sections `clients`, `network` and `server`: the computers of a run, and what connects them.

Defaults that depend on several keys, on a profile or on a table are filled in elsewhere
(fedsim/net/measurements/, fedsim/point/build/fleet.py).
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_serializer, model_validator

from fedsim.core.table import FilePath
from fedsim.core.units import Bytes, Count, Flops, FlopsDraw, Fraction, Positive, Rate, RateDraw, SecondsDraw
from fedsim.scenario.part import Part, Section

DeviceClass = Literal["phone", "laptop", "jetson", "server"]


class MeasuredSpeed(Section):
    """Speeds of devices drawn from measurements (net/measurements/devices.py)."""

    measured: Literal["phones"] = Field(description="The devices, by how common their models are.")
    level: Flops = Field(description="Speed of the median device; it depends on framework and model.")


class ClassSpeed(Section):
    """Speeds of devices of several classes, from the peaks of one model of each."""

    classes: dict[DeviceClass, Fraction] = Field(description="Shares of the clients by class of their devices.")
    efficiency: Fraction = Field(
        gt=0, description="Share of its peak that training reaches on a device; it depends on framework and model."
    )


def _kind_of_speed(value: Any) -> str:
    """Return which kind of speed a value describes; the tags have a dash, so that no message shows them."""
    if isinstance(value, ClassSpeed) or (isinstance(value, dict) and "classes" in value):
        return "class-speed"
    return "measured-speed" if isinstance(value, dict | MeasuredSpeed) else "drawn-speed"


Speed = Annotated[
    Annotated[FlopsDraw, Tag("drawn-speed")]
    | Annotated[MeasuredSpeed, Tag("measured-speed")]
    | Annotated[ClassSpeed, Tag("class-speed")],
    Discriminator(_kind_of_speed),
]


class ClientsSection(Section):
    """The number of clients, their speed, and how those to ask are chosen."""

    count: Count | None = Field(default=None, description="Number of clients; default: as many as the table lists.")
    speed: Speed | None = Field(
        default=None,
        description="Floating-point operations per second: a draw, measured devices at a level, or classes.",
    )
    table: FilePath | None = Field(
        default=None,
        description="CSV of clients: client, uplink_mbps, downlink_mbps, rtt_ms, jitter_ms, loss_up, loss_down, "
        "gflops, up_burst_bytes, down_burst_bytes, up_buffer_bytes, down_buffer_bytes, country; missing values are "
        "drawn.",
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


class ConnectionSection(Section):
    """Which messages open a connection, and what one that stays open does."""

    kind: Literal["fresh", "exchange", "kept"] = Field(
        default="fresh",
        description="fresh: one for each message; exchange: one for each request and its reply; kept: open for good.",
    )
    request: Literal["pull", "push"] = Field(
        default="pull",
        description="pull: a download waits for its client's request; push: the server sends at once (kept).",
    )
    idle_restart: bool = Field(
        default=True,
        description="Whether the window of a kept connection starts over after idling "
        "(false: Linux's tcp_slow_start_after_idle=0).",
    )

    @model_validator(mode="after")
    def _needs_kept(self) -> Self:
        what = "request: push" if self.request == "push" else "" if self.idle_restart else "idle_restart: false"
        if what and self.kind != "kept":
            raise ValueError(f"{what} is about connections that stay open, and kind is {self.kind}: write kind: kept")
        return self


class Measured(Section):
    """Access links drawn from measurements by country (fedsim/net/measurements/measured.py)."""

    country: str | None = Field(default=None, description="Code of two letters (ISO 3166) of all clients' country.")
    countries: dict[str, Fraction] | None = Field(
        default=None, description="Shares of several countries; the column 'country' of clients.table takes precedence."
    )
    down_up: float = Field(default=0.7, ge=-1, le=1, description="Rank correlation of download and upload rates.")
    rates_rtt: float = Field(default=-0.3, ge=-1, le=1, description="Rank correlation of either rate and round trip.")
    floor: Rate | None = Field(
        default=200e3,
        description="Slower uploads, mostly tests that stalled, are left out of the distribution; null: keep all.",
    )


class MeasuredProfile(Section):
    """The profile of measured access links."""

    measured: Measured


def _kind(value: Any) -> str:
    """Return which kind of profile a value describes; the tags have a dash, so that no message shows them."""
    is_measured = isinstance(value, MeasuredProfile) or (isinstance(value, dict) and "measured" in value)
    return "measured-links" if is_measured else "rounded-links"


Profile = Annotated[
    Annotated[str | dict[str, Fraction], Tag("rounded-links")] | Annotated[MeasuredProfile, Tag("measured-links")],
    Discriminator(_kind),
]


class NetworkSection(Section):
    """Links, topology, connections, codecs and effects."""

    model: Literal["fluid", "naive"] = "fluid"
    topology: Part = Part(name="star")
    profile: Profile | None = Field(
        default=None,
        description="A named kind of access link, shares of several, or measured links; explicit keys take precedence.",
    )
    latency: SecondsDraw | None = Field(default=None, description="One way.")
    uplink: RateDraw | None = None
    downlink: RateDraw | None = None
    rate_factor: Positive = Field(
        default=1.0, description="Factor of all clients' access rates, whatever they come from: 0.5 halves them."
    )
    server: ServerLink = ServerLink()
    effects: list[Part] = Field(default=[])
    codec: CodecSection = CodecSection()
    congestion_control: Literal["cubic", "reno", "bbr"] = "cubic"
    tls_rtts: int = Field(default=0, ge=0, description="Round trips of the encryption's handshake.")
    connection: ConnectionSection = ConnectionSection()
    transport: Part = Part(name="tcp")
    tcp: dict[str, Any] = Field(
        default={}, description="Further constants of the transfer model (fedsim/net/tcp/laws.py)."
    )

    @model_serializer(mode="wrap")
    def _without_the_factor(self, serialize: Any) -> Any:
        """Leave out a factor that changes nothing: points keep the ids that they had before there was one."""
        return {key: value for key, value in serialize(self).items() if key != "rate_factor" or value != 1.0}


class Server(Section):
    """The server as a computer: its aggregations take simulated time."""

    speed: Flops = 50e9
    cores: Count = 1
