"""``python -m plimsoll``, programs in files, and reading runs."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import plimsoll
import pytest
from plimsoll import In, Out

PROGRAM = """
import numpy as np, plimsoll
from plimsoll import In, Out

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
