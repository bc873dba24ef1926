"""How counts and names are put into a sentence."""

from collections import Counter
from collections.abc import Iterable

from analysis.groups import joined
from fedsim.reference.terms import Contender

MOST_NAMED = 3  # contenders in one place of a sentence


def of(count: int, whole: int, what: str = "setting") -> str:
    """Return "3 of 9 settings", "all 9 settings", "both settings", "the only setting" or "no setting"."""
    if count == 0:
        return f"no {what}"
    if count == whole:
        return f"the only {what}" if whole == 1 else f"both {what}s" if whole == 2 else f"all {whole} {what}s"
    return f"{count} of {whole} {what}s"


def often(count: int) -> str:
    """Return "once" or "3 times"."""
    return "once" if count == 1 else f"{count} times"


def most_frequent(names: Iterable[Contender]) -> str:
    """Return who is named most often: "power/sync (3 times)", "a/sync or b/sync (2 times each)", "nobody"."""
    counts = Counter(names)
    if not counts:
        return "nobody"
    most = max(counts.values())
    first = sorted(str(name) for name, count in counts.items() if count == most)
    if most == 1 and len(first) > 1:
        return "another one each time"
    said = joined(first, "or") if len(first) <= MOST_NAMED else f"one of {len(first)}"
    return f"{said} ({often(most)}{' each' if len(first) > 1 else ''})"


def points(difference: float) -> str:
    """Return the size of a difference of fractions in percentage points: "2.3 points"."""
    return f"{abs(difference) * 100:.1f} points"


def times(ratio: float) -> str:
    """Return a ratio: "2.4", from ten on "24"."""
    return f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:,.0f}"


def share(count: int, whole: int) -> str:
    """Return a share of a whole: "24 %"."""
    return f"{100 * count / whole:.0f} %"
