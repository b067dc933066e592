"""--queue takes a number, or a broker and a number."""

from __future__ import annotations

import pytest

from pymq.errors import UsageError
from pymq.operations.queues import QueueChoice, parse_queue_choice


@pytest.mark.parametrize(
    ("text", "choice"),
    [("0", (None, 0)), ("broker-a:3", ("broker-a", 3)), ("broker-a/3", ("broker-a", 3)), ("a:b:7", ("a:b", 7))],
)
def test_both_forms(text: str, choice: tuple[str | None, int]) -> None:
    assert parse_queue_choice(text) == choice


@pytest.mark.parametrize("text", ["", "three", "broker-a", "broker-a:", ":3", "-1", "2147483648", "1.5"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="BROKER:ID or ID"):
        parse_queue_choice(text)


def test_a_choice_without_a_broker_takes_that_of_each() -> None:
    assert QueueChoice(None, 1).takes("a", 1) and not QueueChoice(None, 1).takes("a", 2)
    assert QueueChoice("a", 1).takes("a", 1) and not QueueChoice("a", 1).takes("b", 1)
