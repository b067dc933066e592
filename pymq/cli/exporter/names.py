"""Whose names the exporter gives its metrics."""

from __future__ import annotations

from enum import StrEnum


class Names(StrEnum):
    """Whose names the metrics have."""

    pymq = "pymq"
    exporter = "exporter"
    both = "both"
