"""``python -m plimsoll``, programs in files, and reading runs."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import plimsoll
import pytest
from plimsoll import In, InOut, Out

PROGRAM = """
import numpy as np, plimsoll
from plimsoll import In, InOut, Out

@plimsoll.kernel
def double(x, y):
    y[:] = 2 * x

def program(o, count=3, fail=False):
    x = o.tensor(np.ones(4))
    for _ in range(count):
        x = o.submit(double, In(x), Out(4, "f64"))
    assert o.read(x)[0] == 2.0 ** count
    if fail:
        raise ValueError("as asked")
"""


def command(*words, cwd):
    return subprocess.run([sys.executable, "-m", "plimsoll", *words], capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(PROGRAM)
    return tmp_path


def test_the_verbs_of_the_command_are_there(tmp_path):
    assert command("--version", cwd=tmp_path).stdout.split() == ["plimsoll", plimsoll.__version__]
    ran = command("run", "stencil", "--out", "run", cwd=tmp_path)
    assert ran.returncode == 0, ran
    assert command("check", "run", cwd=tmp_path).returncode == 0
    assert command("run", "no-such-program", cwd=tmp_path).returncode == 2


def test_a_program_in_a_file_is_run_with_its_settings(mine):
    ran = command("run", "mine.py:program", "--set", "count=7", "--json", "--profile", "--out", "run", cwd=mine)
    assert ran.returncode == 0, ran
    said = json.loads(ran.stdout)
    assert (said["program"], said["status"], said["tasks"], said["lossless"]) == ("program", "ok", 7, True)
    assert command("check", "run", cwd=mine).returncode == 0
    assert len(json.loads((mine / "run/deps.json").read_text())["edges"]) == 6


def test_a_program_in_a_file_that_fails_says_so(mine):
    ran = command("run", "mine.py:program", "--set", "fail=true", "--no-record", cwd=mine)
    assert ran.returncode == 1 and "ValueError: as asked" in ran.stderr
    assert command("run", "mine.py:other", cwd=mine).returncode == 1
    refused = command("run", "mine.py:program", "--isolate", cwd=mine)
    assert refused.returncode == 2 and "--isolate cannot be used" in refused.stderr
    assert command("run", "mine.py:program", "--no-such-flag", cwd=mine).returncode == 2
    assert command("run", "mine.py:program", "--arch", "a7", cwd=mine).returncode == 2


@pytest.fixture
def run(device, tmp_path):
    """A recorded run."""

    @device.kernel
    def double(x, y):
        y[:] = 2 * x

    def program(o):
        x = o.tensor(np.ones(4))
        with o.scope():
            for _ in range(5):
                x = o.submit(double, In(x), Out(4, "f64"))

    device.run(program, record="profile", out=tmp_path / "run")
    return plimsoll.open(tmp_path / "run")


def test_a_run_answers_as_plain_objects(run):
    assert run.manifest["status"] == "ok"
    assert run.stats()["tasks"] == 5
    for answer in [run.scopes(), run.size(), run.critical_path(), run.sched(), run.deps(), run.explain()]:
        assert isinstance(answer, (dict, list)) and answer
    assert "program ok" in repr(run)
    assert "report.html" in run._repr_html_()
    assert run.report().exists()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(plimsoll.Error, match="is no run"):
        plimsoll.open(tmp_path)


def test_tables_are_arrow_s(run):
    pyarrow = pytest.importorskip("pyarrow")
    tasks = pyarrow.table(run.table("tasks"))
    assert tasks.num_rows == 5 and tasks.column("kernel").to_pylist() == ["double"] * 5
    ends, starts = tasks.column("end_ns").to_pylist(), tasks.column("start_ns").to_pylist()
    assert all(end >= start for start, end in zip(starts, ends))
    assert pyarrow.table(run.table("edges")).num_rows == 4
    for name in ("runs", "executions", "phases", "scopes", "counters"):
        table = run.table(name)
        assert pyarrow.table(table).num_rows == len(table) and "run" in table.columns
    # A stream that nobody reads is let go of.
    run.table("tasks").__arrow_c_stream__()
    with pytest.raises(plimsoll.Error, match="no table"):
        run.table("none")


def test_time_lost_to_the_gil_has_a_name(tmp_path):
    # Two kernels at a time want the GIL, and it changes hands many times in each: whoever begins waits for it.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with plimsoll.Device(workers=3, lend=False) as device:

        @device.kernel
        def busy(x):
            for _ in range(300_000):
                pass

        def program(o):
            tensors = [o.tensor(np.zeros(1)) for _ in range(3)]
            for _ in range(20):
                for tensor in tensors:
                    o.submit(busy, InOut(tensor))

        device.run(program, record="4", out=tmp_path / "run")
    sys.setswitchinterval(before)
    path = plimsoll.open(tmp_path / "run").critical_path()
    parts = path["parts"]
    assert parts["gil_wait"] > 0 and parts["kernel"] > 0
    assert sum(value for value in parts.values() if value is not None) == path["makespan_ns"]
