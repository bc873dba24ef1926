"""The Flower app of a deployed run: a folder that names the two halves in `flower.py`, as `flwr run` wants it."""

from pathlib import Path

MODULE = "fedsim_deployed"
PROJECT = f"""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{MODULE.replace("_", "-")}"
version = "1.0.0"
description = "Runs a scenario of fedsim on real machines"
license = {{text = "MIT"}}
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "fedsim"

[tool.flwr.app.components]
serverapp = "{MODULE}.app:server"
clientapp = "{MODULE}.app:client"

[tool.flwr.app.config]
folder = ""
data = ""
beside = "[]"
clients = 0
"""


def write(folder: Path) -> None:
    """Write the app into a folder, which is created."""
    (folder / MODULE).mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(PROJECT, encoding="utf-8", newline="")
    (folder / MODULE / "__init__.py").write_text("", encoding="utf-8")
    imports = "from fedsim.deploy.flower import client, server\n\n__all__ = ['client', 'server']\n"
    (folder / MODULE / "app.py").write_text(imports, encoding="utf-8", newline="")
