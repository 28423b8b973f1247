"""Types of the extension module."""

from os import PathLike
from pathlib import Path
from types import EllipsisType, TracebackType
from typing import Any, Callable, Iterable, Sequence, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

__version__: str
_Result = TypeVar("_Result")
_Record = int | bool | str
_Size = int | str | Sequence[int]
_Number = int | float | bool | np.generic
_Index = int | slice | EllipsisType | None

class Tensor:
    """A tensor of a run, or a view of one."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def T(self) -> Tensor: ...
    def marked(self) -> Tensor: ...
    def reshape(self, *shape: int | Sequence[int]) -> Tensor: ...
    def permute(self, *order: int | Sequence[int]) -> Tensor: ...
    def tile(self, index: int | Sequence[int], tile: int | Sequence[int]) -> Tensor: ...
    def __len__(self) -> int: ...
    def __getitem__(self, at: _Index | tuple[_Index, ...]) -> Tensor: ...

class In:
    """The task reads the tensor, or several."""

    def __init__(self, tensor: Tensor | Sequence[Tensor]) -> None: ...

class InOut:
    """The task reads and writes the tensor."""

    def __init__(self, tensor: Tensor) -> None: ...

class Out:
    """The task makes a tensor of a shape and a dtype, or overwrites one that there is."""

    @overload
    def __init__(self, tensor_or_shape: Tensor, *, marked: bool = False) -> None: ...
    @overload
    def __init__(
        self, tensor_or_shape: int | Sequence[int], dtype: DTypeLike | str, *, marked: bool = False
    ) -> None: ...

class NoDep:
    """The task uses the tensor, and inference does not look at it. Whoever writes this sees to the order of tasks."""

    def __init__(self, tensor: Tensor, *, writes: bool = False) -> None: ...

class Block:
    """Which of its task's executions a kernel is."""

    @property
    def index(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def part(self) -> int: ...
    @property
    def parts(self) -> int: ...
    def push(self, to: int, value: int | float) -> None: ...
    def pop(self, source: int, dtype: DTypeLike | str | None = None) -> int | float: ...

def block() -> Block: ...

class Kernel:
    """A kernel of a device."""

    @property
    def name(self) -> str: ...
    def __call__(self, *args: Any) -> Any: ...

class Task:
    """A submitted task that later ones can be told to wait for."""

class Scope:
    """A scope of a run, as a context manager."""

    def __enter__(self) -> Orchestrator: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> bool: ...

class Orchestrator:
    """What an orchestration is called with. It is valid inside that call."""

    def submit(
        self,
        kernel: Kernel | Callable[..., object],
        *args: In | InOut | Out | NoDep | _Number,
        after: Task | Iterable[Task] | None = None,
        blocks: int | None = None,
        sync_start: bool = False,
        parts: Kernel | Callable[..., object] | Iterable[Kernel | Callable[..., object]] | None = None,
        only_if: Tensor | None = None,
        unless: Tensor | None = None,
    ) -> Any: ...
    def dummy(self, *args: In | InOut | Out | NoDep, after: Task | Iterable[Task] | None = None) -> None: ...
    @property
    def last_task(self) -> Task | None: ...
    def tensor(self, array: Any, *, writable: bool | None = None) -> Tensor: ...
    def read(self, tensor: Tensor, out: NDArray[Any] | None = None) -> NDArray[Any]: ...
    def write(self, tensor: Tensor, data: Any) -> None: ...
    def scope(self) -> Scope: ...
    def manual_scope(self) -> Scope: ...
    def fatal(self, message: str) -> None: ...

class Graph:
    """A graph that was built once and is launched any number of times."""

    @property
    def tasks(self) -> int: ...

class Device:
    """Workers, rings and kernels: what programs run on."""

    def __init__(
        self,
        *,
        workers: int | None = None,
        arch: str | None = None,
        engine: str | None = None,
        arch_set: Sequence[str] | None = None,
        record: _Record | None = None,
        out: str | PathLike[str] | None = None,
        outputs: str | PathLike[str] | None = None,
        rounds: int | None = None,
        program: str | None = None,
        seed: int | None = None,
        costs: str | None = None,
        lend: bool = True,
        ring_task_window: _Size | None = None,
        ring_heap: _Size | None = None,
        ring_dep_pool: _Size | None = None,
        tensormap: _Size | None = None,
        deadline: float | None = None,
        read_timeout: float | None = None,
        op_timeout: float | None = None,
        stall_timeout: float | None = None,
        orch_timeout: float | None = None,
    ) -> None: ...
    @property
    def workers(self) -> int: ...
    @property
    def engine(self) -> str: ...
    @property
    def arch(self) -> str: ...
    @overload
    def kernel(
        self,
        function: Callable[..., object],
        *,
        name: str | None = None,
        core: str | None = None,
        in_blocks: bool = False,
    ) -> Kernel: ...
    @overload
    def kernel(
        self, function: None = None, *, name: str | None = None, core: str | None = None, in_blocks: bool = False
    ) -> Callable[[Callable[..., object]], Kernel]: ...
    def native(
        self, function: Any, *, name: str | None = None, core: str | None = None, in_blocks: bool = False
    ) -> Kernel: ...
    def load(
        self,
        path: str | PathLike[str],
        symbol: str,
        *,
        name: str | None = None,
        core: str | None = None,
        in_blocks: bool = False,
    ) -> Kernel: ...
    def built_in(self, name: str) -> Kernel: ...
    def run(
        self,
        program: Callable[[Orchestrator], _Result],
        *,
        rounds: int | None = None,
        record: _Record | None = None,
        out: str | PathLike[str] | None = None,
        name: str | None = None,
        deadline: float | None = None,
        read_timeout: float | None = None,
        op_timeout: float | None = None,
        stall_timeout: float | None = None,
        orch_timeout: float | None = None,
    ) -> _Result: ...
    def build(
        self,
        program: Callable[[Orchestrator], object],
        *,
        deadline: float | None = None,
        stall_timeout: float | None = None,
        orch_timeout: float | None = None,
    ) -> Graph: ...
    def launch(
        self,
        graph: Graph,
        *,
        rounds: int | None = None,
        record: _Record | None = None,
        out: str | PathLike[str] | None = None,
        name: str | None = None,
        deadline: float | None = None,
        op_timeout: float | None = None,
        stall_timeout: float | None = None,
    ) -> None: ...
    @property
    def report(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Device: ...
    def __exit__(self, *args: object) -> bool: ...

class Table:
    """A table of a run, in Arrow's form."""

    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def _table(dir: str | PathLike[str], name: str) -> Table: ...
_COUNTER_GROUPS: list[str]

def _close_all() -> None: ...
def _command(words: list[str]) -> int: ...
def _bare_call(kernel: object, *args: object) -> None: ...

class _RunCommand:
    """A run that the command's words ask for."""

    def __init__(self, words: list[str]) -> None: ...
    @property
    def file(self) -> Path: ...
    @property
    def name(self) -> str: ...
    @property
    def sets(self) -> list[str]: ...
    def device(self) -> Device: ...
    def run(self, device: Device, program: Callable[[Orchestrator], object], file: str, line: int) -> None: ...
    def tell(self, device: Device) -> int: ...
