"""The site's build: Sphinx over this folder, offline.  `nox -s docs` builds it into _build, with warnings as errors."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [
    str(HERE.parent),  # this checkout, whatever is installed
    str(HERE / "_extensions"),  # the tables of the reference pages, and what the theme leaves out
]

project = "fedsim"
author = "fedsim contributors"
copyright = "fedsim contributors, MIT licence"
release = version_of("fedgraphsim")

extensions = [
    "myst_parser",
    "reachable",
    "reference",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "reference/summary.md"]  # the summary is a part of reference.md
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autoclass_content = "class"
default_role = "code"  # docstrings put code between single backquotes
intersphinx_mapping: dict[str, tuple[str, str]] = {}  # no inventory is fetched: the build needs no network
copybutton_prompt_text = r">>> |\$ "
copybutton_prompt_is_regexp = True

smartquotes_action = "qe"  # no dash for the two of a flag

html_theme = "furo"
html_title = "fedsim"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_extra_path = ["reference_table.html"]
