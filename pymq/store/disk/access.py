"""Access to a store by other users of the machine: what PyMQ makes is its own user's alone.

The umask can only take more away. Files and directories that exist keep their modes: an operator, or RocketMQ, may have
opened them on purpose.
"""

from __future__ import annotations

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = 0o077


def open_to_others(root: str, mode: int) -> str | None:
    """Return what an operator should know of a directory that other users may enter; None when they may not."""
    if not mode & _OTHERS:
        return None
    return (
        f"{root} has mode {mode:03o}, so other users of this machine may read messages there: the limit for what PyMQ "
        f"makes is {DIRECTORY_MODE:03o}; run `chmod -R go= {root}` unless they should"
    )
