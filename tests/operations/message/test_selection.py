"""Which messages are wanted, and who applies that."""

from __future__ import annotations

import pytest

from pymq.client import StoredMessage
from pymq.errors import UsageError
from pymq.operations.filters import PluginChoice
from pymq.operations.message.fields import Condition, PropertyCondition
from pymq.operations.message.selection import MessageSelection
from tests.console.messages.world import stored

MESSAGE = stored(5, b'{"id": 17}', TAGS="paid", KEYS="a order-17", UNIQ_KEY="7F01", color="red")


@pytest.mark.parametrize(
    ("selection", "takes"),
    [
        (MessageSelection(), True),
        (MessageSelection(key="order-17"), True),
        (MessageSelection(key="7F01"), True),
        (MessageSelection(key="order"), False),
        (MessageSelection(grep="i."), True),
        (MessageSelection(grep="x"), False),
        (MessageSelection(text='": 17'), True),
        (MessageSelection(text=".*"), False),
        (MessageSelection(where=[Condition("id = 17")]), True),
        (MessageSelection(where=[Condition("id = 17"), Condition("x")]), False),
        (MessageSelection(having=[PropertyCondition("color=red")]), True),
        (MessageSelection(having=[PropertyCondition("color=blue")], where=[Condition("id")]), False),
    ],
)
def test_this_process_checks_key_pattern_and_conditions(selection: MessageSelection, takes: bool) -> None:
    assert selection.matches(MESSAGE) is takes


def test_bodies_are_read_only_where_a_condition_needs_them() -> None:
    def read(message: StoredMessage) -> bytes:
        raise AssertionError("nobody asked for the body")

    assert MessageSelection(key="a", having=[PropertyCondition("color")], read=read).matches(MESSAGE)
    assert not MessageSelection(key="b", grep="x", read=read).matches(MESSAGE)


def test_the_broker_gets_tag_and_sql_and_filter_servers_get_their_filter() -> None:
    assert MessageSelection("paid").pull_arguments() == {"expression": "paid", "sql": None}
    assert MessageSelection(sql="a > 1").pull_arguments() == {"expression": "*", "sql": "a > 1"}
    assert MessageSelection(plugin=PluginChoice("tag", "paid", "filter-server")).pull_arguments() == {
        "filter": "tag",
        "expression": "paid",
        "via": "filter-server",
    }


def test_a_plugin_runs_here() -> None:
    selection = MessageSelection(plugin=PluginChoice("tag", "new", None))
    assert selection.keep([MESSAGE]) == [] and selection.keep([]) == [] and not selection.is_everything
    assert MessageSelection().keep([MESSAGE]) == [MESSAGE]


def test_each_condition_makes_it_less_than_everything() -> None:
    assert MessageSelection().is_everything and MessageSelection("*").is_everything
    for some in (
        MessageSelection("a"),
        MessageSelection(sql="a > 1"),
        MessageSelection(key="a"),
        MessageSelection(grep="a"),
        MessageSelection(text="a"),
        MessageSelection(where=[Condition("a")]),
        MessageSelection(having=[PropertyCondition("a")]),
    ):
        assert not some.is_everything


def test_what_excludes_each_other_or_is_wrong_is_refused() -> None:
    with pytest.raises(UsageError, match="--tag and --sql"):
        MessageSelection("a", sql="b > 1")
    with pytest.raises(UsageError, match="--via excludes"):
        MessageSelection("a", plugin=PluginChoice("tag", "a", "filter-server"))
    with pytest.raises(UsageError, match="regular expression"):
        MessageSelection(grep="(")
    with pytest.raises(UsageError, match="wrong at"):
        MessageSelection(plugin=PluginChoice("tag", "||", None))
    with pytest.raises(UsageError, match="--sql"):
        MessageSelection(sql="a >")


def test_sql_that_brokers_read_in_part_is_noted() -> None:
    notes: list[str] = []
    MessageSelection(sql="a = 5 b = 6", note=notes.append)
    assert "brokers ignore" in notes[0]
