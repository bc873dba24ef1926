"""What readers with a keyboard or a screen reader need of a page and the theme leaves out.

Code and tables that may be wider than the screen can be scrolled by key, and the navigation's captions have a rank.
"""

from typing import Any

from sphinx.application import Sphinx

SCROLLED = {"<pre>": '<pre tabindex="0">', '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper'}
RANKED = {'role="heading"': 'role="heading" aria-level="2"'}


def complete(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Change the text of a page before it is put into the theme."""
    for part, changes in (("body", SCROLLED), ("furo_navigation_tree", RANKED)):
        for before, after in changes.items():
            context[part] = context.get(part, "").replace(before, after)


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect with Sphinx, after the theme."""
    app.connect("html-page-context", complete, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
