"""Receipt handles, and which messages the proxy renews."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.model import pop
from pymq.proxy import receipts
from pymq.proxy.protocol.names import Code
from pymq.proxy.receipts import Handle, HeldMessages, check_in_time, decode_handle, encode_handle
from pymq.proxy.refusals import ProxyRefusal

NOW_MS = 1_700_000_000_000


def handle(offset: int = 7, flag: int = pop.NORMAL, pop_time_ms: int = NOW_MS, invisible_ms: int = 60_000) -> Handle:
    return Handle(pop.Receipt(5, pop_time_ms, invisible_ms, 3, flag, "broker-a"), 2, offset, 123_456)


def test_a_handle_survives_its_text() -> None:
    text = encode_handle(handle())
    assert text == f"5 {NOW_MS} 60000 3 0 broker-a 2 7 123456"
    assert decode_handle(text) == handle()


@pytest.mark.parametrize(
    "text",
    ["", "x", encode_handle(handle()) + " 1", encode_handle(handle())[:-7], "a b c d e f g h i", "1 2 3 4 5 b -1 0 0"],
)
def test_a_text_that_is_no_handle(text: str) -> None:
    with pytest.raises(ProxyRefusal) as caught:
        decode_handle(text)
    assert caught.value.code == Code.INTERNAL_SERVER_ERROR


PARTS = st.one_of(
    st.integers(-5, 2**64).map(str),
    st.integers(0, 10**17).map(str),
    st.sampled_from(["", "007", "-0", "٣", "1_0", "+1", "1\n", "b", "9" * 18, "9" * 19, "broker-a", "a\u2028b"]),
)


@given(st.lists(PARTS, min_size=8, max_size=10), st.booleans())
def test_the_short_way_to_decode_a_handle_equals_the_long_one(parts: list[str], has_broker: bool) -> None:
    if has_broker:
        parts[5] = "broker-a"
    text = " ".join(parts)
    found: list[object] = []
    for decode in (decode_handle, receipts.decode_odd_handle):
        try:
            found.append(decode(text))
        except ProxyRefusal as error:
            found.append((error.code, str(error)))
    assert found[0] == found[1]


def test_a_handle_ends_with_its_invisible_time() -> None:
    check_in_time(handle(), NOW_MS + 59_999)
    with pytest.raises(ProxyRefusal) as caught:
        check_in_time(handle(), NOW_MS + 60_000)
    assert caught.value.code == Code.INVALID_RECEIPT_HANDLE


def test_a_retried_message_is_stored_in_the_retry_topic() -> None:
    assert handle().topic("g", "T") == "T"
    assert handle(flag=pop.RETRY_V1).topic("g", "T") == "%RETRY%g_T"
    assert handle(flag=pop.RETRY_V2).topic("g", "T") == "%RETRY%g+T"


def held_one() -> HeldMessages:
    held = HeldMessages()
    assert held.hold("c", "g", "T", handle(), NOW_MS)
    return held


def test_a_held_message_is_renewed_before_its_end_and_its_first_handle_stays_valid() -> None:
    held = held_one()
    due_ms = NOW_MS + 60_000 - receipts.RENEW_AHEAD_MS
    assert list(held.due(due_ms - 1)) == []
    (one,) = held.due(due_ms)
    assert one.step_ms == receipts.RENEW_STEPS_MS[0]
    assert list(held.due(due_ms)) == [], "a renewal is under way"
    renewed = handle(pop_time_ms=due_ms)
    assert held.renewed(one, renewed)
    found = held.find("g", encode_handle(handle()))
    assert found is not None and found.current == renewed
    assert one.step_ms == receipts.RENEW_STEPS_MS[1]
    assert list(held.due(due_ms + 1)) == []


def test_a_failed_renewal_is_tried_again_until_the_time_is_over() -> None:
    held = held_one()
    (one,) = held.due(NOW_MS + 50_000)
    held.not_renewed(one)
    assert list(held.due(NOW_MS + 51_000)) == [one]
    held.not_renewed(one)
    assert list(held.due(NOW_MS + 60_000)) == []
    assert len(held) == 0


def test_a_message_is_held_for_a_limited_time() -> None:
    held = held_one()
    (one,) = held.due(NOW_MS + 50_000)
    last_ms = NOW_MS + receipts.HELD_MS_MAX
    held.renewed(one, handle(pop_time_ms=last_ms - 50_000))
    assert list(held.due(last_ms - 1)) == []
    assert list(held.due(last_ms)) == []
    assert len(held) == 0


def test_a_settled_message_is_not_renewed() -> None:
    held = held_one()
    (one,) = held.due(NOW_MS + 50_000)
    assert held.release("g", encode_handle(handle())) is one
    assert not held.renewed(one, handle(pop_time_ms=NOW_MS + 50_000))
    assert held.release("g", encode_handle(handle())) is None
    assert held.release_client("c") == []


def test_a_client_that_leaves_gives_back_what_it_holds() -> None:
    held = held_one()
    held.hold("other", "g", "T", handle(offset=8), NOW_MS)
    assert [each.current.offset for each in held.release_client("c")] == [7]
    assert len(held) == 1


def test_a_client_holds_a_limited_number_of_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "HELD_PER_CLIENT_MAX", 2)
    held = HeldMessages()
    assert [held.hold("c", "g", "T", handle(offset=i), NOW_MS) for i in range(3)] == [True, True, False]
    assert held.hold("d", "g", "T", handle(offset=3), NOW_MS)
