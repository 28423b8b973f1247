"""Views of tensors are cut as NumPy cuts arrays, or refused in words."""

from __future__ import annotations

import numpy as np
import plimsoll
import pytest
from plimsoll import InOut

CUTS = [
    lambda t: t[1],
    lambda t: t[-1],
    lambda t: t[:, 1],
    lambda t: t[..., 1],
    lambda t: t[1, ...],
    lambda t: t[:, 1, 2:4],
    lambda t: t[1:, :, -1],
    lambda t: t[...],
    lambda t: t[()],
    lambda t: t[None],
    lambda t: t[:, None, 1],
    lambda t: t[..., None],
    lambda t: t[np.int64(1), 0:2],
    lambda t: t.T[1],
    lambda t: t.T[:, 2, 0:1],
    lambda t: t[0].T[1, 1:3],
    lambda t: t[1:2][0][:, 2],
    lambda t: t.reshape(-1),
    lambda t: t.reshape(2, -1),
    lambda t: t.reshape((4, 3, -1)),
    lambda t: t[1].reshape(-1, 2),
]


@pytest.mark.parametrize("cut", CUTS)
def test_a_view_is_what_numpy_has(host, cut):
    array = np.arange(2.0 * 3 * 4).reshape(2, 3, 4)
    wanted = array.copy()
    cut(wanted)[...] += 1

    @host.kernel
    def bump(x):
        x += 1

    def program(o):
        view = cut(o.tensor(array))
        before = o.read(view)
        o.submit(bump, InOut(view))
        return view.shape, before

    shape, before = host.run(program)
    assert shape == cut(wanted).shape and np.array_equal(before, cut(wanted) - 1)
    assert np.array_equal(array, wanted)


def test_one_element_is_a_tensor_without_dimensions(host):
    array = np.arange(24.0).reshape(2, 3, 4)

    def program(o):
        element = o.tensor(array)[1, 2, 3]
        return element.shape, element[()].size, o.read(element[None, ...]).tolist()

    assert host.run(program) == ((), 1, [23.0])


def test_columns_that_an_index_takes_do_not_wait_for_each_other(tmp_path):
    array = np.zeros((4, 3))
    with plimsoll.Device(engine="virtual", record="1+dep_gen", out=tmp_path / "run") as device:

        @device.kernel
        def bump(x):
            x += 1

        def program(o):
            t = o.tensor(array)
            for _ in range(2):
                for column in range(3):
                    o.submit(bump, InOut(t[:, column]))

        device.run(program)
    assert array.tolist() == [[2.0] * 3] * 4
    edges = plimsoll.open(tmp_path / "run").deps()["edges"]
    assert sorted((edge["pred"], edge["succ"]) for edge in edges) == [(f"r0t{at}", f"r0t{at + 3}") for at in range(3)]


@pytest.mark.parametrize("index", [True, np.True_, 1.5, "a", [0, 1], np.array([0, 1]), (0, False), object()])
def test_what_is_no_index_is_refused(host, index):
    with pytest.raises(IndexError, match="whole numbers, slices, ... and None"):
        host.run(lambda o: o.tensor(np.zeros((2, 3)))[index])


@pytest.mark.parametrize(
    ("index", "why"),
    [((0, 0, 0), "given 3 indices"), ((..., ...), "one ..."), (2, "outside of extent 2"), ((0, -4), "outside of extent 3")],
)
def test_an_index_that_is_outside_is_refused(host, index, why):
    with pytest.raises(IndexError, match=why):
        host.run(lambda o: o.tensor(np.zeros((2, 3)))[index])


def test_a_tile_of_another_rank_is_refused(host):
    with pytest.raises(plimsoll.Error, match="a tile of 1 extents does not fit a view of 2 dimensions"):
        host.run(lambda o: o.tensor(np.zeros((2, 2))).tile(0, 1))


@pytest.mark.parametrize("shape", [(-2, 4), (-1, -1), (2, -3), (-1, 5), (7,)])
def test_what_is_no_shape_is_refused(host, shape):
    with pytest.raises(plimsoll.Error, match="is no shape|cannot be reshaped"):
        host.run(lambda o: o.tensor(np.zeros((2, 4))).reshape(shape))


def test_rows_are_gone_through_as_numpy_has_it(host):
    assert host.run(lambda o: [o.read(row).tolist() for row in o.tensor(np.arange(6).reshape(2, 3)).T]) == [[0, 3], [1, 4], [2, 5]]
