"""The sections `clients`, `network` and `server`: the computers of a run, and what connects them.

Defaults that depend on several keys, on a profile or on a table are filled in elsewhere (fedsim/net/inputs/,
fedsim/point/fleet.py).
"""

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fedsim.core.table import File
from fedsim.core.units import Bytes, Count, Flops, FlopsDraw, Fraction, Rate, RateDraw, SecondsDraw
from fedsim.scenario.part import Part
from fedsim.scenario.section import Section


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


class Connection(Section):
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


class Network(Section):
    """Links, topology, connections, codecs and effects."""

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, value: Any) -> Any:
        if isinstance(value, dict) and "reuse" in value:
            raise ValueError("'reuse' is no key any more: write connection: {kind: kept} to keep connections open")
        return value

    model: Literal["fluid", "naive"] = "fluid"
    topology: Part = Part(name="star")
    profile: str | dict[str, Fraction] | None = Field(
        default=None, description="A named kind of access link, or shares of several; explicit keys take precedence."
    )
    latency: SecondsDraw | None = Field(default=None, description="One way.")
    uplink: RateDraw | None = None
    downlink: RateDraw | None = None
    server: ServerLink = ServerLink()
    effects: list[Part] = Field(default=[])
    codec: CodecSection = CodecSection()
    congestion_control: Literal["cubic", "reno", "bbr"] = "cubic"
    tls_rtts: int = Field(default=0, ge=0, description="Round trips of the encryption's handshake.")
    connection: Connection = Connection()
    transport: Part = Part(name="tcp")
    tcp: dict[str, Any] = Field(default={}, description="Further constants of the transfer model (fedsim/net/tcp.py).")


class Server(Section):
    """The server as a computer: its aggregations take simulated time."""

    speed: Flops = 50e9
    cores: Count = 1
