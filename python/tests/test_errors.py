"""What goes wrong, and how it is told."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import traceback

import numpy as np
import plimsoll
import pytest
from plimsoll import In, InOut, Out


def test_what_a_kernel_raises_arrives_with_its_traceback(device):
    @device.kernel
    def breaks(x):
        raise ValueError("no such thing")

    with pytest.raises(plimsoll.Error, match="kernel breaks failed") as caught:
        device.run(lambda o: o.submit(breaks, In(o.tensor(np.ones(2)))))
    error = caught.value
    assert (error.name, error.kernel, error.code) == ("KernelFailed", "breaks", 20)
    assert "test_errors.py" in error.site
    assert isinstance(error.__cause__, ValueError)
    assert 'raise ValueError("no such thing")' in "".join(traceback.format_exception(error.__cause__))
    # The next run of the same device is a clean one.
    assert device.run(lambda o: 7) == 7


def test_what_an_orchestration_raises_arrives_itself(device):
    def program(o):
        o.tensor(np.ones(3))
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        device.run(program)


def test_a_view_that_is_kept_fails_the_kernel_and_stays_valid(device):
    kept = []

    @device.kernel
    def keeps(x, y):
        kept.append(y[1:])

    with pytest.raises(plimsoll.Error, match="kept a view") as caught:
        device.run(lambda o: o.submit(keeps, In(o.tensor(np.ones(4))), Out(4, "f64")))
    assert caught.value.name == "KernelFailed"
    device.close()
    assert kept[0].shape == (3,) and kept[0].sum() == kept[0].sum()


def test_a_cycle_that_holds_a_view_is_not_one_that_is_kept(host):
    @host.kernel
    def cycles(x):
        loop = [x]
        loop.append(loop)

    host.run(lambda o: o.submit(cycles, In(o.tensor(np.ones(4)))))


def test_a_full_ring_says_what_would_have_been_enough(device):
    with plimsoll.Device(workers=1, ring_task_window=4) as small:

        @small.kernel
        def nothing(x):
            pass

        def program(o):
            x = o.tensor(np.zeros(1))
            for _ in range(9):
                o.submit(nothing, InOut(x))

        with pytest.raises(plimsoll.Error) as caught:
            small.run(program)
    error = caught.value
    assert error.name == "ScopeDeadlock" and error.capacity == 4 and error.needed >= 8
    assert pickle.loads(pickle.dumps(error)).needed == error.needed


def test_what_belongs_to_a_closed_scope_or_run_is_refused(host):
    @host.kernel
    def fill(x):
        x[:] = 1

    def left_scope(o):
        with o.scope():
            made = o.submit(fill, Out(4, "f32"))
        o.read(made)

    with pytest.raises(plimsoll.Error, match="after its scope was closed"):
        host.run(left_scope)
    left = host.run(lambda o: (o, o.submit(fill, Out(4, "f32"))))
    with pytest.raises(plimsoll.Error, match="after its run"):
        left[0].read(left[1])
    with pytest.raises(plimsoll.Error, match="another run"):
        host.run(lambda o: o.read(left[1]))


def test_a_kernel_cannot_submit_and_no_other_thread_can(host):
    said = []

    def program(o):
        def elsewhere():
            try:
                o.scope().__enter__()
            except plimsoll.Error as error:
                said.append(error.explanation)

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    host.run(program)
    assert len(said) == 1 and "other threads submit nothing" in said[0]


def test_wrong_arguments_are_refused_in_words(host):
    @host.kernel
    def nothing(*args):
        pass

    for wrong in ["text", np.ones(3), None]:
        with pytest.raises(plimsoll.Error, match="Wrap tensors in In, Out or InOut"):
            host.run(lambda o: o.submit(nothing, wrong))
    for dtype in ["bool", "int64", "uint8", "float64"]:
        for array in [np.ones(1, dtype), np.ones((2, 2), dtype)]:
            for wrong in [lambda o: array, lambda o: o.tensor(array)]:
                with pytest.raises(plimsoll.Error, match="Wrap tensors in In, Out or InOut"):
                    host.run(lambda o: o.submit(nothing, wrong(o)))
    with pytest.raises(plimsoll.Error, match="a shape and a dtype"):
        Out((3,))
    with pytest.raises(plimsoll.Error, match="There is no arch"):
        plimsoll.Device(arch="a7")
    with pytest.raises(plimsoll.Error, match="no time"):
        host.run(lambda o: None, deadline=-1)


def test_a_closed_device_says_so(host):
    host.close()
    with pytest.raises(plimsoll.Error, match="was closed"):
        host.run(lambda o: None)


def run_python(code: str, *, signals: list[int] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a process of its own; sends it signals when it says `ready`."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if signals:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        for number in signals:
            child.send_signal(number)
    try:
        out, err = child.communicate(timeout=120)
    finally:
        child.kill()
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


@pytest.mark.parametrize("engine", ["host", "virtual"])
@pytest.mark.parametrize("where", ["kernel", "orchestration", "wait"])
def test_ctrl_c_ends_a_run_as_interrupted(tmp_path, engine, where):
    if (engine, where) == ("virtual", "wait"):
        pytest.skip("in virtual time a wait takes no time")
    ended = run_python(
        f"""
        import json, time, numpy as np, plimsoll
        from plimsoll import In
        d = plimsoll.Device(engine={engine!r}, workers=2, record=1, out={str(tmp_path / "run")!r})
        def spin():
            print("ready", flush=True)
            while True:
                sum(range(1000))
        @d.kernel
        def kernel(x):
            if {where!r} == "wait":
                print("ready", flush=True)
                time.sleep(1.5)
            else:
                spin()
        def program(o):
            if {where!r} == "orchestration":
                spin()
            o.submit(kernel, In(o.tensor(np.ones(2))))
        try:
            d.run(program)
        except KeyboardInterrupt as interrupt:
            error = interrupt.__cause__
            print(error.code, json.load(open({str(tmp_path / "run/run.json")!r}))["status"])
        """,
        signals=[signal.SIGINT],
    )
    assert ended.stdout.split() == ["114", "interrupted"], ended


def test_ctrl_c_of_a_run_that_has_failed_before_is_raised():
    ended = run_python(
        """
        import threading, time, numpy as np, plimsoll
        from plimsoll import InOut
        d, begun = plimsoll.Device(workers=2), threading.Event()
        @d.kernel
        def kernel(x):
            if threading.current_thread() is not threading.main_thread():
                begun.wait()
                raise ValueError("failed first")
            begun.set()
            time.sleep(0.5)
            print("ready", flush=True)
            time.sleep(5)
        def program(o):
            for _ in range(2):
                o.submit(kernel, InOut(o.tensor(np.ones(2))))
        try:
            d.run(program)
        except KeyboardInterrupt as interrupt:
            print(interrupt.__cause__.name, repr(interrupt.__cause__.__cause__))
        """,
        signals=[signal.SIGINT],
    )
    assert "KernelFailed" in ended.stdout and "failed first" in ended.stdout, ended


def test_a_fault_of_a_kernel_is_told_where_faulthandler_is_on():
    ended = run_python(
        """
        import ctypes, faulthandler, numpy as np, plimsoll
        from plimsoll import InOut
        faulthandler.enable()
        d = plimsoll.Device(workers=2, lend=False)
        @d.kernel
        def faults(x):
            ctypes.string_at(0)
        d.run(lambda o: o.submit(faults, InOut(o.tensor(np.ones(2)))))
        """
    )
    assert ended.returncode == -signal.SIGSEGV and "in faults" in ended.stderr, ended


def test_a_kernel_that_never_returns_ends_the_run_and_is_explained(tmp_path):
    ended = run_python(
        f"""
        import numpy as np, plimsoll
        from plimsoll import In
        d = plimsoll.Device(op_timeout=0.3, record=1, out={str(tmp_path / "run")!r})
        @d.kernel
        def hangs(x):
            while True:
                pass
        try:
            d.run(lambda o: o.submit(hangs, In(o.tensor(np.ones(2)))))
        except plimsoll.Error as error:
            print(d.workers >= 2, error.code, error.kernel)
        """
    )
    assert ended.stdout.split() == ["True", "110", "hangs"], ended
    assert ended.returncode == 0, ended


@pytest.mark.parametrize(
    ("workers", "budget", "where", "code"),
    [(1, "op_timeout", "kernel", 110), (2, "op_timeout", "kernel", 110), (1, "orch_timeout", "orchestration", 100)],
)
def test_code_that_does_not_end_is_an_error_also_on_the_calling_thread(tmp_path, workers, budget, where, code):
    """One worker is the calling thread itself: what hangs there is made to leave, so that the run can return."""
    ended = run_python(
        f"""
        import json, numpy as np, plimsoll
        from plimsoll import In
        d = plimsoll.Device(workers={workers}, record=1, out={str(tmp_path / "run")!r})
        def spin():
            while True:
                pass
        @d.kernel
        def hangs(x):
            spin()
        def program(o):
            if {where!r} == "orchestration":
                spin()
            o.submit(hangs, In(o.tensor(np.ones(2))))
        try:
            d.run(program, {budget}=0.3)
        except plimsoll.Error as error:
            print(error.code, json.load(open({str(tmp_path / "run/run.json")!r}))["status"])
        # Nothing is left over that a thread was to raise.
        for _ in range(1000):
            pass
        """
    )
    assert ended.stdout.split()[:1] == [str(code)] and ended.returncode == 0, ended


@pytest.mark.parametrize(
    ("budget", "where", "code"),
    [("orch_timeout", "own code", 100), ("deadline", "own code", 23), ("deadline", "calls", 23)],
)
def test_a_graph_is_built_within_its_budgets(budget, where, code):
    ended = run_python(
        f"""
        import plimsoll
        d = plimsoll.Device(workers=1, {budget}=0.3)
        nothing = d.built_in("nothing")
        def program(o):
            while True:
                if {where!r} == "calls":
                    o.submit(nothing)
        try:
            d.build(program)
        except plimsoll.Error as error:
            print(error.code)
        print(d.build(lambda o: None, {budget}=60).tasks)
        """
    )
    assert ended.stdout.split() == [str(code), "0"] and ended.returncode == 0, ended


@pytest.mark.parametrize("where", ["kernel", "orchestration"])
def test_where_the_gil_is_never_released_the_capture_is_exported_and_explained(tmp_path, where):
    """A function of ctypes.PyDLL keeps the GIL, so no Python runs any more: the watchdog says what it can, and the process stays."""
    run = tmp_path / "run"
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                f"""
                import ctypes, numpy as np, plimsoll
                from plimsoll import In
                d = plimsoll.Device(op_timeout=0.3, stall_timeout=0.5, orch_timeout=0.5, record="profile", out={str(run)!r})
                held = lambda: ctypes.PyDLL(None).pause()
                @d.kernel
                def fine(x):
                    pass
                @d.kernel
                def holds(x):
                    held()
                def program(o):
                    t = o.tensor(np.ones(2))
                    o.submit(fine, In(t))
                    o.read(t)
                    if {where!r} == "kernel":
                        o.submit(holds, In(t))
                        o.read(o.tensor(np.ones(1)))
                    else:
                        held()
                d.run(program)
                """
            ),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = ""
        assert child.stderr is not None
        while "the run itself cannot return" not in said:
            line = child.stderr.readline()
            assert line, said
            said += line
    finally:
        child.kill()
        child.wait()
    assert "plimsoll: " in said and str(run) in said
    explained = subprocess.run([sys.executable, "-m", "plimsoll", "explain", str(run)], capture_output=True, text=True)
    assert explained.returncode == 0 and explained.stdout, explained
    assert plimsoll.open(run).stats()["tasks"] >= 1
    assert (run / "perfetto.json").exists() or list(run.glob("*.json"))


def test_a_fork_is_refused_the_device_of_its_parent(host):
    pid = os.fork()
    if pid == 0:
        try:
            host.run(lambda o: None)
        except plimsoll.Error as error:
            os._exit(0 if "fork" in error.explanation else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert host.run(lambda o: 1) == 1


def test_devices_that_nobody_closed_are_closed_at_exit():
    ended = run_python(
        """
        import numpy as np, plimsoll
        from plimsoll import In
        d = plimsoll.Device(workers=3)
        @d.kernel
        def nothing(x): pass
        d.run(lambda o: [o.submit(nothing, In(o.tensor(np.ones(2)))) for _ in range(100)] and None)
        print("done")
        """
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


HANG_IN_A_FUNCTION = """
import numpy as np, plimsoll, sys
from plimsoll import In

def hang(how):
    d = plimsoll.Device(workers=2, op_timeout=0.3, record=0)
    @d.kernel
    def hangs(x):
        while True:
            pass
    try:
        d.run(lambda o: o.submit(hangs, In(o.tensor(np.ones(2)))))
    except plimsoll.Error as error:
        print(error.code)
    if how == "closed":
        d.close()

for how in sys.argv[1:]:
    hang(how)
"""


@pytest.mark.parametrize("how", [["dropped"], ["closed"], ["dropped", "closed", "dropped"]])
def test_a_hang_of_a_device_that_is_gone_does_not_end_the_interpreter(tmp_path, how):
    (tmp_path / "hang.py").write_text(HANG_IN_A_FUNCTION)
    ended = subprocess.run([sys.executable, "hang.py", *how], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, ["110"] * len(how), ""), ended


def test_a_hang_of_a_program_that_the_command_runs_is_a_failed_run(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np, plimsoll\n"
        "from plimsoll import In\n"
        "@plimsoll.kernel\n"
        "def hangs(x):\n"
        "    while True: pass\n"
        "def program(o):\n"
        "    o.submit(hangs, In(o.tensor(np.ones(2))))\n"
    )
    words = ["run", "mine.py:program", "--op-timeout", "300ms", "--no-record"]
    ended = subprocess.run([sys.executable, "-m", "plimsoll", *words], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert ended.returncode == 1 and "OpTimeout (110)" in ended.stderr and "Fatal" not in ended.stderr, ended


def test_a_hang_of_a_program_that_the_command_builds_is_a_failed_run(tmp_path):
    (tmp_path / "mine.py").write_text("def program(o):\n    while True: pass\n")
    words = ["run", "mine.py:program", "--prebuilt", "--orch-timeout", "300ms", "--no-record"]
    ended = subprocess.run([sys.executable, "-m", "plimsoll", *words], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert ended.returncode == 1 and "SchedulerTimeout (100)" in ended.stderr, ended


@pytest.mark.parametrize("name", ["op_timeout", "stall_timeout", "orch_timeout"])
def test_time_outs_that_virtual_time_cannot_keep_are_refused(name):
    with pytest.raises(plimsoll.Error, match=f"{name} needs threads") as refused:
        plimsoll.Device(engine="virtual", **{name: 1})
    assert refused.value.name == "InvalidArgs"
    with plimsoll.Device(engine="virtual") as device:
        with pytest.raises(plimsoll.Error, match=f"{name} needs threads"):
            device.run(lambda o: None, **{name: 1})
        assert device.run(lambda o: 3, read_timeout=1) == 3


def test_no_rounds_and_no_time_are_refused(host):
    graph = host.build(lambda o: None)
    for wrong in (0, -1, 1 << 40):
        for call in (lambda: host.run(print, rounds=wrong), lambda: host.launch(graph, rounds=wrong), lambda: plimsoll.Device(rounds=wrong)):
            with pytest.raises(plimsoll.Error, match="at least one"):
                call()
    for wrong in (0, -0.0, float("nan"), float("inf")):
        for call in (lambda: host.run(print, deadline=wrong), lambda: host.launch(graph, op_timeout=wrong), lambda: plimsoll.Device(read_timeout=wrong)):
            with pytest.raises(plimsoll.Error, match="is no time"):
                call()


@pytest.mark.filterwarnings("error")
def test_a_program_that_only_begins_is_refused(device):
    def generator(o):
        yield o

    async def coroutine(o):
        pass

    async def both(o):
        yield o

    for wrong in (generator, coroutine, both, lambda o: generator(o)):
        with pytest.raises(plimsoll.Error, match="The program has done nothing"):
            device.run(wrong)
        with pytest.raises(plimsoll.Error, match="The program has done nothing"):
            device.build(wrong)
    kernel = device.kernel(lambda x: coroutine(x), name="lazy")
    with pytest.raises(plimsoll.Error, match="The kernel has done nothing") as failed:
        device.run(lambda o: o.submit(kernel, In(o.tensor(np.zeros(1)))))
    assert failed.value.name == "KernelFailed"


def test_what_to_do_is_said_in_keyword_arguments():
    with plimsoll.Device(workers=1, ring_task_window=4) as small:
        nothing = small.built_in("nothing")

        def program(o):
            for _ in range(9):
                o.submit(nothing, Out(1, "f64"))

        with pytest.raises(plimsoll.Error) as caught:
            small.run(program)
        assert '`ring_task_window="' in caught.value.explanation and "::" not in caught.value.explanation
        with pytest.raises(plimsoll.Error, match="in_blocks=True"):
            small.run(lambda o: o.submit(nothing, 1, blocks=2))
