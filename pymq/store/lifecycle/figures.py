"""Figures of an open store, for metrics."""

from __future__ import annotations

from dataclasses import dataclass


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
