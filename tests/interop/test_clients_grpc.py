"""The gRPC clients of RocketMQ 5 against the server under test: a program for each language, scenarios side by side."""

from __future__ import annotations

import importlib.util
import os
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.interop.conftest import server_kinds
from tests.interop.support.apache import CHECKS_SOON
from tests.interop.support.grpc_driver import COMMANDS, Driver
from tests.interop.support.grpc_scenarios import (
    NOT_ON_APACHE,
    SCENARIOS,
    Stage,
    after_restart,
    before_restart,
    prepare,
    scenarios_of,
)
from tests.interop.support.grpc_servers import ApacheProxy, GrpcServer, PymqProxy
from tests.interop.support.second_runs import SecondRuns
from tests.interop.support.tools import unavailable

# Rust's client is one of them on request: cargo builds it for minutes.
LANGUAGES = [name for name in COMMANDS if name != "rust" or os.environ.get("PYMQ_INTEROP_RUST") == "1"]
CASES = [(language, scenario) for language in LANGUAGES for scenario in scenarios_of(language)]
SIDE_BY_SIDE = 16
CLASSIC = "java"
# Against Apache these consumers get errors after a restart, until they send their settings again: 5 to 10 minutes.
STAND_STILL_ON_APACHE = ("go", "python")


@pytest.fixture(scope="module", params=server_kinds())
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrpcServer]:
    if request.param == "pymq" and importlib.util.find_spec("grpc") is None:
        unavailable("the extra `grpc` is not installed")
    directory = tmp_path_factory.mktemp(f"grpc-{request.param}")
    started: GrpcServer = ApacheProxy(directory) if request.param == "apache" else PymqProxy(directory, CHECKS_SOON)
    yield started
    started.stop()


@pytest.fixture(scope="module")
def drivers(server: GrpcServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Driver]]:
    directory = tmp_path_factory.mktemp("drivers")
    started = {name: Driver(name, directory / name, server.endpoint, server.namesrv) for name in LANGUAGES}
    yield started
    for driver in started.values():
        driver.end()


class Runs:
    """All scenarios of all languages, begun together; a test waits for its own."""

    def __init__(self, server: GrpcServer, drivers: dict[str, Driver], second_runs: SecondRuns) -> None:
        self.server_kind = server.kind
        self._drivers = drivers
        self._stage = Stage(server, drivers[CLASSIC])
        self._second_runs = second_runs
        self._pool = ThreadPoolExecutor(SIDE_BY_SIDE)
        self._errors: dict[tuple[str, str], Future[str | None]] = {
            (language, scenario): self._pool.submit(self._error, language, scenario)
            for scenario in SCENARIOS
            for language in drivers
            if (language, scenario) in CASES and not (server.kind == "apache" and (language, scenario) in NOT_ON_APACHE)
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


@pytest.fixture(scope="module")
def runs(server: GrpcServer, drivers: dict[str, Driver], second_runs: SecondRuns) -> Iterator[Runs]:
    started = Runs(server, drivers, second_runs)
    yield started
    started.end()


@pytest.mark.parametrize(("language", "scenario"), CASES)
def test_scenario(runs: Runs, language: str, scenario: str) -> None:
    if runs.server_kind == "apache" and (language, scenario) in NOT_ON_APACHE:
        pytest.skip("Apache's proxy passes bodies on as this client can't read them")
    runs.check(language, scenario)


def test_producers_and_consumers_go_on_after_a_restart(
    server: GrpcServer, drivers: dict[str, Driver], runs: Runs
) -> None:
    runs.end()  # the restart would disturb them
    names = {
        language: f"grpc-{language}-restart-{uuid.uuid4().hex[:6]}"
        for language in drivers
        if "push" in scenarios_of(language) and not (server.kind == "apache" and language in STAND_STILL_ON_APACHE)
    }
    for language, name in names.items():
        prepare(server, "restart", name)
        before_restart(drivers[language], name)
    for restart, content in ((server.restart_cleanly, "after a stop"), (server.restart, "after a kill")):
        restart()
        with ThreadPoolExecutor(len(names)) as pool:
            for done in [pool.submit(after_restart, drivers[each], names[each], content) for each in names]:
                done.result()
