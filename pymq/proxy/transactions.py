"""Open transactions: where their half messages are, until clients end them. Pure logic."""

from __future__ import annotations

from collections import OrderedDict

from pymq.proxy.backend import TransactionPlace

# A broker asks about a transaction again and again, and each question renews it here.
KEPT_MS = 10 * 60 * 1000
COUNT_MAX = 100_000  # the oldest ones are forgotten: their brokers ask about them


class OpenTransactions:
    """The half messages that this proxy stored or was asked about, by topic and transaction id."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, str], tuple[int, TransactionPlace]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, transaction_id: str, place: TransactionPlace, now_ms: int) -> None:
        """Note a half message that was stored, or that a broker asks about."""
        key = (place.topic, transaction_id)
        self._open[key] = (now_ms, place)
        self._open.move_to_end(key)
        if len(self._open) > COUNT_MAX:
            self._open.popitem(last=False)

    def find(self, topic: str, transaction_id: str) -> TransactionPlace | None:
        """Return the place of a transaction; None for an unknown one."""
        found = self._open.get((topic, transaction_id))
        return None if found is None else found[1]

    def end(self, topic: str, transaction_id: str) -> None:
        """Forget a transaction that was ended."""
        self._open.pop((topic, transaction_id), None)

    def forget_old(self, now_ms: int) -> None:
        """Forget what nobody ended for KEPT_MS."""
        while self._open and now_ms - next(iter(self._open.values()))[0] >= KEPT_MS:
            self._open.popitem(last=False)
