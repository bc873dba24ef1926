"""The sections `training` and `cohort`: how a client trains in one job, and how many jobs are computed together.

The first changes what is learned; the second, how the host computes it.
"""

from typing import Any, Literal

from pydantic import Field, model_validator

from fedsim.core.units import Bytes, Count
from fedsim.scenario.section import Section


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
