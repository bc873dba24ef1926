"""Write the page in both of its forms."""

from pathlib import Path

from fedsim.core import whole_files
from fedsim.reference.findings import findings
from fedsim.reference.html import html
from fedsim.reference.markdown import markdown
from fedsim.reference.results import Results
from fedsim.reference.terms import Allowed


def write(results: Results, budgets: Allowed, made: str, docs: Path) -> list[Path]:
    """Write reference.md and reference.html into the folder `docs`, and return their paths.

    `made` is Markdown without headings: how long the study took, and what was left out and why. Raises UserError where
    the tables lack a course or a setting's budgets, and OSError where nothing can be written.
    """
    found = findings(results, budgets)
    texts = {docs / "reference.md": markdown(found, made), docs / "reference.html": html(found, made)}
    for path, text in texts.items():
        whole_files.replace(path, text)
    return list(texts)
