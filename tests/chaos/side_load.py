"""More load: topics that are made just before a fault, and delayed messages that come due during one."""

from __future__ import annotations

import asyncio
from collections import Counter

from pymq.client import Message, Producer, SendStatus
from pymq.errors import PymqError
from pymq.model.tables import TopicConfig
from tests.chaos.group import Broker, Group
from tests.interop.support import contents

LATER_TOPIC = "ChaosLater"
NEW_COUNT = 5
LATER_COUNT = 20
# These levels delay by 1 s and 5 s.
DELAY_LEVELS = (1, 2)
DUE_TIMEOUT_S = 60.0
POLL_S = 0.2


class SideLoad:
    """Sends to new topics and with delays.

    Acknowledged messages must be there at the end. Delayed ones may be there more than once.
    """

    def __init__(self, group: Group) -> None:
        self._group = group
        self._new: dict[str, set[bytes]] = {}
        self._later: set[bytes] = set()

    @property
    def count(self) -> int:
        """The number of acknowledged messages."""
        return len(self._later) + sum(map(len, self._new.values()))

    async def start(self, master: Broker) -> None:
        """Create the topic of delayed messages."""
        config = TopicConfig(topic_name=LATER_TOPIC, read_queue_nums=1, write_queue_nums=1)
        await self._group.admin.topics.put(master.broker, config)

    async def send(self, number: int) -> None:
        """Send a round's messages at once, without retries: the brokers cause every duplicate."""
        topic = f"ChaosRound{number}"
        new = self._new[topic] = set()
        async with Producer("chaos-side", namesrv=self._group.namesrv.address, retry_count=0) as producer:
            fresh = [Message(topic, b"new-%d-%d" % (number, n)) for n in range(NEW_COUNT)]
            later = [
                Message(LATER_TOPIC, b"later-%d-%d" % (number, n), delay_level=DELAY_LEVELS[n % len(DELAY_LEVELS)])
                for n in range(LATER_COUNT)
            ]
            await asyncio.gather(
                *[_send(producer, message, new) for message in fresh],
                *[_send(producer, message, self._later) for message in later],
            )

    async def check(self, master: Broker) -> Counter[int]:
        """Wait for the delayed messages. Return their number of duplicates by round.

        Raises AssertionError when an acknowledged message is missing.
        """
        for broker in self._group.brokers:
            for topic, wanted in self._new.items():
                found = await asyncio.to_thread(_bodies, broker, topic) if wanted else Counter()
                missing = wanted - found.keys()
                assert not missing, f"{broker.public_address}: {topic} lacks {len(missing)}, one is {min(missing)!r}"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + DUE_TIMEOUT_S
        while True:
            found = await asyncio.to_thread(_bodies, master, LATER_TOPIC)
            missing = self._later - found.keys()
            if not missing:
                return _doubled(found)
            assert loop.time() < deadline, f"{len(missing)} delayed messages never came, one is {min(missing)!r}"
            await asyncio.sleep(POLL_S)


def _doubled(found: Counter[bytes]) -> Counter[int]:
    doubled: Counter[int] = Counter()
    for body, count in found.items():
        doubled[int(body.split(b"-")[1])] += count - 1
    return doubled


async def _send(producer: Producer, message: Message, acknowledged: set[bytes]) -> None:
    try:
        result = await producer.send(message)
    except PymqError:
        return
    if result.status is SendStatus.SEND_OK:
        acknowledged.add(message.body)


def _bodies(broker: Broker, topic: str) -> Counter[bytes]:
    """Count how often each message is there."""
    queues = contents.queue_count(broker.broker, topic)
    return Counter(
        record.body for queue in range(queues) for record in contents.read_queue(broker.broker, topic, queue)
    )
