"""The supervisor of a test session: what it is told on its input it writes down, also when the tests die."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator
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


#: What XML cannot hold, not even escaped.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: Outcomes of a test and their elements; what a test did counts for more than what comes after it.
_ELEMENTS = {"failed": "failure", "died": "error", "error": "error", "skipped": "skipped"}


def _plain(text: str) -> str:
    """A text without what XML cannot hold, which is named instead."""
    return _NO_XML.sub(lambda found: f"#x{ord(found.group()):02X}", text)


def write_junit(path: Path, tests: dict[str, dict[str, Any]]) -> None:
    """Writes what is known of the tests, whole or not at all."""
    elements = [_ELEMENTS.get(test["outcome"]) for test in tests.values()]
    suite = ElementTree.Element(
        "testsuite",
        name="plimsoll",
        tests=str(len(tests)),
        failures=str(elements.count("failure")),
        errors=str(elements.count("error")),
        skipped=str(elements.count("skipped")),
        time=f"{sum(test.get('seconds', 0.0) for test in tests.values()):.3f}",
    )
    for (name, test), element in zip(tests.items(), elements):
        file, _, rest = _plain(name).partition("::")
        module, seconds = file.removesuffix(".py").replace("/", "."), f"{test.get('seconds', 0.0):.3f}"
        # What stands for a whole file, which could not be collected, has the file's name and no class, as pytest writes it.
        classname, rest = (module, rest) if rest else ("", module)
        case = ElementTree.SubElement(suite, "testcase", classname=classname, name=rest, time=seconds)
        if element is not None:
            text = _plain(test.get("text", ""))
            ElementTree.SubElement(case, element, message=text.splitlines()[0] if text else element).text = text
    root = ElementTree.Element("testsuites")
    root.append(suite)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    ElementTree.ElementTree(root).write(unfinished, encoding="utf-8", xml_declaration=True)
    unfinished.replace(path)


def _died(test: dict[str, Any], said: str) -> None:
    """Notes that the process died that executed this test, and explains its runs. What the test itself failed with stays."""
    text = f"{said}\n{autopsy(Path(test['directory']))}" if "directory" in test else said
    has_failed = test.get("outcome") in ("failed", "error")
    text = f"{test['text']}\n{text}" if has_failed else text
    test.update(outcome=test["outcome"] if has_failed else "died", text=text.rstrip())


#: How often it looks whether the process of the tests is still there.
_LOOK_SECONDS = 0.2


def _lines(tests: int) -> Iterator[str]:
    """What the process of the tests, which is the parent, writes until it has ended. A fork of it may hold the pipe open for longer."""
    source, rest = sys.stdin.fileno(), b""
    while True:
        # What it wrote before it died is in the pipe by then.
        alive = os.getppid() == tests
        if not select.select([source], [], [], _LOOK_SECONDS if alive else 0)[0]:
            if not alive:
                return
            continue
        read = os.read(source, 1 << 16)
        if not read:
            return
        # What has no end yet is of a process that may die while it writes this.
        *whole, rest = (rest + read).split(b"\n")
        yield from (line.decode() for line in whole)


def main(junit: str, tests: str) -> None:
    """Listens until the tests end, in whatever way; ``tests`` is the number of their process."""
    known: dict[str, dict[str, Any]] = {}
    running: list[str] = []
    ended = False
    for line in _lines(int(tests)):
        event = json.loads(line)
        kind, name = event.pop("kind"), event.get("test", "")
        if kind == "end":
            ended = True
            break
        test = known.setdefault(name, {}) if name else {}
        if kind == "test":
            test.update(event)
            running += [] if name in running else [name]
        elif kind == "over":
            running = [one for one in running if one != name]
        elif kind == "outcome":
            _note(test, event)
    if not ended:
        for name in running:
            # It died in the test, or in what is done before and after it.
            _died(known[name], f"The process of the tests died in {name}.")
        if not running:
            _died(known.setdefault("session::end", {}), "The process of the tests died while none of them was executed.")
    # A test that was announced and has no outcome was never run.
    known = {name: test for name, test in known.items() if "outcome" in test}
    if junit:
        write_junit(Path(junit), known)


def _note(test: dict[str, Any], event: dict[str, Any]) -> None:
    """Notes how a part of a test ended."""
    if event["outcome"] == "died":
        _died(test, event["text"])
        return
    seconds = test.get("seconds", 0.0) + event["seconds"]
    if event["outcome"] == "error" and test.get("outcome") == "failed":
        # What the test did itself has failed before.
        event = {"text": f"{test['text']}\n{event['text']}"}
    test.update(event, seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
