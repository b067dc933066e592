"""A filter in a task sees messages as anywhere else and yields the places of the records it keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import FilterError, FilterStopError
from pymq.filter.messages import FilterMessage, of_stored
from pymq.model.record import decode_records
from pymq.spark.planning.selection import Selection
from pymq.spark.reading.plugin_filter import BATCH_COUNT, PluginFilter, filter_messages
from pymq.spark.records.layout import find_starts
from tests.spark.record_bytes import record, records


def seen(message: FilterMessage) -> tuple:
    try:
        body = message.body
    except FilterError:
        body = None
    place = message.topic, message.broker_name, message.queue_id, message.queue_offset, message.store_timestamp_ms
    return *place, dict(message.properties), body


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(records(), min_size=1, max_size=6))
def test_messages_equal_those_filters_see_elsewhere(raw: list[bytes]) -> None:
    chunk = b"".join(raw)
    messages = decode_records(chunk)
    for message in messages:
        message.broker_name = "b"
    expected = [seen(of_stored(message)) for message in messages]
    assert [seen(message) for message in filter_messages(chunk, find_starts(chunk), "b")] == expected


def jsonpath(on_error: str) -> PluginFilter:
    return PluginFilter(Selection(filter="jsonpath", expression="$[?@ > 2]", on_error=on_error), "b")


def test_places_of_kept_messages_over_several_batches() -> None:
    chunk = b"".join(record(n, b"[%d]" % (n % 5)) for n in range(2 * BATCH_COUNT + 3))
    starts = find_starts(chunk)
    some = starts[1:]  # the filter does not see the first record
    kept = jsonpath("skip").keep(bytearray(chunk), some)
    assert kept.tolist() == [at for n, at in enumerate(starts.tolist()) if n and n % 5 > 2]


def test_errors_are_counted_delivered_or_stop() -> None:
    chunk = b"".join(record(n, body) for n, body in enumerate((b"[9]", b"no JSON", b"[1]")))
    starts = find_starts(chunk)
    skipping = jsonpath("skip")
    assert np.array_equal(skipping.keep(chunk, starts), starts[:1]) and skipping.error_count == 1
    assert np.array_equal(jsonpath("deliver").keep(chunk, starts), starts[:2])
    with pytest.raises(FilterStopError, match="T b/0@1"):
        jsonpath("stop").keep(chunk, starts)
