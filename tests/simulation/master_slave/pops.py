"""A group that pops, and the promise to it: each message of the topic is acknowledged or comes again.

While no broker was promoted and none lost power or disk space, no message comes before its invisible time is over, and
none that was acknowledged in time comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymq.broker.assembly.parts import BrokerParts
from pymq.errors import PymqError, RefusedError
from pymq.model import pop
from pymq.model.record import StoredMessage, decode_records
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from tests.simulation.clients import QUEUE_COUNT, TOPIC, ClientNode, messages_of
from tests.simulation.history import name_of
from tests.simulation.plan import Plan
from tests.simulation.remoting import run
from tests.simulation.timeline import MS, SECOND

GROUP = "G-pops"
INVISIBLE_MS = (500, 3000, 10_000)
ACKED_SHARE, CHANGED_SHARE = 0.7, 0.8  # of the messages; what is left is forgotten
# These may take a hand-out or an acknowledgement along, or make a broker's clock another one than the simulation's.
CONFUSING_FAULTS = frozenset({"clock jump", "full disk", "failing fsync"})


class Popper(ClientNode):
    """Pops messages of all queues. It acknowledges most of them, gives some a new invisible time, and forgets some."""

    group, topic, queue_count = GROUP, TOPIC, QUEUE_COUNT
    kind = ""  # of its messages, in the counts of operations
    counts: Sequence[int] = (1, 4, 32)  # of messages that pops ask for
    is_draining = False  # acknowledge everything
    is_strict = True  # whether a message that comes early or after its acknowledgement breaks the promise

    def start(self, plan: Plan) -> None:
        self.tried: set[bytes] = set()  # messages with an acknowledgement, perhaps without an answer
        self._acked: set[bytes] = set()  # those with an answer in time
        self._hidden_until_us: dict[bytes, int] = {}
        self.is_strict = self.is_strict and not CONFUSING_FAULTS & set(plan.kinds)
        run(self._work(2 * plan.pace_us))

    async def _work(self, pace_us: int) -> None:
        is_fresh = True
        while not self.is_stopping:
            await self.sleep(int(self._rng.expovariate(1) * (100 * MS if self.is_draining else pace_us)))
            address = await self.master(is_fresh=is_fresh)
            is_fresh = address is None
            if address is None:
                await self.sleep(SECOND)
                continue
            try:
                await self._pop(address)
            except PymqError:
                is_fresh = True

    async def _pop(self, address: str) -> None:
        invisible_ms, began_us = self._rng.choice(INVISIBLE_MS), self.now_us
        fields = {
            "consumerGroup": self.group, "topic": self.topic, "queueId": "-1",
            "maxMsgNums": str(self._rng.choice(self.counts)),
            "invisibleTime": str(invisible_ms), "pollTime": str(self._rng.choice((0, 5000))), "bornTime": "0",
            "initMode": "0", "order": "false",
        }  # fmt: skip
        self._history.operations[f"{self.kind}pops"] += 1
        try:
            answer = await self.client.invoke_ok(address, Command(RequestCode.POP_MESSAGE, ext=fields), 12.0)
        except RefusedError as error:
            if error.code == ResponseCode.POLLING_TIMEOUT:
                return
            raise
        ext = answer.ext or {}
        starts = {
            (int(flag), int(queue_id)): int(start)
            for flag, queue_id, start in (each.split(" ") for each in ext["startOffsetInfo"].split(";"))
        }
        for message in decode_records(answer.body):
            self.note(message, began_us + invisible_ms * MS)
            await self._handle(address, message, self._receipt(message, ext, starts), invisible_ms, began_us)

    def note(self, message: StoredMessage, hidden_until_us: int) -> None:
        """Check a message that a pop got."""
        content = message.body
        self._history.operations[f"{self.kind}messages popped"] += 1
        self.is_strict = self.is_strict and not any(
            incident.kind in ("promote", "force", "power") for incident in self._history.incidents
        )
        what = name_of(content)
        if self.is_strict and content in self._acked:
            self._history.violated(f"{what} was acknowledged and came again to {self.group}")
        if self.is_strict and self.now_us < self._hidden_until_us.get(content, 0):
            early_ms = (self._hidden_until_us[content] - self.now_us) // MS
            self._history.violated(f"{what} came {early_ms} ms early to {self.group}")
        self._hidden_until_us[content] = hidden_until_us

    def _receipt(self, message: StoredMessage, ext: dict[str, str], starts: dict[tuple[int, int], int]) -> str:
        ready = message.properties.get("POP_CK")
        if ready is not None:
            return ready
        start, time_ms, invisible_ms = starts[0, message.queue_id], int(ext["popTime"]), int(ext["invisibleTime"])
        receipt = pop.Receipt(start, time_ms, invisible_ms, int(ext["reviveQid"]), pop.NORMAL, self._broker_name)
        return pop.encode_receipt(receipt, message.queue_id, message.queue_offset)

    async def _handle(
        self, address: str, message: StoredMessage, receipt: str, invisible_ms: int, began_us: int
    ) -> None:
        chance, content = self._rng.random(), message.body
        flag = pop.decode_receipt(receipt).retry_flag
        forms = pop.retry_topic_v1(self.group, self.topic), pop.retry_topic_v2(self.group, self.topic)
        topic = (self.topic, *forms)[flag]
        fields: dict[str, Any] = {
            "consumerGroup": self.group, "topic": topic, "queueId": str(message.queue_id), "extraInfo": receipt,
            "offset": str(message.queue_offset),
        }  # fmt: skip
        if self.is_draining or chance < ACKED_SHARE:
            self._history.operations[f"{self.kind}acknowledgements"] += 1
            self.tried.add(content)
            await self.client.invoke_ok(address, Command(RequestCode.ACK_MESSAGE, ext=fields))
            if self.now_us < began_us + invisible_ms * MS:
                self._acked.add(content)
        elif chance < CHANGED_SHARE:
            fields["invisibleTime"] = str(invisible_ms)
            began_us = self.now_us
            self._hidden_until_us.pop(content, None)
            await self.client.invoke_ok(address, Command(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, ext=fields))
            self._hidden_until_us[content] = began_us + invisible_ms * MS

    def left(self, master: BrokerParts) -> set[bytes]:
        """Return the messages in the master's queues that were neither acknowledged nor became dead letters."""
        queues = (messages_of(master, queue_id, self.topic) for queue_id in range(self.queue_count))
        left = {message.body for found in queues for message in found} - self.tried
        if left:
            left -= {message.body for message in messages_of(master, 0, f"%DLQ%{self.group}")}
        return left
