"""Access to a store by other users of the machine: what PyMQ makes is its own user's alone.

The umask can only take more away. Files and directories that exist keep their modes: an operator, or RocketMQ, may have
opened them on purpose.
"""

from __future__ import annotations

from pymq.file_modes import DIRECTORY_MODE, is_open_to_others


def open_to_others(root: str, mode: int) -> str | None:
    """Return what an operator should know of a directory that other users may enter; None when they may not."""
    if not is_open_to_others(mode):
        return None
    return (
        f"{root} has mode {mode:03o}, so other users of this machine may read messages there: the limit for what PyMQ "
        f"makes is {DIRECTORY_MODE:03o}; run `chmod -R go= {root}` unless they should"
    )
