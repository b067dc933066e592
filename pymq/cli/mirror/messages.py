"""How a message changes on its way: what it keeps, and the property that says where it has been."""

from __future__ import annotations

from typing import NamedTuple

from pymq.model.message import Message
from pymq.model.properties import RESEND, RESERVED, UNIQ_KEY
from pymq.model.record import StoredMessage

# The names of the clusters that a message was copied from, oldest first, joined by commas.
PATH = "PYMQ_MIRROR_PATH"
_DROPPED = (RESERVED | {RESEND, PATH}) - {UNIQ_KEY}


class Clusters(NamedTuple):
    """The names of the two clusters of a mirror, as messages remember them."""

    source: str
    target: str


def is_loop(message: StoredMessage, clusters: Clusters) -> bool:
    """Return whether the message has been at the target, or at the source before: then it is not copied."""
    path = message.properties.get(PATH, "")
    return bool(path) and not set(clusters).isdisjoint(path.split(","))


def copy_of(message: StoredMessage, topic: str, source: str) -> Message:
    """Return the message to send: same body, tag, keys, flag, message id and properties of the application.

    Raises InflateError for a body that can't be inflated.
    """
    known = message.properties
    properties = {name: value for name, value in known.items() if name not in _DROPPED}
    path = known.get(PATH)
    properties[PATH] = f"{path},{source}" if path else source
    return Message(
        topic, message.content(), tags=message.tags, keys=message.keys, properties=properties, flag=message.flag
    )
