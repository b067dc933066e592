"""The file of a log's epoch history, ``config/epochHistory.json``; earlier versions called it ``lineage.json``."""

from __future__ import annotations

from typing import Any

from pymq.errors import StoreError
from pymq.store.disk.fs import Files
from pymq.store.disk.renamed_table import RenamedTable

EPOCH_HISTORY_FILE = "epochHistory.json"
FORMER_FILE = "lineage.json"
ENTRIES = "epochs"
ENDED_AT = "endedAt"  # the log's end at the last orderly stop
_FORMER_ENTRIES, _FORMER_ID, _ID = "reigns", "reignId", "epochId"


def epoch_table(files: Files, root: str) -> RenamedTable:
    """Return the table of the broker directory ``root``."""
    return RenamedTable(files, f"{root}/config/{EPOCH_HISTORY_FILE}", f"{root}/config/{FORMER_FILE}", translate)


def last_clean_end(files: Files, root: str) -> int:
    """Return where the log ended at the last orderly stop; 0 when the file does not say so, or can't be read."""
    try:
        ended_at = epoch_table(files, root).load().get(ENDED_AT)
    except StoreError:
        return 0  # who needs the file reads it again, and says what is wrong with it
    return ended_at if isinstance(ended_at, int) and ended_at > 0 else 0


def translate(former: dict[str, Any]) -> dict[str, Any]:
    """Return a table of :data:`FORMER_FILE` with today's member names."""
    table = {name: value for name, value in former.items() if name != _FORMER_ENTRIES}
    entries = former.get(_FORMER_ENTRIES)
    if entries is not None:
        table[ENTRIES] = [_entry(entry) for entry in entries] if isinstance(entries, list) else entries
    return table


def _entry(former: Any) -> Any:
    if not isinstance(former, dict):
        return former
    return {_ID if name == _FORMER_ID else name: value for name, value in former.items()}
