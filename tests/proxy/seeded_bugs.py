"""Bugs put into what the proxy holds for clients: a few seeds of the simulation must catch each."""

from __future__ import annotations

from typing import Any

from pymq.proxy.receipts import Held, HeldMessages, decode_handle
from pymq.proxy.receiving import Receiving
from tests.planting import Bug, Seam, Text, does_nothing, gives

SEEDS = ("seeds",)


async def _takes_what_is_there(real: Any, receiving: Receiving, group: str, text: str) -> Any:
    held = receiving._held.find(group, text)
    return decode_handle(text) if held is None else held.current


async def _takes_what_was_given(real: Any, receiving: Receiving, group: str, text: str) -> Any:
    return decode_handle(text)


def _keeps_the_first_handle(real: Any, messages: HeldMessages, held: Held, handle: object) -> bool:
    held.is_renewing = False
    return True


BUGS = [
    Bug(
        "a message is settled between the two steps of its renewal",
        Seam(Receiving._current, _takes_what_is_there),
        SEEDS,
    ),
    Bug(
        "a message is settled by the handle that was given out", Seam(Receiving._current, _takes_what_was_given), SEEDS
    ),
    Bug("a renewal's new handle is not noted", Seam(HeldMessages.renewed, _keeps_the_first_handle), SEEDS),
    Bug(
        "what a client leaves between the two steps of a renewal is not given back",
        Text(
            Receiving._renew, "if not self._held.renewed(held, handle):", "if self._held.renewed(held, handle) is None:"
        ),
        SEEDS,
    ),
    Bug("nothing is given back", Seam(HeldMessages.release_client, gives([])), SEEDS),
    Bug("a settled message is held on", Seam(HeldMessages.release, does_nothing), SEEDS),
    Bug(
        "renewals come too late",
        Text(Held.renew_at_ms, "self.current.end_ms - RENEW_AHEAD_MS", "self.current.end_ms"),
        SEEDS,
    ),
]
