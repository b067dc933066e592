"""Bodies as they were sent: inflated within a budget, so that a few messages can't fill the memory."""

from __future__ import annotations

from collections.abc import Callable

from pymq.model.compression import InflateError
from pymq.model.inflation import InflationBudget
from pymq.model.record import StoredMessage

ReadBody = Callable[[StoredMessage], bytes]


def bounded_content(inflation_ratio_max: int, note: Callable[[str], None]) -> ReadBody:
    """Return a function from a message to its body as it was sent.

    All bodies share an InflationBudget. Bodies beyond it come as they are stored, and ``note`` is called once.
    """
    budget = InflationBudget(inflation_ratio_max)

    def read(message: StoredMessage) -> bytes:
        try:
            return budget.content(message)
        except InflateError as error:
            if budget.refused_count == 1:
                note(f"pymq: compressed bodies are shown as they are stored from here on: {error}")
            return message.body

    return read


def content(message: StoredMessage) -> bytes:
    """Return the body as it was sent, or as it is stored if it can't be inflated."""
    try:
        return message.content()
    except InflateError:
        return message.body
