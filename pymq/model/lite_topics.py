"""Lite topics: names of light queues, and the properties of a message that is in one.

A lite topic belongs to a parent topic with ``message.type=LITE``. Its messages are the parent's; each of them is also
in a light queue, with an offset of its own. Java: LiteUtil, MessageConst.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pymq.model.consistent_hash import consistent_bucket
from pymq.model.javahash import string_hash
from pymq.model.message_types import LITE, TYPE_ATTRIBUTE
from pymq.model.properties import LITE_TOPIC, find_property

EXPIRATION_ATTRIBUTE = "lite.topic.expiration"  # of a parent topic, in minutes
EXPIRATION_NEVER = -1  # the default
EXPIRATION_MAX_MINUTES = 43_200  # 30 days
MULTI_DISPATCH = "INNER_MULTI_DISPATCH"  # the broker's: the light queue of a stored message
MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"  # the broker's: the offset there
LIGHT_QUEUE_PREFIX = "%LMQ%$"
LITE_NAME_SIZE_MAX_BYTES = 255
_NAME_SEPARATOR = "$"  # no topic's name has it, so a lite topic's name may

_LITE_TOPIC = LITE_TOPIC.encode()
_MULTI_DISPATCH = MULTI_DISPATCH.encode()
_MULTI_QUEUE_OFFSET = MULTI_QUEUE_OFFSET.encode()
DISPATCH_MARK = _MULTI_DISPATCH + b"\x01"  # stands in the properties of each message that a light queue may have
_OFFSET_DIGITS_MAX = 19
_OFFSET_MAX = (1 << 63) - 1
_FORBIDDEN = ",/"  # RocketMQ's separator of several light queues, and a path's


# The name of the topic, that of the lite topic, the offset.
LIGHT_PROPERTIES_TEMPLATE = (
    f"{MULTI_DISPATCH}\x01{LIGHT_QUEUE_PREFIX}".replace("%", "%%")
    + f"%b{_NAME_SEPARATOR}%b\x02{MULTI_QUEUE_OFFSET}\x01%d\x02"
).encode()
LIGHT_PROPERTIES = frozenset({_MULTI_DISPATCH, _MULTI_QUEUE_OFFSET})


class LightPlace(NamedTuple):
    """Where a message is in its parent's light queues."""

    lite: str
    offset: int


def light_queue_name(parent: str, lite: str) -> str:
    """Return the name of a lite topic's light queue, as RocketMQ's clients and tools write it."""
    return f"{LIGHT_QUEUE_PREFIX}{parent}{_NAME_SEPARATOR}{lite}"


def is_light_queue(name: str) -> bool:
    """Return True for the name of a lite topic's light queue, where a topic's name may stand."""
    return name.startswith(LIGHT_QUEUE_PREFIX)


def is_parent(attributes: Mapping[str, str]) -> bool:
    """Return True when a topic with these attributes has lite topics."""
    return bool(attributes) and attributes.get(TYPE_ATTRIBUTE) == LITE


def expiration_problem(text: str) -> str | None:
    """Return what is wrong with an expiration, as a sentence for a remark; None when it is legal."""
    if text == str(EXPIRATION_NEVER):
        return None
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= EXPIRATION_MAX_MINUTES:
        return None
    return f"write minutes from 0 to {EXPIRATION_MAX_MINUTES}, or {EXPIRATION_NEVER} for never"


def expiration_minutes(attributes: Mapping[str, str]) -> int:
    """Return after how many minutes without a message lite topics of a parent expire, -1 for never."""
    text = attributes.get(EXPIRATION_ATTRIBUTE, "")
    return int(text) if text and expiration_problem(text) is None else EXPIRATION_NEVER


def lite_queue_number(lite: str, queue_count: int) -> int:
    """Return in which of its parent's writable queues, of all brokers, a lite topic's messages are.

    Java: LiteUtil, Guava's Hashing.consistentHash.
    """
    return consistent_bucket(string_hash(lite), queue_count)


def read_mark_name(parent: str) -> str:
    """Return the name under which groups' offsets say how far old lite topics of a parent are done with."""
    return light_queue_name(parent, "")


def split_light_queue(name: str) -> tuple[str, str] | None:
    """Return the parent and the lite topic of a light queue's name; None for another name."""
    if not name.startswith(LIGHT_QUEUE_PREFIX):
        return None
    parent, separator, lite = name.removeprefix(LIGHT_QUEUE_PREFIX).partition(_NAME_SEPARATOR)
    return (parent, lite) if parent and separator and lite else None


def parent_of(name: str) -> str | None:
    """Return the parent topic of a light queue's name; None for another name."""
    return (
        name[len(LIGHT_QUEUE_PREFIX) :].partition(_NAME_SEPARATOR)[0] if name.startswith(LIGHT_QUEUE_PREFIX) else None
    )


def split_group_key(key: str) -> tuple[str, str]:
    """Return topic and group of ``topic@group``, a key of saved tables. A light queue's name may have an ``@``."""
    topic, _, group = key.rpartition("@") if key.startswith(LIGHT_QUEUE_PREFIX) else key.partition("@")
    return topic, group


def lite_name_problem(lite: str) -> str | None:
    """Return what is wrong with a lite topic's name, as a sentence for a remark; None when it is legal.

    RocketMQ's broker takes any name. One with a comma names several light queues there, one with a slash another
    directory.
    """
    size = len(lite.encode("utf-8", "surrogatepass"))
    if not lite.strip():
        return "the lite topic's name is blank: give it a name"
    if size > LITE_NAME_SIZE_MAX_BYTES:
        return f"the lite topic's name has {size} bytes, the limit is {LITE_NAME_SIZE_MAX_BYTES}: choose a shorter one"
    if not lite.isprintable() or "\ufffd" in lite or any(each in lite for each in _FORBIDDEN):
        return f"the lite topic's name {lite!a} has a comma, a slash or a character that can't be printed: leave it out"
    return None


def lite_topic_of(properties: bytes) -> str | None:
    """Return the lite topic that a message's properties name; None when they name none."""
    raw = find_property(properties, _LITE_TOPIC) if _LITE_TOPIC in properties else None
    return None if raw is None else raw.decode("utf-8", "replace")


def light_properties(parent: str, lite: str, offset: int) -> bytes:
    """Return the properties of a message that is in a light queue, as RocketMQ's broker adds them."""
    return LIGHT_PROPERTIES_TEMPLATE % (parent.encode(), lite.encode(), offset)


def light_properties_max_bytes(parent: str, lite: str) -> int:
    """Return the longest that :func:`light_properties` become."""
    return _PROPERTIES_FIXED_BYTES + len(parent.encode()) + len(lite.encode())


_PROPERTIES_FIXED_BYTES = len(light_properties("", "", _OFFSET_MAX))


def light_place(topic: str, properties: bytes) -> LightPlace | None:
    """Return where a stored message of this topic is in a light queue; None when it is in none.

    A message that names light queues of another topic is in none, nor is one that names several: those are RocketMQ's
    for MQTT.
    """
    raw_name, raw_offset = find_property(properties, _MULTI_DISPATCH), find_property(properties, _MULTI_QUEUE_OFFSET)
    if raw_name is None or raw_offset is None:
        return None
    if not raw_offset.isdigit() or len(raw_offset) > _OFFSET_DIGITS_MAX or int(raw_offset) > _OFFSET_MAX - 1:
        return None
    names = split_light_queue(raw_name.decode("utf-8", "replace"))
    if names is None or names[0] != topic or lite_name_problem(names[1]) is not None:
        return None
    return LightPlace(names[1], int(raw_offset))
