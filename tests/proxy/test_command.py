"""The commands: a proxy as a process of its own, and beside a broker; the extra that is missing."""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import sys
from contextlib import suppress

import pytest

pytest.importorskip("grpc")

from pymq.cli.proxy import command as proxy
from pymq.errors import UsageError
from pymq.packages import pip_install
from pymq.proxy.protocol.names import Code
from pymq.testing.standalone import StandaloneProcess
from tests.proxy.harness import RawClient


@pytest.mark.slow
def test_one_process_serves_plain_and_tls_connections_until_it_is_stopped() -> None:
    with StandaloneProcess(arguments=["--grpc-port", "0"]) as standalone:
        create = [sys.executable, "-m", "pymq", "topic", "create", "GrpcCommand", "--namesrv", standalone.namesrv]
        subprocess.run(create, check=True, capture_output=True)
        host, port = standalone.grpc.split(":")

        async def ask() -> None:
            client = RawClient(standalone.grpc)
            assert (await client.send("GrpcCommand")).status.code == Code.OK
            await client.close()
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            frame = await reader.readexactly(9)
            assert frame[3] == 4, "the server's first frame is its settings"
            writer.close()
            with suppress(ssl.SSLError, ConnectionError):
                await writer.wait_closed()

        asyncio.run(ask())
        assert standalone.stop() == 0


def test_the_command_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hpack", None)
    with pytest.raises(UsageError, match=re.escape(pip_install("grpc"))):
        proxy.check_library()


def test_an_age_of_signatures_needs_users() -> None:
    for command, wanted in ((["proxy"], "--auth-file or --acl"), (["standalone", "--ephemeral"], "--grpc-port")):
        line = [sys.executable, "-m", "pymq", *command, "--grpc-signature-age", "60"]
        ended = subprocess.run(line, capture_output=True, text=True)
        assert ended.returncode == 2 and wanted in ended.stderr
