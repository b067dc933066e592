"""Users that change while Java's client 5.3.3 and PyMQ's are connected: secrets, addresses, deletion, certificates."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pymq.client import Admin, Credentials, Message, Producer
from pymq.errors import RefusedError
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_auth import AclEntryInfo
from tests.certificates import certificates, mutual_tls_settings
from tests.interop.support.connected import ConnectedUser, java_user
from tests.interop.support.pymq_server import PymqServer, user_settings

TOPIC, GROUP, CERTIFIED = "ChangingOrders", "changing_billing", "certified_billing"
ROOT, ADA = Credentials("root", "root-secret"), Credentials("ada", "ada-secret")


def entries(*sources: str) -> list[AclEntryInfo]:
    topic = AclEntryInfo(
        resource=f"Topic:{TOPIC}", actions=["Pub", "Sub", "Get"], source_ips=list(sources), decision="Allow"
    )
    groups = [AclEntryInfo(resource=f"Group:{name}", actions=["Sub"], decision="Allow") for name in (GROUP, CERTIFIED)]
    return [topic, *groups]


def is_refused(found: str, remark: str) -> bool:
    """True for code 16 with RocketMQ's remark, in what Java's client says."""
    return found.startswith("16 ") and remark in found


async def pymq_sends(server: PymqServer, user: Credentials) -> str:
    """Return what becomes of a message of PyMQ's client: empty, or the refusal."""
    try:
        async with Producer("changing_producer", namesrv=server.namesrv, credentials=user) as producer:
            await producer.send(Message(TOPIC, b"by PyMQ"))
    except RefusedError as error:
        return str(error)
    return ""


def test_users_change_while_their_clients_are_connected(tmp_path: Path) -> None:
    files = certificates()
    tls_file = tmp_path / "tls.properties"
    tls_file.write_text(
        f"tls.test.mode.enable=false\ntls.client.authServer=true\ntls.client.trustCertPath={files.ca_path}\n"
        f"tls.client.certPath={files.client.cert_path}\ntls.client.keyPath={files.client.key_path}\n"
    )
    server = PymqServer(
        tmp_path,
        {
            **mutual_tls_settings(),
            "tls.server.mode": "permissive",
            "tls.server.need.client.auth": "optional",
            "tls.server.principalMappingRules": "RULE:CN=(client)/ada/",
            **user_settings(tmp_path),
        },
    )
    javas: list[ConnectedUser] = []

    async def scenario() -> None:
        async with Admin(server.namesrv, credentials=ROOT) as admin:
            auth, broker = admin.auth, server.broker
            await admin.topics.put(broker, TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1))
            await auth.create_user(broker, "ada", "ada-secret")
            await auth.put_acl(broker, "ada", entries())
            javas.append(java_user(server, TOPIC, GROUP, ADA, tmp_path / "signed"))
            tls = ("-Dtls.enable=true", f"-Dtls.config.file={tls_file}")
            javas.append(java_user(server, TOPIC, CERTIFIED, None, tmp_path / "certified", jvm_flags=tls))

            async def both_send(body: str) -> list[str]:
                return [await one.send(f"{body}-{number}") for number, one in enumerate(javas)]

            assert await both_send("first") == ["SEND_OK", "SEND_OK"]
            for one in javas:
                await one.has_consumed("first-0")
                await one.has_consumed("first-1")

            await auth.update_user(broker, "ada", password="another-secret")
            by_signature, by_certificate = await both_send("other-secret")
            assert is_refused(by_signature, "check signature failed.") and by_certificate == "SEND_OK"
            assert "check signature failed" in await pymq_sends(server, ADA)
            assert not await pymq_sends(server, Credentials("ada", "another-secret"))
            await auth.update_user(broker, "ada", password="ada-secret")

            await auth.put_acl(broker, "ada", entries("10.0.0.0/8"))
            text = f"User:ada has no permission to access Topic:{TOPIC} from 127.0.0.1, no matched policies."
            assert all(is_refused(found, text) for found in await both_send("elsewhere"))
            assert text in await pymq_sends(server, ADA)
            await auth.put_acl(broker, "ada", entries("10.0.0.0/8", "127.0.0.0/8"))
            assert await both_send("here") == ["SEND_OK", "SEND_OK"]

            await auth.update_user(broker, "ada", status="disable")
            assert all(is_refused(found, "User:ada is disabled.") for found in await both_send("disabled"))
            await auth.delete_user(broker, "ada")
            assert all(is_refused(found, "User:ada is not found.") for found in await both_send("deleted"))
            assert "User:ada is not found" in await pymq_sends(server, ADA)
            async with Producer("P", namesrv=server.namesrv, credentials=ROOT) as producer:
                await producer.send(Message(TOPIC, b"of root"))
            # The consumers ask again all the time; they get the message once the user is there again.
            await auth.create_user(broker, "ada", "ada-secret")
            consumed = [line for one in javas for line in one.lines if line == "consumed of root"]
            assert not consumed
            await auth.put_acl(broker, "ada", entries())
            for one in javas:
                await one.has_consumed("of root")
            assert await both_send("last") == ["SEND_OK", "SEND_OK"]

    try:
        asyncio.run(scenario())
    finally:
        for java in javas:
            java.end()
        server.stop()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of who runs the test must not help."""
    for name in ("PYMQ_CREDENTIALS_FILE", "PYMQ_ACCESS_KEY", "PYMQ_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
