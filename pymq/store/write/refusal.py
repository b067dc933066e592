"""Refusal: why a store takes no messages now, and who says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pymq.store.log.commit_log import CommitLog

DISK = "disk"  # it is full, or fails


class Refusal(NamedTuple):
    """``by`` is :data:`DISK`, or the part of the broker that refuses; ``why`` ends with the next step."""

    by: str
    why: str


def refusal_of(log: CommitLog, refused_by: Mapping[str, str]) -> Refusal | None:
    """Return the reason that a send meets first; None when none is known."""
    if log.broken is not None:
        return Refusal(DISK, log.broken)
    for by, why in refused_by.items():
        return Refusal(by, why)
    return Refusal(DISK, log.write_problem) if log.write_problem is not None else None
