"""Answers about so many rows that a broker works long for each: they are taken for a while, by all pages."""

from __future__ import annotations

from typing import Final

from pymq.client.admin.rows import Rows
from pymq.operations.topic.table import Ends
from pymq.wire.bodies_rows import GroupLag

LARGE_KEPT_MS: Final = 30_000
# Of a group and a topic that it reads: a PyMQ broker works some 20 ms for the lags of so many.
PAIRS_MANY: Final = 10_000
TOPICS_MANY: Final = 1_000  # likewise, for their ends


def lags_kept_ms(lags: Rows[GroupLag]) -> int:
    """Return for how long the lags of all groups are taken at least."""
    return LARGE_KEPT_MS if sum(row.topics or 0 for row in lags.values()) >= PAIRS_MANY else 0


def ends_kept_ms(ends: Ends) -> int:
    """Return for how long the ends of all topics are taken at least."""
    return LARGE_KEPT_MS if sum(map(len, ends.by_broker.values())) >= TOPICS_MANY else 0
