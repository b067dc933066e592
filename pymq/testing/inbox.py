"""Inbox: a consumer that keeps what it receives until a test asks for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Unpack

from pymq.client import ConsumeResult, StoredMessage
from pymq.client.options import ConsumerOptions
from pymq.client.subscription import EVERYTHING
from pymq.client.sync import PushConsumer
from pymq.errors import UsageError
from pymq.testing.broker import TestBroker
from pymq.testing.faults import Fault

RECEIVE_TIMEOUT_S = 30.0
# A topic's retry topic is made while the consumer starts, and the first look for its queues may come too early.
_REBALANCE_INTERVAL_S = 0.2
_RETRY_INTERVAL_S = 0.1

Handler = Callable[[StoredMessage], "ConsumeResult | None"]


class Inbox:
    """A member of ``group`` that subscribes to ``topic`` and keeps its messages; a context manager.

    It begins at the first message of the topic and consumes one message after the other. ``group``: by default one
    named after the topic; ``options``: those of :class:`~pymq.client.PushConsumer`.
    """

    def __init__(
        self,
        broker: TestBroker,
        topic: str,
        *,
        group: str | None = None,
        expression: str = EVERYTHING,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self.topic = topic
        self.group = group = group or f"group-of-{topic}"
        self._broker = broker
        self.received: list[StoredMessage] = []  # all of them, in their order, with those that failed
        self._taken_count = 0
        self._failures_left = 0
        # Place in ``received`` -> how many messages failed together, and what sees them go back.
        self._sent_back: dict[int, tuple[int, Fault]] = {}
        self._handler: Handler | None = None
        self._changed = threading.Condition()
        defaults: ConsumerOptions = {
            "consume_from": "first",
            "concurrency_max": 1,
            "rebalance_interval_s": _REBALANCE_INTERVAL_S,
            "retry_interval_s": _RETRY_INTERVAL_S,
            "clock": broker.clock,
        }
        merged: ConsumerOptions = {**defaults, **options}
        self._is_sending_back = not (merged.get("orderly") or merged.get("broadcasting"))
        self.consumer = PushConsumer(group, namesrv=broker.namesrv, on_message=self._on_messages, **merged)
        self.consumer.subscribe(topic, expression)

    def start(self) -> None:
        """Join the group."""
        self.consumer.start()

    def stop(self) -> None:
        """Leave the group. What was received stays."""
        self.consumer.stop()

    def receive(self, timeout_s: float = RECEIVE_TIMEOUT_S) -> StoredMessage:
        """Return the next message that no earlier call has returned. Raises TimeoutError."""
        return self.receive_many(1, timeout_s)[0]

    def receive_many(self, count: int, timeout_s: float = RECEIVE_TIMEOUT_S) -> list[StoredMessage]:
        """Return the next ``count`` messages; those that failed only when the broker has them back for a retry.

        Raises TimeoutError, and keeps the messages that came for the next call.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            end = self._taken_count + count
            while len(self.received) < end:
                if not self._changed.wait(deadline_s - time.monotonic()):
                    raise TimeoutError(
                        f"{len(self.received) - self._taken_count} of {count} messages of {self.topic} came within "
                        f"{timeout_s:g} s: is one of them delayed, or did a fault take it? clock.advance() makes "
                        "delayed ones due"
                    )
            messages = self.received[self._taken_count : end]
            sent_back = [self._sent_back.pop(i) for i in range(self._taken_count, end) if i in self._sent_back]
            self._taken_count = end
        for failed_count, watch in sent_back:
            watch.wait(failed_count, timeout_s)
        return messages

    @property
    def waiting_count(self) -> int:
        """How many messages came that no call of :meth:`receive` has returned."""
        with self._changed:
            return len(self.received) - self._taken_count

    def fail_next(self, count: int = 1) -> None:
        """Let the next ``count`` messages fail: they are received, and the broker delivers them again later."""
        if count < 1:
            raise UsageError(f"{count} messages can't fail: give 1 or more")
        with self._changed:
            self._failures_left += count

    def handle_with(self, handler: Handler | None) -> None:
        """Call ``handler`` with each further message, in the consumer's thread; its result is the consumer's.

        None ends that: messages succeed again.
        """
        self._handler = handler

    def __enter__(self) -> Inbox:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _on_messages(self, messages: list[StoredMessage]) -> ConsumeResult | None:
        try:
            results = [self._handler(message) for message in messages] if self._handler is not None else []
        except BaseException:
            self._keep(messages, has_failed=True)
            raise
        with self._changed:
            has_failed = self._failures_left > 0 or ConsumeResult.RECONSUME_LATER in results
            self._failures_left -= self._failures_left > 0
        self._keep(messages, has_failed)
        if has_failed:
            return ConsumeResult.RECONSUME_LATER
        return next((result for result in results if result is not None), None)

    def _keep(self, messages: list[StoredMessage], has_failed: bool) -> None:
        with self._changed:
            if has_failed and self._is_sending_back:
                watch = self._broker.watch(requests="send back", topic=messages[0].topic, count=len(messages))
                self._sent_back[len(self.received)] = len(messages), watch
            self.received += messages
            self._changed.notify_all()
