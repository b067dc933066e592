"""Names of columns in a text: with commas between, and in backticks as in SQL."""

from __future__ import annotations

import pytest

from pymq.errors import UsageError
from pymq.spark.records.schema import columns_text, parse_columns


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tags,body", ["tags", "body"]),
        (" tags , `property_x-y` ,", ["tags", "property_x-y"]),
        ("`property_a,b`,`tags`", ["property_a,b", "tags"]),
        ("`property_a``b`", ["property_a`b"]),
        ("property_key with blanks,property_Ключ", ["property_key with blanks", "property_Ключ"]),
        ("", []),
        (" , ,", []),
    ],
)
def test_names_are_split_at_commas_outside_of_backticks(text: str, names: list[str]) -> None:
    assert parse_columns(text) == names
    assert parse_columns(columns_text(names)) == names


@pytest.mark.parametrize("text", ["`tags", "tags`", "a`b`", "`a`b", "``", "tags,`", "`a` `b`"])
def test_a_backtick_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="either whole in backticks or has none"):
        parse_columns(text)
