"""Lines of keys: the text that tomllib takes, with long strings, arrays and dotted keys."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pymq.pipeline.toml_lines import KeyPath, line_of, lines_of

TEXT = '''\
name = "a"            # 1
[spark]
"x.y" = 2
a.b = 3
[[source]]
topic = [
  "one = 1",
  "]",
]
sql = """
name = 'no key'
[[step]]
"""
last = {name = 1}
[source.options]
deep = true
[[source]]
topic = '# no comment'
'''


def test_lines_of_all_kinds_of_keys() -> None:
    assert lines_of(TEXT) == {
        ("name",): 1,
        ("spark",): 2,
        ("spark", "x.y"): 3,
        ("spark", "a", "b"): 4,
        ("source",): 5,
        ("source", 0): 5,
        ("source", 0, "topic"): 6,
        ("source", 0, "sql"): 10,
        ("source", 0, "last"): 14,
        ("source", 0, "options"): 15,
        ("source", 0, "options", "deep"): 16,
        ("source", 1): 17,
        ("source", 1, "topic"): 18,
    }


def test_the_line_of_what_has_none_is_that_of_its_table() -> None:
    lines = lines_of(TEXT)
    assert line_of(lines, ("source", 0, "last", "name")) == 14
    assert line_of(lines, ("source", 1, "missing")) == 17
    assert line_of(lines, ("missing",)) == 1


WORDS = st.text("ab", min_size=1, max_size=3)
VALUES = st.sampled_from(['"x"', "'y#'", '"""\nz = 1\n[q]\n"""', "[\n1,\n[2]\n]", "{k = '['}", "'''\n]\n'''", '"\\""'])


@given(st.lists(st.tuples(WORDS, VALUES), max_size=8, unique_by=lambda pair: pair[0]))
def test_each_key_is_where_its_text_begins(pairs: list[tuple[str, str]]) -> None:
    text, expected = "[[t]]\n", {}
    for name, value in pairs:
        expected["t", 0, name] = text.count("\n") + 1
        text += f"{name} = {value}\n"
    parsed: dict[str, Any] = tomllib.loads(text)
    found = lines_of(text)
    paths: list[KeyPath] = [("t", 0, name) for name in parsed["t"][0]]
    assert {path: found[path] for path in paths} == expected
    assert len(found) == len(paths) + 2
