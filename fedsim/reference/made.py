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
        f"Hyper-parameters: every method had {own.count} trials of each task, the first as its algorithm is written, "
        f"the others drawn at random: learning rates from {own.lr[0]:g} to {own.lr[1]:g}, the same for all methods, "
        f"and the options that the algorithm declares. A trial ran on {own.deployment} with {own.data} (a task that "
        f"is not run there: in the first setting that has it), with seed {own.seed}, which the table does not use, and "
        f"{own.share:.0%} of the budgets; the best last score on validation data was taken everywhere. "
        "`scenarios/reference/trials.csv` has them all."
    )
    if plan.notes:
        yield " ".join(plan.notes)


def _left_out(plan: Plan) -> str:
    lines = [f"- {one.what}: {one.why}." for one in plan.left_out]
    return "\n".join(["Left out:", "", *lines])
