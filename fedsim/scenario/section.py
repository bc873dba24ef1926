"""A section of a scenario file: a mapping with known keys only, fixed once it is read."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A mapping with known keys only."""

    model_config = ConfigDict(extra="forbid", frozen=True)
