"""The section `data`: the graph, its partition among clients, its split, how much of it is kept, and its stream.

What the parts make of a graph is not here (fedsim/data/).
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator as After
from pydantic import BeforeValidator as Before
from pydantic import Field, PlainSerializer, WithJsonSchema, model_validator

from fedsim.core.table import found_file
from fedsim.core.units import Count, Fraction, fraction
from fedsim.scenario.part import Part
from fedsim.scenario.section import Section


def _some(share: float) -> float:
    if share == 0:
        raise ValueError("0 would leave nothing; give a share above 0, up to 1")
    return share


def _share_or_file(value: Any) -> Any:
    text = str(value)
    named = isinstance(value, Path) or (isinstance(value, str) and (Path(text).suffix.lower() == ".csv" or "/" in text))
    return found_file(value) if named else fraction(value)


Share = Annotated[
    float | Path,
    Before(_share_or_file),
    PlainSerializer(lambda value: str(value) if isinstance(value, Path) else value, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string"}],
            "description": "A share, or a CSV file whose column 'vertex' lists the vertices.",
            "examples": ["30 %", "test_ids.csv"],
        }
    ),
]


class Split(Section):
    """How each client's vertices are divided: as shares of them, or as tables of vertices.

    A table takes its vertices first; the others are divided among those that have shares, in the ratio of these.
    """

    train: Share = 0.2
    val: Share = 0.4
    test: Share = 0.4
    by: Literal["class", "client", "given"] = Field(
        default="class",
        description="The shares are of each class at a client, or of all that it holds; given: the data set's own "
        "split, and the shares are not used.",
    )
    rounding: Literal["sum", "each"] = Field(
        default="sum", description="Round train and train + val down, or train and val each; the rest tests."
    )
    numpy_seed: int | None = Field(default=None, ge=0, description="Split with NumPy's legacy generator and this seed.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.train == 0:
            raise ValueError("train is 0, so nothing could be learned; give it a share")
        if any(isinstance(value, Path) for value in (self.train, self.val, self.test)):
            if self.by == "given" or self.numpy_seed is not None:
                other = "by: given" if self.by == "given" else "numpy_seed"
                raise ValueError(f"a table of vertices and {other} both say which vertices are in a split; keep one")
            return self
        assert isinstance(self.train, float)
        assert isinstance(self.val, float)
        assert isinstance(self.test, float)
        if abs(self.train + self.val + self.test - 1) > 1e-9:
            raise ValueError(f"train + val + test is {self.train + self.val + self.test:.6g}: it must be 1")
        if self.by != "class" and self.numpy_seed is not None:
            raise ValueError(f"numpy_seed divides class by class; leave it out, or 'by: {self.by}'")
        if self.rounding != "sum" and self.numpy_seed is not None:
            raise ValueError("numpy_seed rounds train and train + val down; leave it out, or 'rounding: each'")
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
