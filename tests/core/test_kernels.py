"""The same kernels on every processor: chosen before torch is loaded, inherited, switched off, and told of."""

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from small_points import point

from fedsim.core import kernels
from fedsim.learn.engine import ops
from fedsim.point.attempt import now, provenance
from fedsim.point.build import learning
from fedsim.point.results import stale, stamp

HERE = Path(__file__).resolve().parents[1] / "support"
SEEN = "import os, torch; print(torch.backends.cpu.get_cpu_capability(), os.environ.get('MKL_CBWR'))"
EMULATED = ("Haswell", "EPYC", "Skylake-Server")
SCRIPT = """
import json, sys, tempfile
from pathlib import Path
import small_points, same_points, test_same_tables
found = {}
for name in sys.argv[1:]:
    same_points.LEARN[name] = {**same_points.LEARN[name], "measure__views": True}
    with tempfile.TemporaryDirectory() as folder:
        seen = test_same_tables.seen(test_same_tables.run(name, Path(folder)))
    found[name] = {**seen["clock"], **seen["floats"]}
print(json.dumps(found))
"""
DRAWN = """
import hashlib
from pathlib import Path
import numpy as np
from fedsim.clock import partition_work
from fedsim.data.datasets import digits, drifting, synthetic
from fedsim.net.measurements import measured
for kind in (digits.Digits(), drifting.Drifting(), synthetic.Synthetic()):
    graph = kind.load(Path(), 3)
    text = [graph[key].numpy().tobytes() for key in sorted(graph) if hasattr(graph[key], "numpy")]
    print(type(kind).__name__, hashlib.sha256(b"".join(text)).hexdigest())
rng = np.random.default_rng(5)
print({key: hash(value.tobytes()) for key, value in measured.rows(np.repeat(["DE"], 5000), rng).items()})
print(partition_work.entropy(rng.integers(9, size=9000), rng.integers(7, size=9000)))
"""
OTHER_NUMPY = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR", "OPENBLAS_CORETYPE": "Nehalem"}
POINTS = ("sync in a storm", "power in churn", "two exchanges a round", "one_shot, ghost")
# FedAvg, POWER, FedDGL and GHOST, with the models' outputs: scores alone would hide a last bit


def said(code: str, *words: str, before: tuple[str, ...] = (), **variables: str) -> str:
    """Return what a new Python prints, whose environment has none of our variables but those given."""
    around = {name: value for name, value in os.environ.items() if name not in (*kernels.SAME, kernels.NATIVE)}
    paths = os.pathsep.join(map(str, [HERE, HERE.parent / "whole", HERE.parents[1]]))
    return subprocess.run(
        [*before, sys.executable, "-c", code, *words],
        env={**around, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **variables},
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip


@pytest.mark.skipif(not kernels.SAME or not kernels.has_avx2(), reason="the processor has no AVX2")
@pytest.mark.parametrize("given", [{}, {"MKL_CBWR": "AUTO", "ATEN_CPU_CAPABILITY": "avx512"}])
def test_importing_fedsim_chooses_for_torch(given):
    assert said(f"import fedsim; {SEEN}", **given) == "AVX2 COMPATIBLE"
    native = said(f"import fedsim; {SEEN}", **given, FEDSIM_NATIVE_MATH="1").split()
    assert native[1] == given.get("MKL_CBWR", "None")


def test_a_processor_without_avx2_gets_kernels_that_it_can_run(monkeypatch):
    monkeypatch.setattr(kernels.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(kernels, "has_avx2", lambda: False)
    assert kernels.wanted()["ATEN_CPU_CAPABILITY"] == "default"
    monkeypatch.setattr(kernels.platform, "machine", lambda: "arm64")
    assert kernels.wanted() == {}


@pytest.mark.skipif(not kernels.SAME, reason="torch chooses for itself on this architecture")
def test_the_flag_leaves_the_choice_to_torch_here_and_in_workers():
    code = (
        "from fedsim.core import kernels; import os, subprocess, sys\nkernels.let_native()\n"
        "print(os.environ.get('MKL_CBWR'), os.environ.get('ONEDNN_MAX_CPU_ISA'), flush=True)\n"
        "subprocess.run([sys.executable, '-c', 'import fedsim, os; print(os.environ.get(\"MKL_CBWR\"))'], check=True)"
    )
    assert said(code, MKL_CBWR="AVX2").split() == ["AVX2", "None", "AVX2"]


@pytest.mark.parametrize("module", ["fedsim", "fedsim.deploy", "fedsim.reference"])
def test_commands_have_the_flag_and_load_no_torch_before_they_read_it(module):
    code = f"import {module}.__main__ as m, sys; assert 'torch' not in sys.modules; m.main(['--help'])"
    assert "--native-math" in said(code)


def test_torch_that_was_loaded_before_is_told_of_once(monkeypatch):
    code = "import torch, fedsim; from fedsim.core import kernels; print(kernels.LATE, kernels.differ())"
    assert said(code) == "True True"
    assert said(code, **kernels.SAME) == "False False"
    monkeypatch.setattr(kernels, "LATE", True)
    with pytest.warns(UserWarning, match="torch was imported before fedsim"):
        learning._settle(1)
    monkeypatch.setenv(kernels.NATIVE, "1")
    learning._settle(1)  # asked for


def test_tables_of_native_kernels_are_told_of_and_their_checkpoints_are_not_continued(monkeypatch):
    small = point()
    made = stamp.of(small.scenario)
    monkeypatch.setenv(kernels.NATIVE, "1")
    native = stamp.of(small.scenario)
    assert not made.continues(native.text())
    assert not native.continues(made.text())
    monkeypatch.delenv(kernels.NATIVE)
    (line,) = stale._versions([native, made])
    torch = metadata.version("torch")  # of PyPI's build for CUDA, torch.__version__ says more
    assert f"1 run was made with torch {torch} with native kernels (now {torch})" in line
    assert provenance(now())["kernels"] == "the same everywhere"


def test_a_row_notes_native_kernels(monkeypatch):
    monkeypatch.setenv(kernels.NATIVE, "1")
    assert provenance(now())["kernels"] == "this processor's"


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_roots_are_roots(kind):
    x = torch.cat([torch.zeros(1, dtype=kind), torch.rand(5000, dtype=kind) * 1e3, torch.tensor([1e-30, 4.0]).to(kind)])
    torch.testing.assert_close(ops.root(x), x.sqrt(), rtol=2 * torch.finfo(kind).eps, atol=0)
    x = x[1:].double().requires_grad_()
    (own,), (theirs,) = (torch.autograd.grad(f(x).sum(), x) for f in (ops.root, torch.sqrt))
    torch.testing.assert_close(own, theirs)


@pytest.mark.long
def test_what_is_drawn_hangs_on_no_kernel_of_numpy():
    assert said(DRAWN, PYTHONHASHSEED="0") == said(DRAWN, PYTHONHASHSEED="0", **OTHER_NUMPY)


@pytest.mark.long
@pytest.mark.parametrize("processor", EMULATED)
def test_tables_and_models_are_those_of_an_emulated_processor(processor):
    emulator = shutil.which("qemu-x86_64")
    if emulator is None:
        pytest.skip("qemu-x86_64 is not installed (Debian: qemu-user)")
    # the emulator's AVX2 crashes in NumPy's sort; without it NumPy's other kernels are compared, too
    emulated = said(SCRIPT, *POINTS, before=(emulator, "-cpu", processor), NPY_DISABLE_CPU_FEATURES="X86_V3")
    assert json.loads(emulated) == json.loads(said(SCRIPT, *POINTS))
