"""Large messages, topics that go and come, users without rights, and a server that is killed under load."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymq_faststream import PymqBroker, PymqMessage

from pymq.client import Admin, Credentials, sync
from pymq.errors import NotFoundError, PymqError, RefusedError, UsageError
from pymq.model.tables import TopicConfig
from pymq.testing.broker import TestBroker
from pymq.testing.standalone import StandaloneProcess

pytestmark = pytest.mark.anyio
WAIT_S = 60.0
KILL_COUNT = int(os.environ.get("PYMQ_FASTSTREAM_KILLS", "4"))
QUICK: Any = {"rebalance_interval_s": 0.05, "retry_interval_s": 0.05, "commit_interval_s": 0.2}


async def test_headers_up_to_the_limit_arrive_and_beyond_are_refused(broker: PymqBroker, topic: str) -> None:
    inbox: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(topic)
    async def handle(message: PymqMessage) -> None:
        await inbox.put(message.headers.get("big", ""))

    async with broker:
        await broker.start()
        await broker.publish("x", topic, headers={"big": "ü" * 16_000})
        async with asyncio.timeout(WAIT_S):
            assert await inbox.get() == "ü" * 16_000
        with pytest.raises(UsageError, match="32767"):
            await broker.publish("x", topic, headers={"big": "x" * 33_000})
        for name, value in (("a\x01b", "c"), ("a", "b\x02c"), ("TAGS", "x")):
            with pytest.raises(UsageError):
                await broker.publish("x", topic, headers={name: value})
        with pytest.raises(UsageError, match="the message's body is empty"):
            await broker.publish("", topic)
        with pytest.raises(UsageError, match="4194304"):
            await broker.publish(b"x" * (4 * 1024 * 1024 + 1), topic)


async def test_a_topic_that_is_deleted_is_made_again_and_consumed(
    server: TestBroker, broker: PymqBroker, topic: str
) -> None:
    inbox: asyncio.Queue[int] = asyncio.Queue()

    @broker.subscriber(topic, settings=QUICK)
    async def handle(number: int) -> None:
        await inbox.put(number)

    async with broker, Admin(server.namesrv) as admin:
        await broker.start()
        await broker.publish(1, topic)
        async with asyncio.timeout(WAIT_S):
            assert await inbox.get() == 1
            await admin.topics.delete(topic, await admin.topics.targets(topic), everywhere=True)
            await broker.publish(2, topic)
            while await inbox.get() != 2:
                pass


async def test_without_create_topics_a_missing_topic_is_refused(server: TestBroker, topic: str) -> None:
    async with PymqBroker(server.namesrv, create_topics=False, logger=None) as broker:
        with pytest.raises((NotFoundError, RefusedError), match=topic):
            await broker.publish(1, topic)


ACCOUNTS = """\
globalWhiteRemoteAddresses: []
accounts:
  - accessKey: operator
    secretKey: operator-secret
    admin: true
  - accessKey: sender-app
    secretKey: s3cret/and:more
    admin: false
    defaultTopicPerm: PUB
    defaultGroupPerm: DENY
  - accessKey: reader-app
    secretKey: reader-secret
    admin: false
    defaultTopicPerm: SUB
    defaultGroupPerm: SUB
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    accounts = tmp_path_factory.mktemp("acl") / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    accounts.chmod(0o600)
    with TestBroker(aclEnable="true", plainAclFile=str(accounts), autoCreateTopicEnable="false") as broker:
        with sync.Admin(namesrv=broker.namesrv, credentials=Credentials("operator", "operator-secret")) as admin:
            admin.topics.put(broker.address, TopicConfig(topic_name="orders", read_queue_nums=1, write_queue_nums=1))
        yield broker


async def refusal(secured: TestBroker, login: str, topic: str, *, subscribes: bool = False) -> str:
    broker = PymqBroker(f"pymq://{login}@{secured.namesrv}", group="shop", logger=None)
    if subscribes:

        @broker.subscriber(topic)
        async def handle() -> None: ...

    async with broker:
        with pytest.raises(RefusedError) as raised:
            await broker.start()
            await broker.publish("x", topic)
    assert "secret" not in str(raised.value)
    assert "s3cret" not in str(raised.value)
    return str(raised.value)


async def test_a_refusal_names_the_right_that_is_missing(secured: TestBroker) -> None:
    text = await refusal(secured, "sender-app:s3cret%2Fand:more", "orders", subscribes=True)
    assert "sender-app" in text
    assert text.endswith("a subscriber needs SUB on topic orders and on group shop-orders")
    assert (await refusal(secured, "reader-app:reader-secret", "orders")).endswith("needs PUB on topic orders")
    text = await refusal(secured, "reader-app:reader-secret", "missing", subscribes=True)
    assert "topic missing does not exist: create it with a user who may" in text
    assert "signature" in await refusal(secured, "reader-app:other-secret", "orders")


async def test_users_with_their_rights_work(secured: TestBroker) -> None:
    inbox: asyncio.Queue[str] = asyncio.Queue()
    reader = PymqBroker(f"pymq://reader-app:reader-secret@{secured.namesrv}", group="shop", logger=None)

    @reader.subscriber("orders")
    async def handle(body: str) -> None:
        await inbox.put(body)

    async with reader, PymqBroker(f"pymq://sender-app:s3cret%2Fand:more@{secured.namesrv}", logger=None) as sender:
        await reader.start()
        await sender.publish("x", "orders")
        async with asyncio.timeout(WAIT_S):
            assert await inbox.get() == "x"
        assert await sender.ping(WAIT_S)


@pytest.mark.slow
async def test_a_server_that_is_killed_under_load_loses_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handled: Counter[int] = Counter()
    published: list[int] = []
    failed_count = 0
    process = StandaloneProcess(tmp_path).start()
    ports = [int(address.rpartition(":")[2]) for address in (process.namesrv, process.broker)]
    broker = PymqBroker(process.namesrv, logger=None)

    @broker.subscriber("load", max_workers=8, settings=QUICK)
    async def handle(number: int) -> None:
        await asyncio.sleep(0)
        handled[number] += 1

    async def publish() -> None:
        nonlocal failed_count
        number = 0
        while not stopping.is_set():
            number += 1
            try:
                await broker.publish(number, "load", timeout=1)
            except PymqError:
                failed_count += 1  # not answered: it may come or not
                await asyncio.sleep(0.02)
            else:
                published.append(number)

    stopping = asyncio.Event()
    begun_s = time.monotonic()
    try:
        async with broker:
            await broker.start()
            publishing = asyncio.create_task(publish())
            for _ in range(KILL_COUNT):
                before = len(published)
                async with asyncio.timeout(WAIT_S):
                    while len(published) < before + 500:
                        await asyncio.sleep(0.01)
                await asyncio.to_thread(process.kill)
                process = await asyncio.to_thread(
                    StandaloneProcess(tmp_path, namesrv_port=ports[0], port=ports[1]).start
                )
            stopping.set()
            await publishing
            async with asyncio.timeout(WAIT_S):
                while missing := set(published) - set(handled):
                    assert missing
                    await asyncio.sleep(0.05)
    finally:
        process.stop()
    with capsys.disabled():
        print(
            f"\n{len(published)} messages published in {time.monotonic() - begun_s:.0f} s, {failed_count} not answered,"
            f" {KILL_COUNT} servers killed: 0 lost, {sum(count > 1 for count in handled.values())} handled again"
        )
