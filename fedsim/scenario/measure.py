"""The section `measure`: what is scored, how often, and when the run ends.

Whether a task has such predictions, and a stream such splits, is checked where something is learned
(fedsim/learner/scoring/split.py).
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator as Before
from pydantic import Field, model_serializer, model_validator

from fedsim.core.units import Bytes, Count, Duration, Energy, Every, Fraction, Mass, Updates
from fedsim.scenario.part import Section, ShortSection
from fedsim.scenario.text import messages as wording


def _distinct(values: Any) -> Any:
    if isinstance(values, list) and len(set(map(repr, values))) < len(values):
        raise wording.Entries(f"{values} names something twice")
    return values


def _without_options(value: Any) -> Any:
    if isinstance(value, dict):
        raise ValueError("a metric or a split has no options: write its name")
    return value


Named = Annotated[str, Before(_without_options)]
Heuristic = Literal["degree", "common_neighbours", "persistence", "foreign_neighbours"]


SPLITS = "What is scored: names of files in fedsim/learner/scoring/splits/ (see --list split) or in your own splits/."


OVER = (
    "What a score of several clients is of, where the metric is no mean over nodes or links (macro F1, AUC, average "
    "precision, MRR): 'predictions': all that they predict at one moment, as one test; 'clients': the mean of their "
    "own scores, by the number of nodes or links."
)


TARGET_ON = (
    "What a target counts on: 'all_periods': the score over all periods of the stream, arrived or not, which is then "
    "scored too (where it cannot be, the score over the periods met, once all have arrived); "
    "'each_period': the score of each period alone, from its arrival on, means over periods."
)


SPENT = "as typical figures have it; needs a section costs."
PositiveBytes = Annotated[Bytes, Field(gt=0)]
COSTLY = ("energy", "carbon", "usd")
AMOUNTS = ("updates", "bytes", "bytes_up", "bytes_down", *COSTLY)  # budgets other than time


class Until(ShortSection):
    """The end of the run: a time, or budgets (fedsim/clock/budget.py), of which the first or last one ends it."""

    short_key, short_types = "time", (str, int, float)
    short_schema: ClassVar = {"type": "string", "examples": ["10 min"]}

    time: Duration | None = Field(default=None, description="Simulated.")
    updates: Count | None = None
    bytes: PositiveBytes | None = Field(default=None, description="Up and down, on the wire.")
    bytes_up: PositiveBytes | None = Field(default=None, description="From clients, on the wire.")
    bytes_down: PositiveBytes | None = Field(default=None, description="To clients, on the wire.")

    energy: Annotated[Energy, Field(gt=0)] | None = Field(default=None, description=f"Of all; {SPENT}")
    carbon: Annotated[Mass, Field(gt=0)] | None = Field(default=None, description=f"Of CO2 equivalent; {SPENT}")
    usd: float | None = Field(default=None, gt=0, description=f"Of all; {SPENT}")
    when: Literal["any", "all"] = Field(default="any", description="How many of them are used up at the end.")

    @model_validator(mode="after")
    def _has_a_budget(self) -> Self:
        if self.time is None and not self.limits():
            raise ValueError(f"names no budget; there are time, {', '.join(AMOUNTS)}")
        return self

    @model_serializer(mode="wrap")
    def _short(self, serialize: Any) -> Any:
        given = {name: value for name, value in serialize(self).items() if value not in (None, "any")}
        return given["time"] if set(given) == {"time"} else given

    def limits(self) -> dict[str, float]:
        """Return the budgets that are set, other than time."""
        return {name: most for name in AMOUNTS if (most := getattr(self, name)) is not None}

    @property
    def waits(self) -> bool:
        """Whether the run goes on until budgets other than time are used up too."""
        return self.when == "all" and bool(self.limits())

    @property
    def metered(self) -> bool:
        """Whether there is a budget of bytes or of costs, so that they must be counted as they arise."""
        return self.spends or any(name.startswith("bytes") for name in self.limits())

    @property
    def spends(self) -> bool:
        """Whether there is a budget of energy, carbon or money."""
        return any(name in COSTLY for name in self.limits())


class Measure(Section):
    """What is scored, how often, and when the run ends."""

    metrics: Annotated[list[Named], Before(_distinct), Field(min_length=1)] = Field(default=["accuracy"])
    over: Literal["predictions", "clients"] = Field(default="predictions", description=OVER)
    models: Annotated[list[Literal["global", "local"]], Before(_distinct), Field(min_length=1)] = Field(
        default=["global"]
    )
    splits: Annotated[list[Named], Before(_distinct), Field(min_length=1, description=SPLITS)] = Field(default=["test"])
    heuristics: Annotated[list[Heuristic], Before(_distinct)] = Field(
        default=[], description="Scorers without a model, on the pairs that are the same for every run."
    )
    every: Every = Updates(1)
    until: Until | None = Field(default=None, description="End of the run: a simulated time, or budgets.")
    target: Fraction | None = Field(default=None, description="A score; the cost of reaching it is reported.")
    target_on: Literal["all_periods", "each_period"] = Field(default="all_periods", description=TARGET_ON)
    views: bool = Field(
        default=False, description="Record everything that every client receives, array by array: views/."
    )

    keep: Literal["weights"] | None = Field(
        default=None, description="What a run leaves beside its tables: weights, the state dict of its final model "
        "(model.pt).",
    )  # fmt: skip

    @model_serializer(mode="wrap")
    def _short(self, serialize: Any) -> Any:
        """Leave out later keys where they have their defaults, so that points keep their ids."""
        usual = {"over": "predictions", "keep": None}
        return {key: value for key, value in serialize(self).items() if key not in usual or value != usual[key]}

    @property
    def on_fixed_test(self) -> bool:
        """Whether a target counts on the test nodes of all periods, arrived or not."""
        return self.target is not None and self.target_on == "all_periods" and self.splits[0] == "test"
