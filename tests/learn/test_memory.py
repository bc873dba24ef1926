"""Freed memory stays with the process that learns: the next step takes it again without asking the system."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.long

FAULTS = """
import ctypes, resource, sys
import torch
from fedsim.point.build import learning

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(2**22)  # 16 MB: 4,096 pages of 4 kB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.ones(1)
before = faults()
learning._settle(1)
faults()
print(before, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that is told to keep memory")
def test_arrays_are_not_fetched_anew_from_the_system_each_time():
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 20 * 100  # huge pages would make them fewer than 4,096 each
    assert after < before / 10
