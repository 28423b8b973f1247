"""Reading runs: the command's answers as plain objects, tables as Arrow."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import _native
from ._error import Error


def open(directory: str | os.PathLike[str] | None = None) -> Run:
    """Opens a run's directory, by default the newest in ``outputs``."""
    return Run(directory)


class Run:
    """A recorded run. What it answers is what the command's verbs print with ``--json``."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.path = Path("outputs/latest" if directory is None else directory)
        manifest = self.path / "run.json"
        if not manifest.exists():
            raise Error(
                5,
                "InvalidArgs",
                f"{self.path} is no run. It has no run.json. Give the directory of a run, such as outputs/latest.",
            )
        #: The manifest: command, engine, clock, status, error, ledger.
        self.manifest: dict[str, Any] = json.loads(manifest.read_text())

    def ask(self, verb: str, *flags: str) -> Any:
        """The answer of a verb of the command, such as ``ask("deps", "--redundant")``."""
        asked = subprocess.run(
            [sys.executable, "-m", "plimsoll", verb, str(self.path), "--json", *flags], capture_output=True, text=True
        )
        try:
            return json.loads(asked.stdout)
        except json.JSONDecodeError:
            text = asked.stderr.strip().removeprefix("plimsoll: ") or f"The command said nothing, with exit code {asked.returncode}."
            raise Error(5, "InvalidArgs", text) from None

    def stats(self) -> Any:
        """Time per function and utilisation per core."""
        return self.ask("stats")

    def scopes(self) -> Any:
        """Scopes by how close they came to the rings' limits."""
        return self.ask("scopes")

    def size(self) -> Any:
        """Sizes of rings that would do."""
        return self.ask("size")

    def critical_path(self) -> Any:
        """What the makespan is made of."""
        return self.ask("critical-path")

    def sched(self) -> Any:
        """What the scheduler cost."""
        return self.ask("sched")

    def deps(self) -> Any:
        """Who waits for whom, and why."""
        return self.ask("deps")

    def explain(self) -> Any:
        """How the run ended, and what bounds it."""
        return self.ask("explain")

    def table(self, name: str) -> _native.Table:
        """A table of the run: runs, tasks, executions, phases, scopes, edges or counters.

        It has Arrow's PyCapsule interface: ``pyarrow.table(t)``, ``polars.from_arrow(t)``, ``pandas.DataFrame.from_arrow(t)``
        and DuckDB take it without a copy.
        """
        return _native._table(self.path, name)

    def report(self) -> Path:
        """The run's page, written if it is not there."""
        page = self.path / "report.html"
        if not page.exists():
            subprocess.run([sys.executable, "-m", "plimsoll", "report", str(self.path)], check=True, capture_output=True)
        return page

    def __repr__(self) -> str:
        return f"<plimsoll.Run {self.manifest.get('program', '')} {self.manifest.get('status', '')} in {self.path}>"

    def _repr_html_(self) -> str:
        try:
            said = self.explain()
            lines = said.get("text") or said.get("explanation") or said.get("findings") or said
            verdict = lines if isinstance(lines, str) else json.dumps(lines, indent=1)
        except Error as error:
            verdict = error.explanation
        page = self.path.resolve() / "report.html"
        title = f"{self.manifest.get('program', 'run')}: {self.manifest.get('status', '')}"
        return (
            f"<div><b>{html.escape(title)}</b><pre>{html.escape(verdict)}</pre>"
            f'<a href="{html.escape(page.as_uri())}">report.html</a></div>'
        )
