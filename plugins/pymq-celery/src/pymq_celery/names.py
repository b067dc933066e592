"""Topics for queues and exchanges. Every name of a queue has one topic, and every such topic one queue."""

from __future__ import annotations

import re

from pymq.errors import UsageError
from pymq.model.names import TOPIC_LENGTH_MAX

# Neither stands in an escaped name: "|" divides, "%" escapes, and both are legal in topics.
_DIVIDER = "|"
_PLAIN = re.compile(rb"[A-Za-z0-9_-]")


def queue_topic(prefix: str, queue: str, step: int = 0) -> str:
    """Return the topic of a queue's messages of one priority step, whose number is in the name above 0.

    Raises UsageError for a name that is too long.
    """
    return _checked(f"{prefix}-{_escaped(queue)}{f'{_DIVIDER}{step}' if step else ''}", "queue", queue)


def exchange_topic(prefix: str, exchange: str) -> str:
    """Return the topic of an exchange's broadcast messages. Raises UsageError for a name that is too long."""
    return _checked(f"{prefix}-{_DIVIDER}{_escaped(exchange)}", "exchange", exchange)


def queue_of(prefix: str, topic: str) -> str | None:
    """Return the queue of a topic, None when the topic belongs to none."""
    name = topic.removeprefix(f"{prefix}-").partition(_DIVIDER)[0]
    if not name or not topic.startswith(f"{prefix}-"):
        return None
    escaped = re.sub(rb"%([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), name.encode())
    return escaped.decode("utf-8", "surrogatepass")


def _escaped(name: str) -> str:
    """Return the name with every byte that is no letter, digit, ``_`` or ``-`` as ``%XX``."""
    return "".join(
        chr(byte) if _PLAIN.match(bytes([byte])) else f"%{byte:02X}" for byte in name.encode("utf-8", "surrogatepass")
    )


def _checked(topic: str, kind: str, name: str) -> str:
    if len(topic) > TOPIC_LENGTH_MAX:
        raise UsageError(
            f"the {kind} {name!r} needs a topic of {len(topic)} characters ({topic[:40]}…), the limit is "
            f"{TOPIC_LENGTH_MAX}: choose a shorter name; each character but letters, digits, _ and - counts as three"
        )
    return topic
