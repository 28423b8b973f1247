"""Programs in Python: kernels, submits, views, scopes, reads."""

from __future__ import annotations

import numpy as np
import plimsoll
import pytest
from plimsoll import In, InOut, Out


def test_a_chain_of_tasks_gives_what_its_kernels_compute(device):
    @device.kernel
    def add(a, b, c):
        c[:] = a + b

    def program(o):
        a, b = o.tensor(np.ones(64, "f4")), o.tensor(np.full(64, 2, "f4"))
        with o.scope():
            c = o.submit(add, In(a), In(b), Out((64,), "f32"))
            for _ in range(40):
                c = o.submit(add, In(c), In(b), Out((64,), "f32"))
            return o.read(c[0:3])

    assert device.run(program).tolist() == [83.0] * 3
    assert device.report["tasks"] == 41


def test_inputs_are_read_only_and_arrays_are_written_in_place(device):
    seen = []

    @device.kernel
    def bump(x, y):
        seen.append((x.flags.writeable, y.flags.writeable))
        y += x

    x, y = np.arange(6, dtype="i8").reshape(2, 3), np.zeros((2, 3), "i8")

    def program(o):
        a, b = o.tensor(x), o.tensor(y)
        for row in range(2):
            assert o.submit(bump, In(a[row]), InOut(b[row])) is None

    device.run(program)
    assert seen == [(False, True)] * 2
    assert (y == x).all()


def test_outputs_come_as_one_a_tuple_or_none(host):
    @host.kernel
    def two(a, b):
        a[:], b[:] = 1, 2

    @host.kernel
    def none():
        pass

    def program(o):
        a, b = o.submit(two, Out(4, "f64"), Out((2, 2), "i32"))
        assert o.submit(none) is None
        assert (a.shape, b.shape, b.dtype) == ((4,), (2, 2), np.dtype("i4"))
        return o.read(a).tolist(), o.read(b).tolist()

    assert host.run(program) == ([1.0] * 4, [[2, 2], [2, 2]])


def test_views_are_cut_as_numpy_cuts_them(host):
    whole = np.arange(24, dtype="f8").reshape(4, 6)

    def program(o):
        t = o.tensor(whole)
        same = [
            (t[1:3, 2:5], whole[1:3, 2:5]),
            (t[-1], whole[-1]),
            (t.T, whole.T),
            (t.reshape(2, -1), whole.reshape(2, -1)),
            (t.reshape((24,)), whole.reshape(24)),
            (t.permute(1, 0), whole.transpose(1, 0)),
            (t.tile((1, 2), (2, 2)), whole[2:4, 4:6]),
        ]
        for view, wanted in same:
            assert np.array_equal(o.read(view), wanted)
            assert view.shape == wanted.shape
        assert len(t) == 4 and t.size == 24 and t.ndim == 2

    host.run(program)


@pytest.mark.parametrize("cut", [lambda t: t[::2], lambda t: t[::-1]])
def test_steps_are_refused_in_words(host, cut):
    with pytest.raises(plimsoll.Error, match="step") as caught:
        host.run(lambda o: cut(o.tensor(np.zeros(8))))
    assert caught.value.name == "InvalidArgs"


def test_numbers_reach_kernels_as_they_were_given(device):
    seen = []

    @device.kernel
    def note(*numbers):
        seen.append(numbers)

    device.run(lambda o: o.submit(note, 3, -4, 2.5, True, np.float32(0.5), np.int32(-7)))
    assert seen == [(3, -4, 2.5, True, 0.5, -7)]
    assert [type(one) for one in seen[0]] == [int, int, float, bool, float, int]


def test_lists_of_tensors_reach_kernels_as_lists(device):
    @device.kernel
    def total(parts, out):
        out[0] = sum(part.sum() for part in parts)

    def program(o):
        parts = [o.tensor(np.full(4, value, "f4")) for value in (1, 2, 3)]
        return o.read(o.submit(total, In(parts), Out(1, "f32")))[0]

    assert device.run(program) == 24.0


def test_dtypes_that_the_runtime_does_not_have_pass_as_they_are(device):
    seen = []

    @device.kernel
    def double(x, y):
        seen.append((x.dtype, y.dtype))
        y[:] = x * 2

    def program(o):
        x = o.tensor(np.array([1 + 2j, 3], "c16"))
        y = o.submit(double, In(x), Out(2, "c16"))
        u = o.submit(double, In(o.tensor(np.array([7], "u4"))), Out(1, "u4"))
        return o.read(y).tolist(), o.read(u).tolist()

    assert device.run(program) == ([2 + 4j, 6 + 0j], [14])
    assert set(seen) == {(np.dtype("c16"),) * 2, (np.dtype("u4"),) * 2}


def test_a_program_can_write_and_go_on_by_what_it_reads(device):
    @device.kernel
    def halve(x):
        x //= 2

    def program(o):
        x = o.tensor(np.array([1000], "i8"))
        steps = 0
        while o.read(x)[0] > 10:
            o.submit(halve, InOut(x))
            steps += 1
        o.write(x, [5])
        return steps, int(o.read(x)[0])

    assert device.run(program) == (7, 5)


def test_a_graph_is_built_once_and_launched_often(device):
    x = np.zeros(4, "i8")

    @device.kernel
    def bump(x):
        x += 1

    def program(o):
        t = o.tensor(x)
        for _ in range(3):
            o.submit(bump, InOut(t))

    graph = device.build(program)
    assert graph.tasks == 3 and x.sum() == 0
    device.launch(graph)
    device.launch(graph, rounds=4)
    assert x.tolist() == [15] * 4


def test_rounds_call_the_program_again(host):
    calls = []
    host.run(lambda o: calls.append(o), rounds=3)
    assert len(calls) == 3


def test_explicit_dependencies_are_kept(host):
    order = []

    @host.kernel
    def note(number):
        order.append(number)

    def program(o):
        for number in range(20):
            o.submit(note, number, after=o.last_task or ())

    host.run(program)
    assert order == list(range(20))


def test_predicates_decide_whether_a_task_runs(host):
    ran = []

    @host.kernel
    def note(number):
        ran.append(number)

    def program(o):
        yes, no = o.tensor(np.array([1], "i4")), o.tensor(np.array([0], "i4"))
        o.submit(note, 1, only_if=yes)
        o.submit(note, 2, only_if=no)
        o.submit(note, 3, unless=no)

    host.run(program)
    assert sorted(ran) == [1, 3]


def test_a_kernel_is_still_a_function(host):
    @host.kernel(name="twice", core="any")
    def double(x):
        return 2 * x

    assert double(21) == 42 and double.name == "twice"
