"""A cluster that takes only TLS: name server, master, slave, metrics, filter server and clients reach each other."""

from __future__ import annotations

import asyncio
import random
import ssl
from pathlib import Path

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.broker.metrics.collector import BrokerMetrics
from pymq.cli.common.serving_metrics import metrics_place, metrics_text, serving_metrics
from pymq.client import Admin, Message, Producer, Tls
from pymq.clock import SystemClock
from pymq.config import load_broker_config, load_namesrv_config
from pymq.errors import ConfigError, UnreachableError
from pymq.filterserver.server import FilterServer, FilterServerSettings
from pymq.namesrv.server import NameServer
from pymq.net.tls_settings import TlsContexts
from pymq.store.disk.fs import RealFiles
from tests.certificates import certificates, mutual_tls_settings

DEADLINE_S = 30
SMALL = {"mappedFileSizeCommitLog": "1MB", "maxHashSlotNum": "1000", "maxIndexNum": "4000", "listenPort": "0"}


def test_a_cluster_works_when_every_port_takes_only_mutual_tls(tmp_path: Path) -> None:
    files = certificates()
    tls = Tls(files.ca_path, str(files.client.cert_path), str(files.client.key_path))

    async def scenario() -> None:
        namesrv = NameServer(clock=SystemClock(), config=load_namesrv_config(None, mutual_tls_settings()))
        await namesrv.start(port=0)
        brokers = []
        for broker_id in ("0", "1"):
            keys = {**SMALL, "brokerId": broker_id, "namesrvAddr": namesrv.address, **mutual_tls_settings()}
            keys |= {"storePathRootDir": str(tmp_path / broker_id), "metricsExporterType": "PROM"}
            config = load_broker_config(None, {**keys, "metricsPromExporterPort": "0"})
            brokers.append(Broker(config, clock=SystemClock(), files=RealFiles(), rng=random.Random(broker_id)))
        master, slave = brokers
        filters: FilterServer | None = None
        config = master.config
        try:
            address = await master.start()
            await slave.start()
            async with Admin(namesrv.address, tls=tls) as admin, asyncio.timeout(DEADLINE_S):
                while (await admin.replication.status(address)).in_sync_slaves < 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                async with Producer("P", namesrv=namesrv.address, tls=tls) as producer:
                    await producer.send(Message("T", b"x" * 200_000))
                assert master.parts is not None and slave.parts is not None
                while slave.parts.store.physical_max_offset < master.parts.store.physical_max_offset:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                filters = FilterServer(
                    FilterServerSettings(broker=address, host="127.0.0.1", port=0, worker_count=1),
                    clock=SystemClock(),
                    tls=TlsContexts.of(config, SystemClock()),
                )
                await filters.start()
                while not filters.is_registered:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            with pytest.raises(UnreachableError, match="PYMQ_TLS_ENABLE"):
                async with Admin(namesrv.address) as admin:
                    await admin.topics.names()
            place = metrics_place(config, "127.0.0.1")
            async with serving_metrics(place, BrokerMetrics(master)) as url:
                assert metrics_text(url).startswith("; metrics on https://127.0.0.1:")
                assert b"HTTP/1.1 200" in await fetched(url, tls)
        finally:
            if filters is not None:
                await filters.stop()
            for broker in reversed(brokers):
                await broker.stop()
            await namesrv.stop()

    asyncio.run(scenario())


async def fetched(url: str, tls: Tls) -> bytes:
    """Return the answer of a metrics endpoint over TLS, as a scraper with a certificate gets it."""
    context = ssl.create_default_context(cafile=tls.trust_path)
    context.load_cert_chain(tls.cert_path, tls.key_path)
    host, port = url.removeprefix("https://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("content", "mode", "text"),
    [
        (b"token", 0o644, "chmod 600"),
        (b"", 0o600, "write 1 to 1024 characters"),
        (b"two words", 0o600, "write 1 to 1024 characters"),
        (b"x" * 1025, 0o600, "write 1 to 1024 characters"),
        (None, 0, "can't be read"),
    ],
)
def test_a_bad_token_file_is_refused(tmp_path: Path, content: bytes | None, mode: int, text: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    config = load_namesrv_config(None, {"metricsExporterType": "PROM", "metricsTokenFile": str(path)})
    with pytest.raises(ConfigError, match=f"metricsTokenFile.*{text}"):
        metrics_place(config, "127.0.0.1")
    path.write_bytes(b"x" * 1024 + b"\n")
    path.chmod(0o600)
    place = metrics_place(config, "127.0.0.1")
    assert place is not None and place.token == "x" * 1024


def test_a_broker_with_an_expired_certificate_does_not_start(tmp_path: Path) -> None:
    expired = certificates().expired
    keys = {"tls.server.certPath": str(expired.cert_path), "tls.server.keyPath": str(expired.key_path)}
    config = load_broker_config(None, {**SMALL, "storePathRootDir": str(tmp_path), **keys})
    with pytest.raises(ConfigError, match="expired"):
        Broker(config, clock=SystemClock(), files=RealFiles(), rng=random.Random(1))
