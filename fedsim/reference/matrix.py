"""Who can be told apart at the end of the runs: a setting's pairs as a matrix, below the diagonal alone.

Contenders stand in the order of their means, so that a row is hardly ever significantly above a column.
"""

from html import escape

from analysis.cells import shown_in_points
from fedsim.reference.findings import Outcome
from fedsim.reference.pairs import Pair

STYLE = """
table.pairs { font-size: 12px; } table.pairs th, table.pairs td { padding: 1px 5px; border: 0; }
table.pairs thead th { padding: 1px 5px; } table.pairs th { text-align: left; }
table.pairs td { text-align: center; color: var(--soft); }
table.pairs td.level { background: var(--mark); color: var(--ink); font-weight: 700; }
"""
UNTESTED = "·"
SIGNS = (
    "In the matrix, a row against a column: `=` cannot be told apart, `−` significantly below, `+` above, `·` too few"
    " common seeds."
)


def matrix(one: Outcome) -> str:
    """Return the matrix as a table, contenders in the order of their final scores."""
    names = [row.contender for row in one.final.rows if row.kind != "none"]
    known = {(pair.one, pair.other): pair for pair in one.pairs}
    heads = "".join(f'<th scope="col" title="{escape(str(name))}">{at}</th>' for at, name in enumerate(names[:-1], 1))
    rows = [
        f'<tr><th scope="row">{at + 1} {escape(str(name))}</th>'
        + "".join(_cell(known[better, name]) for better in names[:at])
        + "</tr>"
        for at, name in enumerate(names)
    ]
    whole = f'<table class="pairs"><thead><tr><th scope="col">contender</th>{heads}</tr></thead>'
    place = '<div class="wide" tabindex="0" role="group" aria-label="Matrix of pairs">'
    return f"{place}{whole}<tbody>{''.join(rows)}</tbody></table></div>"


def sign(pair: Pair) -> str:
    """Return the sign of the second of a pair against the first."""
    if not pair.tested:
        return UNTESTED
    return "=" if not pair.apart else "−" if pair.difference.mean > 0 else "+"


def _cell(pair: Pair) -> str:
    kind = ' class="level"' if sign(pair) == "=" else ""
    return f'<td{kind} title="{escape(_told(pair))}">{sign(pair)}</td>'


def _told(pair: Pair) -> str:
    """Return the difference in words: "power/sync less fedavg/sync: -1.2 points (-2.0 to -0.4)"."""
    names = f"{pair.other} less {pair.one}: "
    apart = pair.difference
    if not apart.units:
        return f"{names}no common seed"
    ends = f" ({shown_in_points(-apart.high)} to {shown_in_points(-apart.low)})" if pair.tested else ""
    return f"{names}{shown_in_points(-apart.mean)} points{ends}"
