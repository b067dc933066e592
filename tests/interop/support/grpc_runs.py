"""Runs: scenarios of gRPC clients that run side by side against one server."""

from __future__ import annotations

import uuid
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.interop.support.grpc_driver import Driver
from tests.interop.support.grpc_scenarios import NOT_ON_APACHE, SCENARIOS, Stage, prepare
from tests.interop.support.grpc_servers import GrpcServer
from tests.interop.support.second_runs import SecondRuns

SIDE_BY_SIDE = 16
CLASSIC = "java"


def selected_cases(request: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """Return the languages and scenarios of the module's tests that run: ``-k`` may leave some out."""
    mine = [
        item for item in request.session.items if isinstance(item, pytest.Function) and item.module is request.module
    ]
    found = [item.callspec.params for item in mine if hasattr(item, "callspec")]
    return [(params["language"], params["scenario"]) for params in found if "scenario" in params]


class Runs:
    """Scenarios of several languages, begun together; a test waits for its own."""

    def __init__(
        self, server: GrpcServer, drivers: dict[str, Driver], cases: list[tuple[str, str]], second_runs: SecondRuns
    ) -> None:
        """``cases`` are pairs of a language and a scenario."""
        self.server_kind = server.kind
        self._drivers = drivers
        self._stage = Stage(server, drivers[CLASSIC])
        self._second_runs = second_runs
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)
        self._errors: dict[tuple[str, str], Future[str | None]] = {
            (language, scenario): self._pool.submit(self._error, language, scenario)
            for scenario in SCENARIOS
            for language in drivers
            if (language, scenario) in cases and not (server.kind == "apache" and (language, scenario) in NOT_ON_APACHE)
        }

    def check(self, language: str, scenario: str) -> None:
        """Raise AssertionError unless the scenario succeeded, at once or in a second run of it alone."""
        error = self._errors[language, scenario].result()
        if error is not None:
            what = f"{language} (gRPC) against {self._stage.server.kind} {scenario}"
            self._second_runs.run(what, error, lambda: self._error(language, scenario))

    def end(self) -> None:
        """Wait for all scenarios."""
        self._pool.shutdown()

    def _error(self, language: str, scenario: str) -> str | None:
        name = f"grpc-{language}-{scenario}-{uuid.uuid4().hex[:6]}"
        try:
            prepare(self._stage.server, scenario, name)
            SCENARIOS[scenario](self._drivers[language], self._stage, name)
        except Exception as failure:
            return f"{type(failure).__name__}: {failure}"
        return None
