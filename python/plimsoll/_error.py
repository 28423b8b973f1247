"""The one exception that the runtime raises."""

from __future__ import annotations


class Error(RuntimeError):
    """Why a run, or a call, failed.

    ``code`` and ``name`` say which error it is, ``explanation`` what happened, why, and what to do. An error of a full
    ring has ``resource``, ``ring``, ``used``, ``capacity`` and ``needed``, the size that would have been enough. What a
    Python kernel raised is its ``__cause__``.

    >>> import plimsoll
    >>> from plimsoll import Out
    >>> with plimsoll.Device(workers=2) as d:
    ...     @d.kernel
    ...     def breaks(x):
    ...         raise ValueError("no such thing")
    ...     try:
    ...         d.run(lambda o: o.submit(breaks, Out(1, "f64")))
    ...     except plimsoll.Error as error:
    ...         print(error.name, error.code, error.kernel, repr(error.__cause__))
    KernelFailed 20 breaks ValueError('no such thing')
    """

    code: int
    name: str
    explanation: str
    needed: int | None = None
    needed_is_bound: bool | None = None
    site: str | None = None
    kernel: str | None = None
    task: str | None = None
    worker: int | None = None
    resource: str | None = None
    ring: int | None = None
    used: int | None = None
    capacity: int | None = None

    def __init__(self, code: int, name: str, explanation: str) -> None:
        super().__init__(f"{name} ({code}): {explanation}")
        self.code = code
        self.name = name
        self.explanation = explanation

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.code, self.name, self.explanation), self.__dict__)


class GivenUp(BaseException):
    """Raised in Python code that a run was given up for, so that the run can return; `Error` says why."""
