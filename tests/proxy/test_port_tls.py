"""``--grpc-port`` takes TLS as its broker's settings say: the port is no way around them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

pytest.importorskip("grpc")

import grpc

from pymq.cli.proxy.command import server_tls
from pymq.client import Admin, Tls
from pymq.config import load_broker_config
from pymq.config.load import load_tls_config
from pymq.errors import UsageError
from pymq.model.tables import TopicConfig
from pymq.offline.certificates import PemFiles
from pymq.proxy.protocol.names import Code
from pymq.testing.standalone import StandaloneProcess
from tests.certificates import certificates
from tests.proxy.harness import RawClient

TOPIC = "GrpcTls"
DEADLINE_S = 30.0
HTTP2_BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def secured_client(address: str, files: PemFiles) -> RawClient:
    """Return a client that shows a certificate."""
    client = RawClient(address)
    paths = (Path(certificates().ca_path), files.key_path, files.cert_path)
    credentials = grpc.ssl_channel_credentials(*(path.read_bytes() for path in paths))
    client.channel = grpc.aio.secure_channel(address, credentials)
    return client


async def answered(address: str, context: ssl.SSLContext | None) -> bool:
    """Return whether a server of HTTP/2 answers."""
    host, port = address.split(":")
    async with asyncio.timeout(DEADLINE_S):
        try:
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
        except (ssl.SSLError, ConnectionError):
            return False
        try:
            writer.write(HTTP2_BEGIN)
            return len(await reader.read(9)) == 9
        except (ssl.SSLError, ConnectionError):
            return False
        finally:
            writer.transport.abort()
            with contextlib.suppress(ssl.SSLError, ConnectionError):
                await writer.wait_closed()


def test_an_enforcing_broker_s_port_takes_only_its_clients_certificates() -> None:
    files = certificates()
    settings = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(files.server.cert_path),
        "tls.server.keyPath": str(files.server.key_path),
        "tls.server.need.client.auth": "require",
        "tls.server.trustCertPath": files.ca_path,
        "tls.client.trustCertPath": files.ca_path,
        "tls.client.certPath": str(files.server.cert_path),
        "tls.client.keyPath": str(files.server.key_path),
    }
    tls = Tls(trust_path=files.ca_path, cert_path=str(files.client.cert_path), key_path=str(files.client.key_path))
    with StandaloneProcess(settings=settings, arguments=["--grpc-port", "0"]) as standalone:

        async def work() -> None:
            async with Admin(standalone.namesrv, tls=tls) as admin:
                await admin.topics.put(standalone.broker, TopicConfig(topic_name=TOPIC))
            client = secured_client(standalone.grpc, files.client)
            assert (await client.send(TOPIC)).status.code == Code.OK
            await client.close()
            nobody = ssl.create_default_context(cafile=files.ca_path)
            nobody.set_alpn_protocols(["h2"])
            stranger = ssl.create_default_context(cafile=files.ca_path)
            stranger.load_cert_chain(files.stranger.cert_path, files.stranger.key_path)
            for context in (None, nobody, stranger):
                assert not await answered(standalone.grpc, context)
            nobody.load_cert_chain(files.client.cert_path, files.client.key_path)
            assert await answered(standalone.grpc, nobody)

        asyncio.run(work())
        assert standalone.stop() == 0


@pytest.mark.parametrize(("mode", "takes_tls"), [("permissive", True), ("disabled", False)])
def test_a_certificate_is_made_unless_tls_is_off(mode: str, takes_tls: bool) -> None:
    with server_tls(load_broker_config(None, {"tls.server.mode": mode})) as tls:
        assert (tls is not None) == takes_tls
        assert tls is None or not tls.is_required


def test_no_tls_and_enforcing_exclude_each_other() -> None:
    files = certificates()
    config = load_tls_config(
        {
            "PYMQ_TLS_SERVER_MODE": "enforcing",
            "PYMQ_TLS_SERVER_CERT_PATH": str(files.server.cert_path),
            "PYMQ_TLS_SERVER_KEY_PATH": str(files.server.key_path),
        }
    )
    with server_tls(config) as tls:
        assert tls is not None and tls.is_required
    with pytest.raises(UsageError, match=r"--no-tls and tls\.server\.mode=enforcing"), server_tls(config, is_off=True):
        pass
