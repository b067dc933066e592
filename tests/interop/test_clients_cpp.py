"""The C++ client, through its Python binding rocketmq 0.4.4, against the server under test."""

from __future__ import annotations

import pytest

from tests.interop.conftest import RunClient
from tests.interop.support.cpp import PROGRAM, interpreter
from tests.interop.support.programs import ProgramRun

SCENARIOS = [
    "sync_send",
    "async_send",
    "oneway",
    "batch",
    "selected_queue",
    "compressed",
    "auto_create",
    "tag_filter",
    "broadcasting",
    "clustering",
    "orderly",
    "retry",
    "delay_level",
]


@pytest.fixture(scope="module")
def cpp_run(run_client: RunClient) -> ProgramRun:
    return run_client("cpp", [str(interpreter()), str(PROGRAM)], SCENARIOS, {"HOME": "{directory}"})


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(cpp_run: ProgramRun, scenario: str) -> None:
    cpp_run.check(scenario)
