"""Check that an algorithm runs under every protocol that comes with fedsim, or is refused with a reason."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fedsim.core.errors import ScenarioError, UserError
from fedsim.point.checks.check import points as check_points
from fedsim.point.run import run
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, source
from fedsim.trial.stage import folder
from fedsim.trial.trial import Finding, Trial, broken

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "sync": {"rounds": 4, "participation": 0.6},
    "deadline": {"rounds": 4, "clients": 2, "wait": "20 s", "over": 1.5},
    "buffered": {"rounds": 4, "clients": 3, "buffer": 2, "staleness": "hinge", "a": 1.0, "b": 1.0},
    "one_shot": {"enough": 0.8, "retry": True, "late": "fold"},
    "hierarchical": {"rounds": 2, "edge_rounds": 2, "participation": 1.0},
    "gossip": {"rounds": 3},
    "isolated": {"rounds": 3, "participation": 0.6},
}
TOPOLOGIES: Mapping[str, Mapping[str, Any]] = {
    "hierarchical": {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"},
    "gossip": {"name": "peers", "graph": "ring"},
}


def names() -> list[str]:
    """Return the protocols that ask clients to work."""
    return [name for name in find.names("protocol") if find.find("protocol", Part(name=name), name).asks]


def check(trial: Trial) -> list[Finding]:
    """Run a small point under each protocol; notes say which run, and why the others are refused."""
    outcomes = {name: _outcome(trial, name) for name in names()}
    ran = [name for name, outcome in outcomes.items() if outcome is None]
    failed = dict.fromkeys(outcome for outcome in outcomes.values() if outcome and outcome.kind == "broken")
    findings = []
    for failure in failed:
        under = ", ".join(name for name, outcome in outcomes.items() if outcome == failure)
        findings.append(replace(failure, what=f"under {under} {failure.what}"))
    if ran:
        findings.append(Finding("note", f"it runs under {', '.join(ran)}"))
    return findings + [outcome for outcome in outcomes.values() if outcome and outcome.kind == "note"]


def _outcome(trial: Trial, name: str) -> Finding | None:
    """Return why a point under the protocol is refused or fails, None if it ends as it should."""
    remedy = "what cannot work is refused by raising UserError"
    try:
        status = _run(trial, name)
    except UserError as error:
        problems = error.problems if isinstance(error, ScenarioError) else []
        return Finding("note", f"refused: {'; '.join(problem.message for problem in problems) or error}")
    except Exception as error:  # the author's code may raise anything
        return broken(f"it fails: {source.in_a_line(error)}", source.place_of(error), remedy)
    return broken("it stalls: nobody is asked or replies any more", "", remedy) if status == "stalled" else None


def _run(trial: Trial, name: str) -> str:
    changes: dict[str, Any] = {"protocol": {"name": name, **OPTIONS[name]}}
    if name in TOPOLOGIES:
        changes["network__topology"] = TOPOLOGIES[name]
    if name == "one_shot":  # asks once, whatever comes later
        stream = trial.stage.keys["data"]["stream"]
        changes["data__stream"] = {"name": "static"} if stream["name"] == "class_incremental" else stream
    with folder() as there:
        point = trial.stage.point(**changes)
        if wrong := check_points([point], whole=True):
            raise ScenarioError(wrong)
        return str(run(point, there, there, lambda progress: None)["status"])
