"""A cluster in which certificates stand for users: name server, broker and filter server, over sockets."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.client import Admin, Credentials, Message, MessageQueue, Producer, PullConsumer, Tls
from pymq.client.tls import tls_context
from pymq.clock import SystemClock
from pymq.config import load_broker_config, load_namesrv_config
from pymq.errors import RefusedError
from pymq.filterserver.server import FilterServer, FilterServerSettings
from pymq.namesrv.server import NameServer
from pymq.net.client import RemotingClient
from pymq.net.tls_settings import TlsContexts
from pymq.store.disk.fs import RealFiles
from pymq.wire.bodies_auth import AclEntryInfo
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.broker.assembly.test_broker import until
from tests.broker.assembly.test_security import private
from tests.certificates import certificates, mutual_tls_settings

TOPIC = "CertifiedTopic"
GROUP = "CertifiedGroup"
RULES = "RULE:CN=(client)/$1-user/"
ROOT = Credentials("root", "root-secret")
DEADLINE_S = 30
SMALL = {"mappedFileSizeCommitLog": "1MB", "maxHashSlotNum": "1000", "maxIndexNum": "4000", "listenPort": "0"}


def settings(directory: Path) -> dict[str, str]:
    root = private(directory / "root.yml", "accessKey: root\nsecretKey: root-secret\n")
    inner = private(directory / "inner.yml", "accessKey: servers\nsecretKey: inner-secret\n")
    return {
        **mutual_tls_settings(),
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f"file:{root}",
        "innerClientAuthenticationCredentials": f"file:{inner}",
        "tls.server.principalMappingRules": RULES,
        "userConnectionCountMax": "20",
    }


def test_a_certificate_acts_as_its_user_until_the_user_is_deleted(tmp_path: Path) -> None:
    keys: dict[str, Any] = settings(tmp_path)
    users = tmp_path / "store" / "config" / "auth.json"
    files = certificates()
    tls = Tls(files.ca_path, str(files.client.cert_path), str(files.client.key_path))
    unnamed = Tls(files.ca_path, str(files.server.cert_path), str(files.server.key_path))

    async def scenario() -> None:
        config = load_broker_config(None, {**SMALL, **keys, "storePathRootDir": str(tmp_path / "store")})
        namesrv = NameServer(
            clock=SystemClock(), config=load_namesrv_config(None, {**keys, "authFile": str(users)}, env={})
        )
        await namesrv.start(port=0)
        config.namesrv_addr = namesrv.address
        broker = Broker(config, clock=SystemClock(), files=RealFiles(), rng=random.Random(5))
        address = await broker.start()
        filters = FilterServer(
            FilterServerSettings(
                broker=address,
                authentication_enabled=True,
                authorization_enabled=True,
                auth_file=str(users),
                inner_credentials_file=str(tmp_path / "inner.yml"),
            ),
            clock=SystemClock(),
            tls=TlsContexts.of(config, SystemClock()),
        )
        askers = [RemotingClient(clock=SystemClock(), tls=tls_context(one, SystemClock())) for one in (tls, unnamed)]
        queue = MessageQueue(TOPIC, "broker-a", 0)
        try:
            await filters.start()
            async with Admin(namesrv.address, credentials=ROOT, tls=unnamed) as admin:
                await admin.auth.create_user(address, "client-user", "of-no-use")
                entry = AclEntryInfo(resource=f"Topic:{TOPIC}", actions=["Pub", "Sub", "Get"], decision="Allow")
                group = AclEntryInfo(resource=f"Group:{GROUP}", actions=["Sub"], decision="Allow")
                cluster = AclEntryInfo(resource="Cluster:*", actions=["Get"], decision="Allow")
                await admin.auth.put_acl(address, "client-user", [entry, group, cluster])
                assert namesrv.security is not None
                namesrv.security.look()
                filters.look_at_security()
                async with (
                    Producer("P", namesrv=namesrv.address, tls=tls) as producer,
                    PullConsumer(GROUP, namesrv=namesrv.address, tls=tls) as consumer,
                    Producer("P", namesrv=namesrv.address, tls=unnamed) as stranger,
                ):
                    await producer.send(Message(TOPIC, b"1"), queue=queue)
                    await producer.send(Message(TOPIC, b"2"), queue=queue)
                    assert [one.body for one in (await consumer.pull(queue, 0)).messages()] == [b"1", b"2"]
                    with pytest.raises(RefusedError, match="User:client-user has no permission to access Topic:other"):
                        await producer.send(Message("other", b"x"), queue=MessageQueue("other", "broker-a", 0))
                    with pytest.raises(RefusedError, match="username cannot be null"):
                        await stranger.send(Message(TOPIC, b"x"), queue=queue)
                    asking = Command(RequestCode.GET_BROKER_RUNTIME_INFO)
                    answers = [await asker.invoke(filters.address, asking, DEADLINE_S) for asker in askers]
                    assert [one.remark for one in answers] == [None, "username cannot be null."]
                    waiting = asyncio.ensure_future(consumer.pull(queue, 2, suspend_ms=15_000))
                    await until(lambda: broker.parts is not None and broker.parts.requests.long_polls.count == 1)
                    await admin.auth.delete_user(address, "client-user")
                    assert (await waiting).messages() == []
                    with pytest.raises(RefusedError, match="User:client-user is not found"):
                        await producer.send(Message(TOPIC, b"3"), queue=queue)
        finally:
            for asker in askers:
                await asker.close()
            await filters.stop()
            await broker.stop()
            await namesrv.stop()

    asyncio.run(scenario())


def test_connections_of_a_user_are_limited(tmp_path: Path) -> None:
    """Over sockets: the limit keeps each connection as long as it is open, and no longer."""
    keys: dict[str, Any] = {**settings(tmp_path), "userConnectionCountMax": "2"}

    async def scenario() -> None:
        config = load_broker_config(None, {**SMALL, **keys, "storePathRootDir": str(tmp_path), "namesrvAddr": ""})
        broker = Broker(config, clock=SystemClock(), files=RealFiles(), rng=random.Random(5))
        address = await broker.start()
        tls = TlsContexts.of(config, SystemClock()).outgoing
        clients = [RemotingClient(clock=SystemClock(), tls=tls, sign=ROOT.sign) for _ in range(3)]
        try:
            for client, code in zip(clients, (0, 0, 2), strict=True):
                answer = await client.invoke(address, Command(RequestCode.CHECK_CLIENT_CONFIG, body=b"{}"), DEADLINE_S)
                assert answer.code == code, answer.remark
            await clients[0].close()
            await until(lambda: len(broker.server.connections) == 2)
            answer = await clients[2].invoke(address, Command(RequestCode.CHECK_CLIENT_CONFIG, body=b"{}"), DEADLINE_S)
            assert answer.code == 0, answer.remark
        finally:
            for client in clients:
                await client.close()
            await broker.stop()

    asyncio.run(scenario())
