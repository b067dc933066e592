"""Clients of Raft groups: producers, consumers, an administrator of topics, and the probe that measures liveness.

They note at once what must never be: an answer to what is not confirmed, and a place with two messages.
"""

from __future__ import annotations

from typing import Any

from pymq.errors import PymqError, RefusedError
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.clients import QUEUE_COUNT, TOPIC, ClientNode, Consumer, Producer, topic_request
from tests.simulation.history import ACKED, REFUSED, History, Seen, Send, name_of
from tests.simulation.raft.ledger import Ledger
from tests.simulation.remoting import run
from tests.simulation.timeline import MS, SECOND

PROBE_PACE_US = 100 * MS
PROBE_TIMEOUT_S = 0.5
MADE_TOPIC_COUNT = 5
ADMIN_PACE_US = 2 * SECOND


class Places:
    """The queues as clients know them: which message is at which place. One for each group."""

    def __init__(self, history: History, ledger: Ledger) -> None:
        self._history = history
        self._ledger = ledger
        self._contents: dict[tuple[int, int], bytes] = {}
        self._places: dict[bytes, tuple[int, int]] = {}
        self._newest: dict[int, int] = {}  # the greatest acknowledged offset, by queue
        self._newest_at_begin: dict[bytes, int] = {}
        self.acked: list[Send] = []

    def began(self, send: Send) -> None:
        self._newest_at_begin[send.content] = self._newest.get(send.queue_id, -1)

    def answered(self, send: Send) -> None:
        """Check an acknowledged send."""
        self.acked.append(send)
        name = name_of(send.content)
        if send.physical >= self._ledger.confirmed.end:
            self._history.violated(f"{name} at {send.physical} is acknowledged, confirmed is {self._ledger.confirmed}")
        if send.queue_offset <= self._newest_at_begin[send.content]:
            self._history.violated(
                f"{name} got offset {send.queue_offset} of queue {send.queue_id}, an earlier one had "
                f"{self._newest_at_begin[send.content]}"
            )
        self._newest[send.queue_id] = max(self._newest.get(send.queue_id, -1), send.queue_offset)
        self._put(send.queue_id, send.queue_offset, send.content)

    def seen(self, seen: Seen) -> None:
        """Check a message that a consumer got."""
        if seen.physical >= self._ledger.confirmed.end:
            self._history.violated(
                f"{seen.group} got {name_of(seen.content)} at {seen.physical}, confirmed is {self._ledger.confirmed}"
            )
        self._put(seen.queue_id, seen.queue_offset, seen.content)

    def judge(self, stored: dict[int, list[bytes]]) -> None:
        """Compare with the queues at the end: all that was acknowledged or seen is there, at its place, once."""
        for (queue_id, offset), content in self._contents.items():
            found = stored[queue_id][offset] if offset < len(stored[queue_id]) else None
            if found != content:
                other = "nothing" if found is None else name_of(found)
                name = name_of(content)
                self._history.violated(f"{name} is gone from {offset} of queue {queue_id}: {other} is there")
        contents = [content for queue in stored.values() for content in queue]
        if len(set(contents)) != len(contents):
            self._history.violated("a message is stored twice, and was sent once")
        refused = {send.content for send in self._history.sends if send.outcome == REFUSED}
        if kept := refused.intersection(contents):
            codes = {send.code for send in self._history.sends if send.content in kept}
            self._history.violated(f"{len(kept)} refused messages are stored, with codes {codes}: {name_of(min(kept))}")

    def _put(self, queue_id: int, offset: int, content: bytes) -> None:
        place = queue_id, offset
        if self._contents.setdefault(place, content) != content:
            self._history.violated(
                f"{name_of(content)} and {name_of(self._contents[place])} are both at {offset} of queue {queue_id}"
            )
        if self._places.setdefault(content, place) != place:
            self._history.violated(f"{name_of(content)} is at {place} and at {self._places[content]} (queue, offset)")


class RaftProducer(Producer):
    """A producer whose sends are checked at once."""

    places: Places

    def begin(self, send: Send) -> None:
        super().begin(send)
        self.places.began(send)


class Probe(RaftProducer):
    """Sends to whichever broker takes it, all the time: it knows all addresses, and no partition shuts it out."""

    brokers: list[str]
    last_acked_us = -1

    def start_probing(self) -> None:
        self.send_timeout_s = PROBE_TIMEOUT_S
        self.last_acked_us = self.now_us
        run(self._probe())

    async def _probe(self) -> None:
        number, at = 0, 0
        while not self.is_stopping:
            await self.sleep(PROBE_PACE_US)
            number += 1
            send = await self._send(self.brokers[at], b"%b-%d|" % (self.name.encode(), number))
            if send.outcome == ACKED:
                self.last_acked_us = self.now_us
            else:
                at = (at + 1) % len(self.brokers)


class RaftConsumer(Consumer):
    """A consumer that commits to leaders, and notes which offsets the group may have."""

    def start(self, pace_us: int) -> None:
        self.acked: dict[int, int] = {}  # queue -> the newest acknowledged commit
        self.unsure: dict[int, set[int]] = {queue_id: set() for queue_id in range(QUEUE_COUNT)}
        super().start(pace_us)

    async def _commit(self, address: str, queue_id: int, offset: int) -> None:
        leader = await self.master()
        if leader is None:
            return
        self.unsure[queue_id].add(offset)
        await super()._commit(leader, queue_id, offset)
        self.acked[queue_id] = offset

    def judge(self, offsets: dict[str, dict[str, int]]) -> None:
        """Compare the leader's offsets at the end with what was acknowledged."""
        stored = offsets.get(f"{TOPIC}@{self.group}", {})
        for queue_id, acked in self.acked.items():
            found = stored.get(str(queue_id), -1)
            if found < acked and found not in self.unsure[queue_id] - {acked}:
                self._history.violated(f"{self.group} has offset {found} in queue {queue_id}, {acked} was acknowledged")
            if found < acked:
                self._history.operations["offsets at an older commit without answer"] += 1


class TopicAdmin(ClientNode):
    """Makes, changes and deletes topics, and knows what each may be."""

    def start(self, pace_us: int) -> None:
        self.known: dict[str, int] = {}  # topic -> the acknowledged number of queues; 0: deleted
        self.unsure: dict[str, set[int]] = {}
        run(self._work(pace_us))

    async def _work(self, pace_us: int) -> None:
        is_fresh = True
        while not self.is_stopping:
            await self.sleep(int(self._rng.expovariate(1) * pace_us))
            address = await self.master(is_fresh=is_fresh)
            is_fresh = address is None
            if address is None:
                continue
            topic, count = f"Made{self._rng.randrange(MADE_TOPIC_COUNT)}", self._rng.randrange(5)
            try:
                await self.client.invoke_ok(address, _topic_request(topic, count))
            except RefusedError as error:
                self._history.operations[f"topic changes refused with {error.code}"] += 1
                self.unsure.setdefault(topic, set()).add(count)
                is_fresh = True
            except PymqError:
                self.unsure.setdefault(topic, set()).add(count)
                is_fresh = True
            else:
                self.known[topic] = count
                self._history.operations["topic changes acked"] += 1

    def judge(self, topics: dict[str, Any]) -> None:
        """Compare the leader's topics at the end with what was acknowledged."""
        for topic, count in self.known.items():
            found = topics[topic].write_queue_nums if topic in topics else 0
            if found != count and found not in self.unsure.get(topic, ()):
                self._history.violated(f"{topic} has {found} queues (0: none), {count} were acknowledged")


def _topic_request(topic: str, queue_count: int) -> Command:
    if not queue_count:
        return Command(RequestCode.DELETE_TOPIC_IN_BROKER, ext={"topic": topic}, version=479)
    return topic_request(topic, queue_count)
