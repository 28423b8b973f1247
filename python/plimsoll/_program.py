"""``python -m plimsoll run mine.py:program``: a program in Python with the flags of the command."""

from __future__ import annotations

import importlib.util
import inspect
import re
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Callable

from . import _native
from ._error import Error
from ._kernels import register_marked


def is_program(word: str) -> bool:
    """Whether a word names a program in Python."""
    return re.fullmatch(r".+\.py(:\w*)?", word) is not None


class _WrongUsage(Exception):
    """What was asked for cannot be done, in words."""


_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _value(key: str, text: str, default: object) -> Any:
    """What a setting's text says, of the type that its default has."""
    wanted = "text"
    try:
        if isinstance(default, bool):
            wanted = "true or false"
            return _FLAGS[text.lower()]
        if isinstance(default, int):
            wanted = "a whole number"
            return int(text)
        if isinstance(default, float):
            wanted = "a number"
            return float(text)
    except (KeyError, ValueError):
        raise _WrongUsage(f"{key} cannot be {text!r}. Its default is {default!r}. Give {wanted}.") from None
    return text


def _settings(texts: list[str], program: Callable[..., object]) -> dict[str, Any]:
    """Keyword arguments of the program, of the types that its defaults have."""
    parameters = list(inspect.signature(program).parameters.values())[1:]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    defaults = {one.name: one.default for one in parameters if one.kind in plain}
    settings: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise _WrongUsage(f"{text!r} is no setting. It has no value. Write KEY=VALUE.")
        if key not in defaults and not takes_any:
            known = ", ".join(defaults) or "no settings"
            raise _WrongUsage(f"There is no setting {key!r} here. The program knows {known}. Use one of them.")
        settings[key] = _value(key, value, defaults.get(key))
    missing = [name for name, default in defaults.items() if default is inspect.Parameter.empty and name not in settings]
    if missing:
        raise _WrongUsage(f"The program needs {', '.join(missing)}. It has no default. Give it with --set {missing[0]}=VALUE.")
    return settings


def _load(path: Path, name: str) -> tuple[Callable[..., object], dict[str, Any]]:
    """The program and its module's names."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise _WrongUsage(f"{path} cannot be run. There is no such Python file. Give the path of one.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except SystemExit:
        raise _WrongUsage(f"{path} cannot be run. It leaves the interpreter while it is read. Let it leave in its program.") from None
    program = getattr(module, name, None)
    if not callable(program):
        raise _WrongUsage(f"{path} has no program {name}. It is a function of an orchestrator. Name one that is there.")
    return program, vars(module)


def _place(path: Path, program: Callable[..., object]) -> tuple[str, int]:
    """Where a program is written: its scopes are told by it."""
    code = getattr(inspect.unwrap(program), "__code__", None)
    return (str(path), 1) if code is None else (code.co_filename, code.co_firstlineno)


class _Termination:
    """SIGTERM while a run is under way: it ends the run as Ctrl-C does. A second one ends the process at once."""

    _INTERRUPTED = 130
    """What the command exits with after Ctrl-C."""

    def __init__(self) -> None:
        self._came = False

    def __enter__(self) -> _Termination:
        # Whoever ignores or handles it has a reason.
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        if signal.getsignal(signal.SIGTERM) == self._end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise KeyboardInterrupt

    def exit_code(self, code: int) -> int:
        """The code of a run that was told with this one."""
        return 128 + signal.SIGTERM if self._came and code == self._INTERRUPTED else code


def _asked_for(left: SystemExit) -> int:
    """The exit code that a program asked for; what is no number is said, as the interpreter does."""
    if left.code is None or isinstance(left.code, int):
        return (left.code or 0) & 0xFF
    print(left.code, file=sys.stderr)
    return 1


def run(words: list[str]) -> int:
    """Runs a program in Python with the command's flags; gives the exit code."""
    asked = _native._RunCommand(["plimsoll", "run", *words])
    try:
        program, names = _load(Path(asked.file), asked.name)
        settings = _settings(asked.sets, program)
    except _WrongUsage as problem:
        print(f"plimsoll: {problem}", file=sys.stderr)
        return 2
    code = left = 0
    with asked.device() as device:
        register_marked(device, names)
        termination = _Termination()
        try:
            with termination:
                asked.run(device, lambda o: program(o, **settings), *_place(Path(asked.file), program))
        except (Error, KeyboardInterrupt) as error:  # the run itself says what happened
            raised = error.__cause__
            if raised is not None and not isinstance(raised, Error):
                sys.excepthook(type(raised), raised, raised.__traceback__)
        except Exception as error:  # what the program raised: its traceback is what helps
            sys.excepthook(type(error), error, error.__traceback__)
        except SystemExit as error:  # the run has failed, whatever code the program left with
            left = _asked_for(error)
        code = termination.exit_code(asked.tell(device))
    return left or code
