"""The official Java clients over TLS: a server that takes nothing else, and asks clients for a certificate."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pymq.client import Admin, Tls
from pymq.model.tables import TopicConfig
from pymq.offline.certificates import PemFiles
from tests.certificates import certificates, mutual_tls_settings
from tests.interop.support.maven import compiled
from tests.interop.support.programs import ProgramOutput, run_program
from tests.interop.support.pymq_server import PymqServer
from tests.interop.support.tools import own_places, require

SCENARIOS = ["sync_send", "batch", "too_large", "clustering", "retry", "long_poll", "transaction"]
CLIENTS = ["client-4.9.8", "client-5.3.3"]


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PymqServer]:
    started = PymqServer(tmp_path_factory.mktemp("tls-server"), mutual_tls_settings())
    yield started
    started.stop()


def run_java(
    server: PymqServer,
    client: str,
    directory: Path,
    trust_path: str,
    identity: PemFiles | None,
    *,
    is_plain: bool = False,
    scenarios: Sequence[str] = SCENARIOS,
) -> ProgramOutput:
    """Run the scenarios with RocketMQ's own TLS settings, which stand in a file; ``is_plain``: without TLS."""
    lines = ["tls.test.mode.enable=false", "tls.client.authServer=true", f"tls.client.trustCertPath={trust_path}"]
    if identity is not None:
        lines += [f"tls.client.certPath={identity.cert_path}", f"tls.client.keyPath={identity.key_path}"]
    files = certificates()
    tls = Tls(files.ca_path, str(files.client.cert_path), str(files.client.key_path))
    return run_with(server, client, directory, lines, tls, is_plain=is_plain, scenarios=scenarios)


def run_with(
    server: PymqServer,
    client: str,
    directory: Path,
    lines: Sequence[str],
    tls: Tls,
    *,
    is_plain: bool = False,
    scenarios: Sequence[str] = SCENARIOS,
) -> ProgramOutput:
    """Run the scenarios with these lines of a TLS file; ``tls``: of what makes their topics."""
    (java,) = require("java")
    directory.mkdir()
    tls_file = directory / "tls.properties"
    tls_file.write_text("\n".join(lines))
    prefix = f"tls-{uuid.uuid4().hex[:8]}"
    asyncio.run(make_topics(server, [f"{prefix}-{scenario}" for scenario in scenarios], tls))
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *own_places(directory)]
    flags += [
        f"-Drocketmq.client.logRoot={directory}/logs",
        f"-Dtls.enable={str(not is_plain).lower()}",
        f"-Dtls.config.file={tls_file}",
    ]
    command = [java, *flags, "-cp", compiled("client", client), "interop.Main", server.namesrv, prefix]
    return run_program([*command, *scenarios], directory)


async def make_topics(server: PymqServer, names: list[str], tls: Tls) -> None:
    async with Admin(server.namesrv, tls=tls) as admin:
        for name in names:
            await admin.topics.put(server.broker, TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4))


@pytest.mark.parametrize("client", CLIENTS)
def test_java_works_over_mutual_tls(tls_server: PymqServer, tmp_path: Path, client: str) -> None:
    files = certificates()
    output = run_java(tls_server, client, tmp_path / "java", files.ca_path, files.client)
    assert {scenario: output.error(scenario) for scenario in SCENARIOS} == dict.fromkeys(SCENARIOS)


def test_java_without_a_certificate_is_refused(tls_server: PymqServer, tmp_path: Path) -> None:
    output = run_java(tls_server, "client-5.3.3", tmp_path / "java", certificates().ca_path, None)
    assert output.error("sync_send") is not None


def test_java_refuses_a_server_of_another_authority(tls_server: PymqServer, tmp_path: Path) -> None:
    files = certificates()
    output = run_java(tls_server, "client-5.3.3", tmp_path / "java", files.stranger_ca_path, files.client)
    assert output.error("sync_send") is not None


def test_java_with_an_expired_certificate_is_refused(tls_server: PymqServer, tmp_path: Path) -> None:
    files = certificates()
    where = tmp_path / "java"
    output = run_java(tls_server, "client-5.3.3", where, files.ca_path, files.expired, scenarios=["sync_send"])
    assert output.error("sync_send") is not None


def test_java_without_tls_is_refused(tls_server: PymqServer, tmp_path: Path) -> None:
    where, trusted = tmp_path / "java", certificates().ca_path
    output = run_java(tls_server, "client-5.3.3", where, trusted, None, is_plain=True, scenarios=["sync_send"])
    assert output.error("sync_send") is not None


@pytest.mark.parametrize("client", CLIENTS)
def test_java_with_tls_and_nothing_else_works_with_servers_that_were_given_no_certificate(
    tmp_path: Path, client: str
) -> None:
    (tmp_path / "server").mkdir()
    server = PymqServer(tmp_path / "server")
    try:
        output = run_with(server, client, tmp_path / "java", [], Tls(check_server=False))
    finally:
        server.stop()
    assert {scenario: output.error(scenario) for scenario in SCENARIOS} == dict.fromkeys(SCENARIOS)
