"""Runs a client program and turns its output into one result per scenario.

Every program, whatever its language, takes `NAMESRV PREFIX [SCENARIO…]`, uses topics and groups that start
with PREFIX, and prints one line `{"scenario": …, "ok": …, "detail": …}` for each scenario.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.interop.support.second_runs import SecondRuns

PROGRAM_TIMEOUT_S = 400


class ScenarioResult(NamedTuple):
    """A program's result of one scenario."""

    ok: bool
    detail: str


class ProgramOutput(NamedTuple):
    """All scenario results of one process, and the place of its other output."""

    results: dict[str, ScenarioResult]
    exit_code: int
    log_path: Path

    def error(self, scenario: str) -> str | None:
        """Return the error of `scenario`; None when the process ran it with success."""
        result = self.results.get(scenario)
        if result is None:
            tail = "\n".join(self.log_path.read_text(errors="replace").splitlines()[-30:])
            return f"no result (program exit {self.exit_code}); its last words:\n{tail}"
        return None if result.ok else result.detail


@dataclass(frozen=True)
class ProgramRun:
    """One program's run of all its scenarios; ``run`` starts the program again with unused names."""

    name: str
    output: ProgramOutput
    run: Callable[[list[str]], ProgramOutput]
    second_runs: SecondRuns

    def check(self, scenario: str) -> None:
        """Raise AssertionError unless `scenario` succeeded, at once or in a second run of it alone."""
        error = self.output.error(scenario)
        if error is not None:
            self.second_runs.run(f"{self.name} {scenario}", error, lambda: self.run([scenario]).error(scenario))


def run_program(command: list[str], directory: Path, env: dict[str, str] | None = None) -> ProgramOutput:
    """Run `command` in `directory` to its end and collect the scenario lines of its standard output."""
    directory.mkdir(parents=True, exist_ok=True)
    log_path = directory / "program.log"
    out_path = directory / "program.out"
    with log_path.open("wb") as log, out_path.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        try:
            exit_code = process.wait(PROGRAM_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            exit_code = process.wait()
    results: dict[str, ScenarioResult] = {}
    for line in out_path.read_text(errors="replace").splitlines():
        if not line.startswith('{"scenario"'):
            continue
        decoded = json.loads(line)
        results[decoded["scenario"]] = ScenarioResult(bool(decoded["ok"]), str(decoded["detail"]))
    return ProgramOutput(results, exit_code, log_path)
