"""``python -m plimsoll``, programs in files, and reading runs."""

from __future__ import annotations

import html
import json
import signal
import subprocess
import sys
import threading

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
    assert (said["program"], said["status"], said["tasks"]) == ("mine.py:program", "ok", 7)
    assert said["reconcile"]["lossless"]
    assert command("check", "run", cwd=mine).returncode == 0
    assert len(json.loads((mine / "run/deps.json").read_text())["edges"]) == 6
    # The scope of the run is where the program is written.
    line = PROGRAM.splitlines().index("def program(o, count=3, fail=False):") + 1
    assert f"mine.py:{line}" in command("scopes", "run", cwd=mine).stdout


def test_a_program_in_a_file_that_fails_says_so(mine):
    ran = command("run", "mine.py:program", "--set", "fail=true", "--no-record", cwd=mine)
    assert ran.returncode == 1 and "ValueError: as asked" in ran.stderr
    other = command("run", "mine.py:other", cwd=mine)
    assert other.returncode == 2 and "has no program other" in other.stderr
    refused = command("run", "mine.py:program", "--isolate", cwd=mine)
    assert refused.returncode == 2 and "--isolate cannot be used" in refused.stderr
    assert command("run", "mine.py:program", "--no-such-flag", cwd=mine).returncode == 2
    assert command("run", "mine.py:program", "--arch", "a7", cwd=mine).returncode == 2


@pytest.mark.parametrize("engine", ["host", "virtual"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_program_in_a_file_as_interrupted(tmp_path, engine, number, code):
    (tmp_path / "mine.py").write_text(
        "import numpy as np, plimsoll\n"
        "from plimsoll import In\n"
        "@plimsoll.kernel\n"
        "def spin(x):\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        sum(range(1000))\n"
        "def program(o):\n"
        "    o.submit(spin, In(o.tensor(np.ones(4))))\n"
    )
    words = ["run", "mine.py:program", "--engine", engine, "--region-dir", ".", "--out", "run"]
    child = subprocess.Popen([sys.executable, "-m", "plimsoll", *words], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        child.send_signal(number)
        assert child.wait(timeout=120) == code
    finally:
        child.kill()
        child.communicate()
    manifest = json.loads((tmp_path / "run/run.json").read_text())
    assert (manifest["status"], manifest["error"]["code"]) == ("interrupted", 114)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("count=many", "count cannot be 'many'. Its default is 3. Give a whole number."),
        ("fail=perhaps", "Give true or false."),
        ("cuont=3", "There is no setting 'cuont' here. The program knows count, fail."),
        ("count", "Write KEY=VALUE."),
    ],
)
def test_settings_that_make_no_sense_are_wrong_usage(mine, setting, why):
    ran = command("run", "mine.py:program", "--set", setting, "--out", "run", cwd=mine)
    assert ran.returncode == 2 and why in ran.stderr and "Traceback" not in ran.stderr, ran
    assert not (mine / "run").exists()


@pytest.mark.parametrize(("left", "code", "said"), [("", 1, ""), ("0", 1, ""), ("256", 1, ""), ("7", 7, ""), ("'no more'", 1, "no more")])
def test_a_program_in_a_file_that_leaves_the_interpreter_is_a_failed_run(tmp_path, left, code, said):
    (tmp_path / "leaves.py").write_text(f"import sys\ndef program(o):\n    sys.exit({left})\n")
    ran = command("run", "leaves.py:program", "--no-record", cwd=tmp_path)
    assert ran.returncode == code and "SystemExit" in ran.stdout + ran.stderr and said in ran.stderr, ran
    (tmp_path / "leaves.py").write_text(f"import sys\nsys.exit({left})\n")
    ran = command("run", "leaves.py:program", "--no-record", cwd=tmp_path)
    assert ran.returncode == 2 and "leaves the interpreter" in ran.stderr, ran


def test_a_program_in_a_file_has_every_flag_of_the_command(mine):
    words = ["--junit", "case.xml", "--transport", "shadow", "--pmu=rusage", "--report", "--rounds", "2"]
    budgets = ["--op-timeout", "60s", "--stall-timeout", "60s", "--orch-timeout", "60s", "--deadline-ms", "60000"]
    sizes = ["--ring-task-window", "512", "--ring-heap", "1m", "--workers", "2", "--on-full", "block", "--require-lossless"]
    flags = [*words, *budgets, *sizes, "--swimlane=2", "--dep-gen", "--scope-stats", "--dump-args=2", "--dump-bytes", "64"]
    ran = command("run", "mine.py:program", *flags, "--out", "run", "--json", cwd=mine)
    assert ran.returncode == 0, ran
    said = json.loads(ran.stdout)
    assert said["counters"]["group"] == "rusage" and said["transport"]["kind"] == "shadow"
    assert 'tests="1" failures="0" errors="0"' in (mine / "case.xml").read_text()
    assert (mine / "run/report.html").exists()
    manifest = json.loads((mine / "run/run.json").read_text())
    assert manifest["program"] == "mine.py:program" and manifest["status"] == "ok"


def test_a_failed_program_in_a_file_is_a_failed_case(mine):
    ran = command("run", "mine.py:program", "--set", "fail=true", "--junit", "case.xml", "--out", "run", cwd=mine)
    assert ran.returncode == 1 and "ValueError: as asked" in ran.stderr
    text = (mine / "case.xml").read_text()
    assert 'type="ExplicitFatal"' in text and "as asked" in text


@pytest.mark.parametrize("flags", [["--prebuilt", "--rounds", "3"], ["--engine", "virtual"], ["--arch", "a2a3"]])
def test_a_program_in_a_file_runs_on_every_engine(tmp_path, flags):
    (tmp_path / "mine.py").write_text(
        "import numpy as np, plimsoll\n"
        "from plimsoll import In, Out\n"
        "@plimsoll.kernel\n"
        "def double(x, y):\n"
        "    y[:] = 2 * x\n"
        "def program(o):\n"
        "    o.submit(double, In(o.tensor(np.ones(4))), Out(4, 'f64'))\n"
    )
    ran = command("run", "mine.py:program", *flags, "--json", "--out", "run", cwd=tmp_path)
    assert ran.returncode == 0 and json.loads(ran.stdout)["status"] == "ok", ran


def test_a_file_without_a_program_is_refused_in_words(mine):
    ran = command("run", "mine.py", cwd=mine)
    assert ran.returncode == 2 and "mine.py names no program" in ran.stderr


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


def test_what_was_not_recorded_is_advised_in_keyword_arguments(tmp_path):
    with plimsoll.Device(workers=1, record="1", out=tmp_path / "run") as device:
        device.run(lambda o: None)
    with pytest.raises(plimsoll.Error, match=r'Record `record="1\+dep_gen"`'):
        plimsoll.open(tmp_path / "run").deps()
    with plimsoll.Device(workers=1, record="0+dep_gen", out=tmp_path / "untimed") as device:
        nothing = device.built_in("nothing")
        device.run(lambda o: o.submit(nothing))
    for ask in ["stats", "critical_path", "sched"]:
        with pytest.raises(plimsoll.Error) as refused:
            getattr(plimsoll.open(tmp_path / "untimed"), ask)()
        assert "::" not in str(refused.value) and 'record="1"' in str(refused.value), refused.value


def test_a_run_answers_as_plain_objects(run):
    assert run.manifest["status"] == "ok"
    assert run.stats()["tasks"] == 5
    for answer in [run.scopes(), run.size(), run.critical_path(), run.sched(), run.deps(), run.explain()]:
        assert isinstance(answer, (dict, list)) and answer
    assert "program ok" in repr(run)
    shown = run._repr_html_()
    assert "The run ended well." in shown and f'href="{(run.path / "report.html").resolve().as_uri()}"' in shown
    assert run.report().exists()


@pytest.mark.parametrize("engine", ["host", "emulated"])
@pytest.mark.parametrize("how", ["callback", "parts"])
def test_time_lost_to_the_gil_has_a_name_also_where_python_is_reached_another_way(tmp_path, how, engine):
    done = threading.Event()

    def want_the_gil():
        while not done.is_set():
            sum(range(1000))

    rivals = [threading.Thread(target=want_the_gil) for _ in range(2)]
    with plimsoll.Device(workers=3, engine=engine, lend=False, record=4, out=tmp_path / "run") as device:
        if how == "callback":
            kernel, parts = device.native(plimsoll.KernelFunction(lambda call: 0), name="callback"), None
        else:
            kernel = device.kernel(lambda x: None, name="first", core="aic", in_blocks=True)
            parts = device.kernel(lambda x: None, name="second", core="aiv", in_blocks=True)

        def program(o):
            x = o.tensor(np.zeros(1))
            # Each task waits for the one before, so all of them are on the critical path.
            for _ in range(10):
                o.submit(kernel, InOut(x), parts=parts)

        for rival in rivals:
            rival.start()
        try:
            device.run(program)
        finally:
            done.set()
            for rival in rivals:
                rival.join()
    assert plimsoll.open(tmp_path / "run").critical_path()["parts"]["gil_wait"] > 0


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(plimsoll.Error, match="is no run"):
        plimsoll.open(tmp_path)
    for text in ["{", "[1]", "\xff"]:
        (tmp_path / "run.json").write_text(text, encoding="latin-1")
        with pytest.raises(plimsoll.Error, match="cannot be read"):
            plimsoll.open(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    broken = plimsoll.open(tmp_path)
    with pytest.raises(plimsoll.Error) as refused:
        broken.stats()
    assert refused.value.explanation in html.unescape(broken._repr_html_()) or "is no" in broken._repr_html_()
    with pytest.raises(plimsoll.Error):
        broken.table("tasks")


def test_a_program_may_call_the_command_again(mine, monkeypatch):
    monkeypatch.setenv("PLIMSOLL_BECAME_PYTHON", "1")
    (mine / "outer.py").write_text("import os\ndef program(o):\n    print('PLIMSOLL_BECAME_PYTHON' in os.environ)\n")
    ran = command("run", "outer.py:program", cwd=mine)
    assert ran.returncode == 0 and "False" in ran.stdout, ran


@pytest.mark.parametrize("name", ["pandas", "polars", "duckdb"])
def test_other_packages_take_tables(run, name):
    package = pytest.importorskip(name)
    tasks = run.table("tasks")
    if name == "duckdb":
        count, names = len(tasks), package.sql("select * from tasks").columns
        assert package.sql("select count(*) from tasks").fetchall() == [(count,)]
    else:
        frame = package.DataFrame.from_arrow(tasks) if name == "pandas" else package.DataFrame(tasks)
        count, names = len(frame), list(frame.columns)
    assert (count, names) == (tasks.rows, tasks.columns)


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


@pytest.mark.parametrize("engine", ["host", "emulated"])
def test_time_lost_to_the_gil_has_a_name(tmp_path, engine):
    # A thread of the program always wants the GIL, so kernels of the one chain there is find it taken when they begin.
    ended = threading.Event()

    def want_the_gil():
        while not ended.is_set():
            sum(range(1000))

    other = threading.Thread(target=want_the_gil)
    # It changes hands often, so that it is gone in many of the moments between two kernels.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    with plimsoll.Device(workers=2, engine=engine, lend=False) as device:

        @device.kernel
        def busy(x):
            for _ in range(10_000):
                pass

        def program(o):
            tensor = o.tensor(np.zeros(1))
            for _ in range(200):
                o.submit(busy, InOut(tensor))

        other.start()
        try:
            device.run(program, record="4", out=tmp_path / "run")
        finally:
            ended.set()
            other.join()
            sys.setswitchinterval(before)
    path = plimsoll.open(tmp_path / "run").critical_path()
    parts = path["parts"]
    assert parts["gil_wait"] > 0 and parts["kernel"] > 0
    assert sum(value for value in parts.values() if value is not None) == path["makespan_ns"]
