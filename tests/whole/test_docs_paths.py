"""The files, modules and links that the documents name exist."""

import re
from pathlib import Path

import pytest

from fedsim.scenario.parts import find

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "AGENTS.md")),
]
PACKAGES = ("fedsim", "algorithms", "analysis")
ROOTS = (ROOT, ROOT / "fedsim", ROOT / "tests")  # a path may begin in any of them
# a reader's own files
YOURS = re.compile(
    r"NAME|(^|/)(mine|mylab|trap)\b|^numpy\.py$|^algorithms/damped\.py$|^splits/lonely\.py$|^study/own/|^(wards|patches|tasks/absolute)\.py$"
)
WRITTEN = re.compile(r"^`([\w./]+)`\n\n```", re.MULTILINE)  # files that a page has its reader save
FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs", ".ci")
FILES = sorted(path.as_posix() for top in FOLDERS for path in (ROOT / top).rglob("*.py"))


def exists(path):
    """Whether there is such a file; without its whole folder, it may lie anywhere."""
    return any((root / path).is_file() for root in ROOTS) or any(file.endswith(f"/{path}") for file in FILES)


def module(name):
    """The source of a module, None where there is none."""
    path = ROOT.joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if path.is_file() else None


def is_named(name):
    """Whether a dotted name is a module, or its module's source names what follows."""
    steps = name.split(".")
    ends = [end for end in range(len(steps), 0, -1) if module(".".join(steps[:end]))]
    if not ends or ends[0] == len(steps):
        return bool(ends)
    return re.search(rf"\b{steps[ends[0]]}\b", module(".".join(steps[: ends[0]])).read_text("utf-8")) is not None


def slugs(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_files_that_a_page_names_exist(page):
    text = page.read_text("utf-8")
    named = set(re.findall(r"(?<![\w/.<-])([\w-][\w/.-]*\.py)\b", text)) - {*WRITTEN.findall(text)}
    assert not sorted(path for path in named if not YOURS.search(path) and not exists(path))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_modules_that_a_page_names_exist(page):
    text = page.read_text("utf-8")
    named = set(re.findall(rf"(?<![\w/.-])((?:{'|'.join(PACKAGES)})(?:\.\w+)+)(?!\.?[\w(]*/)", text))
    for package, names in re.findall(r"^from ([\w.]+) import (.+)$", text, re.MULTILINE):
        if package.split(".")[0] in PACKAGES:
            named |= {f"{package}.{name.strip()}" for name in names.split(",")}
    named = {name for name in named if name.rpartition(".")[2] not in ("py", "yaml", "md", "csv", "mine")}
    assert not sorted(name for name in named if not is_named(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_somewhere(page):
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if "://" in link:
            continue
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in slugs(target)):
            dead.append(link)
    assert not dead


def test_a_wrong_name_is_noticed():
    assert [*map(exists, ["fedsim/point/loop.py", "clock/world.py", "laws.py"])] == [True] * 3
    assert [*map(exists, ["fedsim/point/loops.py", "clock/wave.py", "aws.py"])] == [False] * 3
    assert [*map(is_named, ["fedsim.testing.check_algorithm", "analysis.claims"])] == [True] * 2
    assert [*map(is_named, ["fedsim.testing.check_everything", "analysis.contest"])] == [False] * 2


def test_readme_counts_the_algorithms_that_learn():
    (told,) = re.findall(r"fedsim comes with (\d+)", (ROOT / "README.md").read_text("utf-8"))
    names = find.names("algorithm")
    assert "traffic" in names
    assert int(told) == len(names) - 1
