"""--queue takes a number, or a broker and a number, in every command that has it."""

from __future__ import annotations

import pytest

from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE, UsageError
from pymq.operations.queues import QueueChoice, parse_queue_choice
from tests.cli.conftest import Pymq


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


def test_commands_take_both_forms(pymq: Pymq) -> None:
    assert pymq("topic", "create", "queue-forms", "--wq", "2").code == EXIT_OK
    for form in ("1", "broker-a:1", "broker-a/1"):
        assert pymq("send", "queue-forms", form, "--queue", form).code == EXIT_OK
        assert (
            pymq("offset", "show", "g", "--topic", "queue-forms", "--queue", form, "-o", "json").json()[0]["queue"] == 1
        )
    for form in ("1", "broker-a:1"):
        shown = pymq("tail", "queue-forms", "--from", "start", "-F", "-o", "raw", "--queue", form)
        assert shown.out.split() == ["1", "broker-a:1", "broker-a/1"]
    assert pymq("tail", "queue-forms", "--from", "start", "-F", "--queue", "other:1").code == EXIT_NOT_FOUND
    assert pymq("send", "queue-forms", "x", "--queue", "7").code == EXIT_NOT_FOUND
    assert pymq("send", "queue-forms", "x", "--queue", "x").code == EXIT_USAGE
