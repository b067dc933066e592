"""Draft: a message that a client sends, with plain values: each look at a field of the library's objects costs."""

from __future__ import annotations

from typing import Any

from pymq.proxy.protocol.names import MessageType


class Draft:
    """A message. Times are Unix ms, durations ms; None stands for one that the client did not give.

    ``body_flags``: the system flags with which :attr:`body` is stored.
    """

    __slots__ = (
        "body",
        "body_flags",
        "born_host",
        "born_ms",
        "deliver_ms",
        "encoding",
        "group",
        "keys",
        "kind",
        "lite_topic",
        "message_id",
        "priority",
        "properties",
        "recovery_ms",
        "tag",
        "topic",
        "trace_context",
    )

    def __init__(self, message: Any) -> None:
        system = message.system_properties
        self.topic: str = message.topic.name
        self.body: bytes = message.body
        self.body_flags = 0
        self.properties: dict[str, str] = dict(message.user_properties) if message.user_properties else {}
        self.tag: str | None = system.tag if system.HasField("tag") else None
        self.keys: tuple[str, ...] = tuple(system.keys) if system.keys else ()
        self.message_id: str = system.message_id
        self.group: str = system.message_group
        self.priority: int | None = system.priority if system.HasField("priority") else None
        self.lite_topic: str | None = system.lite_topic if system.HasField("lite_topic") else None
        self.encoding: int = system.body_encoding
        self.trace_context: str = system.trace_context
        self.born_host: str = system.born_host
        self.born_ms = duration_ms(system.born_timestamp) if system.HasField("born_timestamp") else None
        self.deliver_ms = duration_ms(system.delivery_timestamp) if system.HasField("delivery_timestamp") else None
        recovery = "orphaned_transaction_recovery_duration"
        self.recovery_ms = duration_ms(getattr(system, recovery)) if system.HasField(recovery) else None
        self.kind = self._kind(system.message_type)

    def _kind(self, said: int) -> int:
        """Return what the message is, whatever else it says than being part of a transaction."""
        if said == MessageType.TRANSACTION:
            return MessageType.TRANSACTION
        if self.deliver_ms is not None:
            return MessageType.DELAY
        if self.group:
            return MessageType.FIFO
        if self.priority is not None:
            return MessageType.PRIORITY
        return MessageType.NORMAL if self.lite_topic is None else MessageType.LITE


def duration_ms(duration: Any) -> int:
    """Return a duration, or the Unix time of a timestamp, in ms."""
    return int(duration.seconds) * 1000 + int(duration.nanos) // 1_000_000
