"""Load from the Java client or PyMQ's own, which never gives up, and what is known of each message."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from pymq.client import Message, MessageQueue, Producer, SendResult, SendStatus
from pymq.errors import PymqError, RefusedError
from tests.interop.support.running import RunningJava

TOPIC = "Chaos"
JAVA_PROGRAM = "chaos"
QUEUE_COUNT = 4
SENDER_COUNT = 6
PAUSE_MS = 10
PAUSE_AFTER_FAILURE_S = 0.05
BATCH_SIZE = 5
SEND_TIMEOUT_S = 4.0
END_TIMEOUT_S = 30.0
ID_HOST_DIGITS = 16  # of a message id: address and port, then the offset in the log
SERVICE_NOT_AVAILABLE = 14

Place = tuple[int, int]  # queue id, queue offset


class Acknowledged(NamedTuple):
    """A message, and the log offset that its broker answered."""

    body: bytes
    log_offset: int


def body_of(sender: int, number: int) -> bytes:
    """Return the body that a sender makes of a number; the Java program makes the same."""
    return f"chaos-{sender}-{number}-".encode() + b"x" * (number * 31 % 300)


@dataclass
class Ledger:
    """The answers that senders got. The counts are of messages."""

    acknowledged: dict[Place, Acknowledged] = field(default_factory=dict)
    not_stored: set[bytes] = field(default_factory=set)  # refused by 14: a client sends them elsewhere
    counts: Counter[str] = field(default_factory=Counter)
    number_ends: dict[int, int] = field(default_factory=dict)  # sender -> numbers it used
    problems: list[str] = field(default_factory=list)

    def understand(self, line: str) -> None:
        """Take a line that the Java program printed; its source has the format."""
        kind, *words = line.split()
        if kind == "end":
            self.number_ends[int(words[0])] = int(words[1])
            return
        sender, number, count = map(int, words[-3:])
        self.counts[kind] += count
        if kind == "ok":
            queue_id, queue_offset = int(words[0]), int(words[1])
            ids = words[2].split(",")
            if len(ids) != count:
                self.problems.append(f"{len(ids)} ids for {count} messages: {line}")
            for place, message_id in enumerate(ids):
                known = Acknowledged(body_of(sender, number + place), int(message_id[ID_HOST_DIGITS:], 16))
                self._note((queue_id, queue_offset + place), known)
        elif kind == "refused" and int(words[0]) == SERVICE_NOT_AVAILABLE:
            self.not_stored.update(body_of(sender, number + place) for place in range(count))

    def _note(self, place: Place, known: Acknowledged) -> None:
        if place in self.acknowledged:
            self.problems.append(f"{place} was acknowledged twice: {self.acknowledged[place]} and {known}")
        self.acknowledged[place] = known

    @property
    def sent(self) -> set[bytes]:
        """All sent bodies, once the senders have ended."""
        return {body_of(sender, n) for sender, count in self.number_ends.items() for n in range(count)}


class Sending(Protocol):
    """A kind of client that sends until it is ended."""

    ledger: Ledger

    async def end(self) -> None:
        """Stop sending, and wait until the ledger is complete."""
        ...


class JavaSending:
    """A running ``interop.Chaos``."""

    def __init__(self, namesrv: str, directory: Path) -> None:
        self.ledger = Ledger()
        arguments = [namesrv, TOPIC, str(SENDER_COUNT), str(PAUSE_MS)]
        self._program = RunningJava(JAVA_PROGRAM, arguments, directory, self.ledger.understand)

    async def end(self) -> None:
        code = await asyncio.to_thread(self._program.end, END_TIMEOUT_S)
        assert code == 0, f"the Java client ended with {code}"


class PymqSending:
    """The same load from PyMQ's producer."""

    def __init__(self, namesrv: str) -> None:
        self.ledger = Ledger()
        self._producer = Producer("chaos-load", namesrv=namesrv, retry_count=0, poll_interval_s=0.5)
        self._is_over = False
        self._senders = [asyncio.ensure_future(self._send_on_and_on(n)) for n in range(1, SENDER_COUNT + 1)]

    async def end(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._senders)
        await self._producer.stop()

    async def _send_on_and_on(self, sender: int) -> None:
        await self._producer.start()
        number = turn = 0
        while not self._is_over:
            count = BATCH_SIZE if turn % 4 == 3 else 1
            reported = await self._send(sender, turn, number, count)
            self.ledger.understand(f"{reported} {sender} {number} {count}")
            await asyncio.sleep(PAUSE_MS / 1000 if reported.startswith("ok") else PAUSE_AFTER_FAILURE_S)
            number += count
            turn += 1
        self.ledger.understand(f"end {sender} {number}")

    async def _send(self, sender: int, turn: int, number: int, count: int) -> str:
        """Send, and return the result in the words of the Java program."""
        messages = [
            Message(TOPIC, body_of(sender, number + n), keys=f"chaos-{sender}-{number + n}") for n in range(count)
        ]
        try:
            queues = await self._producer.queues(TOPIC)
            result = await self._attempt(messages, queues[(sender + turn) % len(queues)])
        except RefusedError as error:
            return f"refused {int(error.code)}"
        except PymqError as error:
            return f"unknown {type(error).__name__}"
        if result.status is not SendStatus.SEND_OK:
            return f"stored {result.status.value}"
        return f"ok {result.queue.queue_id} {result.queue_offset} {result.offset_message_id}"

    async def _attempt(self, messages: list[Message], queue: MessageQueue) -> SendResult:
        if len(messages) == 1:
            return await self._producer.send(messages[0], queue=queue, timeout_s=SEND_TIMEOUT_S)
        return await self._producer.send_batch(messages, queue=queue, timeout_s=SEND_TIMEOUT_S)
