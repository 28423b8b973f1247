"""The pytest plugin: a device and a run directory per test, and explanations in failure reports.

Installed with the package. Its options start with ``--plimsoll-``; ``-p plimsoll.simpler_options`` adds short names and
those of the reference.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Generator, Iterator

import pytest

#: The options: name, what it is, and its default; without a type it is a flag.
OPTIONS: list[tuple[str, type | None, str]] = [
    ("swimlane-level", int, "record tasks up to this level, 0 to 4 (1 if left out)"),
    ("scope-stats", None, "record scope statistics; on, but at level 0 only if asked for"),
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
    parts += [name for name in ("dep_gen", "scope_stats") if config.getoption(f"plimsoll_{name}")]
    pmu = config.getoption("plimsoll_pmu")
    if pmu:
        parts.append("pmu" if pmu is True else f"pmu={pmu}")
    dump = config.getoption("plimsoll_dump_args_level")
    if dump:
        parts.append(f"dump_args={dump}")
    return "+".join(parts)


class Supervisor:
    """A process that outlives this one: it writes the JUnit file, and recovers and explains what a death leaves behind."""

    def __init__(self, junit: Path | None) -> None:
        words = [sys.executable, "-m", "plimsoll._supervisor", str(junit or ""), str(os.getpid())]
        # A session of its own: what ends the tests' process group does not end it.
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True, text=True)
        os.register_at_fork(after_in_child=self._fall_silent)

    def _fall_silent(self) -> None:
        """In a fork: what that says goes nowhere, and it does not hold the pipe open."""
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.process.stdin.fileno(), inheritable=False)
            os.close(nowhere)

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


#: A test's directory, and the newest of the runs that were there before the test.
_DIRECTORY = pytest.StashKey[tuple[Path, Path]]()


def placed(config: pytest.Config, path: str) -> Path:
    """A path as the options name it: from where pytest was started, wherever tests change to."""
    return config.invocation_params.dir / path


#: What a file system takes as a name, and room for what runs add to it.
_LONGEST_NAME = 200


def directory_of(config: pytest.Config, nodeid: str) -> Path:
    """Where a test's runs are recorded. The digest tells tests apart whose names differ in what no directory is named by."""
    readable = re.sub(r"[^\w.-]+", "_", nodeid).strip("_").encode()[: _LONGEST_NAME - 17].decode(errors="ignore")
    name = f"{readable}_{hashlib.sha256(nodeid.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return placed(config, config.getoption("plimsoll_out") or "outputs") / name


class Watch:
    """Tells the supervisor of the tests, those included that other processes execute for this one, as pytest-xdist has it."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.supervisor: Supervisor | None = None

    def tell(self, **event: Any) -> None:
        """Tells the supervisor, which is started when it is needed."""
        if self.supervisor is None:
            junit = self.config.getoption("plimsoll_junit")
            self.supervisor = Supervisor(placed(self.config, junit) if junit else None)
        self.supervisor.tell(**event)

    def pytest_sessionstart(self) -> None:
        """Starts the supervisor, if a file is asked for, or if only this process hears of tests that die with others."""
        if self.config.getoption("plimsoll_junit") or self.config.getoption("dist", "no") != "no":
            self.tell(kind="begin")

    def pytest_sessionfinish(self) -> None:
        """Ends the supervisor."""
        if self.supervisor is not None:
            self.supervisor.close()
            self.supervisor = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file has been collected; one that cannot be is an error, as pytest counts it."""
        if self.supervisor is not None and not report.passed:
            outcome = "error" if report.failed else "skipped"
            self.tell(kind="outcome", test=report.nodeid, outcome=outcome, seconds=0.0, text=report.longreprtext)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins, here or elsewhere."""
        if self.supervisor is not None:
            self.tell(kind="test", test=nodeid, directory=str(directory_of(self.config, nodeid)))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """A test has ended."""
        if self.supervisor is not None:
            self.tell(kind="over", test=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A part of a test has ended: what it did, or what is done before and after it."""
        if self.supervisor is None:
            return
        if report.when in ("setup", "teardown"):
            outcome = "error" if report.failed else "skipped" if report.skipped else None
        else:
            # A process that died with its test reports neither of the three.
            outcome = report.outcome if report.when == "call" else "died"
        if outcome is None:
            return
        added = [text for name, text in report.sections if name == "plimsoll"]
        text = "\n".join([report.longreprtext, *added]) if outcome != "passed" else ""
        self.tell(kind="outcome", test=report.nodeid, outcome=outcome, seconds=report.duration, text=text)


_WATCH = pytest.StashKey[Watch]()


def pytest_configure(config: pytest.Config) -> None:
    """Has the tests watched, by the process that hears of all of them."""
    if not hasattr(config, "workerinput"):
        config.stash[_WATCH] = Watch(config)
        config.pluginmanager.register(config.stash[_WATCH], "plimsoll-watch")


@pytest.fixture
def plimsoll_device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A device as the options say; its runs are recorded in a directory of this test."""
    import plimsoll

    config = request.config
    directory = directory_of(config, request.node.nodeid)
    directory.mkdir(parents=True, exist_ok=True)
    request.node.stash[_DIRECTORY] = (directory, newest(directory))
    if _WATCH in config.stash:
        config.stash[_WATCH].tell(kind="test", test=request.node.nodeid, directory=str(directory))
    options = {key: config.getoption(f"plimsoll_{key}") for key in ("arch", "engine", "rounds")}
    with plimsoll.Device(record=recorded(config), outputs=directory, program="run", **options) as device:
        yield device


def newest(directory: Path) -> Path:
    """The newest run in a directory; ``latest`` in it, if there is none."""
    return (directory / "latest").resolve()


def explained(run: Path) -> str:
    """What a run has to say, as the command words it."""
    if not (run / "run.json").exists():
        return ""
    asked = subprocess.run([sys.executable, "-m", "plimsoll", "explain", str(run)], capture_output=True, text=True)
    return (asked.stdout or asked.stderr).strip()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Adds the run's explanation to the report of a failure."""
    report = yield
    directory, before = item.stash.get(_DIRECTORY, (None, None))
    if report.when == "call" and report.failed and directory is not None:
        run = newest(directory)
        # A test that ran nothing has nothing to say, whatever an earlier session left.
        text = explained(run) if run != before else ""
        if text:
            report.sections.append(("plimsoll", f"{text}\nrun: {run}"))
    return report
