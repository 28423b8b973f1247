"""Tasks of other shapes: in blocks, by parts, dummies, manual scopes, arguments that inference does not look at."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import plimsoll
import pytest
from plimsoll import In, InOut, KernelFunction, NoDep, Out


def test_every_block_knows_its_number(device):
    @device.kernel(in_blocks=True)
    def number(to):
        block = plimsoll.block()
        rows = len(to) // block.count
        to[block.index * rows : (block.index + 1) * rows] = block.index

    def program(o):
        return o.read(o.submit(number, Out(32, "i64"), blocks=8))

    assert device.run(program).tolist() == np.repeat(np.arange(8), 4).tolist()


def test_a_kernel_that_is_not_for_blocks_is_refused(host):
    @host.kernel
    def plain(x):
        pass

    with pytest.raises(plimsoll.Error, match="in 2 blocks"):
        host.run(lambda o: o.submit(plain, InOut(o.tensor(np.zeros(2))), blocks=2))


def test_blocks_that_start_together_can_wait_for_each_other():
    with plimsoll.Device(workers=3, lend=False) as device:
        both = threading.Barrier(2, timeout=60)

        @device.kernel(in_blocks=True)
        def meet(x):
            both.wait()
            x[plimsoll.block().index] = 1

        x = np.zeros(2)
        device.run(lambda o: o.submit(meet, InOut(o.tensor(x)), blocks=2, sync_start=True))
        assert x.tolist() == [1, 1]
        with pytest.raises(plimsoll.Error) as refused:
            device.run(lambda o: o.submit(meet, InOut(o.tensor(np.zeros(9))), blocks=9, sync_start=True))
        assert refused.value.code == 7


def test_parts_pass_values_through_pipes(device):
    @device.kernel(core="aic", in_blocks=True)
    def squares(x, to):
        block = plimsoll.block()
        assert (block.part, block.parts) == (0, 2)
        for value in x:
            block.push(1, float(value) ** 2)

    @device.kernel(core="aiv", in_blocks=True)
    def total(x, to):
        block = plimsoll.block()
        to[0] = sum(block.pop(0) for _ in range(len(x)))

    def program(o):
        x = o.tensor(np.arange(40.0))
        return o.read(o.submit(squares, In(x), Out(1, "f64"), parts=total))[0]

    assert device.run(program) == sum(i * i for i in range(40))


def test_parts_may_be_native_and_python(device):
    @KernelFunction
    def native(call):
        assert (call.contents.part, call.contents.parts) == (0, 2)
        ctypes.cast(call.contents.args[0].data, ctypes.POINTER(ctypes.c_double))[0] = 1
        return 0

    first = device.native(native, core="aic", in_blocks=True)

    @device.kernel(core="aiv", in_blocks=True)
    def second(x):
        x[1] = plimsoll.block().part + 1

    x = np.zeros(2)
    device.run(lambda o: o.submit(first, InOut(o.tensor(x)), parts=[second]))
    assert x.tolist() == [1, 2]


def test_what_is_told_to_python_kernels_alone_is_no_argument(device, tmp_path):
    counts = []

    @KernelFunction
    def native(call):
        counts.append(call.contents.count)
        return 0

    first = device.native(native, core="aic", in_blocks=True)

    @device.kernel(core="aiv", in_blocks=True)
    def second(x, y):
        x[0] = y

    @device.kernel
    def breaks(x):
        raise ValueError("no such thing")

    x = np.zeros(1)
    device.run(
        lambda o: o.submit(first, NoDep(o.tensor(x), writes=True), 3, parts=[second]),
        record="1+dump_args=2",
        out=tmp_path / "run",
    )
    assert counts == [2] and x.tolist() == [3]
    assert {arg["index"] for arg in plimsoll.open(tmp_path / "run").ask("args")["args"]} == {0, 1}
    with pytest.raises(plimsoll.Error) as failed:
        device.run(lambda o: o.submit(breaks, NoDep(o.tensor(x), writes=True)))
    assert "f64[1]" in str(failed.value) and "scalar" not in str(failed.value)


def test_a_part_that_waits_for_nobody_fails_in_words(host):
    @host.kernel(core="aic", in_blocks=True)
    def waits(x):
        plimsoll.block().pop(1)

    @host.kernel(core="aiv", in_blocks=True)
    def leaves(x):
        pass

    with pytest.raises(plimsoll.Error) as failed:
        host.run(lambda o: o.submit(waits, InOut(o.tensor(np.zeros(1))), parts=leaves))
    assert failed.value.kernel == "waits" and isinstance(failed.value.__cause__, RuntimeError)


def test_what_is_no_execution_has_no_block(host):
    with pytest.raises(plimsoll.Error, match="No kernel runs on this thread"):
        plimsoll.block()

    @host.kernel
    def alone(x):
        with pytest.raises(plimsoll.Error, match="no other part"):
            plimsoll.block().push(1, 2)

    host.run(lambda o: o.submit(alone, InOut(o.tensor(np.zeros(1)))))


def test_a_dummy_orders_others(device):
    order = []

    @device.kernel
    def note(x, number):
        order.append(number)

    def program(o):
        x, y = o.tensor(np.zeros(1)), o.tensor(np.zeros(1))
        o.submit(note, InOut(x), 1)
        o.dummy(InOut(x), InOut(y))
        o.submit(note, InOut(y), 2)

    device.run(program)
    assert order == [1, 2]


def test_nothing_is_inferred_in_a_manual_scope(device):
    order = []

    @device.kernel
    def note(x, number):
        order.append(number)

    def program(o):
        x = o.tensor(np.zeros(1))
        with o.manual_scope():
            for number in range(8):
                o.submit(note, InOut(x), number, after=o.last_task or ())
            with pytest.raises(plimsoll.Error, match="inside a manual one"), o.scope():
                pass

    with pytest.raises(plimsoll.Error):
        device.run(program)
    assert order == list(range(8))[: len(order)]


def test_inference_does_not_look_at_what_it_is_told_not_to(device, tmp_path):
    @device.kernel
    def use(x):
        pass

    def program(o):
        x = o.tensor(np.zeros(4))
        o.submit(use, InOut(x))
        o.submit(use, NoDep(x))
        o.submit(use, In(x))

    device.run(program, record="profile", out=tmp_path / "run")
    edges = plimsoll.open(tmp_path / "run").deps()["edges"]
    assert (edges if isinstance(edges, int) else len(edges)) == 1


@pytest.mark.parametrize("dtype", ["f8", "u4"])
def test_what_inference_does_not_look_at_is_written_only_if_that_is_said(host, dtype):
    @host.kernel
    def bump(x):
        x += 1

    x = np.zeros(2, dtype)
    host.run(lambda o: o.submit(bump, NoDep(o.tensor(x), writes=True)))
    assert x.tolist() == [1, 1]
    with pytest.raises(plimsoll.Error, match="read-only"):
        host.run(lambda o: o.submit(bump, NoDep(o.tensor(x))))


def test_a_task_has_one_predicate(host):
    @host.kernel
    def nothing(x):
        pass

    def program(o):
        x = o.tensor(np.ones(1))
        o.submit(nothing, In(x), only_if=x, unless=x)

    with pytest.raises(plimsoll.Error, match="one predicate"):
        host.run(program)


def test_what_is_marked_is_captured(host, tmp_path):
    @host.kernel
    def double(x, y):
        y[:] = 2 * x

    def program(o):
        x = o.tensor(np.ones(4))
        y = o.submit(double, In(x.marked()), Out(4, "f64"))
        o.submit(double, In(y), Out(4, "f64", marked=True))

    host.run(program, record="1+dump_args=1", out=tmp_path / "run")
    assert len(plimsoll.open(tmp_path / "run").table("tasks")) == 2
    import json
    import subprocess
    import sys

    asked = [sys.executable, "-m", "plimsoll", "args", str(tmp_path / "run"), "--json"]
    listed = subprocess.run(asked, capture_output=True, text=True)
    assert listed.returncode == 0 and json.loads(listed.stdout), listed
