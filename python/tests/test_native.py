"""Kernels that are not Python."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import plimsoll
import pytest
from plimsoll import In, InOut, KernelFunction, Out

SOURCE = r"""
#include <stdint.h>
#include "plimsoll.h"
int32_t axpy(const plimsoll_call *call) {
    double factor;
    __builtin_memcpy(&factor, &call->args[0].bits, 8);
    const float *x = call->args[1].data;
    float *y = call->args[2].data;
    for (uint32_t i = 0; i < call->args[1].shape[0]; ++i) y[i] += factor * x[i];
    return 0;
}
int32_t fails(const plimsoll_call *call) { call->fail(call, "it does not like Mondays"); return 3; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory, request):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    place = tmp_path_factory.mktemp("native")
    (place / "k.c").write_text(SOURCE)
    include = request.config.rootpath / "crates/capi/include"
    subprocess.run([compiler, "-shared", "-fPIC", "-I", include, "-o", place / "libk.so", place / "k.c"], check=True)
    return place / "libk.so"


def test_a_function_of_a_shared_object_is_a_kernel(device, library):
    axpy = device.load(library, "axpy")
    x, y = np.arange(8, dtype="f4"), np.ones(8, "f4")
    device.run(lambda o: o.submit(axpy, 2.0, In(o.tensor(x)), InOut(o.tensor(y))))
    assert (y == 1 + 2 * x).all() and axpy.name == "axpy"


def test_a_native_kernel_that_fails_says_why(host, library):
    fails = host.load(str(library), "fails")
    with pytest.raises(plimsoll.Error, match="does not like Mondays"):
        host.run(lambda o: o.submit(fails, In(o.tensor(np.ones(1)))))


def test_a_function_of_ctypes_is_a_kernel(host, library):
    found = ctypes.CDLL(str(library)).axpy
    y = np.zeros(4, "f4")

    def program(o):
        x, t = o.tensor(np.ones(4, "f4")), o.tensor(y)
        o.submit(axpy, 3.0, In(x), InOut(t))
        o.submit(by_number, 3.0, In(x), InOut(t))

    axpy = host.native(found)
    by_number = host.native(ctypes.cast(found, ctypes.c_void_p).value, name="axpy2")
    host.run(program)
    assert y.tolist() == [6.0] * 4


def test_a_callback_of_ctypes_is_kept_alive(host):
    def make():
        @KernelFunction
        def write(call):
            ctypes.cast(call[0].args[0].data, ctypes.POINTER(ctypes.c_int64))[0] = 42
            return 0

        return host.native(write, name="write")

    kernel = make()
    assert host.run(lambda o: o.read(o.submit(kernel, Out(1, "i64"))))[0] == 42


def test_a_function_of_cffi_is_a_kernel(host, library):
    cffi = pytest.importorskip("cffi", reason="cffi is not installed (.ci/requirements.txt)")
    ffi = cffi.FFI()
    ffi.cdef("int32_t axpy(const void *);")
    axpy = host.native(ffi.addressof(ffi.dlopen(str(library)), "axpy"))
    y = np.zeros(2, "f4")
    host.run(lambda o: o.submit(axpy, 1.0, In(o.tensor(np.ones(2, "f4"))), InOut(o.tensor(y))))
    assert y.tolist() == [1, 1]


def test_a_function_of_numba_is_a_kernel(host):
    numba = pytest.importorskip("numba", reason="numba is not installed (.ci/requirements.txt)")

    @numba.cfunc(plimsoll.numba_signature)
    def takes_two(call):
        # plimsoll_call begins with its size and the number of its arguments.
        return numba.carray(call, 2, np.uint32)[1] - 2

    @numba.cfunc(plimsoll.numba_signature)
    def refuse(call):
        return 7

    taken, refused = host.native(takes_two), host.native(refuse)
    x = np.ones(1)
    host.run(lambda o: o.submit(taken, InOut(o.tensor(x)), 3.0))
    with pytest.raises(plimsoll.Error, match="it returned -1"):
        host.run(lambda o: o.submit(taken, InOut(o.tensor(x))))
    with pytest.raises(plimsoll.Error, match="it returned 7"):
        host.run(lambda o: o.submit(refused, In(o.tensor(x))))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_package_brings_kernels(device, dtype):
    fill, add, axpy, nothing = (device.built_in(name) for name in ("fill", "add", "axpy", "nothing"))

    def program(o):
        a = o.submit(fill, 2, Out(8, dtype))
        b = o.submit(add, In(a), In(a), Out(8, dtype))
        o.submit(axpy, 0.5, In(a), InOut(b))
        o.submit(nothing, In(b))
        return o.read(b)

    assert device.run(program).tolist() == [5.0] * 8


def test_what_is_no_native_function_is_refused(host, tmp_path):
    for wrong in [lambda: host.native("text"), lambda: host.native(0), lambda: host.built_in("sort")]:
        with pytest.raises(plimsoll.Error):
            wrong()
    with pytest.raises(plimsoll.Error, match="cannot be loaded"):
        host.load(tmp_path / "none.so", "axpy")
