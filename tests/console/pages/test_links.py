"""Names of any kind make one part of a path."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from pymq.console.pages.links import broker_path, group_path, member_path, topic_path

NAMES = ["orders", "a/b", "..", "%RETRY%g", "a?b#c", "ä", "javascript:alert(1)", "a b&c=d"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_part(name: str) -> None:
    for path, parts in (
        (topic_path(name), 2),
        (group_path(name), 2),
        (broker_path(name, 0), 3),
        (member_path(name, name), 4),
    ):
        assert len(path.split("/")) == parts
        assert name in [unquote(part) for part in path.split("/")]
        assert not set(path) & set('?#"<>& ')
