"""The promise that nothing is changed in place: memory, download, data, state and replies; and a warning for what is
kept elsewhere, on the algorithm or in its module, where neither a checkpoint nor an interrupted job finds it.
"""

from fedsim.trial.finding import Finding, broken, warning
from fedsim.trial.trial import Trial
from fedsim.trial.watch import KEPT, Event

SHOWN = 3  # changes of which the line is looked for
REMEDY = {
    "job.memory": 'make a new value and replace the entry, job.memory["name"] = old + new; on tensors no methods that '
    "end in an underscore, no +=, no assignment to slices",
    "job.download": "the server and other clients hold the same tensors: work on new ones",
    "job.data": "the graph belongs to all jobs of the client: work on a copy, such as {**job.data, ...}",
    "state": 'return a new state, such as {**state, "model": ...}, with new tensors: old versions are still in use',
    "reply.upload": "other servers may fold the same reply: work on new tensors",
    "memory": "only work writes to a memory",
}


def check(trial: Trial) -> list[Finding]:
    """Report every entry that a call has changed, each once, with the line that did."""
    found: dict[tuple[str, str, str], Event] = {}
    for event in trial.recording.changes:
        if event.what not in KEPT:
            found.setdefault((event.method, event.what, event.path), event)
    findings = [_told(trial, event) for event in [*found.values()][:SHOWN]]
    if len(found) > SHOWN:
        findings.append(broken(f"and {len(found) - SHOWN} more changes in place"))
    return findings


def _told(trial: Trial, event: Event) -> Finding:
    what = f"{event.what}{event.path}{event.whose} is changed in place by {_by(event.method)}"
    return broken(what, trial.line_of(event), REMEDY[event.what])


def check_kept(trial: Trial) -> list[Finding]:
    """Warn of what is kept on the algorithm or in its module from one call to another."""
    found: dict[str, Event] = {}
    for event in trial.recording.changes:
        if event.what in KEPT:
            found.setdefault(f"{event.what}{event.path}", event)
    return [
        warning(
            f"{_by(event.method)} changes {_name(event)}, which outlives the call: a run that continues from a "
            "checkpoint does not have it",
            trial.line_of(event),
            "keep what the server needs in the state, and what a client needs in job.memory",
        )
        for event in [*found.values()][:SHOWN]
    ]


def _by(method: str) -> str:
    return "the training that work asks for" if method == "train" else method


def _name(event: Event) -> str:
    first = event.path.split("]")[0].strip("['\"")
    return f"self.{first}" if event.what == "self" else f"the module's variable {first}"
