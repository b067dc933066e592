"""What an export keeps in a table about itself, and what a later run may change: columns may come."""

from __future__ import annotations

from typing import Any, Final

from pymq.errors import UsageError
from pymq.spark.lake.commits import refuse_other_settings
from pymq.spark.places.places import Place
from pymq.spark.planning.ranges import ResumeError

# The schema of bodies may grow as the columns do; the library that owns the table says whether it fits.
_GROWING: Final = ("columns", "body")


def check_later_settings(output: Place | str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise ResumeError, with the difference, unless a run may go on with these settings."""
    refuse_other_settings(str(output), _fixed(before), _fixed(now))
    if missing := sorted(set(before["columns"]) - set(now["columns"])):
        raise ResumeError(f"{output} has the column {missing[0]}: name it too, or use a new table")
    forms = [str(settings.get("body", "bytes")).partition(":")[0] for settings in (before, now)]
    if forms[0] != forms[1]:
        raise ResumeError(f"{output} has bodies in the form {forms[0]}, not {forms[1]}: use a new table")


def foreign_table(output: Place | str) -> UsageError:
    """Return the error for a table that no export has made."""
    return UsageError(f"{output} is a table of another program: name a new one")


def _fixed(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _GROWING}
