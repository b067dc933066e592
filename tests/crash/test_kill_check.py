"""The checks after a kill find the faults they look for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.messages import message
from tests.crash.kill_check import compare
from tests.crash.kill_load import Load


def stored(count: int = 3) -> Any:
    return {(0, n): message(b"body %d" % n, offset=n) for n in range(count)}


def load(count: int = 3) -> Any:
    made = Load(sent={b"body %d" % n for n in range(count + 1)})
    for n in range(count):
        made.note(0, n, b"body %d" % n)
    return made


def test_an_unanswered_message_may_be_stored_or_not() -> None:
    compare(stored(3), load(3))
    compare(stored(4), load(3))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda found: found.pop((0, 2)), r"1 acknowledged messages are lost, .* \(0, 2\)"),
        (lambda found: found.update({(0, 1): message(b"other", offset=1)}), r"are others now, the first at \(0, 1\)"),
        (lambda found: found.update({(0, 3): message(b"body 1", offset=3)}), "there twice"),
        (lambda found: found.update({(0, 3): message(b"made up", offset=3)}), "never sent, one is b'made up'"),
        (lambda found: found.update({(1, 0): message(b"body 3", queue_id=1)}), "lead to one record"),
    ],
)
def test_faults_are_seen(change: Any, complaint: Any) -> None:
    found = stored()
    change(found)
    with pytest.raises(AssertionError, match=complaint):
        compare(found, load())


def test_an_offset_is_acknowledged_once() -> None:
    with pytest.raises(AssertionError, match="acknowledged twice"):
        load().note(0, 1, b"another")
