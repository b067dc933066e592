"""Names of RocketMQ's versions, which peers give as the ordinals of Java's MQVersion."""

from __future__ import annotations

from typing import Final

# From here on each version has two ordinals, its snapshot's and its own, and no number is missing.
_FIRST_ORDINAL: Final = 212  # V4_0_0_SNAPSHOT
_FIRST: Final = 400
_LAST: Final = 599  # V5_9_9, which stands for all later ones as well


def version_name(ordinal: int) -> str:
    """``"V5_3_3"`` for 479, ``"V4_9_5_SNAPSHOT"`` for 402; ``"V3"`` for what was before 4.0."""
    if ordinal < _FIRST_ORDINAL:
        return "V3"
    number, is_release = divmod(ordinal - _FIRST_ORDINAL, 2)
    if _FIRST + number > _LAST:
        number, is_release = _LAST - _FIRST, 1
    return f"V{'_'.join(str(_FIRST + number))}" + ("" if is_release else "_SNAPSHOT")
