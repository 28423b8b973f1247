"""The stubs say what the package does: a typed program passes the type checker, a wrong one does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import plimsoll
import pytest

RIGHT = '''
import numpy as np
import plimsoll
from plimsoll import Device, In, InOut, NoDep, Orchestrator, Out, Tensor


def program(o: Orchestrator) -> float:
    x: Tensor = o.tensor(np.ones((4, 4), "f4"))
    with o.scope() as inner:
        y = inner.submit(double, In(x[0:2, :]), Out((2, 4), "f32"), 2.0, after=o.last_task or ())
        inner.submit(double, NoDep(x), InOut(y), blocks=2, sync_start=True, parts=[double])
    with o.manual_scope():
        o.dummy(InOut(x))
    row: Tensor = x[..., None][0, :, 0]
    return float(o.read(x.T.reshape(16))[0]) + row.size


with Device(workers=2, arch_set=None) as device:
    double = device.kernel(lambda x, y: None, in_blocks=True)
    value: float = device.run(program, rounds=1)
    graph = device.build(program)
    device.launch(graph)
    try:
        device.run(program)
    except plimsoll.Error as error:
        code: int = error.code
'''
WRONG = '''
import plimsoll

with plimsoll.Device(workers="two") as device:
    device.run(lambda o: o.submit(device.built_in("nothing"), "text"))
'''


def checked(place: Path, source: str) -> subprocess.CompletedProcess[str]:
    file = place / "program.py"
    file.write_text(source)
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(place / "cache"), str(file)]
    return subprocess.run(words, capture_output=True, text=True, cwd=place)


def test_a_typed_program_passes_and_a_wrong_one_does_not(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed (.ci/requirements.txt)")
    right = checked(tmp_path, RIGHT)
    assert right.returncode == 0, right.stdout
    wrong = checked(tmp_path, WRONG)
    assert wrong.returncode == 1 and wrong.stdout.count("[arg-type]") == 2, wrong.stdout


def test_the_package_itself_is_typed(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed (.ci/requirements.txt)")
    modules = ["plimsoll", "plimsoll.bench", "plimsoll._program", "plimsoll._reading"]
    words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    asked = subprocess.run(
        [*words, *(word for name in modules for word in ("-m", name))], capture_output=True, text=True, cwd=tmp_path
    )
    assert asked.returncode == 0, asked.stdout


def test_every_name_of_the_package_has_a_stub():
    stub = (Path(plimsoll.__file__).parent / "_native.pyi").read_text()
    from plimsoll import _native

    named = [name for name in dir(_native) if not name.startswith("__")]
    missing = [name for name in named if not any(form in stub for form in (f"class {name}", f"def {name}", f"\n{name}: "))]
    assert not missing
    for holder in (_native.Orchestrator, _native.Device, _native.Tensor, _native.Block):
        members = [name for name in dir(holder) if not name.startswith("_")]
        assert not [name for name in members if f"def {name}" not in stub], holder


def test_every_name_of_the_package_has_an_example():
    types = [getattr(plimsoll, name) for name in plimsoll.__all__ if callable(getattr(plimsoll, name))]
    # A type of ctypes has the documentation that ctypes gives it.
    missing = [one for one in types if ">>>" not in (one.__doc__ or "") and one is not plimsoll.KernelFunction]
    assert not missing
