"""Checks of lists of names in operators' requests (5002, 5003)."""

from __future__ import annotations

from typing import Final

from pymq.errors import Refusal
from pymq.wire.codes import ResponseCode

LISTED_COUNT_MAX: Final = 1000  # names that one request deletes, in one turn of the event loop


def checked_list(what: str, listed: list[str]) -> list[str]:
    """Return the names once each. ``what`` they name. Raises Refusal(INVALID_PARAMETER) for none, or too many."""
    if not listed:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"the list of {what}s is empty: name at least one")
    if len(listed) > LISTED_COUNT_MAX:
        raise Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"the list has {len(listed)} {what}s: a request deletes at most {LISTED_COUNT_MAX}, send several requests",
        )
    return list(dict.fromkeys(listed))
