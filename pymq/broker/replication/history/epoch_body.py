"""Converts epoch histories to and from JSON bodies (``wire/bodies_replication.py``)."""

from __future__ import annotations

from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.wire.bodies_replication import EpochEntryBody


def history_to_body(history: EpochHistory) -> list[EpochEntryBody]:
    return [EpochEntryBody(entry.epoch, entry.start, entry.epoch_id) for entry in history.entries]


def history_of_body(body: list[EpochEntryBody]) -> EpochHistory:
    return EpochHistory(tuple(EpochEntry(entry.epoch, entry.start, entry.epoch_id) for entry in body))
