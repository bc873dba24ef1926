"""Check that nothing is changed in place or drawn from global random numbers, and that a seed repeats its results."""

from fedsim.core.seeds import seeded
from fedsim.trial import trees
from fedsim.trial.play import Event, Play
from fedsim.trial.trial import Finding, Trial, broken

SHOWN = 3  # changes in place that are reported one by one
REMEDIES = {
    "job.memory": 'make a new value and replace the entry, job.memory["name"] = old + new; on tensors no methods that '
    "end in an underscore, no +=, no assignment to slices",
    "job.download": "the server and other clients hold the same tensors: work on new ones",
    "job.data": "the graph belongs to all jobs of the client: work on a copy, such as {**job.data, ...}",
    "state": 'return a new state, such as {**state, "model": ...}, with new tensors: old versions are still in use',
    "reply.upload": "other servers may aggregate the same reply: work on new tensors",
    "memory": "only work writes to a memory",
}
DRAW = (
    "draw from a generator of your own: torch.Generator().manual_seed(integer(job.seed, ...)) in a client's work, with "
    "self.task.seed and something kept in the state on the server (integer is in fedsim.core.seeds)"
)


def check_in_place(trial: Trial) -> list[Finding]:
    """Report every entry that a call has changed, each once."""
    changes: dict[tuple[str, str, str], Event] = {}
    for event in trial.recording.changes:
        changes.setdefault((event.method, event.what, event.path), event)
    findings = [_change(trial, event) for event in [*changes.values()][:SHOWN]]
    if len(changes) > SHOWN:
        findings.append(broken(f"and {len(changes) - SHOWN} more changes in place"))
    return findings


def _change(trial: Trial, event: Event) -> Finding:
    method = "the training that work asks for" if event.method == "train" else event.method
    what = f"{event.what}{event.path}{event.whose} is changed in place by {method}"
    return broken(what, trial.method(event.method), REMEDIES[event.what])


def check_random(trial: Trial) -> list[Finding]:
    """Report every method that draws global random numbers."""
    draws = dict.fromkeys((event.method, event.what) for event in trial.recording.draws if event.method != "train")
    reason = "whose order depends on who is trained together"
    return [
        broken(f"{method} draws from the global random numbers of {library}, {reason}", trial.method(method), DRAW)
        for method, library in draws
    ]


def check_repeats(trial: Trial) -> list[Finding]:
    """Play the same rounds with other global random numbers and report the first result that differs."""
    with seeded(1):
        again = trial.play()
    difference = _first_difference(trial.played, again)
    if difference is None:
        return []
    what, method = difference
    message = f"{what} differs when the same rounds are played again with the same seed"
    return [broken(message, trial.method(method), f"{DRAW}; time, object ids and sets of texts have no fixed order")]


def _first_difference(play: Play, other: Play) -> tuple[str, str] | None:
    """Return the first result that differs, and the method that made it."""
    for (what, method, first), (_, _, second) in zip(play.results(), other.results(), strict=False):
        if paths := trees.changed(trees.digests(first), trees.digests(second)):
            return what.format(paths[-1]), method
    return None if len(play.folds) == len(other.folds) else ("the number of steps", "steps")
