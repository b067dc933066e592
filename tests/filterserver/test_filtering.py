"""Filtering: policies for errors, and the way past messages that no worker survives."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.filter.running import OnError
from pymq.filterserver.classes import BAD_MESSAGE_COUNT_MAX, SUSPECT_COUNT_MAX, FilterClass, FilterText
from pymq.filterserver.filtering import Filtered, Filtering, record_spans
from pymq.filterserver.work import FAILED, MATCH, NO_MATCH, RecordOutcomes
from pymq.filterserver.workers import Filter, WorkerFailedError
from pymq.model.record import MalformedRecordError
from tests.filterserver.records import bodies, records

KILLER = b"kill"
OUTCOMES = {b"yes": MATCH, b"no": NO_MATCH, b"bad": FAILED}


class FakeWorkers:
    """Filters by the bodies; a batch that holds a killer message fails."""

    def __init__(self) -> None:
        self.failure_count = 0
        self.sizes: list[int] = []

    async def filter_records(self, target: Filter, broker_name: str, raw: bytes) -> RecordOutcomes:
        found = bodies(raw)
        self.sizes.append(len(found))
        if KILLER in found:
            self.failure_count += 1
            raise WorkerFailedError("a worker died")
        outcomes = bytes(OUTCOMES[body] for body in found)
        return RecordOutcomes(outcomes, "it is bad" if FAILED in outcomes else "", 5)


def make_class(policy: OnError | None = None) -> FilterClass:
    return FilterClass("G", "T", FilterText("f", "x", policy), Filter("f", "x"), 0, 0)


def pull(workers: FakeWorkers, filter_class: FilterClass, queue: list[bytes], start: int, count: int = 32) -> Filtered:
    raw = records(queue[start : start + count], start)
    return asyncio.run(Filtering(workers).run(filter_class, 0, raw))


def read_all(
    workers: FakeWorkers, filter_class: FilterClass, queue: list[bytes], count: int
) -> tuple[list[bytes], str]:
    """Return the messages of a consumer that pulls to the end or to where it is stopped."""
    got: list[bytes] = []
    offset = 0
    while offset < len(queue):
        failures_before = workers.failure_count
        filtered = pull(workers, filter_class, queue, offset, count)
        if filtered.stopped_by:
            return got, filtered.stopped_by
        got += [body for part in filtered.parts for body in bodies(part)]
        moved_to = min(offset + count, len(queue)) if filtered.next_offset is None else filtered.next_offset
        assert moved_to > offset or (moved_to == offset and workers.failure_count > failures_before)
        offset = moved_to
    return got, ""


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([b"yes", b"no", b"bad", KILLER, b"yes", b"no"]), max_size=40),
    st.integers(1, 17),
    st.sampled_from(OnError),
)
def test_a_consumer_gets_every_match_whatever_fails(queue: list[bytes], count: int, policy: OnError) -> None:
    got, stopped_by = read_all(FakeWorkers(), make_class(policy), queue, count)
    failing = [index for index, body in enumerate(queue) if body in (b"bad", KILLER)]
    if policy is OnError.STOP and failing:
        assert got == [body for body in queue[: failing[0]] if body == b"yes"]
        assert f"offset {failing[0]}:" in stopped_by
        return
    filter_class = {b"yes"} if policy is not OnError.DELIVER else {b"yes", b"bad", KILLER}
    assert got == [body for body in queue if body in filter_class] and not stopped_by


def test_finding_a_killer_costs_few_workers() -> None:
    workers = FakeWorkers()
    queue = [b"yes"] * 21 + [KILLER] + [b"yes"] * 42
    got, _ = read_all(workers, make_class(), queue, 32)
    assert len(got) == 63 and workers.failure_count <= 6  # 32, 16, 8, 4, 2, 1
    workers.sizes.clear()
    filter_class = make_class()
    read_all(workers, filter_class, queue, 32)
    assert filter_class.suspects == {}


def test_readers_of_one_queue_do_not_hide_each_others_killers() -> None:
    workers, filter_class = FakeWorkers(), make_class()
    queue = [b"yes"] * 5 + [KILLER] + [b"yes"] * 2 + [b"no"] * 8
    got: list[bytes] = []
    offset = 0
    while offset < 8:
        pull(workers, filter_class, queue, 8, 8)  # another one, further on
        filtered = pull(workers, filter_class, queue, offset, 8)
        got += [body for part in filtered.parts for body in bodies(part)]
        offset = 8 if filtered.next_offset is None else filtered.next_offset
        assert workers.failure_count <= 4, "8, 4, 2, 1"
    assert got == [b"yes"] * 7 and filter_class.suspects == {}


def test_suspected_messages_are_bounded() -> None:
    filter_class = make_class()
    for offset in range(SUSPECT_COUNT_MAX + 1):
        filter_class.note_suspects(0, offset, offset + 2)
    assert len(filter_class.suspects) == SUSPECT_COUNT_MAX and (0, 0) not in filter_class.suspects


def test_a_killer_under_stop_costs_no_worker_the_second_time() -> None:
    workers, filter_class = FakeWorkers(), make_class(OnError.STOP)
    first = pull(workers, filter_class, [KILLER], 0)
    again = pull(workers, filter_class, [KILLER], 0)
    assert workers.failure_count == 1
    assert first.stopped_by == again.stopped_by and "a worker died" in first.stopped_by


def test_known_bad_messages_are_bounded() -> None:
    filter_class = make_class()
    for offset in range(BAD_MESSAGE_COUNT_MAX + 1):
        filter_class.note_bad(0, offset, "x")
    assert len(filter_class.bad_messages) == BAD_MESSAGE_COUNT_MAX and (0, 0) not in filter_class.bad_messages


def test_records_pass_unchanged_and_are_counted() -> None:
    filter_class = make_class()
    raw = records([b"yes", b"no", b"bad", b"yes"])
    filtered = asyncio.run(Filtering(FakeWorkers()).run(filter_class, 0, raw))
    spans = record_spans(raw)
    assert filtered.parts == [raw[: spans[0].end], raw[spans[3].start :]] and filtered.next_offset is None
    stats = filter_class.stats
    assert (stats.matched, stats.skipped, stats.errors, stats.batches, stats.time_us) == (2, 1, 1, 1, 5)


@pytest.mark.parametrize("cut", [1, 50, 90])
def test_a_truncated_answer_is_refused(cut: int) -> None:
    with pytest.raises(MalformedRecordError):
        record_spans(records([b"yes", b"no"])[:-cut])


def test_a_class_without_a_policy_uses_the_servers() -> None:
    filtering = Filtering(FakeWorkers(), on_error=OnError.DELIVER)
    filtered = asyncio.run(filtering.run(make_class(), 0, records([b"bad", b"no"])))
    assert bodies(b"".join(filtered.parts)) == [b"bad"]
