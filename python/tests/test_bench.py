"""``python -m plimsoll.bench``, shortly: that it measures, not what."""

from __future__ import annotations

import json
import subprocess
import sys

from plimsoll import bench


def test_the_bench_says_what_it_measured():
    words = ["--json", "--tasks", "200", "--reps", "2"]
    ran = subprocess.run([sys.executable, "-m", "plimsoll.bench", *words], capture_output=True, text=True)
    assert ran.returncode == 0, ran
    said = json.loads(ran.stdout)
    assert set(said["ns_per_task"]) | set(said["skipped"]) == set(bench.SUBJECTS)
    assert all(value > 0 for value in said["ns_per_task"].values())
    assert said["reps"] == 2 and said["tasks"]["native"] == 200
    assert set(said["ratios"]) == {mark for mark in bench.MARKS if "dask" not in mark or "dask" not in said["skipped"]}


def test_what_is_not_installed_is_skipped_in_words(monkeypatch, capsys):
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    assert bench.main(["--tasks", "10", "--reps", "1", "--only", "native", "dask"]) == 0
    assert "dask was skipped: dask is not installed" in capsys.readouterr().out
