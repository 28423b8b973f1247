"""``-p plimsoll.simpler_options``: short names of the plugin's options, and those of the reference."""

from __future__ import annotations

import pytest

#: Other names of the flags, by option.
FLAGS = {
    "scope_stats": ["--scope-stats", "--enable-scope-stats"],
    "dep_gen": ["--dep-gen", "--enable-dep-gen"],
    "pmu": ["--pmu", "--enable-pmu"],
    "profile": ["--profile"],
}
#: Other names of the options with a value that may be left out, and what it is then.
LEVELS = {
    "swimlane_level": (
        ["--swimlane", "--chip-swimlane", "--enable-chip-swimlane", "--enable-l2-swimlane", "--enable-profiling"],
        4,
    ),
    "dump_args_level": (["--dump-args", "--dump-tensor"], 2),
}
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
    group.addoption("--platform", dest="plimsoll_platform", choices=sorted(PLATFORMS), default=None, help="--plimsoll-arch, as the reference names it")
    for name in ("arch", "engine", "rounds"):
        group.addoption(f"--{name}", dest=f"plimsoll_{name}", type=int if name == "rounds" else str, default=None, help=f"--plimsoll-{name}")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Translates the platform."""
    platform = config.getoption("plimsoll_platform")
    if platform:
        arch, engine = PLATFORMS[platform]
        config.option.plimsoll_arch = config.option.plimsoll_arch or arch
        config.option.plimsoll_engine = config.option.plimsoll_engine or engine
