"""What all tests have in common; helpers lie in support/, which pytest puts on the path (pyproject.toml).

Helpers that hold assertions are rewritten as tests are, so that they show what they have compared.  No test fails for
being slow: how long an example takes says more of the machine than of the code.  Torch takes one thread, since the
threads of several test processes would fight over the cores.  A test that asks for another machine fails (`offline`).
With HYPOTHESIS_PROFILE=full, as in CI, each property is tried with as many examples as its test says; otherwise with a
quarter of them.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import offline
import pytest
from calling import call  # noqa: F401 -- a fixture
from hypothesis import HealthCheck, is_hypothesis_test, settings
from scenario_texts import load  # noqa: F401 -- a fixture
from sendable import sendable
from small_sweeps import make  # noqa: F401 -- a fixture

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported
pytest.register_assert_rewrite("whole_run_checks", "camps")
settings.register_profile("full", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("brief", settings.get_profile("full"))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "brief"))
if sys.platform == "win32" and not sys.flags.utf8_mode:
    pytest.exit("the tests read and write UTF-8: set PYTHONUTF8=1", returncode=4)
offline.install()
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # shells start background jobs so, and what a test starts inherits it
    signal.signal(signal.SIGINT, signal.default_int_handler)
FEWER, FEWEST = 4, 5  # examples are divided by the first where the profile is brief; the second are left in any case


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of published graphs."""
    given = os.environ.get("FEDSIM_DATA")
    if not given:
        pytest.skip("FEDSIM_DATA is not set: no real graphs to test on")
    return Path(given)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have properties try fewer examples where the profile is brief."""
    if settings.get_current_profile_name() != "brief":
        return
    for test in {getattr(item, "obj", None) for item in items}:
        if is_hypothesis_test(test):
            own = test._hypothesis_internal_use_settings  # type: ignore[union-attr]
            fewer = settings(own, max_examples=min(own.max_examples, max(FEWEST, own.max_examples // FEWER)))
            test._hypothesis_internal_use_settings = fewer  # type: ignore[union-attr]


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Iterator[None]:
    """Have every report reach the process that asked for the tests, whatever its message says."""
    return sendable((yield))  # type: ignore[misc]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Fail a test whose fixtures ask for another machine."""
    yield
    _hold_offline(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that asks for another machine, whatever came of it."""
    yield
    _hold_offline(item)


def _hold_offline(item: pytest.Item) -> None:
    if item.path.name != "test_offline.py" and (found := [*offline.attempts]):
        offline.attempts.clear()
        pytest.fail(f"it must not ask for another machine: {'; '.join(found)}", pytrace=False)


@pytest.fixture(scope="session")
def shared_ray():
    """An engine of a Ray of this machine's own with two workers at most, which closes it after the last test."""
    ray = pytest.importorskip("ray", reason='Ray is not installed: pip install -e ".[ray]"')
    from fedsim.sweep.engines.ray import Ray

    with Ray(2) as engine:
        yield engine
    assert not ray.is_initialized()


@pytest.fixture
def ray_engine(shared_ray):
    """The same, connected, also where the test before has closed it; its workers find what lies in this folder."""
    here = Path(__file__).parent
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join(map(str, [here / "support", here.parent])))
        patched.delenv("RAY_ADDRESS", raising=False)
        shared_ray._connected()
    return shared_ray
