"""Message traces: RocketMQ's fields in their order, older and shorter forms, and what can't be decoded."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.model.trace import (
    EXCEPTION,
    FAILED,
    TraceKind,
    TraceRecord,
    decode_traces,
    encode_trace,
    trace_keys,
)

PUBLISHED = TraceRecord(
    TraceKind.PUBLISHED, "M1", 5, "R", "PG", "T", "A", "k1 k2", "1.2.3.4:10911", 7, 2, 3, "OFF", True
)
DELIVERED = TraceRecord(TraceKind.DELIVERED, "M1", 6, "R", "CG", keys="k", request_id="Q", retry_times=2)
CONSUMED = TraceRecord(
    TraceKind.CONSUMED, "M1", 7, group="CG", cost_ms=4, success=False, request_id="Q", context_code=EXCEPTION
)
ENDED = TraceRecord(
    TraceKind.TRANSACTION_ENDED, "M1", 8, "R", "PG", "T", "", "", "h:1", message_type=2, transaction_id="X",
    state="COMMIT_MESSAGE", from_check=True,
)  # fmt: skip
RECALLED = TraceRecord(TraceKind.RECALLED, "M1", 9, "R", "PG", "T", success=False)
# What RocketMQ 5.3.3 writes for these.
TEXTS = {
    "Pub|5|R|PG|T|M1|A|k1 k2|1.2.3.4:10911|7|2|3|OFF|true": PUBLISHED,
    "SubBefore|6|R|CG|Q|M1|2|k": DELIVERED,
    "SubAfter|Q|M1|4|false|null|2|7|CG": CONSUMED,
    "EndTransaction|8|R|PG|T|M1|null|null|h:1|2|X|COMMIT_MESSAGE|true": ENDED,
    "Recall|9|R|PG|T|M1|false": RECALLED,
}


def wire(text: str) -> str:
    return text.replace("|", "\x01") + "\x02"


@pytest.mark.parametrize("text", TEXTS)
def test_each_kind_has_rocketmqs_fields(text: str) -> None:
    assert encode_trace(TEXTS[text]) == wire(text)
    assert decode_traces(wire(text)) == ([TEXTS[text]], [])


def test_records_follow_each_other() -> None:
    records, problems = decode_traces("".join(map(wire, TEXTS)))
    assert records == list(TEXTS.values()) and problems == []


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("Pub|5|R|PG|T|M1|A|k1 k2|1.2.3.4:10911|7|2|3|false", {"offset_message_id": "", "success": False}),
        ("Pub|5|R|PG|T|M1|A|k1 k2|1.2.3.4:10911|7|2|3|OFF|true|10.0.0.1", {}),
    ],
)
def test_older_and_longer_forms_of_a_send(text: str, changes: dict[str, object]) -> None:
    assert decode_traces(wire(text)) == ([dataclasses.replace(PUBLISHED, **changes)], [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "code", "success"),
    [
        ("SubAfter|Q|M1|4|true|k", 0, True),
        ("SubAfter|Q|M1|4|false|k", FAILED, False),
        ("SubAfter|Q|M1|4|false|k|1|", 1, False),
    ],
)
def test_shorter_forms_of_a_consumption(text: str, code: int, success: bool) -> None:
    ((record,), problems) = decode_traces(wire(text))
    assert (record.context_code, record.success, record.time_ms, record.group) == (code, success, 0, "")
    assert problems == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Pub|5|R", "only 3 fields"),
        ("Pub|now|R|PG|T|M1|A|k|h|7|2|3|OFF|true", "'now' is no number"),
        ("SubBefore|6|R|CG|Q|M1|²|k", "is no number"),
        (f"Recall|{'9' * 30}|R|PG|T|M1|false", "is no number"),
        ("Subscribed|1", "unknown kind 'Subscribed'"),
        ("x" * 900, "unknown kind"),
    ],
)
def test_what_cannot_be_decoded_is_named_and_skipped(text: str, part: str) -> None:
    records, (problem,) = decode_traces(wire("Recall|9|R|PG|T|M1|false") + wire(text))
    assert records == [RECALLED] and part in problem and problem.startswith("record 2") and len(problem) < 120


def test_separators_in_values_do_not_break_a_record() -> None:
    ((record,), problems) = decode_traces(encode_trace(dataclasses.replace(PUBLISHED, keys="a\x01b\x02c")))
    assert record.keys == "a b c" and problems == []


def test_keys_are_all_ids_and_keys_once() -> None:
    assert trace_keys([PUBLISHED, DELIVERED, RECALLED]) == ["M1", "k1", "k2", "k"]


@given(st.text(max_size=200))
def test_any_text_decodes_to_records_or_problems(text: str) -> None:
    records, problems = decode_traces(text)
    assert len(records) + len(problems) == len([part for part in text.split("\x02") if part])


words = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), max_size=8)


@given(st.builds(dataclasses.replace, st.just(PUBLISHED), topic=words, group=words, store_host=words))
def test_what_is_encoded_is_decoded(record: TraceRecord) -> None:
    assert decode_traces(encode_trace(record)) == ([record], [])
