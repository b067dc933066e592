"""Figures as text, and texts that nothing obeys."""

from __future__ import annotations

import pytest

from pymq.console.pages.page import PIPE
from pymq.console.pages.rendering import (
    SHORT_COUNT_MAX,
    UNKNOWN,
    ago_text,
    amount_text,
    hour_text,
    make_environment,
    number_text,
    short_text,
    size_text,
    utc_text,
)


def test_figures_have_units_and_unknown_ones_are_a_dash() -> None:
    assert [number_text(each) for each in (0, 1234567, None)] == ["0", "1,234,567", UNKNOWN]
    assert number_text(12.34, 1) == "12.3"
    assert [size_text(each) for each in (0, 1023, 1024, 5 * 1024**3, 3 * 1024**4, None)] == [
        *("0 B", "1,023 B", "1.0 KiB", "5.0 GiB", "3.0 TiB"),
        UNKNOWN,
    ]


def test_rates_and_minutes_are_short() -> None:
    assert [amount_text(each) for each in (0.0, 4.26, 812.4, None)] == ["0", "4.3", "812", UNKNOWN]
    assert hour_text(1_700_000_000_000) == "22:13"


def test_any_value_is_a_line() -> None:
    assert [short_text(each) for each in ("a", 5, None, ["a", 1], {"a": 1})] == ["a", "5", UNKNOWN, "a, 1", "a: 1"]
    assert short_text(list(range(SHORT_COUNT_MAX))).endswith("8, 9")
    assert short_text(list(range(SHORT_COUNT_MAX + 1))).endswith("9 and 1 more")


def test_times_are_in_utc_and_no_clock_breaks_a_page() -> None:
    assert utc_text(1_700_000_000_000) == "2023-11-14T22:13:20Z"
    assert utc_text(None) == UNKNOWN
    for wrong in (2**63, -(2**63), 10**30):
        assert utc_text(wrong) == UNKNOWN


@pytest.mark.parametrize(
    ("ago_ms", "text"),
    [
        *((0, "0 s ago"), (59_999, "59 s ago"), (60_000, "1 min ago"), (7_200_000, "2 h ago")),
        *((86_400_000 * 1200, "1,200 d ago"), (-60_000, "0 s ago"), (-61_000, "in the future")),
    ],
)
def test_ages_have_their_largest_unit(ago_ms: int, text: str) -> None:
    assert ago_text(10**15 - ago_ms, 10**15) == text
    assert ago_text(None, 10**15) == UNKNOWN


def test_texts_are_escaped_and_control_characters_shown() -> None:
    template = make_environment().from_string('<b title="{{ text }}">{{ text }}</b>')
    shown = template.render(text="<i>\"'\u202ex\x1b[0m\ud800")
    assert shown == '<b title="{0}">{0}</b>'.format("&lt;i&gt;&#34;&#39;\\u202ex\\x1b[0m\\ud800")


def test_a_name_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(Exception, match="'nothing' is undefined"):
        make_environment().from_string("{{ nothing }}").render()


def test_lines_of_a_text_stay_lines_and_what_they_hold_is_escaped() -> None:
    template = make_environment().from_string("<pre>{{ text|lines }}</pre>")
    assert template.render(text="a\t<b>\r\n\x1b[0m\u202e\n") == "<pre>a\t&lt;b&gt;\n\\x1b[0m\\u202e\n</pre>"


def test_a_command_is_quoted_for_a_shell() -> None:
    template = make_environment().from_string("{{ command|shell }}")
    assert template.render(command=("topic", "describe", "a; rm -rf ~")) == "topic describe &#39;a; rm -rf ~&#39;"


def test_a_command_is_one_for_a_shell() -> None:
    template = make_environment().from_string("{{ command|shell }}")
    command = ("message", "get", "a b", PIPE, "pymq", "send", "|")
    assert template.render(command=command) == "message get &#39;a b&#39; | pymq send &#39;|&#39;"
