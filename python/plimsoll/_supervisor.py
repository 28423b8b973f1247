"""The supervisor of a test session: what it is told on its input it writes down, also when the tests die."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree


def _ask(*words: str) -> str:
    asked = subprocess.run([sys.executable, "-m", "plimsoll", *words], capture_output=True, text=True)
    return (asked.stdout + asked.stderr).strip()


def autopsy(directory: Path) -> str:
    """Recovers the runs in a directory that nobody ended, and leaves an explanation beside each; gives the explanations."""
    said = []
    for manifest in sorted(directory.glob("*/run.json")):
        run = manifest.parent
        if run.is_symlink() or json.loads(manifest.read_text()).get("status") != "running":
            continue
        recovered = _ask("recover", str(run))
        text = f"{recovered}\n{_ask('explain', str(run))}"
        (run / "autopsy.txt").write_text(text + "\n")
        said.append(f"run: {run}\n{text}")
    return "\n".join(said)


def write_junit(path: Path, tests: dict[str, dict[str, Any]]) -> None:
    """Writes what is known of the tests, whole or not at all."""
    outcomes = [test.get("outcome") for test in tests.values()]
    suite = ElementTree.Element(
        "testsuite",
        name="plimsoll",
        tests=str(len(tests)),
        failures=str(outcomes.count("failed")),
        errors=str(outcomes.count("died")),
        skipped=str(outcomes.count("skipped")),
        time=f"{sum(test.get('seconds', 0.0) for test in tests.values()):.3f}",
    )
    for name, test in tests.items():
        file, _, rest = name.partition("::")
        case = ElementTree.SubElement(
            suite, "testcase", classname=file.removesuffix(".py").replace("/", "."), name=rest, time=f"{test.get('seconds', 0.0):.3f}"
        )
        tag = {"failed": "failure", "died": "error", "skipped": "skipped"}.get(test.get("outcome", ""))
        if tag:
            text = test.get("text", "")
            ElementTree.SubElement(case, tag, message=text.splitlines()[0] if text else tag).text = text
    root = ElementTree.Element("testsuites")
    root.append(suite)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    ElementTree.ElementTree(root).write(unfinished, encoding="utf-8", xml_declaration=True)
    unfinished.replace(path)


def main(out: str, junit: str) -> None:
    """Listens until the tests end, in whatever way."""
    tests: dict[str, dict[str, Any]] = {}
    current, ended = None, False
    for line in sys.stdin:
        event = json.loads(line)
        if event["kind"] == "end":
            ended = True
        elif event["kind"] == "test":
            current = event["test"]
            tests.setdefault(current, {}).update(event)
        else:
            tests.setdefault(event["test"], {}).update(event)
    if not ended and current is not None:
        test = tests[current]
        text = f"The process of the tests died in {current}."
        if "directory" in test:
            text += "\n" + autopsy(Path(test["directory"]))
        if "outcome" not in test:
            test.update(outcome="died", text=text)
    # A test that was announced and has no outcome was never run.
    tests = {name: test for name, test in tests.items() if "outcome" in test}
    if junit:
        write_junit(Path(junit), tests)


if __name__ == "__main__":
    main(*sys.argv[1:])
