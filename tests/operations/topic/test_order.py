"""An order configuration names each broker once."""

from __future__ import annotations

import pytest

from pymq.errors import UsageError
from pymq.operations.topic.order import parse_order


@pytest.mark.parametrize("text", ["", "broker-a", "broker-a:0", "broker-a:1;broker-a:2", "a b:1"])
def test_an_order_names_each_broker_once_with_a_number(text: str) -> None:
    with pytest.raises(UsageError):
        parse_order(text)
