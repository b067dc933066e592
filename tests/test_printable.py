"""printable: nothing that a terminal obeys is left, and other text stays as it is."""

from __future__ import annotations

import pytest

from pymq.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [("Größe 漢", "Größe 漢"), ("a\nb\r", "a\\nb\\r"), ("\x1b[2J\x9b", "\\x1b[2J\\x9b"), ("\udc80", "\\udc80")],
)
def test_what_a_terminal_may_obey_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert shown.isprintable()
