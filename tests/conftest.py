"""Puts this folder on the path, so that tests in its subfolders find the helpers that lie here.

Helpers that hold assertions are rewritten as tests are, so that they show what they have compared.  No test fails for
being slow: how long an example takes says more of the machine than of the code.  Torch takes one thread, since the
threads of several test processes would fight over the cores.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from scenario_texts import load  # noqa: F401 -- a fixture

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported
pytest.register_assert_rewrite("whole_run_checks", "camps")
settings.register_profile("unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def ray_engine():
    """A Ray of this machine's own with two workers at most, which find what lies in this folder."""
    ray = pytest.importorskip("ray", reason='Ray is not installed: pip install -e ".[ray]"')
    from fedsim.engines.ray import Ray

    here = Path(__file__).parent
    with Ray(2) as engine:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("PYTHONPATH", os.pathsep.join([str(here), str(here.parent)]))
            patched.delenv("RAY_ADDRESS", raising=False)
            engine._connected()
        yield engine
    assert not ray.is_initialized()
