"""Have torch choose the same kernels on every x86-64 processor, so that its sums are rounded alike everywhere.

By default torch, MKL and oneDNN take the widest instructions that the processor has, and MKL others for each maker.
They read these variables when torch is loaded, so they are set when fedsim is first imported, and processes that it
starts inherit them.  What NumPy computes by processor is in `portable.py`.

Left are MKL's functions of single numbers that begin with the processor's approximate reciprocals, which no variable
changes: the root (`ops.root` replaces it), tangents, arcs, logarithms to bases 2 and 10, and those in double precision;
and torch's own operations on them: `cdist` of many rows, `lstsq`, `corrcoef`, `torch.optim.Adam` unless fused.
Not covered: processors without AVX2 and FMA, whose C library rounds otherwise; other architectures; GPUs.
"""

import ctypes
import os
import platform
import sys
from pathlib import Path

NATIVE = "FEDSIM_NATIVE_MATH"  # set to 1: leave the choice to the libraries
HELP = "let torch take the fastest kernels of this processor: last digits then differ between processors"
SAID = (
    "torch was imported before fedsim, and has chosen kernels for this processor: last digits may differ from those on "
    f"another. Import fedsim first, or set {NATIVE}=1 if that is wanted"
)
AVX2 = 40  # PF_AVX2_INSTRUCTIONS_AVAILABLE of the Windows API


def wanted() -> dict[str, str]:
    """Return the variables and their values; none where torch is not built for x86-64."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return {}
    return {
        "ATEN_CPU_CAPABILITY": "avx2" if has_avx2() else "default",  # would crash without the instructions
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
    }


def has_avx2() -> bool:
    """Return whether the processor has AVX2, False where the system does not tell."""
    if sys.platform == "win32":
        return bool(ctypes.windll.kernel32.IsProcessorFeaturePresent(AVX2))
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            return any("avx2" in line.split() for line in lines if line.startswith("flags"))
    except OSError:
        return False


SAME = wanted()
BEFORE = {name: os.environ.get(name) for name in SAME}
LATE = "torch" in sys.modules and any(os.environ.get(name) != value for name, value in SAME.items())


def settle() -> None:
    """Set the variables for this process and those that it starts, unless the environment asks for native kernels."""
    if not native():
        os.environ.update(SAME)


def let_native() -> None:
    """Leave the choice to the libraries after all, here and in processes started later; before torch is loaded."""
    os.environ[NATIVE] = "1"
    for name, value in BEFORE.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


def native() -> bool:
    """Return whether the environment asks for native kernels."""
    return os.environ.get(NATIVE, "") not in ("", "0")


def differ() -> bool:
    """Return whether this process computes with native kernels, asked for or not."""
    return native() or LATE
