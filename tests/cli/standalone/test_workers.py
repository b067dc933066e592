"""``pymq standalone --workers``: a name server and several brokers, with users, metrics and one port for gRPC."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from pymq.cli import main as cli
from pymq.client import Admin, Message, Tls
from pymq.client.sync import Producer, PullConsumer
from pymq.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from pymq.proxy.gate import TIME_FORMAT
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.messages import SERVICE
from pymq.proxy.protocol.names import ClientType, Code
from pymq.security.credentials import Credentials
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, encode_command
from tests.certificates import certificates
from tests.cli.broker.machines import TIMEOUT_S, is_alive, running
from tests.proxy.harness import RawClient
from tests.proxy.signing import signed_metadata

FREE = ["standalone", "--workers", "2", "--namesrv-port", "0", "--port", "0"]


@pytest.mark.slow
def test_users_are_those_of_every_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST_ACCESS_KEY", "root")
    monkeypatch.setenv("FIRST_SECRET_KEY", "of the first user")
    checked = ["--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true"]
    arguments = [*FREE, "--dir", str(tmp_path), *checked, "--set", "initAuthenticationUser=env:FIRST"]
    for _ in range(2):  # the second start finds the users that the first one made

        async def registered(namesrv: str) -> list[str]:
            async with Admin(namesrv, credentials=Credentials("root", "of the first user")) as admin:
                return sorted((await admin.cluster.info()).broker_addr_table)

        with running(*arguments) as machine:
            assert asyncio.run(registered(machine.ready["namesrv"])) == ["broker-a-0", "broker-a-1"]
            assert machine.ready["broker"] == machine.ready["workers"][0]["broker"]
            assert machine.stop() == EXIT_OK


@pytest.mark.slow
def test_all_workers_serve_one_grpc_port_and_one_goes_on_when_another_dies() -> None:
    async def ask(address: str) -> list[str]:
        names = []
        for _ in range(20):  # connections, each of which one of the workers takes
            async with grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                call = channel.unary_unary(
                    f"/{SERVICE}/QueryRoute",
                    request_serializer=m.QueryRouteRequest.SerializeToString,
                    response_deserializer=m.QueryRouteResponse.FromString,
                )
                request = m.QueryRouteRequest(topic=m.Resource(name="TBW102"), endpoints=m.Endpoints())
                metadata = (("x-mq-client-id", "c"), ("x-mq-language", "JAVA"), ("x-mq-client-version", "5.2.0"))
                answer = await call(request, timeout=60, metadata=metadata, wait_for_ready=True)
                names.append(str(answer.status.code))
        return names

    with running(*FREE, "--ephemeral", "--grpc-port", "0", "--log-level", "error") as machine:
        before = asyncio.run(ask(machine.ready["grpc"]))
        assert len(before) == 20
        pid = machine.ready["workers"][0]["pid"]

        os.kill(pid, signal.SIGKILL)
        assert asyncio.run(ask(machine.ready["grpc"])) == before
        assert machine.stop() == EXIT_OK
        assert not any(is_alive(row["pid"]) for row in machine.ready["workers"][1:])


def test_shards_and_workers_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["standalone", "--shards", "1", "--workers", "2"]) == EXIT_USAGE
    assert "--workers is for a single broker" in capsys.readouterr().err


@pytest.mark.slow
def test_all_workers_take_tls_alone_and_check_who_sends_and_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, user = certificates(), Credentials("root", "of the first user")
    first, servers = tmp_path / "first.yml", tmp_path / "servers.yml"
    for path, name in ((first, "root"), (servers, "servers")):
        path.write_text(f"accessKey: {name}\nsecretKey: of the first user\n")
        path.chmod(0o600)
    settings = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(files.server.cert_path),
        "tls.server.keyPath": str(files.server.key_path),
        "tls.client.trustCertPath": files.ca_path,
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f"file:{first}",
        "innerClientAuthenticationCredentials": f"file:{servers}",
    }
    flags = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    with running(*FREE, "--ephemeral", "--log-level", "error", *flags) as machine:
        namesrv, tls = machine.ready["namesrv"], Tls(trust_path=files.ca_path)
        monkeypatch.setenv("PYMQ_TLS_ENABLE", "true")
        monkeypatch.setenv("PYMQ_TLS_CLIENT_TRUST_CERT_PATH", files.ca_path)
        made = ["topic", "create", "orders", "--namesrv", namesrv, "--credentials", f"file:{first}"]
        assert cli.run(made) == EXIT_OK
        with Producer("p", namesrv=namesrv, credentials=user, tls=tls) as producer:
            sent = [producer.send(Message("orders", b"%d" % number)) for number in range(32)]
        assert {result.queue.broker_name for result in sent} == {"broker-a-0", "broker-a-1"}
        with PullConsumer("g", namesrv=namesrv, credentials=user, tls=tls) as consumer:
            read = [message for queue in consumer.queues("orders") for message in consumer.pull(queue, 0).messages()]
        assert sorted(int(message.body) for message in read) == list(range(32))
        for row in machine.ready["workers"]:
            asked = ["broker", "status", row["name"], "--namesrv", namesrv]
            assert cli.run([*asked, "--credentials", f"file:{first}"]) == EXIT_OK
            host, _, port = row["broker"].rpartition(":")
            with socket.create_connection((host, int(port)), TIMEOUT_S) as plain:
                plain.sendall(encode_command(Command(RequestCode.GET_BROKER_RUNTIME_INFO)))
                with suppress(ConnectionResetError):
                    assert plain.recv(1) == b"", "no plain connection is served"
            assert cli.run(asked) == EXIT_REFUSED, "nobody is served without a signature"


@pytest.mark.slow
def test_users_reach_the_messages_of_every_worker_by_one_grpc_port(tmp_path: Path) -> None:
    secret, topic, count = "of the first user", "Spread", 16
    first = tmp_path / "first.yml"
    first.write_text(f"accessKey: root\nsecretKey: {secret}\n")
    first.chmod(0o600)
    checked = ["--set", "authenticationEnabled=true", "--set", "authorizationEnabled=true"]
    arguments = [*FREE, "--ephemeral", *checked, "--set", f"initAuthenticationUser=file:{first}", "--grpc-port", "0"]

    async def sent_and_read(address: str) -> list[int]:
        """Send, and return the numbers that came from the two workers by one connection."""
        now = datetime.now(UTC).strftime(TIME_FORMAT)
        client = RawClient(address, "c", **signed_metadata("root", secret, time=now))
        for number in range(count):
            assert (await client.send(topic, b"%d" % number)).status.code == Code.OK
        settings = m.Settings(client_type=ClientType.SIMPLE_CONSUMER)
        settings.subscription.group.name = "readers"
        settings.subscription.subscriptions.add().topic.name = topic
        stream = await client.settle(settings)
        numbers = []
        for broker in ("broker-a-0", "broker-a-1"):
            request = client.receiving(topic, "readers")
            request.message_queue.broker.name = broker
            found = [each.message async for each in client.receive_call(request) if each.HasField("message")]
            assert found, f"nothing came from {broker}"
            numbers += [int(message.body) for message in found]
            assert [await client.ack("readers", message) for message in found] == [Code.OK] * len(found)
        stream.cancel()
        await client.close()
        return sorted(numbers)

    with running(*arguments) as machine:
        made = ["topic", "create", topic, "--namesrv", machine.ready["namesrv"], "--credentials", f"file:{first}"]
        assert cli.run(made) == EXIT_OK
        assert asyncio.run(sent_and_read(machine.ready["grpc"])) == list(range(count))
        assert machine.stop() == EXIT_OK
        assert "does not know the member" not in machine.log, "a group's members are known to all workers"
