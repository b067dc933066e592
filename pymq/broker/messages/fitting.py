"""Shortens the properties of a message that is stored again, when they would not fit into a record any more.

A message that this broker took has room for everything that is added later. One that another broker stored may not
have it, or has a NUL, which this log never takes. Such a message is kept at the price of some properties.
"""

from __future__ import annotations

from pymq.model import properties as props
from pymq.model.layout import PROPERTIES_SIZE_MAX_BYTES
from pymq.model.pop import FIRST_POP_TIME
from pymq.model.properties import decode_properties, encode_properties

# Nobody needs them to deliver the message. They go first, in this order.
_DISPENSABLE = (
    props.TRACE_ON,
    props.MSG_REGION,
    props.CLUSTER,
    FIRST_POP_TIME,
    props.DLQ_ORIGIN_MESSAGE_ID,
    props.ORIGIN_MESSAGE_ID,
)
# Without one of them the message would go elsewhere, or be another one. They go last.
_ESSENTIAL = props.RESERVED - {props.KEYS, *_DISPENSABLE}


def fitted(raw: bytes, size_max_bytes: int = PROPERTIES_SIZE_MAX_BYTES) -> bytes:
    """Return the properties if a record can have them; otherwise without some, NUL bytes as spaces.

    ``size_max_bytes``: what all of them may take. Brokers' own additions go first, then the application's properties
    and keys, the largest before smaller ones.
    """
    if b"\0" in raw:
        raw = raw.replace(b"\0", b" ")
    if len(raw) <= size_max_bytes:
        return raw
    kept = decode_properties(raw)
    sizes = {name: len(encode_properties({name: value})) for name, value in kept.items()}
    size = sum(sizes.values())
    dispensable = [name for name in _DISPENSABLE if name in kept]
    others = sorted(kept.keys() - set(_DISPENSABLE), key=lambda name: (name in _ESSENTIAL, -sizes[name], name))
    for name in dispensable + others:
        if size <= size_max_bytes:
            break
        del kept[name]
        size -= sizes[name]
    return encode_properties(kept)
