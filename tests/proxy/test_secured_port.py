"""``--grpc-port`` of a broker with users: they sign their calls, and the broker's rules, limits and audit log hold."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

pytest.importorskip("grpc")

from pymq.client import Admin, Credentials
from pymq.model.tables import TopicConfig
from pymq.proxy.gate import TIME_FORMAT
from pymq.proxy.protocol import messages as m
from pymq.proxy.protocol.names import ClientType, Code
from pymq.testing.standalone import StandaloneProcess
from tests.proxy.harness import RawClient
from tests.proxy.signing import signed_metadata

TOPIC, GROUP = "GrpcSecured", "grpc-secured"
ROOT, SECRET = "root", "root-secret"


def settings_of(client_type: int) -> object:
    settings = m.Settings(client_type=client_type)
    settings.subscription.group.name = GROUP
    settings.subscription.subscriptions.add().topic.name = TOPIC
    return settings


def test_users_sign_their_calls_to_a_port_of_the_broker(tmp_path: Path) -> None:
    root = tmp_path / "root.yml"
    root.write_text(f"accessKey: {ROOT}\nsecretKey: {SECRET}\n")
    root.chmod(0o600)
    audit = tmp_path / "audit"
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f"file:{root}",
        "auditLogDir": str(audit),
    }
    now = datetime.now(UTC).strftime(TIME_FORMAT)
    arguments = ["--grpc-port", "0", "--grpc-signature-age", "3600"]
    with StandaloneProcess(settings=settings, arguments=arguments) as standalone:

        async def work() -> None:
            async with Admin(standalone.namesrv, credentials=Credentials(ROOT, SECRET)) as admin:
                await admin.topics.put(standalone.broker, TopicConfig(topic_name=TOPIC))
                await admin.auth.create_user(standalone.broker, "reader", "reader-secret")
            owner = RawClient(standalone.grpc, "owner", **signed_metadata(ROOT, SECRET, time=now))
            reader = RawClient(standalone.grpc, "owner", **signed_metadata("reader", "reader-secret", time=now))
            nobody = RawClient(standalone.grpc, "nobody")
            heard = RawClient(standalone.grpc, "heard", **signed_metadata(ROOT, SECRET, time="20200101T000000Z"))
            assert (await owner.send(TOPIC, b"signed")).status.code == Code.OK
            stream = await owner.settle(settings_of(ClientType.SIMPLE_CONSUMER))
            (message,) = await owner.receive(TOPIC, GROUP)
            assert message.body == b"signed"
            forward = m.ForwardMessageToDeadLetterQueueRequest(group=m.Resource(name=GROUP), topic=message.topic)
            handle = message.system_properties.receipt_handle
            forward.receipt_handle = f"{handle.rpartition(' ')[0]} 1"  # no record begins there
            answer = await owner.call("ForwardMessageToDeadLetterQueue", forward)
            assert answer.status.code == Code.INVALID_RECEIPT_HANDLE
            assert await owner.ack(GROUP, message) == Code.OK
            assert (await owner.send(TOPIC, b"given up")).status.code == Code.OK
            (message,) = await owner.receive(TOPIC, GROUP)
            forward.receipt_handle = message.system_properties.receipt_handle
            assert (await owner.call("ForwardMessageToDeadLetterQueue", forward)).status.code == Code.OK
            assert (await reader.send(TOPIC)).status.code == Code.FORBIDDEN
            assert (await nobody.send(TOPIC)).status.code == Code.UNAUTHORIZED
            refused = await heard.send(TOPIC)
            assert refused.status.code == Code.UNAUTHORIZED and "the limit is 3600 s" in refused.status.message
            # A client id belongs to the user who sent its settings.
            leave = m.NotifyClientTerminationRequest()
            assert (await reader.call("NotifyClientTermination", leave)).status.code == Code.FORBIDDEN
            assert (await owner.call("NotifyClientTermination", leave)).status.code == Code.OK
            stream.cancel()
            for client in (owner, reader, nobody, heard):
                await client.close()

        asyncio.run(work())
        assert standalone.stop() == 0
    lines = [json.loads(line) for path in audit.iterdir() for line in path.read_text().splitlines()]
    calls = [(line["call"], line["user"], line["proven"], line["result"]) for line in lines if "call" in line]
    assert calls == [
        ("SendMessage", "reader", True, Code.FORBIDDEN),
        ("SendMessage", "", False, Code.UNAUTHORIZED),
        ("SendMessage", ROOT, False, Code.UNAUTHORIZED),
    ]
    assert not any("pymq-grpc-port" in line.get("user", "") for line in lines)
