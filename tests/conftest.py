"""Puts this folder on the path, so that tests in its subfolders find the helpers that lie here.

Helpers that hold assertions are rewritten as tests are, so that they show what they have compared.
"""

import pytest

pytest.register_assert_rewrite("whole_run_checks")
