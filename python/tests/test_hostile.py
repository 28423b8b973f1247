"""What breaks other bindings: nested runs, shared graphs, forks, views that are kept, closing what is in use, wrong things everywhere."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import plimsoll
import pytest
from plimsoll import In, InOut, KernelFunction, Out


def threads() -> int:
    """Threads of this process, Python's or not."""
    return len(os.listdir("/proc/self/task"))


def ended(code: str, *, on_ready: int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs Python code in a process of its own, which ends; sends it a signal when it says `ready`."""
    words = [sys.executable, "-c", textwrap.dedent(code)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if on_ready is not None:
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            child.send_signal(on_ready)
        out, err = child.communicate(timeout=120)
    finally:
        child.kill()
    return subprocess.CompletedProcess(words, child.returncode, out, err)


def test_a_kernel_can_run_a_program_on_another_device():
    # One worker: the kernel runs on the orchestrating thread, which is inside a call of its own device.
    with plimsoll.Device(workers=1) as outer, plimsoll.Device(workers=1) as inner:

        @inner.kernel
        def double(x, y):
            y[:] = 2 * x

        @outer.kernel
        def nested(x, y):
            given = np.array(x)
            y[:] = inner.run(lambda o: o.read(o.submit(double, In(o.tensor(given)), Out(4, "f64"))))

        def program(o):
            x = o.tensor(np.arange(4.0))
            for _ in range(20):
                x = o.submit(nested, In(x), Out(4, "f64"))
            return o.read(x)

        assert outer.run(program).tolist() == [0.0, 2.0**20, 2.0**21, 3 * 2.0**20]


def test_a_device_in_use_is_used_by_nobody_else(host):
    said = []

    def attempt(call):
        with pytest.raises(plimsoll.Error) as refused:
            call()
        said.append(refused.value.explanation)

    @host.kernel
    def kernel(x):
        attempt(host.close)
        attempt(lambda: host.run(lambda o: None))

    def program(o):
        o.submit(kernel, In(o.tensor(np.ones(1))))
        attempt(host.close)
        attempt(lambda: host.kernel(print))
        attempt(lambda: host.report)
        other = threading.Thread(target=lambda: attempt(host.close))
        other.start()
        other.join()

    host.run(program)
    assert len(said) == 6 and all("runs a program" in one for one in said), said


def test_a_graph_is_launched_once_at_a_time(host):
    begun, go_on = threading.Event(), threading.Event()

    @host.kernel
    def waits(x):
        begun.set()
        assert go_on.wait(60)

    graph = host.build(lambda o: o.submit(waits, InOut(o.tensor(np.zeros(1)))))
    assert graph.tasks == 1
    launch = threading.Thread(target=lambda: host.launch(graph))
    launch.start()
    assert begun.wait(60)
    try:
        with pytest.raises(plimsoll.Error, match="launched already"):
            host.launch(graph)
        with pytest.raises(plimsoll.Error, match="launched already"):
            graph.tasks
    finally:
        go_on.set()
        launch.join()
    host.launch(graph)


def test_a_graph_belongs_to_its_device(host):
    graph = host.build(lambda o: None)
    with plimsoll.Device(workers=1) as other, pytest.raises(plimsoll.Error, match="another device"):
        other.launch(graph)
    host.close()
    with pytest.raises(plimsoll.Error, match="was closed"):
        host.launch(graph)


def test_what_a_failed_kernel_used_is_given_back_with_its_traceback():
    class Watched(np.ndarray):
        pass

    before = threads()
    array = np.zeros(64).view(Watched)
    gone = weakref.ref(array)
    with plimsoll.Device(workers=3) as device:

        @device.kernel
        def breaks(x, y):
            raise ValueError("no such thing")

        def program(o, array=array):
            o.submit(breaks, In(o.tensor(array)), Out(4, "f64"))

        try:
            device.run(program)
        except plimsoll.Error as error:
            kept = error
        del array, program
        gc.collect()
        frame = kept.__cause__.__traceback__.tb_frame
        assert gone() is not None and frame.f_locals["x"].sum() == 0
    # The device is closed, and the traceback still shows what there was.
    assert frame.f_locals["y"].shape == (4,)
    del kept, frame
    gc.collect()
    assert gone() is None
    assert threads() == before


def test_a_closed_device_lets_go_of_its_kernels():
    class Big:
        pass

    big = Big()
    gone = weakref.ref(big)
    device = plimsoll.Device(workers=1)

    def kernel(x, held=(big, device)):
        pass

    device.kernel(kernel)
    device.close()
    del big, kernel, device
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("where", ["kernel", "orchestration"])
def test_a_fork_does_not_come_back_into_its_parent_s_run(tmp_path, where):
    run = ended(
        f"""
        import os, sys, numpy as np, plimsoll
        from plimsoll import InOut
        d = plimsoll.Device(workers=2, record="profile", out={str(tmp_path / "run")!r})
        children = []
        def fork(how):
            child = os.fork()
            if child:
                children.append(child)
            elif how == "exit":
                sys.exit(7)
            elif how == "raise":
                raise ValueError("in the fork")
            return child
        @d.kernel
        def kernel(x):
            if {where!r} == "kernel":
                for how in ["return", "exit", "raise"]:
                    if fork(how) == 0: return
        def program(o):
            x = o.tensor(np.zeros(1))
            for _ in range(3):
                o.submit(kernel, InOut(x))
            if {where!r} == "orchestration":
                for how in ["return", "exit", "raise"]:
                    if fork(how) == 0:
                        try:
                            o.read(x)
                        except plimsoll.Error as error:
                            assert "in a fork of its process" in str(error)
                            return
                        os._exit(99)
        d.run(program)
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
        """
    )
    times = 3 if where == "kernel" else 1
    assert run.stdout == f"{[1, 7, 1] * times}\n" and run.returncode == 0, run
    assert run.stderr.count("The run belongs to its parent") == times
    assert run.stderr.count("ValueError: in the fork") == times
    checked = subprocess.run([sys.executable, "-m", "plimsoll", "check", str(tmp_path / "run")], capture_output=True, text=True)
    assert checked.returncode == 0, checked


def test_a_fork_lets_go_of_a_device_that_runs_in_its_parent():
    run = ended(
        """
        import gc, os, threading, numpy as np, plimsoll
        from plimsoll import In
        d = plimsoll.Device(workers=2)
        begun, go_on = threading.Event(), threading.Event()
        @d.kernel
        def waits(x):
            begun.set()
            go_on.wait(60)
        runs = threading.Thread(target=lambda device: device.run(lambda o: o.submit(waits, In(o.tensor(np.ones(1))))), args=(d,))
        runs.start()
        begun.wait(60)
        child = os.fork()
        if child == 0:
            d.close()
            del d, waits
            gc.collect()
            with plimsoll.Device(workers=2) as own:
                os._exit(own.run(lambda o: 5))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        go_on.set()
        runs.join()
        print(code)
        """
    )
    assert run.stdout == "5\n", run


@pytest.mark.parametrize("what", ["many short kernels", "one long kernel", "reads"])
def test_the_end_of_the_interpreter_ends_runs_of_daemon_threads(what):
    run = ended(
        f"""
        import threading, numpy as np, plimsoll
        from plimsoll import InOut
        threading.excepthook = lambda told: None
        d = plimsoll.Device(workers=2)
        begun = threading.Event()
        @d.kernel
        def kernel(x):
            begun.set()
            while {what!r} == "one long kernel":
                sum(range(100))
        def program(o):
            x = o.tensor(np.zeros(1))
            while True:
                with o.scope():
                    for _ in range(100):
                        o.submit(kernel, InOut(x))
                        if {what!r} == "reads":
                            o.read(x)
        threading.Thread(target=lambda: d.run(program), daemon=True).start()
        begun.wait(60)
        print("the main thread ends")
        """
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "the main thread ends\n", ""), run


def test_ctrl_c_ends_a_part_that_the_main_thread_waits_for(tmp_path):
    # One worker: both parts are coroutines of the main thread, which waits for their threads.
    run = ended(
        """
        import numpy as np, plimsoll
        from plimsoll import InOut
        d = plimsoll.Device(workers=1)
        @d.kernel(core="aic", in_blocks=True)
        def spins(x):
            print("ready", flush=True)
            while True:
                sum(range(1000))
        @d.kernel(core="aiv", in_blocks=True)
        def waits(x):
            plimsoll.block().pop(0)
        try:
            d.run(lambda o: o.submit(spins, InOut(o.tensor(np.ones(1))), parts=waits))
        except KeyboardInterrupt as interrupt:
            print(interrupt.__cause__.code)
        """,
        on_ready=signal.SIGINT,
    )
    assert run.stdout == "114\n", run


@pytest.mark.parametrize("kind", ["ctypes", "cffi"])
def test_callbacks_are_called_where_python_is(device, kind):
    """On the caller's thread in virtual time, and on a thread of its own as a part: never on the stack of a coroutine."""
    seen, called = {}, threading.get_ident()

    def note(name):
        def callback(call):
            call = ctypes.cast(int(ffi.cast("uintptr_t", call)), ctypes.POINTER(plimsoll.Call)) if kind == "cffi" else call
            seen.setdefault(name, []).append((threading.get_ident(), call.contents.block, call.contents.part))
            return 0

        return ffi.callback("int32_t(const void *)", callback) if kind == "cffi" else KernelFunction(callback)

    ffi = pytest.importorskip("cffi", reason="cffi is not installed (.ci/requirements.txt)").FFI() if kind == "cffi" else None
    plain = device.native(note("plain"), name="plain", in_blocks=True)
    first = device.native(note("first"), name="first", core="aic", in_blocks=True)
    second = device.native(note("second"), name="second", core="aiv", in_blocks=True)

    def program(o):
        x = o.tensor(np.zeros(1))
        o.submit(plain, InOut(x), blocks=3)
        o.submit(first, InOut(x), parts=second)

    device.run(program)
    assert sorted(block for _, block, _ in seen["plain"]) == [0, 1, 2]
    if device.engine == "virtual":
        assert {thread for thread, _, _ in seen["plain"]} == {called}
    assert [part for _, _, part in seen["first"] + seen["second"]] == [0, 1]
    assert seen["first"][0][0] != called and seen["second"][0][0] != called


def test_what_cannot_be_a_kernel_is_refused(host):
    def yields(x):
        yield x

    async def waits(x):
        pass

    class Calls:
        def __call__(self, x):
            x += 1

    for wrong, why in [(5, "cannot be called"), ("text", "cannot be called"), (yields, "do nothing"), (waits, "do nothing")]:
        with pytest.raises(plimsoll.Error, match=why):
            host.kernel(wrong)
    x = np.zeros(2)
    fine = host.kernel(Calls(), name="calls")
    host.run(lambda o: o.submit(fine, InOut(o.tensor(x))))
    assert x.tolist() == [1, 1]


def test_wrong_numbers_and_shapes_are_refused_in_words(host):
    @host.kernel
    def nothing(*args):
        pass

    with pytest.raises(plimsoll.Error, match="passed as i64"):
        host.run(lambda o: o.submit(nothing, 2**63))
    for wrong in [-1, (2, -3), "four", 2.5, (1, "x")]:
        with pytest.raises(plimsoll.Error, match="is no shape"):
            Out(wrong, "f32")
    for wrong in [5, "text", [1, 2], None, np.ones(2)]:
        with pytest.raises(plimsoll.Error, match="cannot be an input"):
            In(wrong)
    for shape in [(2**40, 2**40), (-1, -1), (3, -1), (0, -1), (2**62, -1)]:
        with pytest.raises(plimsoll.Error):
            host.run(lambda o: o.tensor(np.zeros(8)).reshape(*shape))
    with pytest.raises(plimsoll.Error):
        host.run(lambda o: o.submit(nothing, Out((2**31, 2**31), "f64")))


def test_another_interpreter_of_the_process_is_refused_in_words():
    run = ended(
        """
        import plimsoll, _xxsubinterpreters as interpreters
        other = interpreters.create()
        try:
            interpreters.run_string(other, "import plimsoll")
        except interpreters.RunFailedError as error:
            print(error)
        interpreters.destroy(other)
        with plimsoll.Device(workers=1) as d:
            print(d.run(lambda o: 7))
        """
    )
    if "No module named '_xxsubinterpreters'" in run.stderr:
        pytest.skip("this Python has no _xxsubinterpreters")
    assert run.returncode == 0 and "ImportError" in run.stdout and run.stdout.endswith("7\n"), run
