"""Seeded bugs in automatic batches and the order of keys, which their tests must catch.

Each is one wrong step that a programmer could write. Its ``suites`` are tests of ``tests/client/test_batching.py``,
with the value of their parameter.
"""

from __future__ import annotations

from typing import Any

from pymq.client import lanes, queue_picker
from pymq.client.in_flight import InFlight
from pymq.client.lanes import Lanes
from pymq.client.parcel import Parcel
from pymq.model.message import SendResult
from tests.planting import Bug, Seam, Text

_Lane: Any = lanes._Lane


def _all_get_the_first_offset(real: Any, parcel: Parcel, result: SendResult) -> None:
    for future in parcel.futures:
        if not future.done():
            future.set_result(result)


def _backwards(real: Any, parcel: Parcel) -> Any:
    return reversed(list(real(parcel)))


BUGS = [
    Bug(
        "all messages of a batch get the first one's result",
        Seam(Parcel.succeed, _all_get_the_first_offset),
        ("test_sends_of_one_turn_leave_in_one_request_and_get_their_own_results",),
    ),
    Bug(
        "a batch grows by one message too many",
        Text(Lanes.put, "len(parcel.items) + 1 < self.batch_count_max", "len(parcel.items) < self.batch_count_max"),
        ("test_a_batch_is_bounded_in_messages_and_bytes",),
    ),
    Bug(
        "a batch grows beyond its bytes",
        Text(_Lane.put, "parcel.size_bytes + size_bytes > lanes.batch_bytes_max", "False"),
        ("test_a_batch_is_bounded_in_messages_and_bytes",),
    ),
    Bug(
        "messages that wait differently share a batch",
        Text(_Lane.put, "parcel.wait_store is not wait_store", "False"),
        ("test_messages_that_wait_differently_and_other_topics_have_their_own_batches",),
    ),
    Bug(
        "what leaves alone joins a batch",
        Text(_Lane.put, "is_alone\n        or parcel.is_due", "parcel.is_due"),
        ("test_what_can_not_be_in_a_batch_leaves_alone", "test_messages_of_a_key_stay_in_order_over_refusals 5"),
    ),
    Bug(
        "an ordered lane has two requests on their way",
        Text(_Lane._send_due, " and not (is_ordered and self._under_way)", ""),
        ("test_messages_of_a_key_stay_in_order_over_refusals 0",),
    ),
    Bug(
        "behind a request nothing more is collected",
        Text(_Lane._lingered, "if not (self._place[2] and self._under_way):", "if True:"),
        ("test_an_ordered_queue_has_one_request_at_a_time_and_batches_behind_it",),
    ),
    Bug(
        "the messages of a refused batch are repeated backwards",
        Seam(Parcel.singles, _backwards),
        ("test_the_messages_of_a_refused_batch_of_a_key_keep_their_order",),
    ),
    Bug(
        "a key's hash keeps its sign",
        Text(queue_picker.queue_of_key, "abs(string_hash(ordering_key))", "string_hash(ordering_key)"),
        ("test_a_key_goes_where_java_sends_it",),
    ),
    Bug(
        "room is not given in order",
        Text(InFlight.try_take, "self._waiting or ", ""),
        ("test_room_is_given_in_order_and_a_large_message_passes_alone",),
    ),
]
