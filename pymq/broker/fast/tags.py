"""The tags of a message on the fast path, as its consume queue has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.model.javahash import tags_code

if TYPE_CHECKING:
    from pymq.model.draft import Draft

_TAGS = b"TAGS\x01"
_SEPARATOR = 2  # closes a property


def take_tags(draft: Draft, raw: bytes) -> bool:
    """Give the draft the code of the tags in its properties. False when the plain path must decide.

    FastSends has this written out.
    """
    at = raw.rfind(_TAGS)
    if at >= 0:
        tags = raw[at + 5 : raw.find(b"\x02", at)]
        if not tags or (at and raw[at - 1] != _SEPARATOR):
            return False
        draft.tags_code = tags_code(tags.decode())
    return True
