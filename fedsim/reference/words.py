"""The fixed words of the page, and the lines that both of its forms have."""

from analysis.quantity import BYTES, SECONDS, show
from fedsim.reference.findings import Findings, Outcome

TITLE = "Every method at equal bytes and at equal seconds"
INTRODUCTION = (
    "What each method reaches when all may send the same bytes, and when all may take the same time, in four"
    " deployments."
)
ABOUT = (
    "[reference.html](reference.html), opened in a browser, has the same with tables that sort, and charts. Ten"
    " sentences, computed from the tables:"
)
HOW_TO_READ = (
    "A row is a contender: a method under a protocol. The six columns are its accuracy in percent, mean ± half of the"
    " 95 % interval (Student's t over seeds), at 1 %, 10 % and 100 % of the setting's budgets of bytes (B, both"
    " directions, on the wire) and of simulated seconds (s). The test is the same throughout: all test vertices of all"
    " periods, met or not. The leader is in bold. Those marked `=` are level with it: the interval of their paired"
    " differences from it, seed by seed, includes zero. Neither that nor any other comparison here is corrected for the"
    " number of comparisons. A number in brackets says how many seeds have a score, where not all have; such a"
    " contender is not called a leader. A dash: nobody has trained yet. The last three columns are the bytes and the"
    " time until 90 % of the best mean final score, means over the seeds that get there, and how many do. Rows are"
    " sorted by the final score."
)
PAIRS = (
    "The pairs whose last scores have a 95 % interval of paired differences that includes zero. There is no correction"
    " for the many comparisons in this list: of the pairs that do not differ at all, about one in twenty is missing."
    " How many pairs cannot be told apart with Holm's correction within a setting stands beside each number."
)


def budgets_of(one: Outcome) -> str:
    """Return a setting's budgets, the number of its seeds and the target as a sentence."""
    limits = f"{show(one.budget.bytes, BYTES)} and {show(one.budget.seconds, SECONDS)}"
    goal = "" if one.target != one.target else f"; 90 % of the best is {100 * one.target:.1f} %"
    return f"Budgets {limits}; {one.final.seeds} seeds{goal}."


def counted_pairs(one: Outcome) -> str:
    """Return how many of a setting's pairs cannot be told apart, without and with a correction."""
    tested = [pair for pair in one.pairs if pair.tested]
    level, corrected = len(one.level_pairs), sum(not pair.holm for pair in tested)
    rest = len(one.pairs) - len(tested)
    more = f"; {rest} more lack seeds" if rest else ""
    return f"{level} of {len(tested)} pairs ({corrected} with Holm's correction){more}"


def about_flips(found: Findings) -> str:
    """Return what is compared with halved links, and how often another contender leads."""
    if not found.halved:
        return "No setting was run with halved links."
    counted = f"{len(found.flips)} of {len(found.halved)}" if found.flips else f"None of {len(found.halved)}"
    return (
        "The same runs with half of every client's rates, at the same budgets, among the contenders that were run with"
        f" both. {counted} leaders change. A change is significant if the one that leads as given is then"
        " significantly behind."
    )
