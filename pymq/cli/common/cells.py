"""Texts of table cells for sizes, counts and durations that a server may not report."""

from __future__ import annotations

from pymq.cli.output import cell_text
from pymq.units import format_bytes, format_duration_ms


def shown_bytes(count: int | None) -> str:
    """Return a table cell: ``-`` for an unknown number."""
    return cell_text(None) if count is None or count < 0 else format_bytes(count)


def shown_count(count: int | None) -> str:
    return cell_text(None) if count is None or count < 0 else str(count)


def shown_ms(duration_ms: int | None) -> str:
    return cell_text(None) if duration_ms is None or duration_ms < 0 else format_duration_ms(duration_ms)
