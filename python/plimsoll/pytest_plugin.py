"""The pytest plugin: a device and a run directory per test, and explanations in failure reports.

Installed with the package. Its options start with ``--plimsoll-``; ``-p plimsoll.simpler_options`` adds short names and
those of the reference.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Generator, Iterator

import pytest

#: The options: name, what it is, and its default; without a type it is a flag.
OPTIONS: list[tuple[str, type | None, str]] = [
    ("swimlane-level", int, "record tasks up to this level, 0 to 4 (1 if left out)"),
    ("scope-stats", None, "record scope statistics"),
    ("dep-gen", None, "record dependencies"),
    ("pmu", None, "record hardware counters"),
    ("profile", None, "record everything: swimlane level 4, dependencies, scope statistics"),
    ("dump-args-level", int, "record arguments: 1 marked ones, 2 all, 3 shapes"),
    ("arch", str, "run on this arch"),
    ("engine", str, "run on this engine: host, emulated or virtual"),
    ("rounds", int, "run every program this many times"),
    ("out", str, "where run directories go (outputs if left out)"),
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("plimsoll", "plimsoll: devices, recordings")
    for name, kind, text in OPTIONS:
        dest = "plimsoll_" + name.replace("-", "_")
        if kind is None:
            group.addoption(f"--plimsoll-{name}", dest=dest, action="store_true", default=False, help=text)
        else:
            group.addoption(f"--plimsoll-{name}", dest=dest, type=kind, default=None, help=text)
    group.addoption("--plimsoll-junit", dest="plimsoll_junit", metavar="FILE", help="write a JUnit file, even if the tests die")


def recorded(config: pytest.Config) -> str:
    """What is recorded, as a device takes it."""
    if config.getoption("plimsoll_profile"):
        parts = ["profile"]
    else:
        level = config.getoption("plimsoll_swimlane_level")
        parts = [str(1 if level is None else level)]
    parts += [name for name in ("dep_gen", "scope_stats", "pmu") if config.getoption(f"plimsoll_{name}")]
    dump = config.getoption("plimsoll_dump_args_level")
    if dump:
        parts.append(f"dump_args={dump}")
    return "+".join(parts)


class Supervisor:
    """A process that outlives this one: it writes the JUnit file, and recovers and explains what a death leaves behind."""

    def __init__(self, out: Path, junit: str | None) -> None:
        words = [sys.executable, "-m", "plimsoll._supervisor", str(out.resolve()), str(Path(junit).resolve()) if junit else ""]
        # A session of its own: what ends the tests' process group does not end it.
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, text=True)

    def tell(self, **event: Any) -> None:
        """Tells it what happens."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(event) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def close(self) -> None:
        """The session has ended, and so does the supervisor, when it has written what it writes."""
        self.tell(kind="end")
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


_SUPERVISOR = pytest.StashKey[Supervisor]()
_DIRECTORY = pytest.StashKey[Path]()


def _out(config: pytest.Config) -> Path:
    return Path(config.getoption("plimsoll_out") or "outputs")


def _supervisor(config: pytest.Config) -> Supervisor:
    if _SUPERVISOR not in config.stash:
        config.stash[_SUPERVISOR] = Supervisor(_out(config), config.getoption("plimsoll_junit"))
    return config.stash[_SUPERVISOR]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Starts the supervisor, if a file is asked for."""
    if session.config.getoption("plimsoll_junit"):
        _supervisor(session.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ends the supervisor."""
    if _SUPERVISOR in session.config.stash:
        session.config.stash[_SUPERVISOR].close()
        del session.config.stash[_SUPERVISOR]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Tells the supervisor which test runs."""
    if _SUPERVISOR in item.config.stash:
        item.config.stash[_SUPERVISOR].tell(kind="test", test=item.nodeid)
    return (yield)


@pytest.fixture
def plimsoll_device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device as the options say; its runs are recorded in a directory of this test."""
    import plimsoll

    config = request.config
    name = re.sub(r"[^\w.-]+", "_", request.node.nodeid).strip("_")
    directory = _out(config) / name
    directory.mkdir(parents=True, exist_ok=True)
    request.node.stash[_DIRECTORY] = directory
    _supervisor(config).tell(kind="test", test=request.node.nodeid, directory=str(directory.resolve()))
    options = {key: config.getoption(f"plimsoll_{key}") for key in ("arch", "engine", "rounds")}
    with plimsoll.Device(record=recorded(config), outputs=directory, program="run", **options) as device:
        yield device


def explained(directory: Path) -> str:
    """What the newest run of a test has to say, as the command words it."""
    newest = directory / "latest"
    if not (newest / "run.json").exists():
        return ""
    asked = subprocess.run([sys.executable, "-m", "plimsoll", "explain", str(newest)], capture_output=True, text=True)
    return (asked.stdout or asked.stderr).strip()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Adds the run's explanation to the report of a failure."""
    report = yield
    directory = item.stash.get(_DIRECTORY, None)
    text = ""
    if report.when == "call" and report.failed and directory is not None:
        text = explained(directory)
        if text:
            report.sections.append(("plimsoll", f"{text}\nrun: {directory / 'latest'}"))
    if _SUPERVISOR in item.config.stash and (report.when == "call" or report.failed or report.skipped):
        item.config.stash[_SUPERVISOR].tell(
            kind="outcome",
            test=item.nodeid,
            outcome=report.outcome,
            seconds=report.duration,
            text=report.longreprtext + (f"\n{text}" if text else "") if report.failed else "",
        )
    return report
