"""What the log never takes, because a reader of the log would not take it back.

Every path into the log asks here before a record gets its place. Packing a record's numbers proves them, and a queue
proves its topic's name.
"""

from __future__ import annotations

from pymq.errors import DoesNotFitError
from pymq.model.layout import PROPERTIES_SIZE_MAX_BYTES


def check_properties(properties: bytes) -> None:
    """Raise DoesNotFitError for properties that no reader of the log takes back.

    The record has 15 bits for their length. A NUL looks like a disk sector that a power loss left unwritten.
    """
    if len(properties) > PROPERTIES_SIZE_MAX_BYTES:
        raise DoesNotFitError(
            f"the properties take {len(properties)} bytes, the limit is {PROPERTIES_SIZE_MAX_BYTES}: shorten keys, "
            "tags or properties"
        )
    if 0 in properties:
        raise DoesNotFitError(
            f"the properties have a NUL at byte {properties.index(0)}, which no name and no value may have: leave it "
            "out, or put the bytes into the body"
        )
