"""Kills and power losses at the disk calls of a story of transactions.

PYMQ_TRANSACTION_CRASHES=all takes every call.
"""

from __future__ import annotations

import os

import pytest

from tests.broker.transactions.story import search

EVERY = 1 if os.environ.get("PYMQ_TRANSACTION_CRASHES") == "all" else 4


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_a_crash_at_any_call_loses_no_transaction(power: bool) -> None:
    assert search(EVERY, power=power) > 10
