"""Second runs after a failure of a foreign client, and their summary; needs no client."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.interop.support.mqadmin import TIMED_OUT, MqAdmin
from tests.interop.support.programs import ProgramOutput, ProgramRun, run_program
from tests.interop.support.second_runs import SECOND_RUNS_MAX, SecondRuns

# Prints for each scenario the next line of the file with its name, one line per run; dies at its end.
PROGRAM = """
import json, pathlib, sys
for scenario in sys.argv[1:]:
    first, _, rest = pathlib.Path(scenario).read_text().partition("\\n")
    pathlib.Path(scenario).write_text(rest)
    if not first:
        sys.exit("no words left")
    print(json.dumps({"scenario": scenario, "ok": first == "good", "detail": first}))
"""


class Client:
    """A program with scripted scenario results; ``runs`` holds the scenarios of each process."""

    def __init__(self, directory: Path, **outcomes: list[str]) -> None:
        self.runs: list[list[str]] = []
        self.second_runs = SecondRuns()
        self._directory = directory
        for scenario, words in outcomes.items():
            (directory / scenario).write_text("".join(f"{word}\n" for word in words))
        self.program = ProgramRun("client", self._run(list(outcomes)), self._run, self.second_runs)

    def _run(self, scenarios: list[str]) -> ProgramOutput:
        self.runs.append(scenarios)
        return run_program([sys.executable, "-c", PROGRAM, *scenarios], self._directory)


def test_a_good_scenario_is_not_run_again(tmp_path: Path) -> None:
    client = Client(tmp_path, one=["good"])
    client.program.check("one")
    assert client.runs == [["one"]] and not client.second_runs.lines


def test_a_scenario_that_fails_once_is_repeated_alone_and_reported(tmp_path: Path) -> None:
    client = Client(tmp_path, one=["good"], two=["too\tlate", "good"])
    client.program.check("one")
    client.program.check("two")
    assert client.runs == [["one", "two"], ["two"]]
    assert client.second_runs.lines == ["flaked once: client two, first error: too late"]


def test_a_scenario_that_fails_twice_fails_with_both_errors(tmp_path: Path) -> None:
    client = Client(tmp_path, one=["too late", "too early"])
    with pytest.raises(AssertionError, match="too late\nand again, alone: too early"):
        client.program.check("one")
    assert client.second_runs.lines == ["failed twice: client one, first error: too late"]


def test_a_program_that_dies_is_repeated_for_its_missing_scenarios(tmp_path: Path) -> None:
    client = Client(tmp_path, one=["", "good"], two=["good"])
    client.program.check("one")
    client.program.check("two")
    assert client.runs == [["one", "two"], ["one"], ["two"]]
    assert "no words left" in client.second_runs.lines[0]


def test_there_is_no_second_run_after_too_many(tmp_path: Path) -> None:
    names = [f"s{i}" for i in range(SECOND_RUNS_MAX + 1)]
    client = Client(tmp_path, **{name: ["too late", "good"] for name in names})
    for name in names[:-1]:
        client.program.check(name)
    with pytest.raises(AssertionError, match="too late\nnot run again: 3 others failed once"):
        client.program.check(names[-1])
    assert len(client.runs) == 1 + SECOND_RUNS_MAX
    assert client.second_runs.lines[-1].startswith(f"failed: client {names[-1]}, no second run")


class Admin(MqAdmin):
    """A driver that prints scripted output."""

    def __init__(self, *answers: str) -> None:
        self._second_runs = self.second_runs = SecondRuns()
        self.answers = list(answers)

    def _run_once(self, words: tuple[str, ...]) -> str:
        return self.answers.pop(0)


def test_a_command_of_mqadmin_is_run_again_after_a_time_out_alone() -> None:
    timed_out = f"org.apache.rocketmq.{TIMED_OUT}: wait response 5000(ms)"
    admin = Admin(timed_out, "fine")
    assert admin.run("clusterList") == "fine"
    assert admin.second_runs.lines[0].startswith("flaked once: mqadmin clusterList")
    with pytest.raises(AssertionError, match="and again, alone"):
        Admin(timed_out, timed_out).run("clusterList")
    for words, printed in ((("clusterList",), "another error"), (("!send", "T"), timed_out)):
        assert Admin(printed).run(*words) == printed
