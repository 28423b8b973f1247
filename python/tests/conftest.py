"""What all tests have: devices of every engine."""

from __future__ import annotations

import signal
from typing import Iterator

import plimsoll
import pytest

pytest_plugins = ["pytester"]

# Whoever is started in the background of a shell ignores Ctrl-C, and so do its children: those of the tests heed it.
signal.signal(signal.SIGINT, signal.default_int_handler)

ENGINES = {
    "host": {"workers": 2},
    "virtual": {"engine": "virtual"},
    "emulated": {"arch": "a2a3"},
}


@pytest.fixture(params=sorted(ENGINES))
def device(request: pytest.FixtureRequest) -> Iterator[plimsoll.Device]:
    """A device of each engine in turn."""
    with plimsoll.Device(**ENGINES[request.param]) as made:
        yield made


@pytest.fixture
def host() -> Iterator[plimsoll.Device]:
    """Two workers of this machine."""
    with plimsoll.Device(workers=2) as made:
        yield made
