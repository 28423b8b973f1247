"""Memory of Python's as tensors: nothing is copied, and what overlaps is one buffer or refused."""

from __future__ import annotations

import weakref

import numpy as np
import plimsoll
import pytest
from plimsoll import In, InOut, NoDep, Out


@pytest.fixture
def bump(host):
    """A kernel that adds one."""

    @host.kernel
    def bump(x):
        x += 1

    return bump


class Foreign:
    """An array of another library's: all that is known of it is DLPack."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self.device, 0)


def test_arrays_dlpack_and_buffers_are_written_where_they_are(host, bump):
    array, foreign, buffer = np.zeros(4), np.zeros((2, 2), "i4"), bytearray(8)

    def program(o):
        o.submit(bump, InOut(o.tensor(array)))
        o.submit(bump, InOut(o.tensor(Foreign(foreign))))
        o.submit(bump, InOut(o.tensor(buffer)))

    host.run(program)
    assert array.tolist() == [1] * 4 and foreign.tolist() == [[1, 1], [1, 1]] and buffer == b"\1" * 8


def test_kernels_see_the_address_of_the_array(host):
    seen = []

    @host.kernel
    def where(x):
        seen.append(x.__array_interface__["data"][0])

    array = np.zeros((8, 8))
    host.run(lambda o: o.submit(where, In(o.tensor(array)[2:4])))
    assert seen == [array[2:4].__array_interface__["data"][0]]


def test_memory_of_another_device_is_refused(host):
    with pytest.raises(plimsoll.Error, match="Move it to the CPU"):
        host.run(lambda o: o.tensor(Foreign(np.zeros(2), device=2)))


BOXES = {
    "transposed": lambda a: a.T,
    "box": lambda a: a[1:3, 2:5],
    "row": lambda a: a[2],
    "fortran": lambda a: np.asfortranarray(a),
    "box of fortran": lambda a: np.asfortranarray(a)[1:3, 2:5],
    "one more": lambda a: a[1:3, None, 2:5],
    "one more, transposed": lambda a: a.T[2:5, None, 1:3],
    "column": lambda a: a[:, 1],
    "column of one": lambda a: a[1:3, 2:3],
    "column, one more": lambda a: a[:, None, 1],
    "column of a box": lambda a: a.reshape(2, 2, 6)[1, :, 5],
    "every other": lambda a: a[1:3, 1::2],
}


@pytest.mark.parametrize("cut", BOXES.values(), ids=BOXES)
def test_views_that_are_boxes_are_tensors_without_a_copy(host, bump, cut):
    array = np.arange(24, dtype="f8").reshape(4, 6)
    view = cut(array)
    wanted = view + 1
    host.run(lambda o: o.submit(bump, InOut(o.tensor(view))))
    assert np.array_equal(view, wanted)


def test_a_column_and_its_array_are_one_buffer(host, bump):
    array = np.zeros((8, 4))

    def program(o):
        whole, column = o.tensor(array), o.tensor(array[:, 1])
        for _ in range(100):
            o.submit(bump, InOut(whole))
            o.submit(bump, InOut(column))

    host.run(program)
    assert array.tolist() == [[100, 200, 100, 100]] * 8


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros(8)[::-1], "negative strides"),
        (np.zeros(7)[::2], "neither dense nor a box"),
        (np.zeros((3, 4)).diagonal(), "neither dense nor a box"),
        (np.lib.stride_tricks.sliding_window_view(np.zeros(8), 2), "neither dense nor a box"),
        (np.zeros(4, ">f4"), "foreign byte order"),
        (np.array([object()]), "Python objects"),
        (np.zeros((0, 3)), "none of them empty"),
        (np.zeros((1,) * 6), "1 to 5 dimensions"),
        ([1, 2, 3], "is no array"),
    ],
)
def test_what_cannot_be_a_tensor_is_refused_in_words(host, array, why):
    with pytest.raises(plimsoll.Error, match=why) as caught:
        host.run(lambda o: o.tensor(array))
    assert caught.value.name == "InvalidArgs"


def test_a_read_only_array_cannot_be_written(host, bump):
    array = np.zeros(4)
    array.flags.writeable = False
    with pytest.raises(plimsoll.Error, match="cannot be written"):
        host.run(lambda o: o.submit(bump, InOut(o.tensor(array))))
    with pytest.raises(plimsoll.Error, match="A read-only array cannot be written"):
        host.run(lambda o: o.tensor(array, writable=True))
    assert host.run(lambda o: o.read(o.tensor(array))).sum() == 0 == array.sum()
    with pytest.raises(plimsoll.Error, match="cannot be written"):
        host.run(lambda o: o.submit(bump, InOut(o.tensor(bytes(4)))))


def test_parts_of_one_array_are_one_buffer(host, bump):
    array = np.zeros(64)

    def program(o):
        whole, part = o.tensor(array), o.tensor(array[16:32])
        for _ in range(100):
            o.submit(bump, InOut(whole))
            o.submit(bump, InOut(part))

    host.run(program)
    assert array[:16].tolist() == [100] * 16 and array[16:32].tolist() == [200] * 16


def test_overlap_that_is_no_part_is_refused(host):
    array = np.zeros(64)
    for second in [array, array[8:40], array.view("f4")]:

        def program(o):
            o.tensor(array[16:32])
            o.tensor(second)

        with pytest.raises(plimsoll.Error, match="overlaps another"):
            host.run(program)


def test_every_tensor_of_a_list_has_its_own_dtype(host):
    arrays = [np.arange(2.0), np.arange(3, dtype="f4"), np.arange(4, dtype="u4"), np.arange(5) * 1j]
    seen = []

    @host.kernel
    def note(several, single):
        seen.extend(np.array(one) for one in several)
        seen.append(np.array(single))

    host.run(lambda o: o.submit(note, In([o.tensor(one) for one in arrays]), In(o.tensor(arrays[0]))))
    host.run(lambda o: o.submit(note, In([o.tensor(one) for one in arrays[:2]]), In(o.tensor(arrays[3]))))
    wanted = [*arrays, arrays[0], *arrays[:2], arrays[3]]
    assert [(one.dtype, one.tolist()) for one in seen] == [(one.dtype, one.tolist()) for one in wanted]


def test_names_of_dtypes_are_the_runtime_s_first(host):
    @host.kernel
    def nothing(*args):
        pass

    names = {"i8": "int8", "u8": "uint8", "i64": "int64", "f8": "float64", "int64": "int64", "uint32": "uint32"}
    made = host.run(lambda o: {name: o.submit(nothing, Out(2, name)).dtype for name in names})
    assert made == {name: np.dtype(wanted) for name, wanted in names.items()}
    with pytest.raises(plimsoll.Error, match="passed as uint64"):
        host.run(lambda o: o.submit(nothing, np.uint64(3)))


def test_a_tensor_is_no_array(host):
    with pytest.raises(plimsoll.Error, match="Read it with"):
        host.run(lambda o: np.asarray(o.tensor(np.ones(2))))


def test_a_view_that_may_only_be_read_is_not_written_whatever_was_entered_before(host, bump):
    array = np.zeros(8)
    read_only = array[:4]
    read_only.flags.writeable = False
    for enter in (lambda o: o.tensor(read_only), lambda o: o.tensor(array, writable=False), lambda o: o.tensor(array[2:4], writable=False)):

        def program(o):
            o.tensor(array)
            o.submit(bump, InOut(enter(o)))

        with pytest.raises(plimsoll.Error, match="cannot be written"):
            host.run(program)
    assert array.tolist() == [0.0] * 8

    def other_way_round(o):
        o.tensor(array, writable=False)
        o.submit(bump, InOut(o.tensor(array)))

    host.run(other_way_round)
    assert array.tolist() == [1.0] * 8


def test_an_array_is_entered_again_in_a_later_scope(device):
    array = np.zeros(16)

    @device.kernel
    def bump(x):
        x += 1

    def program(o):
        for _ in range(50):
            with o.scope():
                o.submit(bump, InOut(o.tensor(array)))
                with o.scope():
                    o.submit(bump, InOut(o.tensor(array[4:8])))
        o.submit(bump, InOut(o.tensor(array)))
        with o.scope():
            # It is the same buffer, so this waits for all of them.
            return o.read(o.tensor(array))

    wanted = [51.0] * 4 + [101.0] * 4 + [51.0] * 8
    assert device.run(program).tolist() == wanted == array.tolist()


def test_memory_that_was_used_in_a_closed_scope_may_be_used_as_another_array(host, bump):
    array = np.zeros(64)

    def program(o):
        for _ in range(20):
            with o.scope():
                o.submit(bump, InOut(o.tensor(array[16:32])))
            with o.scope():
                o.submit(bump, InOut(o.tensor(array)))

    host.run(program)
    assert array[:16].tolist() == [20] * 16 and array[16:32].tolist() == [40] * 16


@pytest.mark.parametrize("engine", ["host", "virtual"])
def test_arrays_of_a_closed_scope_are_let_go_of_before_the_run_ends(engine):
    entered: list[weakref.ref] = []
    most = 0

    def living():
        return sum(one() is not None for one in entered)

    with plimsoll.Device(workers=2, engine=engine) as device:

        @device.kernel
        def look(x):
            assert x.sum() == x.size

        def program(o):
            nonlocal most
            for _ in range(40):
                with o.scope():
                    batch = np.ones(1000)
                    entered.append(weakref.ref(batch))
                    tensor = o.tensor(batch)
                    del batch
                    o.submit(look, InOut(tensor))
                    o.read(tensor)
                most = max(most, living())

        device.run(program)
    assert most <= 4 and not living()


def test_a_kernel_s_traceback_keeps_the_arrays_of_a_graph(host):
    @host.kernel
    def breaks(x):
        raise ValueError("with a view")

    array = np.arange(1000.0)
    kept = weakref.finalize(array, lambda: None)
    graph = host.build(lambda o: o.submit(breaks, In(o.tensor(array))))
    del array
    with pytest.raises(plimsoll.Error) as caught:
        host.launch(graph)
    del graph
    traceback = caught.value.__cause__.__traceback__
    while traceback.tb_next:
        traceback = traceback.tb_next
    assert kept.alive and traceback.tb_frame.f_locals["x"].sum() == 499500.0


def test_a_masked_array_is_refused_in_words(host):
    masked = np.ma.masked_equal(np.arange(4.0), 2)
    with pytest.raises(plimsoll.Error, match="array.filled"):
        host.run(lambda o: o.tensor(masked))
    with pytest.raises(plimsoll.Error, match="array.filled"):
        host.run(lambda o: o.write(o.tensor(np.zeros(4)), masked))


@pytest.mark.parametrize(
    "use",
    [
        lambda o, k, a: o.submit(k, In(a)),
        lambda o, k, a: o.submit(k, InOut(a)),
        lambda o, k, a: o.submit(k, NoDep(a)),
        lambda o, k, a: o.submit(k, 1, only_if=a),
        lambda o, k, a: o.read(a),
        lambda o, k, a: o.write(a, 1),
    ],
)
def test_an_array_where_a_tensor_is_wanted_is_refused_in_words(host, bump, use):
    with pytest.raises(plimsoll.Error, match="Enter arrays with `o.tensor`"):
        host.run(lambda o: use(o, bump, np.zeros(3)))
