"""Homes for tests: where a program looks for the user's own folder, on any system."""

import os
from pathlib import Path

import pytest


def move(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Have `Path.home()` be this folder."""
    for name in ("HOME", "USERPROFILE"):  # the latter on Windows
        patch.setenv(name, os.fspath(home))
