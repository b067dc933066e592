from __future__ import annotations

import gc

import pytest

from pymq.broker.upkeep.lasting_objects import QUEUES_AT_ONCE, LastingObjects


class FakeStore:
    """The store as LastingObjects reads it."""

    queue_count = 0


def test_many_new_queues_are_left_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()
    monkeypatch.setattr(gc, "collect", lambda: done.append("collect"))
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))
    store = FakeStore()
    objects = LastingObjects(store)  # type: ignore[arg-type]
    for count, done_count in [
        (QUEUES_AT_ONCE - 1, 0),
        (QUEUES_AT_ONCE, 1),
        (QUEUES_AT_ONCE, 1),
        (2 * QUEUES_AT_ONCE - 1, 1),
        (2 * QUEUES_AT_ONCE, 2),
        (0, 2),  # their topics were deleted
        (QUEUES_AT_ONCE - 1, 2),
        (QUEUES_AT_ONCE, 3),
    ]:
        store.queue_count = count
        objects.tick()
        assert done == ["collect", "freeze"] * done_count
