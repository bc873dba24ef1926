"""Puts this folder on the path, so that tests in its subfolders find the helpers that lie here.

Helpers that hold assertions are rewritten as tests are, so that they show what they have compared.  No test fails for
being slow: how long an example takes says more of the machine than of the code.  Torch takes one thread, since the
threads of several test processes would fight over the cores.
"""

import os

import pytest
from hypothesis import HealthCheck, settings
from scenario_texts import load  # noqa: F401 -- a fixture

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is first imported
pytest.register_assert_rewrite("whole_run_checks", "camps")
settings.register_profile("unhurried", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
