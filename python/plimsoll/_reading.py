"""Reading runs: the command's answers as plain objects, tables as Arrow."""

from __future__ import annotations

import html
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import _native
from ._error import Error


def open(directory: str | os.PathLike[str] | None = None) -> Run:
    """Opens a run's directory, by default the newest in ``outputs``.

    >>> import plimsoll, tempfile
    >>> from plimsoll import Out
    >>> place = tempfile.TemporaryDirectory()
    >>> with plimsoll.Device(workers=2, record=1, out=place.name + "/run") as d:
    ...     nothing = d.built_in("nothing")
    ...     _ = d.run(lambda o: o.submit(nothing, Out(1, "f64")), name="one task")
    >>> plimsoll.open(place.name + "/run").stats()["tasks"]
    1
    """
    return Run(directory)


class Run:
    """A recorded run. What it answers is what the command's verbs print with ``--json``.

    >>> import plimsoll, tempfile
    >>> from plimsoll import Out
    >>> place = tempfile.TemporaryDirectory()
    >>> with plimsoll.Device(engine="virtual", record="profile", out=place.name + "/run") as d:
    ...     nothing = d.built_in("nothing")
    ...     _ = d.run(lambda o: o.submit(nothing, Out(1, "f64")), name="one task")
    >>> run = plimsoll.Run(place.name + "/run")
    >>> run.manifest["status"], run.deps()["tasks"], run.table("tasks").rows
    ('ok', 1, 1)
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.path = Path("outputs/latest" if directory is None else directory)
        manifest = self.path / "run.json"
        if not manifest.exists():
            raise Error(
                5,
                "InvalidArgs",
                f"{self.path} is no run. It has no run.json. Give the directory of a run, such as outputs/latest.",
            )
        try:
            read = json.loads(manifest.read_text())
            problem = "" if isinstance(read, dict) else "It holds no object"
        except (OSError, ValueError) as error:
            read, problem = {}, str(error)
        if problem:
            raise Error(
                5, "InvalidArgs", f"{manifest} cannot be read. {problem}. `plimsoll recover {shlex.quote(str(self.path))}` may mend the run."
            )
        #: The manifest: command, engine, clock, status, error, ledger.
        self.manifest: dict[str, Any] = read

    def ask(self, verb: str, *flags: str) -> Any:
        """The answer of a verb of the command, such as ``ask("deps", "--reduced")``.

        >>> import plimsoll, tempfile
        >>> from plimsoll import In, Out
        >>> place = tempfile.TemporaryDirectory()
        >>> with plimsoll.Device(engine="virtual", record="profile", out=place.name + "/run") as d:
        ...     nothing = d.built_in("nothing")
        ...     def program(o):
        ...         a = o.submit(nothing, Out(1, "f64"))
        ...         b = o.submit(nothing, In(a), Out(1, "f64"))
        ...         o.submit(nothing, In(a), In(b))
        ...     d.run(program)
        >>> run = plimsoll.open(place.name + "/run")
        >>> len(run.ask("deps")["edges"]), len(run.ask("deps", "--reduced")["edges"])
        (3, 2)
        """
        return json.loads(self._command(verb, str(self.path), "--json", *flags))

    def _command(self, *words: str) -> str:
        """What the command prints."""
        asked = subprocess.run([sys.executable, "-m", "plimsoll", *words], capture_output=True, text=True)
        # A verb that found something to complain about has said so in its answer.
        if asked.returncode > 1 or (asked.returncode and not asked.stdout.strip()):
            text = asked.stderr.strip().removeprefix("plimsoll: ") or f"The command said nothing, with exit code {asked.returncode}."
            raise Error(5, "InvalidArgs", text)
        return asked.stdout

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

        It has Arrow's PyCapsule interface: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, ``pandas.DataFrame.from_arrow(t)``
        and DuckDB take it without a copy.
        """
        return _native._table(self.path, name)

    def report(self) -> Path:
        """The run's page, written if it is not there."""
        page = self.path / "report.html"
        if not page.exists():
            self._command("report", str(self.path))
        return page

    def __repr__(self) -> str:
        return f"<plimsoll.Run {self.manifest.get('program', '')} {self.manifest.get('status', '')} in {self.path}>"

    def _repr_html_(self) -> str:
        """The verdict, what the makespan goes to, and a link to the report, which is written if it is not there."""
        parts = [f"<b>{html.escape(str(self.manifest.get('program', 'run')))}</b>"]
        try:
            said = self.explain()
            parts.append(f"<p>{html.escape(said['verdict'])}</p>")
            found = [f"{one['share']:.1%} of the makespan: {one['what']}" for one in said["findings"] if one["share"] is not None]
            listed = "".join(f"<li>{html.escape(one)}</li>" for one in found)
            parts.append(f"<ul>{listed}</ul>" if listed else "")
            page = self.report().resolve()
            parts.append(f'<a href="{html.escape(page.as_uri())}">{html.escape(page.name)}</a>')
        except Error as error:
            parts.append(f"<p>{html.escape(error.explanation)}</p>")
        return f"<div>{''.join(parts)}</div>"
