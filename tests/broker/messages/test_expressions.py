"""SQL92 in the broker: pulls get matching messages, only a match wakes a parked pull, and errors name the column."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.broker.messages.expressions import SUBSCRIPTION_LENGTH_MAX, Expressions
from pymq.broker.messages.message_filter import TAG_CODE_BYTES
from pymq.broker.messages.reader import EVALUATION_MS
from pymq.errors import Refusal
from pymq.filter.parser import EXPRESSION_LENGTH_MAX
from pymq.filter.sql92 import BYTES_PER_CHARACTER
from pymq.model.draft import Draft
from pymq.model.layout import BODY_LENGTH_AT, UNIT_SIZE_BYTES
from pymq.model.properties import encode_properties
from pymq.model.tables import TopicConfig
from pymq.store.store import FILTER_STEP_COUNT
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_clients import beat
from tests.broker.handlers.test_pull import SUBSCRIPTION, SUSPEND, bodies, fields, places, pull, refusal
from tests.broker.world import BORN_HOST, Caller, World

MATCHING: dict[str, Any] = {"size": "9", "color": "red"}


@pytest.fixture
def world() -> World:
    """Queue 0 of T holds twelve messages with sizes 0 to 11 and the colors red, blue, none, red, …"""
    world = opened()
    for number in range(12):
        color = ("red", "blue", None)[number % 3]
        properties: dict[str, Any] = {"color": color} if color else {}
        world.put("T", b"%d" % number, size=str(number), **properties)
    return world


def opened(**settings: Any) -> World:
    world = World(**settings)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    return world


def sql(expression: str, **changes: Any) -> dict[str, Any]:
    return {"subscription": expression, "expressionType": "SQL92", **changes}


def subscribed(world: World, expression: str) -> None:
    """Let group g subscribe by heartbeat."""
    data = json.loads(beat())
    subscription = data["consumerDataSet"][0]["subscriptionDataSet"][0]
    subscription.update(topic="T", subString=expression, expressionType="SQL92", tagsSet=[], codeSet=[])
    Caller(world).ok(Code.HEART_BEAT, json.dumps(data).encode())


def park(world: World, expression: str, **changes: Any) -> Caller:
    caller = Caller(world)
    changes = sql(expression, sysFlag=SUBSCRIPTION | SUSPEND, queueOffset=12, **changes)
    assert caller.ask(Code.PULL_MESSAGE, **fields(**changes)) is None, "the pull was answered"
    return caller


def answers(world: World, caller: Caller) -> list[list[bytes]]:
    world.parts.requests.long_polls.wake()
    return [bodies(reply) for reply in caller.peer.answers]


# -- pulls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "numbers"),
    [
        ("size > 5 AND color = 'red'", [6, 9]),
        ("size BETWEEN 2 AND 4", [2, 3, 4]),
        ("color IS NULL", [2, 5, 8, 11]),
        ("color IN ('red', 'blue') AND size < 3", [0, 1]),
        ("NOT (color = 'red')", [1, 4, 7, 10]),
    ],
)
def test_a_pull_gets_what_matches(world: World, expression: str, numbers: list[int]) -> None:
    reply = pull(world, **sql(expression))
    assert reply.code == ResponseCode.SUCCESS and places(reply) == (12, 0, 12)
    assert bodies(reply) == [b"%d" % number for number in numbers]


def test_the_heartbeat_s_expression_counts_when_the_pull_has_none(world: World) -> None:
    subscribed(world, "size >= 10")
    assert bodies(pull(world, sysFlag=0, subscription=None)) == [b"10", b"11"]


def test_nothing_that_matches(world: World) -> None:
    reply = pull(world, **sql("size > 100"))
    assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY and places(reply) == (12, 0, 12)


def test_the_next_offset_is_behind_the_last_message_looked_at(world: World) -> None:
    reply = pull(world, **sql("color = 'red'", maxMsgNums=2))
    assert bodies(reply) == [b"0", b"3"] and places(reply)[0] == 6
    assert bodies(pull(world, **sql("color = 'red'", queueOffset=6))) == [b"6", b"9"]


def test_a_message_that_can_t_be_compared_does_not_match(world: World, caplog: pytest.LogCaptureFixture) -> None:
    for size in ("large", "3000000000", "9"):
        world.put("T", b"size %b" % size.encode(), size=size)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert bodies(pull(world, **sql("size > 8", queueOffset=12))) == [b"size 9"]
    assert world.parts.stats.filter_errors == 4
    assert len([record for record in caplog.records if "does not match" in record.message]) == 1
    runtime = Caller(world).json(Code.GET_BROKER_RUNTIME_INFO)
    assert runtime["table"]["filterErrorTimes"] == "4"


def test_what_an_expression_did_is_counted_for_each_group(world: World) -> None:
    world.put("T", size="large")
    for expression in ("size > 9", "size > 100", "color = 'red'"):
        pull(world, **sql(expression))
    pull(world, **sql("size > 100", queueOffset=13))  # nothing there to judge
    pull(world, queueOffset=0)  # by tags: counts nothing
    [text] = world.parts.stats.filters.figures().values()
    assert text == "matched 6, skipped 31, errors 2, 0 ms"
    table = Caller(world).json(Code.GET_BROKER_RUNTIME_INFO)["table"]
    assert [value for name, value in table.items() if name.startswith("filter.T@")] == [text]
    world.parts.stats.forget_group("another")
    assert world.parts.stats.filters.figures()
    world.parts.stats.forget_topic("T")
    assert not world.parts.stats.filters.figures()


def test_many_messages_that_can_t_be_compared_are_all_counted(world: World) -> None:
    for _ in range(20):
        world.put("T", size="large")
    assert bodies(pull(world, **sql("size > 10"))) == [b"11"]
    assert world.parts.stats.filter_errors == 20


VALUES = st.sampled_from(["", "5", "05", "-5", "12.5", "x", "red", "true", "3000000000"])
STATEMENTS = st.sampled_from(
    ["a > 4", "a = 5", "a < 12.6", "b = 'red'", "b <> 'red'", "a IS NULL", "b IN ('x', 'red')", "a = b", "b = TRUE"]
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "b", "ab"]), VALUES), min_size=20, max_size=60),
    st.lists(STATEMENTS, min_size=1, max_size=3),
    st.sampled_from(["AND", "OR", "AND NOT"]),
    st.booleans(),
)
def test_messages_skipped_by_the_prefilter_never_match(
    messages: list[dict[str, Any]], statements: list[str], joint: str, are_others_between: bool
) -> None:
    """A read looks at each message, another at what a prefilter leaves, a third at what was remembered."""
    world = opened()
    for number, properties in enumerate(messages):
        world.put("T", b"%d" % number, **properties)
        if are_others_between:
            world.put("T", b"between", queue_id=1)
    expressions = Expressions(config=world.parts.config, stats=world.parts.stats)
    text = f" {joint} ".join(f"({each})" for each in statements)
    codes, accept, prefilter = expressions.message_filter("SQL92", text)[:3]
    plain, first, again = (
        [bytes(chunk) for chunk in world.parts.store.get("T", 0, 0, 99, 1 << 20, codes, accept, asked).chunks]
        for asked in (None, prefilter, prefilter)
    )
    assert plain == first == again


def test_a_damaged_record_is_no_mismatch(world: World) -> None:
    subscribed(world, "size >= 10")
    record_at = world.messages("T")[10].physical_offset
    world.files.open(f"/data/commitlog/{0:020d}").pwrite(record_at + BODY_LENGTH_AT, b"\x7f" * 4)
    code, remark = Caller(world).refused(Code.PULL_MESSAGE, **fields(sysFlag=0, queueOffset=10))
    assert code == ResponseCode.SYSTEM_ERROR and "offset 10 is corrupt" in remark


# -- errors ------------------------------------------------------------------------------------------------------


def test_a_wrong_expression_in_a_pull(world: World) -> None:
    code, remark = refusal(world, **sql("size >"))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "'size >'" in remark and "column 7" in remark and "a name" in remark
    assert refusal(world, **sql(""))[0] == refusal(world, **sql("", subscription=None))[0] == code


def test_a_wrong_expression_in_a_heartbeat(world: World) -> None:
    subscribed(world, "size = 'x")
    code, remark = refusal(world, sysFlag=0)
    assert code == ResponseCode.FILTER_DATA_NOT_EXIST and "column 8" in remark


def test_a_long_expression_is_shown_in_part(world: World) -> None:
    _, remark = refusal(world, **sql("size = " + "x" * 10_000 + " = #"))
    assert len(remark) < 400 and "column 10011" in remark


def test_sql_switched_off_at_run_time(world: World) -> None:
    assert bodies(pull(world, **sql("size = 1"))) == [b"1"]
    Caller(world).ok(Code.UPDATE_BROKER_CONFIG, b"enablePropertyFilter=false\n")
    code, remark = refusal(world, **sql("size = 1"))
    assert code == ResponseCode.SYSTEM_ERROR and "enablePropertyFilter" in remark and "SQL92" in remark
    assert len(bodies(pull(world))) == 12


def test_an_expression_that_no_message_can_match_is_refused(world: World) -> None:
    for _ in range(2):
        code, remark = refusal(world, **sql("color LIKE 'r%'"))
        assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED and "column 7" in remark and "STARTSWITH" in remark


def test_an_ignored_end_of_an_expression_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert bodies(pull(world, **sql("size = 1 size = 2"))) == [b"1"]
    assert len([record for record in caplog.records if "column 10 is ignored" in record.message]) == 1


def test_groups_with_the_same_expression_share_its_test(world: World) -> None:
    expressions: Expressions = world.parts.messages.expressions
    assert expressions.message_filter("SQL92", "size = 1") is expressions.message_filter("SQL92", "size = 1")


# -- pulls that wait ---------------------------------------------------------------------------------------------


def test_an_arrival_that_matches_answers(world: World) -> None:
    caller = park(world, "size > 8 AND color = 'red'")
    world.put("T", b"small", size="3", color="red")
    world.put("T", b"odd", size="none", color="red")
    assert answers(world, caller) == []
    world.put("T", b"new", **MATCHING)
    assert answers(world, caller) == [[b"new"]]
    assert places(caller.peer.answers[0])[0] == 15


def test_a_match_in_the_middle_of_a_commit_answers(world: World) -> None:
    caller, other = park(world, "size = 9"), park(world, "size = 10")
    for size in (b"8", b"9", b"8"):
        world.parts.messages.writer.put("T", 0, Draft(size, encode_properties({"size": size.decode()}), 0, BORN_HOST))
    world.parts.messages.writer.commit()
    assert answers(world, caller) == [[b"9"]] and answers(world, other) == []


def test_more_arrivals_than_one_check_takes_answer_a_pull(world: World) -> None:
    caller = park(world, "size = 10000")
    count = world.parts.store.settings.filter_scan_bytes // UNIT_SIZE_BYTES + 1
    for _ in range(count):
        world.parts.messages.writer.put("T", 0, Draft(b"x", encode_properties({"size": "1"}), 0, BORN_HOST))
    world.parts.messages.writer.commit()
    assert answers(world, caller) == [[]]
    assert caller.peer.answers[0].code == ResponseCode.PULL_RETRY_IMMEDIATELY


def test_a_timeout_moves_the_consumer_past_messages_that_did_not_match(world: World) -> None:
    caller = park(world, "size = 9")
    world.put("T", b"other", size="8")
    world.clock.advance(15_000)
    world.parts.requests.long_polls.tick()
    (reply,) = caller.peer.answers
    assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY and places(reply)[0] == 13


# -- what tools see ----------------------------------------------------------------------------------------------


def test_queue_entries_say_which_messages_match(world: World) -> None:
    subscribed(world, "size = 1")
    shown = Caller(world).json(Code.QUERY_CONSUME_QUEUE, topic="T", queueId=0, index=0, count=3, consumerGroup="g")
    assert [row["eval"] for row in shown["queueData"]] == [False, True, False]


@pytest.mark.parametrize(("terms", "step_count"), [(1, FILTER_STEP_COUNT), (8, 128), (64, 16), (512, 2)])
def test_a_long_expression_looks_at_the_time_more_often(terms: int, step_count: int) -> None:
    world = opened()
    expressions = Expressions(config=world.parts.config, stats=world.parts.stats)
    text = " OR ".join(f"a{number} = 1" for number in range(terms))
    assert expressions.message_filter("SQL92", text).step_count == step_count


def test_a_pull_whose_evaluation_takes_long_is_answered_with_the_place_to_go_on_from(world: World) -> None:
    text = " OR ".join(f"a{number} = 1" for number in range(500))
    message_filter = world.parts.messages.expressions.message_filter("SQL92", text)
    assert message_filter.accept is not None
    accept = message_filter.accept

    def slowly(record: memoryview) -> bool:
        world.clock.advance(EVALUATION_MS // 2)
        return accept(record)

    outcome = world.parts.messages.reader.read("T", 0, 0, 32, None, message_filter._replace(accept=slowly))
    assert outcome.code == ResponseCode.PULL_RETRY_IMMEDIATELY and outcome.result.next_offset == 2
    any_accepted = world.parts.messages.reader.any_accepted
    assert any_accepted("T", 0, 0, message_filter._replace(accept=slowly)), "it can't tell in time"
    assert not any_accepted("T", 0, 11, message_filter._replace(accept=slowly))


def test_an_expression_has_at_most_its_length(world: World) -> None:
    assert SUBSCRIPTION_LENGTH_MAX == EXPRESSION_LENGTH_MAX
    expressions = Expressions(config=world.parts.config, stats=world.parts.stats)
    most = "x" * SUBSCRIPTION_LENGTH_MAX
    assert expressions.message_filter("TAG", most).codes is not None
    for kind in ("TAG", None, "SQL92"):
        with pytest.raises(Refusal, match=f"has 32769 characters, the limit is {SUBSCRIPTION_LENGTH_MAX}") as caught:
            expressions.message_filter(kind, most + "x")
        assert caught.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_a_filter_knows_about_how_much_it_takes(world: World) -> None:
    expressions = Expressions(config=world.parts.config, stats=world.parts.stats)
    assert expressions.message_filter("TAG", "*").size_bytes == 0
    assert expressions.message_filter("TAG", "a||b||a").size_bytes == 2 * TAG_CODE_BYTES
    assert expressions.message_filter("SQL92", "a = 1").size_bytes > 5 * BYTES_PER_CHARACTER


def test_filters_have_prefilters_once_numpy_is_loaded(world: World) -> None:
    is_ready = False
    expressions = Expressions(config=world.parts.config, stats=world.parts.stats, is_bulk_ready=lambda: is_ready)
    early = expressions.message_filter("SQL92", "a = 'x'")
    assert early.prefilter is None and expressions.message_filter("SQL92", "a = 'x'") is early
    is_ready = True
    late = expressions.message_filter("SQL92", "a = 'x'")
    assert late.prefilter is not None and expressions.message_filter("SQL92", "a = 'x'") is late
