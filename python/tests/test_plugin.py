"""The pytest plugin, in test sessions of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

TEST = """
import numpy as np
from plimsoll import In, Out

def chain(device, count=4):
    @device.kernel
    def double(x, y):
        y[:] = 2 * x
    def program(o):
        x = o.tensor(np.ones(4))
        for _ in range(count):
            x = o.submit(double, In(x), Out(4, "f64"))
    device.run(program)

def test_good(plimsoll_device):
    chain(plimsoll_device)
    chain(plimsoll_device, 2)
"""

FAILING = """
import numpy as np, os, signal
from plimsoll import In

def test_fails(plimsoll_device):
    @plimsoll_device.kernel
    def breaks(x):
        raise ValueError("no such thing")
    plimsoll_device.run(lambda o: o.submit(breaks, In(o.tensor(np.ones(2)))))
"""

DYING = """
import numpy as np, os, signal
from plimsoll import In

def test_passes():
    pass

def test_dies(plimsoll_device):
    @plimsoll_device.kernel
    def dies(x):
        os.kill(os.getpid(), signal.SIGKILL)
    plimsoll_device.run(lambda o: o.submit(dies, In(o.tensor(np.ones(2)))))
"""


def runs(place: Path) -> list[Path]:
    """Directories of runs below a place."""
    return sorted({one.parent.resolve() for one in place.glob("*/*/run.json")})


MOVING = """
import numpy as np, os, signal, pytest
from plimsoll import In

@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

"""


@pytest.fixture
def session(pytester: pytest.Pytester) -> pytest.Pytester:
    """A place for a test session of its own."""
    return pytester


def test_every_test_has_a_device_and_a_directory(session):
    session.makepyfile(TEST)
    result = session.runpytest_subprocess("--plimsoll-profile", "--plimsoll-engine=virtual", "--plimsoll-out=here")
    result.assert_outcomes(passed=1)
    found = runs(session.path / "here")
    assert len(found) == 2 and "test_good" in str(found[0])
    manifest = json.loads((found[0] / "run.json").read_text())
    assert manifest["status"] == "ok"
    assert "virtual" in json.dumps(manifest)


ALIKE = """
import pytest

def test_op(plimsoll_device):
    plimsoll_device.run(lambda o: None)

@pytest.mark.parametrize("text", ["+", "*", "/", "a b", "a_b"])
def test_op_(plimsoll_device, text):
    plimsoll_device.run(lambda o: None)
"""


def test_tests_of_similar_names_have_directories_of_their_own(session):
    (session.mkpydir("a") / "test_b.py").write_text(ALIKE)
    session.makepyfile(a_test_b=ALIKE)
    session.runpytest_subprocess("--plimsoll-out=here", "a/test_b.py", "a_test_b.py").assert_outcomes(passed=12)
    assert len({run.parent for run in runs(session.path / "here")}) == 12


def test_options_and_the_reference_s_names_say_the_same(session):
    session.makepyfile(TEST)
    own = ["--plimsoll-swimlane-level=2", "--plimsoll-dep-gen", "--plimsoll-scope-stats"]
    reference = ["-p", "plimsoll.simpler_options", "--enable-l2-swimlane=2", "--enable-dep-gen", "--enable-scope-stats"]
    for number, names in enumerate([own, reference, []]):
        session.runpytest_subprocess(*names, f"--plimsoll-out=out{number}").assert_outcomes(passed=1)
    said = [json.loads((runs(session.path / f"out{number}")[0] / "run.json").read_text())["flags"] for number in range(3)]
    assert said[0] == said[1] != said[2]


def test_short_names_are_there_only_when_asked_for(session):
    session.makepyfile(TEST)
    assert session.runpytest_subprocess("--swimlane").ret == 4
    result = session.runpytest_subprocess("-p", "plimsoll.simpler_options", "--swimlane", "--platform", "a2a3sim")
    result.assert_outcomes(passed=1)
    assert "a2a3" in (runs(session.path / "outputs")[0] / "run.json").read_text()


def test_every_option_with_a_value_has_a_short_name(session):
    session.makepyfile(TEST)
    words = ["--swimlane", "1", "--dump-args", "2", "--arch", "host", "--engine", "virtual", "--rounds", "2", "--out", "short"]
    session.runpytest_subprocess("-p", "plimsoll.simpler_options", *words).assert_outcomes(passed=1)
    assert len(runs(session.path / "short")) == 2


def test_a_failure_report_has_the_run_s_explanation(session):
    session.makepyfile(FAILING)
    result = session.runpytest_subprocess("--plimsoll-junit=junit.xml")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ValueError: no such thing*", "*- plimsoll -*", "*kernel breaks failed*", "run: */outputs/*"])
    suite = ElementTree.parse(session.path / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert "no such thing" in suite[0][0].text


STALE = """
import os

def test_fails(plimsoll_device):
    if "RUNS" in os.environ:
        plimsoll_device.run(lambda o: None)
    assert False
"""


def test_a_failure_report_has_no_explanation_of_an_earlier_session_s_run(session, monkeypatch):
    session.makepyfile(STALE)
    monkeypatch.setenv("RUNS", "1")
    assert "- plimsoll -" in session.runpytest_subprocess().stdout.str()
    monkeypatch.delenv("RUNS")
    assert "- plimsoll -" not in session.runpytest_subprocess().stdout.str()


def test_a_test_that_changes_its_directory_has_its_runs_explained(session):
    session.makepyfile(MOVING + FAILING)
    result = session.runpytest_subprocess("--plimsoll-out=here")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*kernel breaks failed*", f"run: {session.path}/here/*"])
    assert len(runs(session.path / "here")) == 1


@pytest.mark.parametrize("before", ["", MOVING], ids=["here", "elsewhere"])
def test_a_death_leaves_capture_autopsy_and_junit(session, before):
    session.makepyfile(before + DYING)
    result = session.runpytest_subprocess("--plimsoll-junit=junit.xml", "--plimsoll-out=here")
    assert result.ret == -9
    junit = session.path / "junit.xml"
    for _ in range(600):
        if junit.exists():
            break
        time.sleep(0.1)
    suite = ElementTree.parse(junit).getroot()[0]
    assert [(case.get("name"), [part.tag for part in case]) for case in suite] == [("test_passes", []), ("test_dies", ["error"])]
    (run,) = runs(session.path / "here")
    assert json.loads((run / "run.json").read_text())["status"] == "killed"
    assert "dies" in (run / "autopsy.txt").read_text()
    assert "died in" in suite[1][0].text and "dies" in suite[1][0].text


LEAVING = """
import os, signal, pytest

def die():
    os.kill(os.getpid(), signal.SIGKILL)

@pytest.fixture(scope="session")
def session_long():
    yield
    if {where!r} == "fixture":
        die()

def test_first():
    pass

def test_last(plimsoll_device, session_long):
    plimsoll_device.run(lambda o: None)
    assert {where!r} != "failed"
"""

DIES_BETWEEN = """
import os, signal, pytest

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("where", ["fixture", "failed", "between"])
def test_a_death_outside_of_a_test_s_call_is_in_the_junit_file(session, where):
    session.makepyfile(LEAVING.format(where=where))
    if where != "fixture":
        session.makeconftest(DIES_BETWEEN)
    result = session.runpytest_subprocess("--plimsoll-junit=junit.xml", "--plimsoll-out=here")
    assert result.ret == -9
    junit = session.path / "junit.xml"
    for _ in range(600):
        if junit.exists():
            break
        time.sleep(0.1)
    told = {case.get("name"): [part.tag for part in case] for case in ElementTree.parse(junit).getroot()[0]}
    last = {"fixture": ["error"], "failed": ["failure"], "between": []}[where]
    assert told == {"test_first": [], "test_last": last} | ({} if where == "fixture" else {"end": ["error"]})


FORKING = """
import ctypes, os, pathlib, signal

def test_forks():
    child = {fork}()
    if child == 0:
        ctypes.CDLL(None).pause()
    pathlib.Path("child").write_text(str(child))
    if {dies}:
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("dies", [False, True], ids=["ends", "dies"])
@pytest.mark.parametrize("fork", ["os.fork", "ctypes.CDLL(None).fork"], ids=["python", "c"])
def test_a_fork_that_lives_on_holds_up_neither_the_session_nor_the_junit_file(session, fork, dies):
    session.makepyfile(FORKING.format(fork=fork, dies=dies))
    try:
        result = session.runpytest_subprocess("--plimsoll-junit=junit.xml", timeout=100)
        assert result.ret == (-9 if dies else 0)
        junit = session.path / "junit.xml"
        for _ in range(600):
            if junit.exists():
                break
            time.sleep(0.1)
        (case,) = ElementTree.parse(junit).getroot()[0]
        assert [part.tag for part in case] == (["error"] if dies else [])
    finally:
        os.kill(int((session.path / "child").read_text()), signal.SIGKILL)


def test_a_line_that_was_cut_off_is_no_event(tmp_path):
    lines = [{"kind": "test", "test": "a.py::test_cut"}, {"kind": "outcome", "test": "a.py::test_cut", "outcome": "passed"}]
    said = "\n".join(json.dumps(line) for line in lines)[:-9]
    junit = tmp_path / "junit.xml"
    words = [sys.executable, "-m", "plimsoll._supervisor", str(junit), str(os.getpid())]
    subprocess.run(words, input=said, text=True, check=True)
    (case,) = ElementTree.parse(junit).getroot()[0]
    assert case.get("name") == "test_cut" and "died in" in case[0].text


def test_scope_statistics_are_on_unless_the_level_is_0(session):
    session.makepyfile(TEST)
    options = [["--plimsoll-swimlane-level=0"], ["--plimsoll-swimlane-level=0", "--plimsoll-scope-stats"], ["--plimsoll-scope-stats"], []]
    flags = []
    for number, names in enumerate(options):
        session.runpytest_subprocess(*names, f"--plimsoll-out=out{number}").assert_outcomes(passed=1)
        found = runs(session.path / f"out{number}")
        flags.append(json.loads((found[0] / "run.json").read_text())["flags"] if found else None)
    assert flags[0] is None and flags[1] != flags[2] == flags[3]


@pytest.mark.parametrize(
    ("reference", "own"),
    [
        (["--enable-pmu", "2"], ["--plimsoll-pmu"]),
        (["--enable-pmu"], ["--plimsoll-pmu"]),
        (["--enable-pmu", "0"], []),
        (["--dump-args"], ["--plimsoll-dump-args-level=1"]),
        (["--dump-args", "2"], ["--plimsoll-dump-args-level=2"]),
        (["--enable-l2-swimlane"], ["--plimsoll-swimlane-level=4"]),
    ],
)
def test_the_reference_s_options_mean_what_they_mean_there(session, reference, own):
    session.makepyfile(TEST)
    said = []
    for number, names in enumerate([["-p", "plimsoll.simpler_options", *reference], own]):
        session.runpytest_subprocess(f"--plimsoll-out=out{number}", *names).assert_outcomes(passed=1)
        manifest = json.loads((runs(session.path / f"out{number}")[0] / "run.json").read_text())
        said.append((manifest["flags"], manifest.get("dump")))
    assert said[0] == said[1]


def test_what_is_no_group_of_counters_is_wrong_usage(session):
    result = session.runpytest_subprocess("-p", "plimsoll.simpler_options", "--enable-pmu", "test_it.py")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*neither an event type nor a group of counters*"])


STRANGE = """
import pytest

def test_controls():
    raise ValueError("a bell \\x07 and a zero \\x00")

@pytest.fixture
def broken():
    raise RuntimeError("not set up")

@pytest.fixture
def breaks_later():
    yield
    raise RuntimeError("not torn down")

def test_setup(broken):
    pass

def test_teardown(breaks_later):
    pass

def test_both(breaks_later):
    assert False, "the test itself"

def test_skipped():
    pytest.skip("not today")

@pytest.mark.parametrize("text", ["x" * 300, "x" * 299 + "y", "\u00e9" * 150])
def test_long(plimsoll_device, text):
    plimsoll_device.run(lambda o: None)
"""


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["here", "elsewhere"])
def test_the_junit_file_is_xml_and_counts_what_pytest_counts(session, options):
    if options:
        pytest.importorskip("xdist", reason="pytest-xdist is not installed (.ci/requirements.txt)")
    session.makepyfile(STRANGE)
    result = session.runpytest_subprocess("--plimsoll-junit=junit.xml", "--plimsoll-out=here", *options)
    result.assert_outcomes(passed=4, failed=2, errors=3, skipped=1)
    suite = ElementTree.parse(session.path / "junit.xml").getroot()[0]
    told = {case.get("name"): [part.tag for part in case] for case in suite}
    assert told["test_controls"] == told["test_both"] == ["failure"]
    assert told["test_setup"] == told["test_teardown"] == ["error"] and told["test_skipped"] == ["skipped"]
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["8", "2", "2", "1"]
    text = next(case[0].text for case in suite if case.get("name") == "test_controls")
    assert "a bell #x07 and a zero #x00" in text
    assert len(runs(session.path / "here")) == 3


@pytest.mark.parametrize("options", [[], ["-n", "1"]], ids=["here", "elsewhere"])
def test_a_file_that_cannot_be_collected_is_an_error_in_the_junit_file(session, options):
    if options:
        pytest.importorskip("xdist", reason="pytest-xdist is not installed (.ci/requirements.txt)")
    session.makepyfile(test_broken="import no_such_module", test_whole="def test_it(): pass")
    session.runpytest_subprocess("--plimsoll-junit=junit.xml", "--continue-on-collection-errors", *options)
    suite = ElementTree.parse(session.path / "junit.xml").getroot()[0]
    told = {(case.get("classname"), case.get("name")): [part.tag for part in case] for case in suite}
    assert told == {("", "test_broken"): ["error"], ("test_whole", "test_it"): []}
    assert "no_such_module" in next(case for case in suite if len(case))[0].text


def test_a_death_elsewhere_leaves_capture_autopsy_and_junit(session):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed (.ci/requirements.txt)")
    session.makepyfile(DYING)
    result = session.runpytest_subprocess("--plimsoll-junit=junit.xml", "--plimsoll-out=here", "-n", "1")
    result.assert_outcomes(passed=1, failed=1)
    suite = ElementTree.parse(session.path / "junit.xml").getroot()[0]
    assert {case.get("name"): [part.tag for part in case] for case in suite} == {"test_passes": [], "test_dies": ["error"]}
    (run,) = runs(session.path / "here")
    assert json.loads((run / "run.json").read_text())["status"] == "killed"
    assert "dies" in (run / "autopsy.txt").read_text()


def test_a_group_of_counters_of_the_library_is_known_by_its_name():
    from plimsoll.simpler_options import counters

    assert [counters(name) for name in ("rusage", "virtual", "4")] == ["rusage", "virtual", "cache"]
