"""Another copy of a broker's log and tables, as recovery uses it: facts about it, digests of its parts, its bytes."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pymq.store.integrity.log_digests import DAMAGED

__all__ = ["DAMAGED", "LogSource", "SourceFacts"]


class SourceFacts(NamedTuple):
    """Whose log the source is and how far it goes, at one moment.

    ``log_start`` is a segment's start. ``is_master`` is true when the source is now the master of the broker's name.
    """

    address: str
    cluster: str
    broker_name: str
    segment_size_bytes: int
    log_start: int
    log_end: int
    is_master: bool = False


class LogSource(Protocol):
    """A running broker, or a test double. All methods raise PymqError when it can't be reached or refuses."""

    def facts(self) -> SourceFacts: ...

    def digests(self, start: int, end: int, chunk_bytes: int) -> list[str]:
        """Return each chunk's xxh3-64 in hex from ``start`` on, :data:`DAMAGED` where the source's own bytes are bad.

        Chunks end at segment ends and at ``end``. The list may stop early, but has at least one digest.
        """
        ...

    def read(self, start: int, end: int) -> bytes:
        """Return these bytes of one segment, all of them."""
        ...

    def tables(self) -> dict[str, bytes]:
        """Return file names in ``config`` -> JSON: topics, groups, consumer and delay offsets, epochs if it has any."""
        ...

    def deleted_topics(self) -> dict[str, int]:
        """Return topic -> log offset below which its records count as deleted."""
        ...
