"""No command imports what it does not need: looked at by what is imported, never by the clock."""

import json
import os
import subprocess
import sys

import pytest

from pymq.cli.main import COMMANDS
from tests.tidy.sources import ROOT

HEAVY = {"asyncio", "numpy", "uvloop", "rich", "pyspark", "pyarrow", "pandas", "msgspec", "zstandard", "lz4"}
SPARK = {"pyspark", "pyarrow", "pandas"}
_PROGRAM = """
import json, sys
from pymq.cli.main import run
code = run(sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def imported_by(*arguments: str) -> set[str]:
    """Return the top-level packages in memory after ``pymq ARGUMENTS`` in its own process."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["code"] == 0, done.stdout + done.stderr
    return set(answer["modules"])


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert not imported_by(*arguments) & HEAVY


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_imports_nothing_heavy(command: str) -> None:
    assert not imported_by(command, "--help") & HEAVY


def test_importing_the_client_leaves_spark_out() -> None:
    program = "import sys, json, pymq.client; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {name.partition(".")[0] for name in json.loads(done.stdout)} & (SPARK | {"rich", "typer"})


def test_a_server_without_metrics_leaves_their_libraries_out() -> None:
    modules = "pymq.broker.metrics.collector, pymq.namesrv.metrics, pymq.filterserver.metrics, pymq.cli.broker.command"
    program = f"import sys, json, pymq.broker.assembly.broker, {modules}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {name.partition(".")[0] for name in json.loads(done.stdout)} & {"prometheus_client", "h11", "numpy"}


@pytest.mark.slow
def test_a_broker_of_a_plain_group_leaves_raft_out() -> None:
    program = (
        "import sys, pymq.broker.assembly.broker, pymq.broker.metrics.collector; sys.exit('pymq.raft' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
