"""Kernels that are not Python: where a function is, and how its arguments look to ctypes."""

from __future__ import annotations

import ctypes
import inspect
import os
from typing import Any, Callable

from . import _error

#: The signature of a native kernel for ``numba.cfunc``: ``int32_t f(const plimsoll_call *)``.
numba_signature = "int32(voidptr)"

_MARK = "__plimsoll_kernel__"


class View(ctypes.Structure):
    """One argument as a native kernel sees it: ``plimsoll_view``.

    >>> import plimsoll
    >>> [name for name, _ in plimsoll.View._fields_[:4]]
    ['data', 'bits', 'shape', 'strides']
    """

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("bits", ctypes.c_uint64),
        ("shape", ctypes.c_uint32 * 5),
        ("strides", ctypes.c_int32 * 5),
        ("ndim", ctypes.c_uint8),
        ("dtype", ctypes.c_uint8),
        ("is_scalar", ctypes.c_uint8),
        ("is_written", ctypes.c_uint8),
        ("reserved", ctypes.c_uint32),
    ]


class Call(ctypes.Structure):
    """What a native kernel is called with: ``plimsoll_call``.

    >>> import ctypes, plimsoll
    >>> from plimsoll import Out
    >>> @plimsoll.KernelFunction
    ... def fill(call):
    ...     view = call.contents.args[0]
    ...     ctypes.cast(view.data, ctypes.POINTER(ctypes.c_double))[0] = view.shape[0]
    ...     return 0
    >>> with plimsoll.Device(workers=2) as d:
    ...     kernel = d.native(fill, name="fill")
    ...     d.run(lambda o: o.read(o.submit(kernel, Out(3, "f64"))[0]))
    array(3.)
    """

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("args", ctypes.POINTER(View)),
        ("context", ctypes.c_void_p),
        ("fail", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
        ("block", ctypes.c_uint32),
        ("blocks", ctypes.c_uint32),
        ("part", ctypes.c_uint32),
        ("parts", ctypes.c_uint32),
        ("push", ctypes.c_void_p),
        ("pop", ctypes.c_void_p),
    ]


#: The type of a native kernel for ctypes.
KernelFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(Call))


def _invalid(text: str) -> _error.Error:
    return _error.Error(5, "InvalidArgs", text)


def check_function(function: Any) -> None:
    """Refuses what would be called and would do nothing, or could not be called."""
    if not callable(function):
        raise _invalid(
            f"A {type(function).__name__} cannot be a kernel. It cannot be called. Give a function of the task's arguments."
        )
    inner = getattr(function, "__func__", function)
    if not inspect.isfunction(inner):
        inner = getattr(type(function), "__call__", None)
    if inspect.isgeneratorfunction(inner) or inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        raise _invalid(
            f"Kernel {getattr(function, '__name__', 'of this name')} would do nothing. A call of a generator or an async function "
            "only begins it. Give a function that does its work when it is called."
        )


def address_of(function: Any) -> tuple[int, str, bool]:
    """Where a function is, what it is called, and whether it calls Python: an address, or a function of ctypes, cffi or Numba."""
    name = getattr(function, "__name__", "native")
    if isinstance(function, int):
        return function, "native", False
    if isinstance(function, ctypes._CFuncPtr):
        held = getattr(function, "_objects", None) or {}
        is_callback = any(type(one).__name__ == "CThunkObject" for one in held.values())
        return ctypes.cast(function, ctypes.c_void_p).value or 0, name, is_callback
    address = getattr(function, "address", None)  # Numba's
    if isinstance(address, int):
        return address, getattr(function, "native_name", name), False
    if type(function).__module__ == "_cffi_backend":
        import cffi

        is_callback = type(function).__name__ == "__CDataOwnGC"
        return int(cffi.FFI().cast("uintptr_t", function)), "native", is_callback
    raise _invalid(
        f"A {type(function).__name__} is no native function. It is neither an address nor one of ctypes, cffi or Numba. "
        "Register Python functions with `Device.kernel`."
    )


def load(path: str | os.PathLike[str], symbol: str) -> tuple[int, Any]:
    """The address of a function in a shared object, and what keeps it loaded."""
    try:
        library = ctypes.CDLL(os.fspath(path))
        function = getattr(library, symbol)
    except (OSError, AttributeError) as problem:
        raise _invalid(
            f"Kernel {symbol} of {os.fspath(path)} cannot be loaded. {problem}. Give a shared object that has it."
        ) from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0, library


def kernel(
    function: Callable[..., object] | None = None,
    *,
    name: str | None = None,
    core: str | None = None,
    in_blocks: bool = False,
) -> Any:
    """Marks a function as a kernel of whatever device runs its program.

    ``python -m plimsoll run mine.py:program`` registers what a module marks. The function stays a function, and is
    submitted itself.

    >>> import plimsoll
    >>> @plimsoll.kernel
    ... def double(x, y):
    ...     y[:] = 2 * x
    """
    if function is None:
        return lambda function: kernel(function, name=name, core=core, in_blocks=in_blocks)
    setattr(function, _MARK, {"name": name, "core": core, "in_blocks": in_blocks})
    return function


def register_marked(device: Any, namespace: dict[str, Any]) -> int:
    """Registers the functions of a namespace that are marked as kernels."""
    marked = {id(value): value for value in namespace.values() if hasattr(value, _MARK)}
    for function in marked.values():
        device.kernel(function, **getattr(function, _MARK))
    return len(marked)
