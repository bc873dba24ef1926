"""The sections about learning: `data`, `training`, `cohort` and `privacy`.

What the parts make of a graph is not here (fedsim/data/).  `cohort` changes only how the host computes.
Whether an algorithm and a protocol allow what protects uploads is checked elsewhere
(fedsim/point/checks/fit.py).
"""

from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator as Before
from pydantic import Field, PlainSerializer, WithJsonSchema, model_validator

from fedsim.core.table import found_file
from fedsim.core.units import Bytes, Count, Fraction, NonNegative, Positive, fraction, nearest
from fedsim.scenario.part import Part, Section, ShortSection


def _share_or_file(value: Any) -> Any:
    text = str(value)
    named = isinstance(value, Path) or (isinstance(value, str) and (Path(text).suffix.lower() == ".csv" or "/" in text))
    return found_file(value) if named else fraction(value)


ShareOrTable = Annotated[
    float | Path,
    Before(_share_or_file),
    PlainSerializer(lambda value: str(value) if isinstance(value, Path) else value, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string"}],
            "description": "A share, or a CSV file whose column 'node' lists the nodes.",
            "examples": ["30 %", "test_ids.csv"],
        }
    ),
]


class SplitSection(Section):
    """How each client's nodes are divided: as shares of them, or as tables of nodes.

    A table takes its nodes first; the others are divided among those that have shares, in the ratio of these.
    """

    train: ShareOrTable = 0.2
    val: ShareOrTable = 0.4
    test: ShareOrTable = 0.4
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
    def _consistent(self) -> Self:
        if self.train == 0:
            raise ValueError("train is 0, so nothing could be learned; give it a share")
        shares = [share for share in (self.train, self.val, self.test) if isinstance(share, float)]
        if len(shares) < 3:
            if self.by == "given" or self.numpy_seed is not None:
                other = "by: given" if self.by == "given" else "numpy_seed"
                raise ValueError(f"a table of nodes and {other} both say which nodes are in a split; keep one")
            return self
        if abs(sum(shares) - 1) > 1e-9:
            raise ValueError(f"train + val + test is {sum(shares):.6g}: it must be 1")
        if self.by != "class" and self.numpy_seed is not None:
            raise ValueError(f"numpy_seed divides class by class; leave it out, or 'by: {self.by}'")
        if self.rounding != "sum" and self.numpy_seed is not None:
            raise ValueError("numpy_seed rounds train and train + val down; leave it out, or 'rounding: each'")
        return self


class Keep(Section):
    """How much of each client's data is kept, for studies of sparse data; the rest is removed at random."""

    features: Fraction = Field(default=1.0, gt=0, description="Share of feature entries kept; the others become zero.")
    edges: Fraction = Field(default=1.0, gt=0, description="Undirected edges.")
    labels: Fraction = Field(default=1.0, gt=0, description="Share of training labels kept.")
    fanout: Count | None = Field(default=None, description="Largest number of neighbours of a node at its client.")


class Data(Section):
    """The graph, its partition among clients, how much of it is kept, and when it arrives."""

    dataset: Part
    partition: Part = Part(name="louvain")
    split: SplitSection = SplitSection()
    keep: Keep = Keep()
    stream: Part = Part(name="static")


OPTIMISERS = ("adam", "sgd")  # which train whole cohorts at once


class OptimiserPart(Part):
    """`adam` or `sgd`, or a class of torch.optim with its options: `{name: torch.optim.AdamW, betas: [0.9, 0.99]}`."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        name = value.get("name") if isinstance(value, dict) else getattr(value, "name", value)
        if name in OPTIMISERS or (isinstance(name, str) and name.startswith("torch.optim.")):
            return value
        known = " or ".join(map(repr, OPTIMISERS))
        hint = f"; did you mean {near!r}?" if (near := nearest(str(name), OPTIMISERS)) else ""
        raise ValueError(f"{name!r} is not one of {known}, nor a class such as 'torch.optim.AdamW'{hint}")

    @model_validator(mode="after")
    def _plain(self) -> Self:
        if self.name in OPTIMISERS and self.options:
            raise ValueError(f"{self.name} has no options here: lr, weight_decay and momentum are keys of training")
        return self

    @property
    def of_torch(self) -> bool:
        """Whether it is a class of torch.optim, which trains client by client."""
        return self.name not in OPTIMISERS

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe both ways of writing it."""
        name = {"anyOf": [{"enum": [*OPTIMISERS]}, {"type": "string", "pattern": r"^torch\.optim\.\w+$"}]}
        named = {"type": "object", "properties": {"name": name}, "required": ["name"]}
        return {"anyOf": [*name["anyOf"], named], "description": cleandoc(cls.__doc__ or "")}


class Training(Section):
    """A client's local training in one job."""

    optimiser: OptimiserPart
    lr: Positive
    weight_decay: NonNegative = 0.0
    momentum: float = Field(default=0.0, ge=0, lt=1)
    local_steps: Count = 1
    keep_state: bool = Field(default=True, description="Keep the optimiser's state from one job to the next.")
    clip: Positive | None = Field(default=None, description="Largest norm of a client's gradient; default: no limit.")
    schedule: Literal["constant", "cosine"] = Field(
        default="constant", description="The learning rate over a job's local steps; cosine: down towards 1e-5."
    )
    batch: Count | None = Field(
        default=None,
        description="Training rows of a client that a step of a torch module learns from; default: all of them.",
    )
    neighbours: list[Count] | None = Field(
        default=None,
        description="Most in-neighbours that are drawn of each node of a batch, then of each of these, and so on; "
        "default: the whole graph.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.neighbours is not None and self.batch is None:
            raise ValueError("neighbours are drawn around a batch: give one, such as batch: 512, or leave them out")
        if self.neighbours == []:
            raise ValueError("neighbours is empty: give a number for each layer, such as [10, 10], or leave it out")
        if self.optimiser.of_torch and self.momentum:
            raise ValueError("momentum belongs to sgd: make it an option, {name: torch.optim.SGD, momentum: 0.9}")
        return self


class CohortSection(ShortSection):
    """How clients that train at the same time are computed: `loop`, or `{mode: loop, memory: 2 GiB}`."""

    short_key, short_types = "mode", (str,)
    short_schema: ClassVar = {"type": "string", "enum": ["union", "loop"]}

    mode: Literal["union", "loop"] = Field(
        default="union", description="Train clients in one computation, or one by one."
    )
    memory: Bytes = Field(default=2**30, description="Approximate memory of one computation; larger ones are split.")


class SecureAggregation(ShortSection):
    """Messages of pairwise masking (fedsim/net/masking.py): true, or a mapping with its options."""

    short_key, short_types = "on", (bool,)
    short_schema: ClassVar = {"type": "boolean"}

    on: bool = True
    neighbours: int | None = Field(
        default=None,
        ge=2,
        multiple_of=2,
        description="Number of other clients with which a client shares its secrets; null: all.",
    )
    threshold: Fraction = Field(default=0.5, description="More than this share of them must answer.")
    bits: int = Field(default=32, ge=8, le=64, description="Bits per value before it is added to others.")


class Privacy(Section):
    """Protection of uploads: differential privacy if `clip` is given, and secure aggregation."""

    clip: Positive | None = Field(default=None, description="Largest norm of an upload's difference.")
    noise: NonNegative = Field(
        default=0.0, description="Standard deviation of the noise on their sum, as a multiple of clip."
    )
    delta: float = Field(
        default=1e-5, gt=0, lt=1, description="Epsilon is reported at this delta; it should be well below 1 / clients."
    )
    secure_aggregation: SecureAggregation = SecureAggregation(on=False)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.noise and self.clip is None:
            raise ValueError(f"noise is {self.noise:g} and there is no clip: it is a multiple of clip; give one")
        return self
