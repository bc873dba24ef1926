"""The pins of constraints.txt: one release of everything, that serves all extras at once."""

import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PINS = {
    canonicalize_name(name): version
    for name, _, version in (line.partition("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
}
OURS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BESIDE = {"fedgraphsim", "setuptools", "pip", "wheel"}  # come with Python, or are this
CUDA = ("cuda-", "nvidia-", "triton")  # which torch of PyPI, built for CUDA, pins itself


def requirements(lines, extras=()):
    """Yield what these lines require on this machine, with some extras."""
    for one in map(Requirement, lines):
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield one


def refused(given):
    """Return what the pins cannot serve of these requirements, and of what those require, where it is installed."""
    left, seen, found = [*given], set(), []
    while left:
        one = left.pop()
        name = canonicalize_name(one.name)
        key = name, str(one.specifier), *sorted(one.extras)
        if name in BESIDE or name.startswith(CUDA) or key in seen:
            continue
        seen.add(key)
        if name not in PINS:
            found.append(f"{one} has no pin")
        elif not one.specifier.contains(PINS[name], prereleases=True):
            found.append(f"{one} is pinned to {PINS[name]}")
        try:
            lines = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            continue  # its own requirements are not known here
        left += requirements(lines, one.extras)
    return found


@pytest.mark.parametrize("extra", [None, *OURS["optional-dependencies"]])
def test_the_pins_serve_every_extra(extra):
    lines = OURS["optional-dependencies"][extra] if extra else OURS["dependencies"]
    assert refused(requirements(lines)) == []


def test_what_the_pins_cannot_serve_is_found():
    assert refused([Requirement("numpy<1"), Requirement("nowhere>=2")]) == [
        "nowhere>=2 has no pin",
        f"numpy<1 is pinned to {PINS['numpy']}",
    ]
