"""What a cluster with users refuses never looks like an empty or a silent cluster."""

from __future__ import annotations

import asyncio

from pymq.client import Admin
from pymq.model.tables import TopicConfig
from pymq.testing.broker import TestBroker
from tests.console.history.test_with_broker import ADMIN, READER, secured
from tests.console.hostile.site import addresses, query_of, site

__all__ = ["secured"]  # a fixture

# Searches begin with a form, the page about the console asks no cluster, and these name servers check no users.
OPEN = {"messages", "about", "namesrv"}


async def make_dead_letters(broker: TestBroker) -> None:
    async with Admin(broker.namesrv, credentials=ADMIN) as admin:
        await admin.topics.put(broker.address, TopicConfig(topic_name="%DLQ%readers"))


def test_every_page_leads_a_stranger_to_the_log_in(secured: TestBroker) -> None:
    async def work() -> dict[str, int]:
        await make_dead_letters(secured)
        async with site(secured.namesrv) as found:
            return {path: (await found.get(path, query_of(path))).status for _, path in addresses()}

    found = asyncio.run(work())
    assert {path for path, status in found.items() if status != 303} == OPEN


def test_a_broker_that_refuses_a_person_is_not_silent(secured: TestBroker) -> None:
    async def work() -> None:
        async with site(secured.namesrv) as found:
            reader = found.log_in(READER.access_key, READER.reveal())
            for path in ("brokers", "brokers/broker-a/0", "raft"):
                answer = await found.get(path, cookie=reader)
                assert answer.status == 403 and "has no permission" in answer.text, path
            overview = (await found.get("", cookie=reader)).text
            assert "has no permission" in overview, "what is not on the page is named"

    asyncio.run(work())
