"""Another copy of a broker's log and tables, as recovery asks for it: what it is, digests of its parts, its bytes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pymq.store.integrity.log_digests import DAMAGED

__all__ = ["DAMAGED", "LogSource", "SourceFacts"]


class SourceFacts(NamedTuple):
    """Whose log it is and how far it goes, at one moment. ``log_start`` is the begin of a segment; ``is_master``: the
    source is the master of the broker's name by now."""

    address: str
    cluster: str
    broker_name: str
    segment_size_bytes: int
    log_start: int
    log_end: int
    is_master: bool = False


class LogSource(Protocol):
    """A running broker, or a placeholder unit. All methods raise PymqError when it can't be reached or refuses."""

    def facts(self) -> SourceFacts: ...

    def digests(self, start: int, end: int, chunk_bytes: int) -> list[str]:
        """xxh3-64 in hex of each chunk from ``start`` on, :data:`DAMAGED` where its own bytes are bad.

        Chunks are cut at the ends of segments and at ``end``. It may stop early, behind at least one.
        """
        ...

    def read(self, start: int, end: int) -> bytes:
        """These bytes of one segment, all of them."""
        ...

    def tables(self) -> dict[str, bytes]:
        """Name of a file in ``config`` -> JSON: topics, groups, consumer and delay offsets, epoch history if it has one."""
        ...

    def deleted_topics(self) -> dict[str, int]:
        """Topic -> log offset below which its records count as deleted."""
        ...
