"""Producers of transactions in the simulation, and what they may rely on.

A dealer stores half messages, decides, and tells the broker or leaves it to the broker's question. Promises: consumers
see nothing before its dealer decided to commit. They never see what was rolled back. They see each half message that
was acknowledged and then committed, unless an incident may have cost it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

import msgspec

from pymq.broker.assembly.parts import BrokerParts
from pymq.errors import PymqError
from pymq.model.record import StoredMessage, decode_record
from pymq.model.sysflag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.simulation.broker_node import SimBroker
from tests.simulation.clients import ClientNode, messages_of, placed_at, send_request
from tests.simulation.history import ACKED, MS, History, Incident, Send
from tests.simulation.master_slave.checking import named
from tests.simulation.remoting import run
from tests.simulation.timeline import SECOND, Timeline

TOPIC = "Deals"
GROUP = "dealers"
HEARTBEAT_US = 5 * SECOND
LOST_AGE_US = 20 * SECOND  # what a broker stored longer ago, a crash does not take from it
SETTINGS = {"transactionTimeOut": 1000, "transactionCheckInterval": 2000, "transactionCheckMax": 1_000_000}


class Decision(Enum):
    """What a dealer decided. ``PENDING`` until then."""

    PENDING = 0
    COMMIT = TRANSACTION_COMMIT
    ROLL_BACK = TRANSACTION_ROLLBACK


@dataclass(slots=True)
class Deal:
    """One transaction: the send of its half message, and what its dealer decided."""

    half: Send
    decision: Decision = Decision.PENDING
    shown_us: int = -1  # when a broker was first found to show it


class Book:
    """All transactions of a run. The members of the group share it: each may be asked about any."""

    def __init__(self, brokers: list[SimBroker], history: History, timeline: Timeline) -> None:
        self.deals: dict[str, Deal] = {}
        self._brokers = brokers
        self._history = history
        self._timeline = timeline
        self._read: dict[tuple[str, int], int] = {}  # the next offset by broker and start

    def look(self) -> None:
        """Check what each broker shows consumers by now. Call it every few seconds."""
        for broker in self._brokers:
            if broker.parts is not None:
                life = broker.name, broker.start_count
                shown = messages_of(broker.parts, 0, TOPIC, self._read.get(life, 0))
                for message in shown:
                    self._check_shown(broker, message)
                if shown:
                    self._read[life] = shown[-1].queue_offset + 1

    def _check_shown(self, broker: SimBroker, message: StoredMessage) -> None:
        deal = self.deals.get(key := message.properties.get("UNIQ_KEY", ""))
        if deal is None or deal.half.content != message.body:
            self._history.violated(f"{broker.name} shows a message that no dealer sent: {message.body[:40]!r}")
        elif deal.decision is not Decision.COMMIT:
            self._history.violated(f"{broker.name} shows {key}, of which its dealer decided {deal.decision.name}")
        elif deal.shown_us < 0:
            deal.shown_us = self._timeline.now_us

    def are_all_ended(self, master: BrokerParts) -> bool:
        """Return whether every transaction is decided, and the master has no open one."""
        is_decided = all(deal.decision is not Decision.PENDING for deal in self.deals.values())
        return is_decided and len(master.messages.transactions.halves) == 0

    def judge(self, master: BrokerParts, may_be_lost: Callable[[Send], bool]) -> None:
        """Check the master at rest: what was committed is there, twice only where a crash came between."""
        self.look()
        times = Counter(message.properties["UNIQ_KEY"] for message in messages_of(master, 0, TOPIC))
        for key, deal in self.deals.items():
            if deal.decision is Decision.COMMIT and deal.half.outcome == ACKED and not times[key]:
                self._history.operations["deals lost as allowed"] += 1
                if not may_be_lost(deal.half):
                    self._history.violated(f"lost: {named(deal.half)}, which was committed")
        self._history.operations["deals delivered"] += len(times)
        for key, count in times.items():
            self._history.operations["deals delivered again"] += count - 1
            if count > 1 and not any(map(partial(_may_repeat, self.deals[key]), self._history.incidents)):
                self._history.violated(f"{key} was delivered {count} times though no broker stopped then")


def _may_repeat(deal: Deal, incident: Incident) -> bool:
    """Return whether the incident may have come between the message and the record that its transaction has ended."""
    age_us = incident.time_us - deal.shown_us
    return incident.kind in ("promote", "force") or -LOST_AGE_US <= age_us <= LOST_AGE_US


class Dealer(ClientNode):
    """Begins one transaction after another. It answers the questions of every broker to which it is connected."""

    book: Book
    on_answer: Callable[[Send], None]

    def start(self, pace_us: int, size_max_bytes: int) -> None:
        self.client.on_push = self._asked
        run(self._beat())
        run(self._work(pace_us, size_max_bytes))

    async def _beat(self) -> None:
        """Tell the master that this group has a member, as real producers do, also when nothing is sent any more."""
        body = msgspec.json.encode(
            {"clientID": self.name, "producerDataSet": [{"groupName": GROUP}], "consumerDataSet": []}
        )
        while True:
            address = await self.master(is_fresh=True)
            if address is not None:
                try:
                    await self.client.invoke_ok(address, Command(RequestCode.HEART_BEAT, body=body, version=479))
                except PymqError:
                    pass
            await self.sleep(HEARTBEAT_US)

    async def _work(self, pace_us: int, size_max_bytes: int) -> None:
        number, is_fresh = 0, True
        while not self.is_stopping:
            await self.sleep(int(self._rng.expovariate(1) * pace_us))
            address = await self.master(is_fresh=is_fresh)
            if address is None:
                await self.sleep(SECOND)
                continue
            number += 1
            key = f"{self.name}-{number}"
            content = f"{key}|".encode() + b"." * int(self._rng.random() ** 4 * size_max_bytes)
            deal = self.book.deals[key] = Deal(Send(content, self.name, 0, address, self.now_us))
            await self._begin(deal, key)
            is_fresh = deal.half.outcome != ACKED
            run(self._decide(deal, key))

    async def _begin(self, deal: Deal, key: str) -> None:
        send = deal.half
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02UNIQ_KEY\x01{key}\x02"
        fields = {"f": str(TRANSACTION_PREPARED), "g": str(self.now_us // MS), "i": properties}
        answer = await self.store(send, send_request(TOPIC, send.content, group=GROUP, **fields))
        if answer is not None:
            placed_at(send, answer)
        self._history.operations[f"halves {send.outcome}"] += 1
        self._note(f"half {key} at {send.address}: {send.outcome} log {send.physical} epoch {send.epoch}")
        if send.outcome == ACKED:
            self.on_answer(send)

    async def _decide(self, deal: Deal, key: str) -> None:
        """Decide after a while; most often tell the broker that took the half message."""
        await self.sleep(int(self._rng.expovariate(1) * SECOND))
        deal.decision = self._rng.choice((Decision.COMMIT, Decision.COMMIT, Decision.ROLL_BACK))
        self._note(f"decides {deal.decision.name} of {key}")
        if deal.half.outcome == ACKED and self._rng.random() < 0.7:
            ask = _end(key, deal.decision, deal.half.queue_offset, deal.half.physical, is_answer=False)
            try:
                await self.client.invoke_ok(deal.half.address, ask)
            except PymqError:
                self._history.operations["ends without an answer"] += 1
            else:
                self._history.operations["ends acked"] += 1

    def _asked(self, address: str, command: Command) -> None:
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        fields, key = command.ext or {}, decode_record(command.body).properties["UNIQ_KEY"]
        self._history.operations["transactions asked about"] += 1
        offsets = int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"])
        self._note(f"is asked about {key} at {address}, copy {offsets}: {self.book.deals[key].decision.name}")
        self.client.oneway(address, _end(key, self.book.deals[key].decision, *offsets, is_answer=True))

    def _note(self, text: str) -> None:
        self._history.note(f"{self.now_us / SECOND:.4f} {self.name} {text}")


def _end(key: str, decision: Decision, queue_offset: int, physical_offset: int, *, is_answer: bool) -> Command:
    fields = {
        "producerGroup": GROUP, "tranStateTableOffset": str(queue_offset), "commitLogOffset": str(physical_offset),
        "commitOrRollback": str(decision.value), "msgId": key, "transactionId": key,
        "fromTransactionCheck": "true" if is_answer else "false",
    }  # fmt: skip
    return Command(RequestCode.END_TRANSACTION, ext=fields, version=479)
