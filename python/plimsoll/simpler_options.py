"""``-p plimsoll.simpler_options``: short names of the plugin's options, and those of the reference."""

from __future__ import annotations

import argparse

import pytest

from ._native import _COUNTER_GROUPS

#: Other names of the flags, by option.
FLAGS = {
    "scope_stats": ["--scope-stats", "--enable-scope-stats"],
    "dep_gen": ["--dep-gen", "--enable-dep-gen"],
    "profile": ["--profile"],
}
#: Other names of the options with a value that may be left out, and what it is then.
LEVELS = {
    "swimlane_level": (
        ["--swimlane", "--chip-swimlane", "--enable-chip-swimlane", "--enable-l2-swimlane", "--enable-profiling"],
        4,
    ),
    "dump_args_level": (["--dump-args", "--dump-tensor"], 1),
}
#: Groups of counters, by the number of the reference's event type. It counts on the chip, we on the machine that executes the tasks: what
#: comes closest.
EVENT_TYPES = {0: "", 1: "cycles", 2: "cycles", 4: "cache", 5: "cache", 6: "cycles", 7: "cache", 8: "cache"}


def counters(text: str) -> str:
    """The group of counters that a word names: one of ours, or the number of an event type."""
    if text in _COUNTER_GROUPS:
        return text
    group = EVENT_TYPES.get(int(text)) if text.isdecimal() else None
    if group is None:
        known = ", ".join([*map(str, EVENT_TYPES), *_COUNTER_GROUPS])
        raise argparse.ArgumentTypeError(f"{text!r} is neither an event type nor a group of counters; there are {known}")
    return group


#: What the reference calls a machine: arch and engine.
PLATFORMS = {
    "a2a3": ("a2a3", None),
    "a2a3sim": ("a2a3", None),
    "a5": ("a5", None),
    "a5sim": ("a5", None),
    "host": ("host", None),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the names."""
    group = parser.getgroup("plimsoll", "plimsoll: devices, recordings")
    for option, names in FLAGS.items():
        group.addoption(*names, dest=f"plimsoll_{option}", action="store_true", default=False, help=f"--plimsoll-{option.replace('_', '-')}")
    for option, (names, level) in LEVELS.items():
        text = f"--plimsoll-{option.replace('_', '-')}"
        group.addoption(*names, dest=f"plimsoll_{option}", type=int, nargs="?", const=level, default=None, help=text)
    group.addoption(
        "--pmu", "--enable-pmu", dest="plimsoll_pmu", type=counters, nargs="?", const="cycles", default=None, metavar="GROUP", help="--plimsoll-pmu"
    )
    group.addoption("--platform", dest="plimsoll_platform", choices=sorted(PLATFORMS), default=None, help="--plimsoll-arch, as the reference names it")
    for name in ("arch", "engine", "rounds", "out"):
        group.addoption(f"--{name}", dest=f"plimsoll_{name}", type=int if name == "rounds" else str, default=None, help=f"--plimsoll-{name}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Translates the platform."""
    platform = config.getoption("plimsoll_platform")
    if platform:
        arch, engine = PLATFORMS[platform]
        config.option.plimsoll_arch = config.option.plimsoll_arch or arch
        config.option.plimsoll_engine = config.option.plimsoll_engine or engine
