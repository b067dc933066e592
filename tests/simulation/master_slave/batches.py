"""Inner batches: a producer of them, a reader, and what is checked of them.

A batch stands whole in its queue at the offsets that its answer named, on the master and on each slave, or not at all.
A pull from an offset inside a batch gets the batch, and the offset to go on at is behind a whole batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.assembly.parts import BrokerParts
from pymq.errors import PymqError
from pymq.model.inner_batch import unwrapped
from pymq.model.record import StoredMessage, decode_records, encode_batch_entry
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.clients import ClientNode, Producer, messages_of
from tests.simulation.history import ACKED, Send
from tests.simulation.master_slave.checking import named
from tests.simulation.remoting import run
from tests.simulation.timeline import SECOND

if TYPE_CHECKING:
    from tests.simulation.broker_node import SimBroker
    from tests.simulation.master_slave.checking import Verdict
    from tests.simulation.master_slave.cluster import MasterSlave

BATCH_TOPIC = "Measurements"  # with one queue
BATCH_ATTRIBUTES = "+queue.type=BatchCQ"
COUNTS = (1, 2, 5, 9)  # messages of a batch
SINGLE_SHARE = 0.2  # of the sends: a plain message, which becomes a record of one message


class BatchProducer(Producer):
    """Sends batches to a topic that keeps them as inner batches. The messages of a batch have its name and a number."""

    def start(self, pace_us: int, size_max_bytes: int) -> None:
        """Send at the pace of the other producers, but not more than a batch in 200 ms."""
        super().start(max(pace_us, SECOND // 5), min(size_max_bytes, 300))

    def begin(self, send: Send) -> None:
        """Note the send apart from those of single messages."""
        send.queue_id = 0
        self._history.batch_sends.append(send)

    def request(self, send: Send) -> Command:
        """Return the request of a batch, or of a single message."""
        command = super().request(send)
        fields = {**(command.ext or {}), "b": BATCH_TOPIC, "e": "0"}
        if self._rng.random() < SINGLE_SHARE:
            return Command(RequestCode.SEND_MESSAGE_V2, ext=fields, body=_body(send.content, 0), version=479)
        fields["m"] = "true"
        count = self._rng.choice(COUNTS)
        body = b"".join(encode_batch_entry(_body(send.content, number), b"") for number in range(count))
        return Command(RequestCode.SEND_BATCH_MESSAGE, ext=fields, body=body, version=479)


def _body(content: bytes, number: int) -> bytes:
    return b"%b#%d" % (content, number)


class BatchReader(ClientNode):
    """Pulls the topic's queue from offsets that may lie inside a batch, and checks each answer by itself."""

    def start(self, pace_us: int) -> None:
        run(self._work(pace_us))

    async def _work(self, pace_us: int) -> None:
        offset, broker_id, is_fresh = 0, 0, True
        while not self.is_stopping:
            await self.sleep(int(self._rng.expovariate(1) * pace_us))
            address = await self.reader(is_fresh=is_fresh, broker_id=broker_id)
            is_fresh = address is None
            if address is None:
                await self.sleep(SECOND)
                continue
            try:
                offset, broker_id = await self._pull(address, offset)
            except PymqError:
                is_fresh, broker_id = True, 0

    async def _pull(self, address: str, offset: int) -> tuple[int, int]:
        """Return the offset to read next and the id of the suggested broker. Raises PymqError."""
        answer, next_offset = await self.pull(
            address, consumerGroup="G-batches", topic=BATCH_TOPIC, queueId="0", queueOffset=str(offset),
            maxMsgNums=str(self._rng.choice((1, 4, 32))),
        )  # fmt: skip
        if answer is None:
            return max(next_offset, 0), 0
        fields, messages = answer.ext or {}, list(unwrapped(decode_records(answer.body)))
        found, end = [message.queue_offset for message in messages], int(fields["nextBeginOffset"])
        self._history.operations["messages of batches read"] += len(found)
        if found != list(range(found[0], end)) or found[0] > max(offset, int(fields["minOffset"])) or end <= offset:
            self._history.violated(f"a pull of batches from {offset} got {found} from {address} and goes on at {end}")
        for problem in torn(messages):
            self._history.violated(f"a pull of batches from {offset} got from {address}: {problem}")
        # Somewhere in the newest batch or behind it: with nothing new, the next pull begins inside of a batch.
        return self._rng.randrange(max(found[0], end - COUNTS[-1]), end + 1), int(fields.get("suggestWhichBrokerId", 0))


def torn(messages: list[StoredMessage]) -> list[str]:
    """Return what is wrong with batches that messages in the order of a queue belong to, one text each."""
    problems, before = list[str](), (b"", -1)
    for message in messages:
        name, _, number = message.body.rpartition(b"#")
        if (name, int(number)) not in ((before[0], before[1] + 1), (name, 0)):
            problems.append(f"{message.body[:30]!r} stands behind {before[0][:20]!r} {before[1]}")
        before = name, int(number)
    return problems


def queue_of(parts: BrokerParts) -> list[StoredMessage]:
    """Return all messages of the topic, unwrapped."""
    return list(unwrapped(messages_of(parts, 0, BATCH_TOPIC)))


def judge(cluster: MasterSlave, verdict: Verdict) -> None:
    """Check the queues of all brokers at rest."""
    if (found := cluster.only_master()) is None:
        return  # which is a violation already
    master, parts = found
    say, messages = cluster.history.violated, queue_of(parts)
    offsets = [message.queue_offset for message in messages]
    if offsets and offsets != list(range(offsets[0], offsets[0] + len(offsets))):
        say(f"the queue of batches has holes or repeats: {offsets[:50]}")
    for problem in torn(messages):
        say(f"the queue of batches on {master.name}: {problem}")
    first_of = dict[bytes, int]()
    for message in messages:
        name, _, number = message.body.rpartition(b"#")
        if number == b"0" and first_of.setdefault(name, message.queue_offset) != message.queue_offset:
            say(f"{name[:20]!r} stands twice in the queue of batches")
    unknown = first_of.keys() - {send.content for send in cluster.history.batch_sends}
    if unknown:
        say(f"batches that were never sent: {sorted(unknown)[:3]}")
    begin = offsets[0] if offsets else 0
    for send in cluster.history.batch_sends:
        is_there = first_of.get(send.content) == send.queue_offset or send.queue_offset < begin
        if send.outcome == ACKED and not is_there and not verdict.may_be_lost(send):
            say(f"lost batch, now at {first_of.get(send.content)}: {named(send)}")
    cluster.history.operations["batches stored"] += len(first_of)
    for broker in cluster.brokers:
        if broker is not master and broker.parts is not None:
            _same(broker, messages, say)


def _same(broker: SimBroker, wanted: list[StoredMessage], say: Callable[[str], None]) -> None:
    assert broker.parts is not None
    found = {message.queue_offset: message.body for message in queue_of(broker.parts)}
    there = {message.queue_offset: message.body for message in wanted}
    other = [offset for offset in found.keys() & there.keys() if found[offset] != there[offset]]
    ends = max(found, default=-1), wanted[-1].queue_offset if wanted else -1
    if other or ends[0] != ends[1]:
        say(f"the queue of batches of {broker.name} ends at {ends[0]}, its master's at {ends[1]}; they differ: {other}")
