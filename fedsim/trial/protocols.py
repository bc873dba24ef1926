"""The promise that an algorithm runs under every protocol that comes with fedsim, or is refused with a reason."""

from collections.abc import Mapping
from typing import Any

from fedsim.core.errors import ScenarioError, UserError
from fedsim.point.check import points as check_points
from fedsim.point.run import run
from fedsim.scenario import find
from fedsim.scenario.part import Part
from fedsim.trial.finding import Finding, broken
from fedsim.trial.stage import folder
from fedsim.trial.trial import Trial

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
    """Run a small point under each protocol; notes say which have run, and why the others were refused."""
    ran: list[str] = []
    refused: list[Finding] = []
    failed: dict[tuple[str, str], tuple[list[str], str]] = {}  # by kind and line: under which protocols, and the words
    for name in names():
        try:
            outcome = _run(trial, name)
        except UserError as error:
            refused.append(Finding("note", f"refused: {_reason(error)}"))
        except Exception as error:  # whatever the author's code raises is what is looked for
            message = f"it fails: {type(error).__name__}: {error}"
            failed.setdefault((message.split(": ")[1], trial.author.line_of_error(error)), ([], message))[0].append(
                name
            )
        else:
            if outcome == "stalled":
                failed.setdefault(("", ""), ([], "it stalls: nobody is asked or replies any more"))[0].append(name)
            else:
                ran.append(name)
    wrong = [
        broken(f"under {', '.join(under)} {message}", where, "what cannot work is refused by raising UserError")
        for (_, where), (under, message) in failed.items()
    ]
    return [*wrong, *([Finding("note", f"it runs under {', '.join(ran)}")] if ran else []), *refused]


def _run(trial: Trial, name: str) -> str:
    changes: dict[str, Any] = {"protocol": {"name": name, **OPTIONS[name]}}
    if name in TOPOLOGIES:
        changes["network__topology"] = TOPOLOGIES[name]
    if name == "one_shot":  # which asks once, whatever comes later
        changes["data__stream"] = _still(trial.stage.keys["data"]["stream"])
    with folder() as there:
        point = trial.stage.point(**changes)
        if wrong := check_points([point], whole=True):
            raise ScenarioError(wrong)
        return str(run(point, there, there, lambda progress: None)["status"])


def _still(stream: Any) -> Any:
    return {"name": "static"} if stream["name"] == "class_incremental" else stream


def _reason(error: UserError) -> str:
    return "; ".join(problem.message for problem in error.problems) if isinstance(error, ScenarioError) else str(error)
