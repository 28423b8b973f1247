"""``python -m plimsoll run mine.py:program``: a program in Python with the flags of the command."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import re
import sys
import time
from pathlib import Path
from typing import Any, Callable

from . import _native
from ._error import Error
from ._kernels import register_marked


def is_program(word: str) -> bool:
    """Whether a word names a program in Python."""
    return re.fullmatch(r".+\.py:[A-Za-z_]\w*", word) is not None


def _seconds(text: str) -> float | None:
    """A time as the command has it: 500ms, 2s, 1m, off."""
    if text == "off":
        return None
    found = re.fullmatch(r"(\d+)(ms|s|m)", text.strip())
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a time: write it as 500ms, 2s, 1m or off")
    return int(found[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[found[2]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m plimsoll run", description="Run a program in Python.", allow_abbrev=False)
    parser.add_argument("program", help="the file and the function, such as mine.py:program")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a keyword argument of the program")
    for name, kind in [("workers", int), ("arch", str), ("engine", str), ("seed", int), ("costs", str)]:
        parser.add_argument(f"--{name}", type=kind)
    for name in ["ring-task-window", "ring-heap", "ring-dep-pool", "tensormap"]:
        parser.add_argument(f"--{name}")
    for name in ["op-timeout", "stall-timeout", "orch-timeout"]:
        parser.add_argument(f"--{name}", type=_seconds)
    parser.add_argument("--deadline-ms", type=int)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--prebuilt", action="store_true")
    parser.add_argument("--swimlane", nargs="?", type=int, const=4, choices=range(5))
    parser.add_argument("--dump-args", nargs="?", type=int, const=2, choices=range(1, 4))
    for name in ["scope-stats", "dep-gen", "pmu", "profile", "no-record", "report", "json", "isolate"]:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--out", type=Path)
    return parser


def _recorded(asked: argparse.Namespace) -> str:
    """What to record, as `Device.run` takes it; the command's default is level 1 and scope statistics."""
    if asked.no_record:
        return "0"
    parts = ["profile"] if asked.profile else [str(1 if asked.swimlane is None else asked.swimlane)]
    parts += [name for name in ("dep_gen", "scope_stats", "pmu") if getattr(asked, name)]
    if asked.dump_args:
        parts.append(f"dump_args={asked.dump_args}")
    return "+".join(parts)


def _settings(texts: list[str], program: Callable[..., object]) -> dict[str, Any]:
    """Keyword arguments of the program, of the types that its defaults have."""
    defaults = {name: one.default for name, one in inspect.signature(program).parameters.items()}
    settings: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise SystemExit(f"plimsoll: {text!r} is no setting. It has no value. Write KEY=VALUE.")
        default = defaults.get(key)
        if isinstance(default, bool):
            settings[key] = value.lower() in ("1", "true", "yes", "on")
        elif isinstance(default, (int, float)):
            settings[key] = type(default)(value)
        else:
            settings[key] = value
    return settings


def _load(path: Path, name: str) -> tuple[Callable[..., object], dict[str, Any]]:
    """The program and its module's names."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"plimsoll: {path} cannot be run. There is no such Python file. Give the path of one.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    program = getattr(module, name, None)
    if not callable(program):
        raise SystemExit(f"plimsoll: {path} has no program {name}. It is a function of an orchestrator. Name one that is there.")
    return program, vars(module)


def run(words: list[str]) -> int:
    """Runs a program in Python; gives the exit code."""
    asked = _parser().parse_args(words)
    if asked.isolate:
        print(
            "plimsoll: --isolate cannot be used with a program in Python. A device in a process of its own is the command's, "
            "which has no Python. Leave it out.",
            file=sys.stderr,
        )
        return 2
    file, _, name = asked.program.rpartition(":")
    program, names = _load(Path(file), name)
    settings = _settings(asked.set, program)
    sizes = {key: getattr(asked, key) for key in ("ring_task_window", "ring_heap", "ring_dep_pool", "tensormap")}
    machine = {key: getattr(asked, key) for key in ("workers", "arch", "engine", "seed", "costs")}
    budgets = {key: getattr(asked, key) for key in ("op_timeout", "stall_timeout")}
    began = time.monotonic()
    try:
        device = _native.Device(**machine, **sizes, **budgets, orch_timeout=asked.orch_timeout)
    except Error as error:
        print(f"plimsoll: {error.explanation}", file=sys.stderr)
        return 2
    failed: BaseException | None = None
    with device:
        register_marked(device, names)
        how: dict[str, Any] = {"record": _recorded(asked), "out": asked.out, "name": name, "rounds": asked.rounds}
        if asked.deadline_ms:
            how["deadline"] = asked.deadline_ms / 1000
        try:
            if asked.prebuilt:
                device.launch(device.build(lambda o: program(o, **settings)), **how)
            else:
                device.run(lambda o: program(o, **settings), **how)
        except (Error, KeyboardInterrupt) as error:
            failed = error
        except Exception as error:  # what the program raised: its traceback is what helps
            failed = error
            sys.excepthook(type(error), error, error.__traceback__)
        report = dict(device.report)
    if report["dir"]:
        _native._export(report["dir"])
        if asked.report:
            _native._command(["plimsoll", "report", report["dir"]])
    return _show(asked, name, report, failed, time.monotonic() - began)


def _show(asked: argparse.Namespace, name: str, report: dict[str, Any], failed: BaseException | None, took: float) -> int:
    error = failed if isinstance(failed, Error) else getattr(failed, "__cause__", None)
    code = error.code if isinstance(error, Error) else None
    if asked.json:
        said = {"program": name, "status": "failed" if failed else "ok", **report, "wall_seconds": round(took, 6)}
        if isinstance(error, Error):
            said["error"] = {"code": error.code, "name": error.name, "explanation": error.explanation}
        print(json.dumps(said))
    else:
        print(f"{name}: {report['tasks']} tasks in {report['elapsed_ns'] / 1e6:.3f} ms")
        if report["dir"]:
            print(f"recorded in {report['dir']}" + ("" if report["lossless"] else ", not all of it"))
    if isinstance(failed, Error):
        print(f"plimsoll: {failed}", file=sys.stderr)
        if failed.__cause__ is not None:
            sys.excepthook(type(failed.__cause__), failed.__cause__, failed.__cause__.__traceback__)
    if code == 114:
        return 130
    return 1 if failed else 0
