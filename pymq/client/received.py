"""Received: a message that the broker handed out, with its receipt."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.model.record import StoredMessage


@dataclass(slots=True)
class Received:
    """A message with its receipt, which :meth:`SimpleConsumer.extend` renews. ``message`` has body and properties."""

    message: StoredMessage
    receipt: str
    topic: str  # where it is stored: a retry topic perhaps
    broker_name: str
    done: bool = False  # acknowledged or given back by this client
    delivery: str = ""  # the id of this delivery in traces, which only a consumer with trace=True writes
    received_ms: int = 0  # by the monotonic clock, for traces
    lite_topic: str | None = None  # where a LiteConsumer received it, with the offset there
    lite_offset: int = -1

    @property
    def place(self) -> tuple[int, int]:
        """The queue's id and the offset that a receipt is for: those of the lite topic, if there is one."""
        if self.lite_topic is not None:
            return 0, self.lite_offset
        return self.message.queue_id, self.message.queue_offset

    def content(self) -> bytes:
        """Return the body as its producer wrote it. Raises InflateError."""
        return self.message.content()
