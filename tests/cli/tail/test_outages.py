"""One line for a broker that restarts, and one when it is back, however many queues it has."""

from __future__ import annotations

from pymq.cli.tail.outages import Outages
from pymq.client import MessageQueue
from pymq.errors import NotFoundError, RefusedError, UnreachableError

A = [MessageQueue(topic, "broker-a", queue_id) for topic in ("orders", "payments") for queue_id in range(8)]
B = MessageQueue("orders", "broker-b", 0)


def test_a_restart_is_one_line_and_one_when_all_queues_are_back() -> None:
    notes: list[str] = []
    outages = Outages(notes.append)
    for _ in range(3):
        for queue in A:
            outages.failed(queue, UnreachableError("no connection"))
    assert notes == ["broker-a: no connection; trying again"]
    outages.failed(A[0], RefusedError(1, "starting"))
    for queue in A[:-1]:
        outages.worked(queue)
    assert len(notes) == 1
    outages.worked(A[-1])
    outages.worked(A[-1])
    assert notes[1:] == ["broker-a: back"]


def test_another_broker_and_a_topic_that_is_gone_have_lines_of_their_own() -> None:
    notes: list[str] = []
    outages = Outages(notes.append)
    outages.failed(A[0], UnreachableError("no connection"))
    outages.failed(B, UnreachableError("no connection"))
    for queue in A[8:]:
        outages.failed(queue, NotFoundError("no topic 'payments'"))
    assert [note.partition(":")[0] for note in notes] == ["broker-a", "broker-b", "payments"]
    outages.worked(A[0])
    assert notes[-1] == "broker-a: back"
