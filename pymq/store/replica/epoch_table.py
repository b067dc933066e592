"""The file of a log's epoch history, ``config/epochHistory.json``."""

from __future__ import annotations

from pymq.errors import StoreError
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable

EPOCH_HISTORY_FILE = "epochHistory.json"
ENTRIES = "epochs"
ENDED_AT = "endedAt"  # the log's end at the last orderly stop


def epoch_table(files: Files, root: str) -> JsonTable:
    """Return the table of the broker directory ``root``."""
    return JsonTable(files, f"{root}/config/{EPOCH_HISTORY_FILE}")


def last_clean_end(files: Files, root: str) -> int:
    """Return where the log ended at the last orderly stop; 0 when the file does not say so, or can't be read."""
    try:
        ended_at = epoch_table(files, root).load().get(ENDED_AT)
    except StoreError:
        return 0  # who needs the file reads it again, and says what is wrong with it
    return ended_at if isinstance(ended_at, int) and ended_at > 0 else 0
