"""The plan of the reference table: `scenarios/reference/plan.yaml`, which cells there are, and with which budgets.

Each deployment is a scenario file beside it.  A dotted key under `set` changes a key of that scenario; the later of
deployment, data, task, protocol and method wins.  Cells come in the order of the settings, then of protocols and
methods as they are listed.

A run ends when the first of its setting's two budgets is used up, or its protocol is through.  A task's periods arrive
by the clock, one after each share `arrive` of the time budget, so that all contenders meet the same data at the same
moments.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from fedsim.core.errors import UserError
from fedsim.core.units import Bytes, Count, Fraction, Seconds
from fedsim.reference.cell import GIVEN, HALVED, Budget, Cell, SettingKey
from fedsim.scenario.part import Part, Section
from fedsim.scenario.text import messages as wording
from fedsim.scenario.text import yaml_text

FILE = Path("scenarios/reference/plan.yaml")
ScenarioKeys = dict[str, Any]  # dotted keys of a scenario, and their values


class PlanTask(Section):
    """What is learned: keys of the scenario, the splits scored, and how the data arrive."""

    set: ScenarioKeys = Field({})
    splits: list[str] = Field(["test"])
    arrive: Fraction | None = None


class Deployment(Section):
    """A deployment: its protocols, whose parts name the number of clients."""

    protocols: dict[str, Part]
    set: ScenarioKeys = Field({})


class Method(Section):
    """An algorithm, the tasks and protocols that it fits, and the keys that it needs."""

    algorithm: Part
    tasks: list[str]
    protocols: list[str]
    set: ScenarioKeys = Field({})


class Setting(Section):
    """A deployment with data: its budgets, the tasks and protocols run, whether links are halved too."""

    deployment: str
    data: str
    tasks: list[str]
    protocols: list[str]
    bytes: Bytes
    time: Seconds
    methods: dict[str, list[str]] = Field({}, description="By protocol: those run here. Otherwise all that fit.")
    halved: dict[str, list[str]] = Field({}, description="By task: protocols that are also run at half the rates.")

    def run_with(self, links: str) -> dict[str, list[str]]:
        """Return the protocols of each task that are run with links as given, or with halved ones."""
        return dict.fromkeys(self.tasks, self.protocols) if links == GIVEN else self.halved


class Trials(Section):
    """How hyper-parameters are chosen: with which seeds, how many trials for each contender, over which rates."""

    seeds: list[Count] = Field(min_length=1)
    count: Count
    share: Fraction = Field(description="Of the setting's budgets.")
    lr: tuple[float, float]
    splits: list[str] = Field(["val"])


class LeftOut(Section):
    """What is not in the table, and why."""

    what: str
    why: str


class Plan(Section):
    """The whole plan."""

    seeds: list[int] = Field(min_length=1)
    trials: Trials
    data: dict[str, ScenarioKeys]
    tasks: dict[str, PlanTask]
    deployments: dict[str, Deployment]
    methods: dict[str, Method]
    settings: list[Setting]
    left_out: list[LeftOut] = Field([])
    notes: list[str] = Field([], description="What else a reader of the page should know.")

    @model_validator(mode="after")
    def _names(self) -> "Plan":
        for place, names, known in self._named():
            if unknown := [name for name in names if name not in known]:
                raise ValueError(f"{place}: there is no {unknown[0]!r}; there are {', '.join(known)}")
        return self

    def _named(self) -> Iterator[tuple[str, list[str], Mapping[str, Any]]]:
        for number, setting in enumerate(self.settings):
            place = f"settings.{number}"
            yield f"{place}.deployment", [setting.deployment], self.deployments
            yield f"{place}.data", [setting.data], self.data
            yield f"{place}.tasks", setting.tasks, self.tasks
            yield f"{place}.protocols", setting.protocols, self.deployments[setting.deployment].protocols
            yield f"{place}.halved", [*setting.halved], dict.fromkeys(setting.tasks)
            for task, protocols in setting.halved.items():
                yield f"{place}.halved.{task}", protocols, dict.fromkeys(setting.protocols)
            yield f"{place}.methods", [*setting.methods], dict.fromkeys(setting.protocols)
            for protocol, names in setting.methods.items():
                yield f"{place}.methods.{protocol}", names, self.methods
        for name, method in self.methods.items():
            yield f"methods.{name}.tasks", method.tasks, self.tasks

    def setting(self, key: SettingKey) -> Setting:
        """Return the setting of a deployment, data and task.  Raises UserError if the plan has none."""
        for setting in self.settings:
            if (setting.deployment, setting.data) == key[:2] and key.task in setting.tasks:
                return setting
        raise UserError(f"{FILE.name} has no setting {key}")

    @property
    def budgets(self) -> dict[SettingKey, Budget]:
        """The budgets of each setting."""
        return {
            SettingKey(setting.deployment, setting.data, task): Budget(setting.bytes, setting.time)
            for setting in self.settings
            for task in setting.tasks
        }

    def cells(self) -> Iterator[Cell]:
        """Yield all cells: those with links as given before those at half the rates, setting by setting."""
        for links in (GIVEN, HALVED):
            for setting in self.settings:
                for task, protocols in setting.run_with(links).items():
                    for method, protocol in self._contenders(setting, task, protocols):
                        for seed in self.seeds:
                            yield Cell(setting.deployment, setting.data, task, method, protocol, links, seed)

    def _contenders(self, setting: Setting, task: str, protocols: list[str]) -> Iterator[tuple[str, str]]:
        for protocol in protocols:
            for name in self.methods:
                if self.has(setting, task, name, protocol):
                    yield name, protocol

    def has(self, setting: Setting, task: str, name: str, protocol: str) -> bool:
        """Return whether a setting runs a method under a protocol with a task."""
        fits = task in self.methods[name].tasks and protocol in self.methods[name].protocols
        here = task in setting.tasks and protocol in setting.protocols
        return fits and here and name in setting.methods.get(protocol, [name])


def read(path: Path) -> Plan:
    """Return the plan in a file.  Raises UserError, naming file and key, if it is not one."""
    try:
        return Plan.model_validate(yaml_text.read(path.read_text("utf-8"), str(path), {}))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; run this in fedsim's own folder") from None
    except ValidationError as error:
        problems = wording.problems(error.errors(include_url=False), ())
        raise UserError("\n".join(f"{path}: {problem}" for problem in problems)) from None
