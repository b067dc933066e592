"""Fixtures of the interop tests: servers, one run per client program, and the summary of skips.

PYMQ_INTEROP_SERVERS picks the server of the foreign clients: `pymq` (the default), `apache`, or `apache,pymq`.
The run against Apache proves the programs themselves: a scenario that fails there says nothing about PyMQ.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

from tests.interop.support import matrix, probe
from tests.interop.support.apache import CHECKS_SOON, ApacheServer
from tests.interop.support.programs import ProgramOutput, ProgramRun, run_program
from tests.interop.support.pymq_server import REPOSITORY, PymqServer
from tests.interop.support.replicas import Member, NameServer
from tests.interop.support.second_runs import SecondRuns
from tests.interop.support.shared import SHARED, shared_server
from tests.machine import REGISTRY_VARIABLES

if TYPE_CHECKING:
    from tests.spark.standalone import StandaloneSpark

pytest.register_assert_rewrite("tests.interop.support.grpc_scenarios")  # it asserts in the place of tests

Broker = ApacheServer | PymqServer

MATRIX_PAGE = REPOSITORY / "docs" / "compatibility.md"
_SKIP_PREFIX = "interop: "
_SECOND_RUNS = pytest.StashKey[SecondRuns]()


class _Running(Protocol):
    def stop(self) -> None: ...


_RUNNING = pytest.StashKey[dict[str, _Running]]()


def server_kinds() -> list[str]:
    """Return the servers that the foreign clients use."""
    return os.environ.get("PYMQ_INTEROP_SERVERS", "pymq").split(",")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder and give them time for a cold start of jars and modules."""
    here = Path(__file__).parent
    items.sort(key=_place_of_server)
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)
            item.add_marker(pytest.mark.timeout(900))


def _place_of_server(item: pytest.Item) -> int:
    """Order by the shared server: its tests come one after the other, and before those that share none."""
    name = _server_of(item)
    return SHARED.index(name) if name else len(SHARED)


def _server_of(item: pytest.Item | None) -> str | None:
    return shared_server(item.nodeid.partition("::")[0]) if item else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End a shared server after the last test of its files."""
    try:
        return (yield)
    finally:
        _end_servers(item.config, but=_server_of(nextitem))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what an interrupted run left."""
    _end_servers(config)


def _end_servers(config: pytest.Config, but: str | None = None) -> None:
    running = config.stash.setdefault(_RUNNING, {})
    for name in running.keys() - {but}:
        running.pop(name).stop()


@pytest.fixture(scope="session", autouse=True)
def registries(machine_environment: dict[str, str]) -> Iterator[None]:
    """Restore the machine's home directory and proxies, which the package managers of four languages need."""
    with pytest.MonkeyPatch.context() as patch:
        for name in REGISTRY_VARIABLES & machine_environment.keys():
            patch.setenv(name, machine_environment[name])
        yield


@pytest.fixture(scope="session", params=server_kinds())
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Start the broker under test, shared by all client programs; each uses its own names."""
    directory = tmp_path_factory.mktemp(f"server-{request.param}")
    traced = {"traceTopicEnable": "true"}  # PyMQ's default: Go's client neither makes the topic nor waits for it
    started: Broker = (
        ApacheServer(directory, traced) if request.param == "apache" else PymqServer(directory, CHECKS_SOON)
    )
    yield started
    started.stop()


@pytest.fixture(scope="module")
def apache(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ApacheServer:
    """Return a real Apache broker for the tests of PyMQ's own client and tools, which runs until the last of them."""
    running = request.config.stash.setdefault(_RUNNING, {})
    if "apache" not in running:
        running["apache"] = ApacheServer(tmp_path_factory.mktemp("apache"))
    found = running["apache"]
    assert isinstance(found, ApacheServer)
    return found


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> StandaloneSpark:
    """Return a Spark cluster of two workers, which runs until its last test. A session on it has all of its cores."""
    from tests.spark.standalone import StandaloneSpark, full_java  # needs the spark extra

    java = full_java()
    if java is None:
        pytest.skip("interop: no Java with the module jdk.incubator.vector, which Spark's executors demand")
    running = request.config.stash.setdefault(_RUNNING, {})
    if "cluster" not in running:
        running["cluster"] = StandaloneSpark(tmp_path_factory.mktemp("spark"), java)
    found = running["cluster"]
    assert isinstance(found, StandaloneSpark)
    return found


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[NameServer]:
    """Start PyMQ's name server for one test."""
    server = NameServer(tmp_path / "namesrv")
    yield server
    server.stop()


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """Return a list for the brokers that a test starts; they are ended after it."""
    started: list[Member] = []
    yield started
    for member in started:
        member.end()


@pytest.fixture(scope="session")
def second_runs(request: pytest.FixtureRequest) -> SecondRuns:
    """Return the second runs of this session, for its summary."""
    return request.config.stash.setdefault(_SECOND_RUNS, SecondRuns())


RunClient = Callable[..., ProgramRun]


@pytest.fixture(scope="module")
def run_client(server: Broker, second_runs: SecondRuns, tmp_path_factory: pytest.TempPathFactory) -> RunClient:
    """Make one topic per scenario, then run a client program against the server: (name, command, scenarios, env).

    `known_retry_topic` also creates the retry topic of the scenario `retry`: some clients ask for its route once
    before their first heartbeat has made it, and then only 30 s later.
    """

    def run(
        name: str, command: list[str], scenarios: list[str], env: dict[str, str], known_retry_topic: bool = False
    ) -> ProgramRun:
        def run_some(wanted: list[str]) -> ProgramOutput:
            prefix = f"{name}-{uuid.uuid4().hex[:8]}".replace(".", "_")
            for scenario in wanted:
                attributes = "+queue.type=BatchCQ" if scenario == "inner_batch" else ""
                probe.create_topic(server.namesrv, server.broker, f"{prefix}-{scenario}", attributes=attributes)
                if scenario == "retry" and known_retry_topic:
                    probe.create_topic(server.namesrv, server.broker, f"%RETRY%{prefix}-{scenario}", queues=1)
            directory = tmp_path_factory.mktemp(name)
            placed = [part.replace("{directory}", str(directory)) for part in command]
            placed_env = {key: value.replace("{directory}", str(directory)) for key, value in env.items()}
            return run_program([*placed, server.namesrv, prefix, *wanted], directory, placed_env)

        return ProgramRun(f"{name} against {server.kind}", run_some(scenarios), run_some, second_runs)

    return run


def _write_matrix(reporter: pytest.TerminalReporter) -> None:
    outcomes: dict[str, bool] = {}
    for kind in ("passed", "failed", "error"):
        for report in reporter.getreports(kind):
            if report.when == "call" or kind != "passed":
                outcomes[report.nodeid] = kind == "passed"
    MATRIX_PAGE.write_text(matrix.updated(MATRIX_PAGE.read_text(), outcomes))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print in a few lines what the interop tests proved and what they skipped; write the matrix when asked to."""
    if os.environ.get("PYMQ_INTEROP_MATRIX") == "write":
        _write_matrix(terminalreporter)
    counts: dict[str, int] = {}
    for report in terminalreporter.getreports("passed"):
        if "tests/interop" in report.nodeid and report.when == "call":
            module = Path(report.nodeid.split("::")[0]).stem.removeprefix("test_")
            counts[module] = counts.get(module, 0) + 1
    reasons: dict[str, int] = {}
    for report in terminalreporter.getreports("skipped"):
        if "tests/interop" in report.nodeid and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ").removeprefix(_SKIP_PREFIX)
            reasons[reason] = reasons.get(reason, 0) + 1
    tried_again = config.stash.get(_SECOND_RUNS, SecondRuns()).lines
    if not counts and not reasons and not tried_again:
        return
    terminalreporter.section("interop")
    terminalreporter.write_line("ran: " + (", ".join(f"{name} {n}" for name, n in sorted(counts.items())) or "nothing"))
    for reason, count in sorted(reasons.items()):
        terminalreporter.write_line(f"SKIPPED {count}: {reason}")
    for line in tried_again:
        terminalreporter.write_line(line, red=True, bold=True)
