"""A dataflow task runtime for tensors with a lossless flight recorder.

Tasks are submitted in the order of the program; which of them may run at the same time follows from the tensors that
they read and write.

>>> import numpy as np, plimsoll
>>> from plimsoll import In, Out
>>> with plimsoll.Device(workers=2) as d:
...     @d.kernel
...     def add(a, b, c):
...         c[:] = a + b
...     def program(o):
...         a = o.tensor(np.full(64, 1.0, "f4"))
...         b = o.tensor(np.full(64, 2.0, "f4"))
...         c = o.submit(add, In(a), In(b), Out((64,), "f32"))
...         d = o.submit(add, In(c), In(b), Out((64,), "f32"))
...         return o.read(d[0:2])
...     d.run(program)
array([5., 5.], dtype=float32)

A task may be executed in blocks, which know their numbers:

>>> with plimsoll.Device(workers=2) as d:
...     @d.kernel(in_blocks=True)
...     def number(to):
...         to[plimsoll.block().index] = plimsoll.block().index
...     d.run(lambda o: o.read(o.submit(number, Out(4, "i64"), blocks=4)))
array([0, 1, 2, 3])
"""

from __future__ import annotations

import atexit as _atexit

# Now, on one thread: kernels and reads of several threads would import it at the same time, which NumPy does not stand.
import numpy as _numpy  # noqa: F401

from ._error import Error
from ._kernels import Call, KernelFunction, View, kernel, numba_signature
from ._native import (
    Block,
    Device,
    Graph,
    In,
    InOut,
    Kernel,
    NoDep,
    Orchestrator,
    Out,
    Scope,
    Task,
    Tensor,
    __version__,
    _close_all,
    block,
)

from ._reading import Run, open

_atexit.register(_close_all)

__all__ = [
    "Block",
    "Call",
    "Device",
    "Error",
    "Graph",
    "In",
    "InOut",
    "Kernel",
    "KernelFunction",
    "NoDep",
    "Orchestrator",
    "Out",
    "Run",
    "Scope",
    "Task",
    "Tensor",
    "View",
    "__version__",
    "block",
    "kernel",
    "numba_signature",
    "open",
]
