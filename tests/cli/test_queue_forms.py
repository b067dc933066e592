"""--queue takes a number, or a broker and a number, in every command that has it."""

from __future__ import annotations

from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE
from tests.cli.conftest import Pymq


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
