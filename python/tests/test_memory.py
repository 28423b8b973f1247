"""Memory of Python's as tensors: nothing is copied, and what overlaps is one buffer or refused."""

from __future__ import annotations

import numpy as np
import plimsoll
import pytest
from plimsoll import In, InOut, Out


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


@pytest.mark.parametrize("cut", [lambda a: a.T, lambda a: a[1:3, 2:5], lambda a: a[2], lambda a: np.asfortranarray(a)])
def test_views_that_are_boxes_are_tensors_without_a_copy(host, bump, cut):
    array = np.arange(24, dtype="f8").reshape(4, 6)
    view = cut(array)
    wanted = view + 1
    host.run(lambda o: o.submit(bump, InOut(o.tensor(view))))
    assert np.array_equal(view, wanted)


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.zeros(8)[::-1], "negative strides"),
        (np.zeros(8)[::2], "neither dense nor a box"),
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
