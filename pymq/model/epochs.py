"""The bound on epochs that brokers and name servers take from peers."""

from __future__ import annotations

from collections.abc import Iterable

# How far an epoch that a peer names may lie beyond the newest known one. Each promotion begins the next epoch, so a
# larger step is no lost promotion but a wrong number, which would keep every later master of the group out.
EPOCH_JUMP_MAX = 1_000


def why_jumping(epochs: Iterable[int], newest_known: int = 0) -> str:
    """Return why these epochs of one history, oldest first, can't be true; empty when they may be.

    ``newest_known`` is the newest epoch that the reader knows of its own group, 0 for none.
    """
    epoch = 0
    for following in epochs:
        if not epoch <= following <= epoch + EPOCH_JUMP_MAX:
            return f"its epochs jump from {epoch} to {following}, the limit is {EPOCH_JUMP_MAX} at once"
        epoch = following
    if newest_known and epoch - newest_known > EPOCH_JUMP_MAX:
        return f"its newest epoch is {epoch}, ours is {newest_known}: the limit is {EPOCH_JUMP_MAX} promotions between"
    return ""
