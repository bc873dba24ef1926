"""The command line: `python -m analysis.claims` lists claims, reruns one by name, or writes the pages' tables."""

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from analysis import terminal
from analysis.claims import page
from analysis.claims.file import FILE, Claim, ClaimsError, claims, read
from analysis.claims.record import record
from analysis.claims.rerun import rerun
from fedsim.core.errors import exit_code

EXAMPLES = """examples:
  {prog}
      list all claims: name, recorded value, printed value, verdict
  {prog} ghost_main/
      list those whose names begin so
  {prog} --rerun scaffold_drift/all_ten_0_1_scaffold/after_40
      run its command, and say whether the recorded value is within its interval
  {prog} --write
      write the tables of README and of the documents anew
  {prog} --record runs/sparse_clients --write
      take README's table from these results, and write it there

exit codes:
  0  done; with --rerun: the recorded value is within its interval
  1  with --rerun: it is not
  2  a mistake in what was given, or nothing to rerun
"""


def main(arguments: Sequence[str] | None = None, prog: str = "python -m analysis.claims") -> int:
    """List, rerun or write; return the exit code."""
    terminal.prepare()
    about = "The measured numbers of README and of the documents."
    parser = terminal.parser(prog, about, EXAMPLES.format(prog=prog))
    parser.add_argument("prefix", nargs="?", default="", help="list the claims whose names begin so")
    parser.add_argument("--rerun", metavar="NAME", help="run a claim's command and compare")
    parser.add_argument("--out", type=Path, metavar="DIR", help="with --rerun: its runs (default: runs/claims/NAME)")
    parser.add_argument("--record", type=Path, metavar="RESULTS", help="take README's table from finished results")
    parser.add_argument("--write", action="store_true", help="write the tables of all pages")
    return exit_code("claims", partial(_done, parser.parse_args(arguments)), "the same command begins anew")


def _done(options: argparse.Namespace) -> int:
    """Do what the options ask for, and return the exit code."""
    if options.record is not None:
        record(options.record)
        print(FILE)
    if options.write:
        print(*page.write(read()), sep="\n")
    if options.record is not None or options.write:
        return 0
    known = claims(read())
    if options.rerun is not None:
        return _rerun(_named(known, options.rerun), options.out)
    return _listed(known, options.prefix)


def _named(known: Sequence[Claim], name: str) -> Claim:
    found = {claim.name: claim for claim in known}
    if name in found:
        return found[name]
    near = get_close_matches(name, [*found], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "`python -m analysis.claims` lists them all"
    raise ClaimsError(f"there is no claim {name!r}; {hint}")


def _rerun(claim: Claim, out: Path | None) -> int:
    outcome = rerun(claim, out or Path("runs", "claims", *claim.name.split("/")))
    printed = f"; printed {claim.printed}" if claim.printed else ""
    print(f"{claim.name}: {'holds' if outcome.held else 'does not hold'}: {outcome.why}{printed}")
    return 0 if outcome.held else 1


def _listed(known: Sequence[Claim], prefix: str) -> int:
    chosen = [claim for claim in known if claim.name.startswith(prefix)]
    if not chosen:
        raise ClaimsError(f"no claim's name begins with {prefix!r}; `python -m analysis.claims` lists them all")
    for claim in chosen:
        says = [claim.text, f"printed {claim.printed}" if claim.printed else "", claim.verdict, _means(claim)]
        print(f"{claim.name}: {'; '.join(part for part in says if part)}")
    return 0


def _means(claim: Claim) -> str:
    if claim.table.scenario is None:
        return "no command is known"
    return "" if claim.metric else "the command of its table is known, not how to read it off"


if __name__ == "__main__":
    sys.exit(main())
