"""Each check of what clients send: the code of its refusal, the edge of its limit, and its place in the order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("google.protobuf")

from pymq.proxy import checks
from pymq.proxy.drafts import Draft
from pymq.proxy.protocol.messages import Message
from pymq.proxy.protocol.names import Code, MessageType
from pymq.proxy.refusals import ProxyRefusal

NOW_MS = 1_700_000_000_000
HOUR_MS = 3600 * 1000
Change = Callable[[Any], None]


def legal() -> Any:
    message = Message(body=b"body")
    message.topic.name = "T"
    message.system_properties.message_id = "id"
    return message


def sent(*changes: Change) -> int:
    """Return the code for a message with these changes, OK when it may be sent."""
    message = legal()
    for change in changes:
        change(message)
    return code_of(lambda: checks.check_messages([message], NOW_MS))


def code_of(check: Callable[[], object]) -> int:
    try:
        check()
    except ProxyRefusal as error:
        return error.code
    return Code.OK


def topic(name: str) -> Change:
    return lambda message: setattr(message.topic, "name", name)


def body(size: int) -> Change:
    return lambda message: setattr(message, "body", bytes(size))


def properties(**pairs: str) -> Change:
    return lambda message: message.user_properties.update(pairs)


def count(number: int) -> Change:
    return lambda message: message.user_properties.update({f"p{i}": "v" for i in range(number)})


def system(name: str, value: Any) -> Change:
    return lambda message: setattr(message.system_properties, name, value)


def keys(*values: str) -> Change:
    return lambda message: message.system_properties.keys.extend(values)


def seconds(name: str, ms: int) -> Change:
    def change(message: Any) -> None:
        field = getattr(message.system_properties, name)
        field.seconds, field.nanos = ms // 1000, ms % 1000 * 1_000_000

    return change


# In the order of the checks: (code, what is wrong, what is just right).
IN_ORDER: list[tuple[int, Change, Change]] = [
    (Code.ILLEGAL_TOPIC, topic("a b"), topic("a-b_%|")),
    (Code.MESSAGE_BODY_EMPTY, body(0), body(1)),
    (Code.MESSAGE_BODY_TOO_LARGE, body(checks.BODY_BYTES_MAX + 1), body(checks.BODY_BYTES_MAX)),
    (
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
        count(checks.USER_PROPERTY_COUNT_MAX + 1),
        count(checks.USER_PROPERTY_COUNT_MAX),
    ),
    (
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
        properties(p="v" * checks.PROPERTIES_BYTES_MAX),
        properties(p="v" * (checks.PROPERTIES_BYTES_MAX - 1)),
    ),
    (Code.ILLEGAL_MESSAGE_PROPERTY_KEY, properties(UNIQ_KEY="v"), properties(uniq_key="v")),
    (Code.ILLEGAL_MESSAGE_PROPERTY_KEY, properties(p="a\x01"), properties(p="a b")),
    (Code.ILLEGAL_MESSAGE_TAG, system("tag", "a|b"), system("tag", "a b")),
    (Code.ILLEGAL_MESSAGE_TAG, system("tag", " "), system("tag", "a")),
    (Code.ILLEGAL_MESSAGE_KEY, keys("a", ""), keys("a", "b")),
    (Code.ILLEGAL_MESSAGE_KEY, keys("\x7f"), keys("k")),
    (Code.ILLEGAL_MESSAGE_ID, system("message_id", " "), system("message_id", "1")),
    (
        Code.BAD_REQUEST,
        seconds("orphaned_transaction_recovery_duration", HOUR_MS + 1),
        seconds("orphaned_transaction_recovery_duration", HOUR_MS),
    ),
    (
        Code.ILLEGAL_DELIVERY_TIME,
        seconds("delivery_timestamp", NOW_MS + 24 * HOUR_MS + 1),
        seconds("delivery_timestamp", NOW_MS + 24 * HOUR_MS),
    ),
    (Code.ILLEGAL_MESSAGE_GROUP, system("message_group", "g" * 64), system("message_group", "g" * 63)),
    (Code.ILLEGAL_MESSAGE_GROUP, system("message_group", " "), system("message_group", "g")),
    (Code.BAD_REQUEST, system("priority", -1), system("priority", 0)),
]


@pytest.mark.parametrize(("code", "wrong", "right"), IN_ORDER)
def test_a_message_is_refused_beyond_a_limit_and_taken_at_it(code: int, wrong: Change, right: Change) -> None:
    assert sent(wrong) == code
    assert sent(right) == Code.OK


@pytest.mark.parametrize("at", range(len(IN_ORDER)))
def test_the_first_of_two_failing_checks_decides(at: int) -> None:
    code, wrong, _ = IN_ORDER[at]
    later = [each for each in IN_ORDER[at:] if each[0] != code]
    assert {sent(each_wrong, wrong) for _, each_wrong, _ in later} <= {code}


def test_a_request_has_messages_of_one_topic() -> None:
    other = legal()
    other.topic.name = "U"
    assert code_of(lambda: checks.check_messages([], NOW_MS)) == Code.MESSAGE_CORRUPTED
    assert code_of(lambda: checks.check_messages([legal(), other], NOW_MS)) == Code.MESSAGE_CORRUPTED
    most = [legal()] * checks.MESSAGE_COUNT_MAX
    assert code_of(lambda: checks.check_messages(most, NOW_MS)) == Code.OK
    assert code_of(lambda: checks.check_messages([*most, legal()], NOW_MS)) == Code.BAD_REQUEST


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("t" * 127, Code.OK),
        ("t" * 128, Code.ILLEGAL_TOPIC),
        ("", Code.ILLEGAL_TOPIC),
        ("a.b", Code.ILLEGAL_TOPIC),
        ("TBW102", Code.ILLEGAL_TOPIC),
        ("%DLQ%group", Code.OK),
    ],
)
def test_names_of_topics(name: str, code: int) -> None:
    assert code_of(lambda: checks.check_topic(name)) == code


@pytest.mark.parametrize(
    ("name", "code"),
    [("g", Code.OK), ("", Code.ILLEGAL_CONSUMER_GROUP), ("a b", Code.ILLEGAL_CONSUMER_GROUP)],
)
def test_names_of_groups(name: str, code: int) -> None:
    assert code_of(lambda: checks.check_group(name)) == code


def test_a_name_that_was_legal_is_not_kept_for_ever_and_an_illegal_one_never() -> None:
    for number in range(2 * checks.KEPT_NAMES_MAX):
        assert checks.check_topic(f"kept-{number}") == f"kept-{number}"
        assert checks.check_group(f"kept-{number}") == f"kept-{number}"
    for _ in range(2):
        assert code_of(lambda: checks.check_topic("a b")) == Code.ILLEGAL_TOPIC
        assert code_of(lambda: checks.check_group("a b")) == Code.ILLEGAL_CONSUMER_GROUP
        assert code_of(lambda: checks.check_group("kept_topic/")) == Code.ILLEGAL_CONSUMER_GROUP
    assert len(checks._legal_topics) <= checks.KEPT_NAMES_MAX
    assert len(checks._legal_groups) <= checks.KEPT_NAMES_MAX


def test_control_characters_are_found_wherever_they_stand() -> None:
    for code in range(0x3000):
        is_control = code < 0x20 or 0x7F <= code < 0xA0
        assert checks.has_control(f"a{chr(code)}b") == is_control, code


def test_a_message_is_what_its_fields_say() -> None:
    message = legal()
    assert Draft(message).kind == MessageType.NORMAL
    message.system_properties.message_group = ""
    assert Draft(message).kind == MessageType.NORMAL
    message.system_properties.message_group = "g"
    assert Draft(message).kind == MessageType.FIFO
    message.system_properties.delivery_timestamp.seconds = 1
    assert Draft(message).kind == MessageType.DELAY
    message.system_properties.message_type = MessageType.TRANSACTION
    assert Draft(message).kind == MessageType.TRANSACTION


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ("NORMAL", Code.OK),
        ("MIXED", Code.OK),
        ("FIFO", Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        ("UNSPECIFIED", Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
    ],
)
def test_a_topic_takes_its_type(wanted: str, code: int) -> None:
    assert code_of(lambda: checks.check_type(Draft(legal()).kind, "T", wanted)) == code
    assert code_of(lambda: checks.check_type(Draft(legal()).kind, "%DLQ%group", wanted)) == Code.OK


@pytest.mark.parametrize(
    ("asked_ms", "left_ms", "expected_ms"),
    [
        (8_000, 30_000, 8_000),
        (100, 30_000, checks.POLLING_MS_MIN),
        (60_000, 70_000, checks.POLLING_MS_MAX),
        (20_000, 7_000, 7_000),
        (None, 9_000, 7_500),
        (None, None, checks.POLLING_MS_MAX),
        (8_000, checks.POLLING_MS_MIN, checks.POLLING_MS_MIN),
    ],
)
def test_the_time_of_polling(asked_ms: int | None, left_ms: float | None, expected_ms: int) -> None:
    assert checks.polling_ms(asked_ms, left_ms, 3000, "5.2.0") == expected_ms


@pytest.mark.parametrize(
    ("version", "code"),
    [("5.0.3", Code.ILLEGAL_POLLING_TIME), ("5.0.2", Code.BAD_REQUEST), (None, Code.BAD_REQUEST)],
)
def test_a_deadline_too_near_for_polling(version: str | None, code: int) -> None:
    assert code_of(lambda: checks.polling_ms(20_000, checks.POLLING_MS_MIN - 1, 3000, version)) == code


def test_the_invisible_time_has_two_edges() -> None:
    low, high = checks.INVISIBLE_MS_MIN, checks.INVISIBLE_MS_MAX
    assert [code_of(lambda ms=ms: checks.check_invisible(ms, low)) for ms in (low, high)] == [Code.OK] * 2
    assert code_of(lambda: checks.check_invisible(low - 1, low)) == Code.ILLEGAL_INVISIBLE_TIME
    assert code_of(lambda: checks.check_invisible(high + 1, low)) == Code.ILLEGAL_INVISIBLE_TIME


def test_a_client_has_an_id() -> None:
    assert code_of(lambda: checks.check_client_id(" ")) == Code.CLIENT_ID_REQUIRED
    assert code_of(lambda: checks.check_client_id("c")) == Code.OK
