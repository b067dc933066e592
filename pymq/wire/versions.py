"""Names of RocketMQ's versions. Peers send the ordinals of Java's MQVersion."""

from __future__ import annotations

from typing import Final

# From here on every version has two ordinals, its snapshot's and its own, without a gap.
_FIRST_ORDINAL: Final = 212  # V4_0_0_SNAPSHOT
_FIRST: Final = 400
_LAST: Final = 599  # V5_9_9, which also stands for all later versions


def version_name(ordinal: int) -> str:
    """Return a version's name: ``"V5_3_3"`` for 479, ``"V4_9_5_SNAPSHOT"`` for 402, ``"V3"`` for all before 4.0."""
    if ordinal < _FIRST_ORDINAL:
        return "V3"
    number, is_release = divmod(ordinal - _FIRST_ORDINAL, 2)
    if _FIRST + number > _LAST:
        number, is_release = _LAST - _FIRST, 1
    return f"V{'_'.join(str(_FIRST + number))}" + ("" if is_release else "_SNAPSHOT")
