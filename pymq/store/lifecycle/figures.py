"""Figures of an open store, for metrics."""

from __future__ import annotations

from dataclasses import dataclass

from pymq.store.integrity.damage import Refusals
from pymq.store.integrity.scrubber import Scrubber
from pymq.store.log.cold_file import ColdFile
from pymq.store.log.commit_log import CommitLog


@dataclass(frozen=True, slots=True)
class StoreFigures:
    """What metrics show of an open store. The scrubber's figures are 0 while digests are off."""

    segment_count: int
    cold_segment_count: int
    corrupt_message_count: int
    mended_unit_count: int
    scrubbed_bytes: int
    scrub_pass_count: int
    scrub_damaged_count: int


def store_figures(
    log: CommitLog, refusals: Refusals, mended_unit_count: int, scrubber: Scrubber | None
) -> StoreFigures:
    """Count, as it is now."""
    segments = log.segments
    return StoreFigures(
        segment_count=len(segments),
        cold_segment_count=sum(isinstance(segment.file, ColdFile) for segment in segments),
        corrupt_message_count=refusals.count,
        mended_unit_count=mended_unit_count,
        scrubbed_bytes=scrubber.bytes_read if scrubber is not None else 0,
        scrub_pass_count=scrubber.pass_count if scrubber is not None else 0,
        scrub_damaged_count=len(scrubber.found) if scrubber is not None else 0,
    )
