"""The section `privacy`: what protects uploads.

Whether an algorithm and a protocol allow it is checked elsewhere (fedsim/point/private.py).
"""

from typing import Any, Self

from pydantic import Field, model_validator

from fedsim.core.units import Fraction
from fedsim.scenario.section import Section


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
