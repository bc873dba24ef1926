"""Tasks of the project: `nox` lists and runs them in the environment that it is started from.

nox                  # lint, types, words, tests: what every change must pass
nox -s long          # the long tests, and those that need data under FEDSIM_DATA
nox -s tests -- -k sampler
nox -s docs          # the site, in docs/_build
nox -s image         # the steps of the Dockerfile, in an environment of its own
nox -s release       # what a release uploads, in dist/, checked and tried
"""

import json
import shlex
import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "words", "tests"]


@nox.session
def lint(session: nox.Session) -> None:
    """Layout and common mistakes."""
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("ruff", "check", "--preview", "--select", "PLW1514", ".")  # every text file has an encoding


@nox.session
def types(session: nox.Session) -> None:
    """Types of all code, and of the tests' helpers as far as they have any."""
    session.run("mypy")
    session.run("mypy", "--config-file", "tests/mypy.ini")


@nox.session
def words(session: nox.Session) -> None:
    """Spelling."""
    session.run("codespell")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site into docs/_build, without a network; a warning fails it, a dead link or anchor too."""
    session.run(
        "python", "-m", "sphinx", "-EW", "--keep-going", "-q", "-j", "2", "docs", "docs/_build", *session.posargs
    )


@nox.session
def tests(session: nox.Session) -> None:
    """README's test command; more arguments go to pytest."""
    session.run("python", "-m", "pytest", "-n", "2", *session.posargs)


@nox.session
def covered(session: nox.Session) -> None:
    """The same, and how much of the code it runs; fails below the floor in pyproject.toml."""
    session.run("python", "-m", "pytest", "-n", "2", "--cov", "--cov-report=term:skip-covered", *session.posargs)


@nox.session
def long(session: nox.Session) -> None:
    """What README's command leaves out: long tests, and those that need data."""
    session.run("python", "-m", "pytest", "-n", "2", "-m", "long or data", "--durations=20", *session.posargs)


@nox.session(venv_backend="venv")
def release(session: nox.Session) -> None:
    """Build what a release uploads into dist/, check it, and run the wheel in a new environment."""
    session.install("build", "twine")
    shutil.rmtree("dist", ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", "dist", ".")
    made = [str(path.resolve()) for path in Path("dist").iterdir()]
    session.run("python", "-m", "twine", "check", "--strict", *made)
    (wheel,) = (path for path in made if path.endswith(".whl"))
    replay, pins = Path("scenarios/replay.yaml").resolve(), Path("constraints.txt").resolve()
    with session.chdir(session.create_tmp()):  # so that nothing of the checkout is imported
        session.install("-c", str(pins), wheel)
        session.run("python", "-m", "fedsim", str(replay), "--fresh")
        session.install("-c", str(pins), f"{wheel}[learn]")
        session.run("python", "-m", "fedsim", "--demo", "--fresh")


@nox.session(venv_backend="venv")
def image(session: nox.Session) -> None:
    """Take the steps of the Dockerfile in an environment of its own, and run the demo as the image would."""
    here = Path.cwd()
    lines = [line.split(maxsplit=1) for line in Path("Dockerfile").read_text("utf-8").splitlines()]
    steps = [shlex.split(words[1].replace("/fedsim", str(here))) for words in lines if words[:1] == ["RUN"]]
    (begins,) = (json.loads(words[1]) for words in lines if words[:1] == ["ENTRYPOINT"])
    with session.chdir(session.create_tmp()):
        for step in steps:
            session.run(*step)
        session.run(*begins, "--demo", "--fresh")
