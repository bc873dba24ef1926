"""How the table was made, as its page says it: what it took, how options were chosen, what is left out and why."""

from collections.abc import Iterator

from fedsim.reference import spent
from fedsim.reference.plan import Plan
from fedsim.reference.results import Results


def text(plan: Plan, known: Results) -> str:
    """Return Markdown: paragraphs, and a list of what is left out."""
    return "\n\n".join([*_paragraphs(plan, known), _left_out(plan)])


def _paragraphs(plan: Plan, known: Results) -> Iterator[str]:
    yield f"{plan.pilot} {spent.summary(plan, known)}".strip()
    own = plan.trials
    yield (
        f"Hyper-parameters: every method had {own.count} trials of each data and task, the first as its algorithm is "
        f"written, the others drawn at random: learning rates from {own.lr[0]:g} to {own.lr[1]:g}, the same for all "
        "methods, and the options that the algorithm declares. A trial ran in the plan's first setting with its data "
        f"and task ({_where(plan)}), with seed {own.seed}, which the table does not use, and {own.share:.0%} of the "
        "budgets (with one exchange alone: all of them); the best last score on validation data was taken in all "
        "deployments. `scenarios/reference/trials.csv` has them all."
    )
    if plan.notes:
        yield " ".join(plan.notes)


def _where(plan: Plan) -> str:
    first: dict[str, str] = {}
    for one in plan.settings:
        first.setdefault(one.data, one.deployment)
    return ", ".join(f"{data} on {deployment}" for data, deployment in first.items())


def _left_out(plan: Plan) -> str:
    lines = [f"- {one.what}: {one.why}." for one in plan.left_out]
    return "\n".join(["Left out:", "", *lines])
