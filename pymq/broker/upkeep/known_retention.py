"""KnownRetention: the retention settings of the last run, with which a start compares the configuration file."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from pymq.errors import StoreError
from pymq.store.disk.json_table import JsonTable
from pymq.store.store import RetentionSettings

log = logging.getLogger(__name__)

RETENTION_FILE = "retention.json"
MEMBER = "retention"


class KnownRetention:
    """Keeps ``config/retention.json``. :meth:`save` may run in another thread than :meth:`load`."""

    def __init__(self, table: JsonTable) -> None:
        self._table = table

    def load(self) -> RetentionSettings | None:
        """Return the settings; None when the file is missing or unusable."""
        try:
            fields = self._table.load().get(MEMBER)
            return msgspec.convert(fields, RetentionSettings) if fields is not None else None
        except (StoreError, msgspec.ValidationError, TypeError) as error:
            log.warning("the retention settings of the last run can't be read, so no change is noticed: %s", error)
            return None

    def save(self, settings: RetentionSettings) -> None:
        """Raise StoreError or OSError."""
        fields: dict[str, Any] = msgspec.to_builtins(settings)
        fields["delete_hours"] = sorted(fields["delete_hours"])
        self._table.save({MEMBER: fields})
