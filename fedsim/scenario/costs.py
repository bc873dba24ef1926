"""The section `costs`: what a run takes in energy, carbon and money; without it nothing of that is computed.

Values that are left out are defaults with published sources (fedsim/net/measurements/energy.py, carbon.py).
Countries and classes of devices that a scenario needs are checked where the clients are known
(fedsim/point/build/costing.py).
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_serializer, model_validator

from fedsim.core.units import NonNegative
from fedsim.scenario.deployment import DeviceClass
from fedsim.scenario.part import Section

LinkKind = Literal["wifi", "lte", "ethernet"]


class Range(Section):
    """An estimate: one number, or a low, a typical and a high one."""

    low: NonNegative
    typical: NonNegative
    high: NonNegative

    @model_validator(mode="before")
    @classmethod
    def _spread(cls, value: Any) -> Any:
        if isinstance(value, bool | str):
            raise ValueError(f"{value!r} is not an estimate; write a number, or {{low: 1, typical: 2, high: 3}}")
        return {"low": value, "typical": value, "high": value} if isinstance(value, int | float) else value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.typical <= self.high:
            raise ValueError(f"low {self.low:g}, typical {self.typical:g}, high {self.high:g} are not in this order")
        return self

    @model_serializer(mode="wrap")
    def _short(self, serialize: Any) -> Any:
        return self.low if self.low == self.high else serialize(self)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe both ways of writing it."""
        return {"anyOf": [{"type": "number", "minimum": 0}, handler.resolve_ref_schema(handler(schema))]}


def _figure(unit: str) -> Any:
    return Field(default=None, description=f"{unit}; a number, or low, typical and high.")


class DeviceCosts(Section):
    """What a class of devices draws, and the link that it is on."""

    watts: Range | None = _figure("Watts while computing")
    idle_watts: Range | None = _figure("Watts while not computing")
    link: LinkKind | None = None


class LinkCosts(Section):
    """What bytes take on a kind of link, and in the network behind it."""

    up_joules_per_gb: Range | None = _figure("Of the client's device")
    down_joules_per_gb: Range | None = _figure("Of the client's device")
    watts: Range | None = _figure("Of the client's radio while a message is under way")
    network_kwh_per_gb: Range | None = _figure("Of the network, up and down")
    usd_per_gb: Range | None = _figure("What the client pays for data, up and down")


class ServerCosts(Section):
    """What the server, and every edge aggregator, draws and is charged."""

    country: str | None = Field(default=None, description="Default: costs.country.")
    watts: Range | None = _figure("Watts while all cores compute")
    idle_watts: Range | None = _figure("Watts while none does")
    pue: Range | None = _figure("What the data centre draws over what its computers draw")
    usd_per_hour: Range | None = _figure("Rent, electricity included")
    usd_per_gb: Range | None = _figure("What is charged for a GB sent")


class Costs(Section):
    """Energy, carbon and money, as estimates with a range (docs/costs.md)."""

    device: DeviceClass | None = Field(
        default=None, description="Class of the clients' devices; default: that of clients.speed.classes, else phone."
    )
    link: LinkKind | None = Field(default=None, description="Kind of the clients' links; default: that of the device.")
    country: str | None = Field(
        default=None, description="Country (ISO 3166) of clients for whom neither the table nor the links give one."
    )
    idle: bool = Field(
        default=False, description="Whether what devices draw while they do not compute counts; they may be on anyway."
    )
    devices: dict[DeviceClass, DeviceCosts] = Field(default={}, description="Figures in place of the defaults.")
    links: dict[LinkKind, LinkCosts] = Field(default={}, description="Figures in place of the defaults.")
    server: ServerCosts = ServerCosts()
    usd_per_kwh: Range | None = _figure("Electricity of clients and of the network")
    grams_per_kwh: dict[str, Annotated[Range, Field()]] = Field(
        default={}, description="Carbon by country, in place of the table's."
    )
