"""``python -m plimsoll.bench``: what a task costs from Python, beside what others take for it.

The graph is a chain: every task updates the same element. Figures are nanoseconds per task, from the first submit until the
last task has completed; the least of all repetitions, which are interleaved, so that what else the machine does hits all alike.

======================  ===========================================================================
``bare_call``           a call of the extension module with the arguments of a submit, which does nothing
``native``              ``o.submit`` of a native kernel that does nothing
``python``              ``o.submit`` of a Python kernel that does nothing
``concurrent_futures``  ``ThreadPoolExecutor.submit`` with one worker, which keeps the order of a chain
``dask``                ``dask.threaded.get`` of a graph in which every task takes the one before it
======================  ===========================================================================

>>> from plimsoll import bench
>>> measured = bench.measure(tasks=100, reps=1, subjects=["bare_call", "native"])
>>> sorted(measured["ns_per_task"]) == ["bare_call", "native"] and measured["ratios"]["native / bare_call"] > 0
True
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import _native
from ._native import Device, InOut, Orchestrator

#: What may be measured, in this order.
SUBJECTS = ("bare_call", "native", "python", "concurrent_futures", "dask")

#: Ratios that are watched, and the most that each may be.
MARKS = {
    "native / bare_call": 3.0,
    "python / concurrent_futures": 0.5,
    "native / dask": 0.05,
    "python / dask": 0.05,
}

#: Tasks in a scope: their slots come back at its end.
_SCOPE = 1024

#: Dask's graph is built beforehand and takes long: it has so many tasks at most.
_MOST_OF_DASK = 10_000


def _chain(device: Device, kernel: Any, tasks: int) -> float:
    """Seconds that a chain takes."""
    datum = np.zeros(1, "f4")

    def program(o: Orchestrator) -> float:
        x = o.tensor(datum)
        begin = time.perf_counter()
        for first in range(0, tasks, _SCOPE):
            with o.scope():
                for _ in range(first, min(first + _SCOPE, tasks)):
                    o.submit(kernel, InOut(x))
        o.read(x)
        return time.perf_counter() - begin

    return device.run(program)


def _bare_call(device: Device, kernel: Any, tasks: int) -> float:
    """Seconds that as many calls take, with arguments that are made as those of a submit are."""
    datum = np.zeros(1, "f4")

    def program(o: Orchestrator) -> float:
        x = o.tensor(datum)
        call = _native._bare_call
        begin = time.perf_counter()
        for first in range(0, tasks, _SCOPE):
            for _ in range(first, min(first + _SCOPE, tasks)):
                call(kernel, InOut(x))
        return time.perf_counter() - begin

    return device.run(program)


def _nothing(x: object) -> None:
    return None


def _futures(tasks: int) -> float:
    datum = np.zeros(1, "f4")
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
        begin = time.perf_counter()
        last = None
        for _ in range(tasks):
            last = pool.submit(_nothing, datum)
        if last is not None:
            last.result()
        return time.perf_counter() - begin


def _dask(tasks: int) -> float:
    import dask.threaded  # type: ignore[import-not-found,import-untyped,unused-ignore]

    graph: dict[Any, Any] = {0: np.zeros(1, "f4")}
    graph.update({number: (_nothing, number - 1) for number in range(1, tasks + 1)})
    begin = time.perf_counter()
    dask.threaded.get(graph, tasks)
    return time.perf_counter() - begin


def measure(tasks: int = 200_000, reps: int = 20, subjects: Iterable[str] = SUBJECTS) -> dict[str, Any]:
    """Measures these subjects; gives the figures, their ratios, and what was skipped and why."""
    wanted = [name for name in SUBJECTS if name in set(subjects)]
    skipped = {}
    if "dask" in wanted and importlib.util.find_spec("dask") is None:
        wanted.remove("dask")
        skipped["dask"] = "dask is not installed: pip install dask"
    counts = {name: min(tasks, _MOST_OF_DASK) if name == "dask" else tasks for name in wanted}
    best: dict[str, float] = {}
    with Device() as device:
        native, python = device.built_in("nothing"), device.kernel(_nothing, name="nothing in Python")
        subject: dict[str, Callable[[int], float]] = {
            "bare_call": lambda tasks: _bare_call(device, native, tasks),
            "native": lambda tasks: _chain(device, native, tasks),
            "python": lambda tasks: _chain(device, python, tasks),
            "concurrent_futures": _futures,
            "dask": _dask,
        }
        for _ in range(reps):
            for name in wanted:
                took = subject[name](counts[name]) * 1e9 / counts[name]
                best[name] = min(took, best.get(name, took))
        workers = device.workers
    pairs = {mark: mark.split(" / ") for mark in MARKS}
    ratios = {mark: best[a] / best[b] for mark, (a, b) in pairs.items() if a in best and b in best}
    return {
        "graph": "chain",
        "tasks": counts,
        "reps": reps,
        "how": "the least of interleaved repetitions",
        "cpus": os.cpu_count(),
        "workers": workers,
        "python": sys.version.split()[0],
        "ns_per_task": {name: round(value, 1) for name, value in best.items()},
        "ratios": {mark: round(value, 4) for mark, value in ratios.items()},
        "most": {mark: MARKS[mark] for mark in ratios},
        "skipped": skipped,
    }


def _print(measured: dict[str, Any]) -> None:
    print(f"chain, least of {measured['reps']} interleaved repetitions, {measured['workers']} workers")
    for name, value in measured["ns_per_task"].items():
        print(f"  {name:<20} {value:>10.1f} ns per task, of {measured['tasks'][name]:,}")
    for mark, value in measured["ratios"].items():
        print(f"  {mark:<28} {value:>8.4f}, at most {measured['most'][mark]}")
    for name, why in measured["skipped"].items():
        print(f"  {name} was skipped: {why}")


def main(words: list[str] | None = None) -> int:
    """Measures as the words say and prints what was measured."""
    parser = argparse.ArgumentParser("python -m plimsoll.bench", description="Measure what a task costs from Python.")
    parser.add_argument("--tasks", type=int, default=200_000, help="tasks of the chain [default: 200000]")
    parser.add_argument("--reps", type=int, default=20, help="repetitions, of which the least counts [default: 20]")
    parser.add_argument("--only", nargs="+", choices=SUBJECTS, default=SUBJECTS, help="measure these only")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    asked = parser.parse_args(words)
    measured = measure(max(asked.tasks, 1), max(asked.reps, 1), asked.only)
    if asked.json:
        print(json.dumps(measured))
    else:
        _print(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main())
