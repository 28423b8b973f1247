"""``python -m plimsoll``: the command's verbs; ``run mine.py:program`` runs a program in Python."""

from __future__ import annotations

import os
import sys

from . import _native
from ._program import is_program, run


def main(words: list[str]) -> int:
    """Does what the words say; gives the exit code."""
    if words[:1] == ["run"] and any(is_program(word) for word in words[1:]):
        # It is this process that the command became, and none that the program starts.
        os.environ.pop("PLIMSOLL_BECAME_PYTHON", None)
        return run(words[1:])
    return _native._command(["plimsoll", *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
