"""Does a master take messages? Monitoring and the doctor ask the broker's own state, and judge it alike."""

from __future__ import annotations

from collections.abc import Mapping

from pymq.model.tables import PERM_READ, PERM_READ_WRITE, PERM_WRITE

_OF_THE_DISK = ("disk", "epoch history")  # the store's names of those that refuse because the disk is full or fails
_BITS = {PERM_WRITE: "write", PERM_READ: "read"}


def refusal(runtime: Mapping[str, str]) -> str:
    """Return why a broker stores no messages now, and the next step; empty while it does.

    Empty, too, for RocketMQ's brokers, which don't report it. ``runtime``: the broker's runtime table.
    """
    return runtime.get("storeRefusal", "")


def disk_refusal(runtime: Mapping[str, str]) -> str:
    """Return :func:`refusal` when the reason is the disk, else empty."""
    return refusal(runtime) if runtime.get("storeRefusedBy") in _OF_THE_DISK else ""


def other_store_problems(runtime: Mapping[str, str]) -> str:
    """Return what else the broker's store reports, joined by semicolons."""
    problems, why = runtime.get("storeProblems", ""), refusal(runtime)
    parts = problems.split(why) if why else [problems]
    return "; ".join(part.strip("; ") for part in parts if part.strip("; "))


def forbidden(permission: int) -> list[str]:
    """Return which of "write" and "read" clients may not."""
    return [name for bit, name in _BITS.items() if not permission & bit]


def permission_text(permission: int) -> str:
    """Return what clients may not with a ``brokerPermission``; empty when they may write and read."""
    missing = forbidden(permission)
    return f"clients may not {' or '.join(missing)} (brokerPermission={permission})" if missing else ""


def permission_step(label: str) -> str:
    """Return how to let clients write and read again. ``label``: the broker's."""
    return f"if that is not wanted: pymq config set brokerPermission={PERM_READ_WRITE} --broker {label}"
