"""The options that say where a tail begins."""

from __future__ import annotations

import pytest

from pymq.errors import UsageError
from pymq.operations.start import Start, StartKind, expand_short_forms, parse_start

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("start", Start(StartKind.FIRST)),
        ("earliest", Start(StartKind.FIRST)),
        ("END", Start(StartKind.END)),
        ("group", Start(StartKind.GROUP)),
        ("0", Start(StartKind.OFFSET, 0)),
        ("123456789012", Start(StartKind.OFFSET, 123456789012)),
        ("1700000000000", Start(StartKind.TIME, 1_700_000_000_000)),
        ("-100", Start(StartKind.LAST, 100)),
        ("-15m", Start(StartKind.TIME, NOW_MS - 900_000)),
        ("2023-11-14T22:13:20+00:00", Start(StartKind.TIME, 1_700_000_000_000)),
    ],
)
def test_each_form(text: str, start: Start) -> None:
    assert parse_start(text, NOW_MS) == start


@pytest.mark.parametrize("text", ["", "-x", "tomorrow", "1.5", "-15"[:1]])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--from"):
        parse_start(text, NOW_MS)


@pytest.mark.parametrize(
    ("given", "expanded"),
    [
        (["-100"], ["--last", "100"]),
        (["t", "-15m", "-f"], ["t", "--from", "-15m", "-f"]),
        (["-1.5h"], ["--from", "-1.5h"]),
        (["-250ms"], ["--from", "-250ms"]),
        (["--from", "-100"], ["--from", "-100"]),
        (["-n", "5", "-F"], ["-n", "5", "-F"]),
        (["-o", "json"], ["-o", "json"]),
    ],
)
def test_short_forms(given: list[str], expanded: list[str]) -> None:
    assert expand_short_forms(given) == expanded
