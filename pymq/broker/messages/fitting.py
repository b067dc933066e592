"""Shortens the properties of a message that is stored again, when they would not fit into a record any more.

A record has 32,767 bytes for properties, and brokers add some when a consumer gives a message back. First what no
delivery needs is left out; that is room enough for each message that this broker took. One that another broker stored
may have less room, or a NUL, which this log never takes. It is kept at the price of some of its own properties.
"""

from __future__ import annotations

from pymq.model import properties as props
from pymq.model.layout import PROPERTIES_SIZE_MAX_BYTES
from pymq.model.pop import FIRST_POP_TIME
from pymq.model.properties import decode_properties, encode_properties

_DISPENSABLE = frozenset(
    {
        props.TRACE_ON,
        props.MSG_REGION,
        props.CLUSTER,
        props.WAIT,
        FIRST_POP_TIME,
        props.ORIGIN_MESSAGE_ID,
        props.DLQ_ORIGIN_MESSAGE_ID,
        props.DLQ_ORIGIN_TOPIC,  # RETRY_TOPIC says the same
    }
)
# Without one of them the message would go elsewhere, or be another one. They go last.
_ESSENTIAL = props.RESERVED - {props.KEYS} - _DISPENSABLE


def slimmed(raw: bytes) -> bytes:
    """Return the properties without what a delivery does not need."""
    return encode_properties(
        {name: value for name, value in decode_properties(raw).items() if name not in _DISPENSABLE}
    )


def fitted(raw: bytes) -> bytes:
    """Return the properties if a record can have them; otherwise without some, NUL bytes as spaces.

    What :func:`slimmed` leaves out goes first, then the application's properties and keys, the largest before others.
    """
    if b"\0" in raw:
        raw = raw.replace(b"\0", b" ")
    if len(raw) <= PROPERTIES_SIZE_MAX_BYTES:
        return raw
    kept = decode_properties(slimmed(raw))
    sizes = {name: len(encode_properties({name: value})) for name, value in kept.items()}
    size = sum(sizes.values())
    for name in sorted(kept, key=lambda name: (name in _ESSENTIAL, -sizes[name], name)):
        if size <= PROPERTIES_SIZE_MAX_BYTES:
            break
        del kept[name]
        size -= sizes[name]
    return encode_properties(kept)
