"""The section `measure`: what is scored, how often, and when the run ends.

Whether a task has such predictions, and a stream such splits, is checked where something is learned
(fedsim/learner/asked.py).
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator as After
from pydantic import BeforeValidator as Before
from pydantic import Field, model_serializer, model_validator

from fedsim.core.units import Bytes, Count, Energy, Every, Fraction, Mass, Seconds, Updates
from fedsim.scenario import wording
from fedsim.scenario.section import Section


def _positive(budget: float) -> float:
    if budget == 0:
        raise ValueError("a budget of 0 is used up before anything happens; give more, or leave it out")
    return budget


def _distinct(values: Any) -> Any:
    if isinstance(values, list) and len(set(map(repr, values))) < len(values):
        raise wording.Entries(f"{values} names something twice")
    return values


Scored = Literal[
    "train", "val", "test", "all_periods", "held_out", "pooled", "across", "all_pairs", "own_pairs", "cut_pairs"
]
Heuristic = Literal["degree", "common_neighbours", "persistence", "foreign_neighbours"]


SPLITS = (
    "What is scored, of the periods that clients have met; 'all_periods': the test vertices of all periods of the "
    "stream, met or not, the same test at every moment; 'held_out': the vertices that no client owns; 'pooled': all "
    "clients' test vertices as one graph; 'across': links between clients, where links are predicted on snapshots; "
    "'all_pairs', 'own_pairs', 'cut_pairs': there, too, pairs that are the same test for every run: "
    "all, those within clients, and those between them."
)


OVER = (
    "What a score of several clients is of, where the metric is no mean over vertices or links (macro F1, AUC, average "
    "precision, MRR): 'predictions': all that they predict at one moment, as one test; 'clients': the mean of their "
    "own scores, by the number of vertices or links."
)


TARGET_ON = (
    "What a target counts on: 'all_periods': the score over all periods of the stream, arrived or not, which is then "
    "scored too (where it cannot be, the score over the periods met, once all have arrived); "
    "'each_period': the score of each period alone, from its arrival on, means over periods."
)


SPENT = "as typical figures have it; needs a section costs."
COSTLY = ("energy", "carbon", "usd")


class Until(Section):
    """The end of the run: a time, or budgets (fedsim/clock/budget.py); the first one used up ends it."""

    time: Annotated[Seconds | None, After(_positive)] = Field(default=None, description="Simulated.")
    updates: Count | None = None
    bytes: Annotated[Bytes | None, After(_positive)] = Field(default=None, description="Up and down, on the wire.")
    bytes_up: Annotated[Bytes | None, After(_positive)] = Field(default=None, description="From clients, on the wire.")
    bytes_down: Annotated[Bytes | None, After(_positive)] = Field(default=None, description="To clients, on the wire.")

    energy: Annotated[Energy | None, After(_positive)] = Field(default=None, description=f"Of all; {SPENT}")
    carbon: Annotated[Mass | None, After(_positive)] = Field(default=None, description=f"Of CO2 equivalent; {SPENT}")
    usd: Annotated[float | None, Field(ge=0), After(_positive)] = Field(default=None, description=f"Of all; {SPENT}")

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
        """Whether there is a budget of bytes or of costs, so that they must be counted as they arise."""
        return self.spends or any(name.startswith("bytes") for name in self.limits())

    @property
    def spends(self) -> bool:
        """Whether there is a budget of energy, carbon or money."""
        return any(name in COSTLY for name in self.limits())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        """Describe both ways of writing it."""
        return {"anyOf": [{"type": "string", "examples": ["10 min"]}, handler.resolve_ref_schema(handler(schema))]}


class Measure(Section):
    """What is scored, how often, and when the run ends."""

    metrics: Annotated[list[str], Before(_distinct), Field(min_length=1)] = Field(default=["accuracy"])
    over: Literal["predictions", "clients"] = Field(default="predictions", description=OVER)
    models: Annotated[list[Literal["global", "local"]], Before(_distinct), Field(min_length=1)] = Field(
        default=["global"]
    )
    splits: Annotated[list[Scored], Before(_distinct), Field(min_length=1, description=SPLITS)] = Field(
        default=["test"]
    )
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

    @model_serializer(mode="wrap")
    def _short(self, whole: Any) -> Any:
        """Leave out how scores are pooled where that is the default: points keep the ids that they had before."""
        return {key: value for key, value in whole(self).items() if key != "over" or value != "predictions"}

    @property
    def on_fixed_test(self) -> bool:
        """Whether a target counts on the test vertices of all periods, arrived or not."""
        return self.target is not None and self.target_on == "all_periods" and self.splits[0] == "test"
