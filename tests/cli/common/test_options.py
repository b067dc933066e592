"""Option texts turned into values."""

from __future__ import annotations

import pytest

from pymq.cli.common.options import parse_pairs, parse_perm, split_addresses
from pymq.errors import UsageError


@pytest.mark.parametrize(
    ("text", "perm"), [("RW", 6), ("rw-", 6), ("6", 6), ("R", 4), ("2", 2), ("-W-", 2), (None, None)]
)
def test_permissions(text: str | None, perm: int | None) -> None:
    assert parse_perm(text) == perm


@pytest.mark.parametrize("text", ["", "7", "read", "0"])
def test_other_permissions_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="RW"):
        parse_perm(text)


def test_pairs() -> None:
    assert parse_pairs(["a=1", "b=x=y", "c="], "--set") == {"a": "1", "b": "x=y", "c": ""}
    with pytest.raises(UsageError, match="--set 'novalue'"):
        parse_pairs(["novalue"], "--set")


def test_addresses() -> None:
    assert split_addresses("a:1; b:2,c:3;") == ["a:1", "b:2", "c:3"]
    for text in ("", "a", "a:", "a:b", "a:70000", ":1"):
        with pytest.raises(UsageError):
            split_addresses(text)
