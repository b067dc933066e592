"""Kept answers take so much memory together."""

from __future__ import annotations

from typing import Any

from pymq.console.asking.room import Room


def test_what_has_lain_longest_goes_from_whose_shelf_it_may_be() -> None:
    room, ann, bob = Room(100), dict[Any, Any](), dict[Any, Any]()
    room.put(ann, "a", 1, 40)
    room.put(bob, "a", 2, 40)
    room.put(ann, "b", 3, 20)
    assert room.held_bytes == 100 and ann == {"a": 1, "b": 3}
    room.put(bob, "c", 4, 1)
    assert room.held_bytes == 61 and (ann, bob) == ({"b": 3}, {"a": 2, "c": 4})


def test_a_newer_answer_takes_the_place_of_an_older_one() -> None:
    room, shelf, other = Room(100), dict[Any, Any](), dict[Any, Any]()
    room.put(shelf, "a", 1, 60)
    room.put(other, "b", 1, 30)
    room.put(shelf, "a", 2, 70)
    assert room.held_bytes == 100 and shelf == {"a": 2} and other == {"b": 1}
    room.put(other, "c", 1, 1)
    assert shelf == {"a": 2} and other == {"c": 1}, "it lies at its end again"


def test_an_answer_that_has_no_room_at_all_is_not_kept() -> None:
    room, shelf = Room(100), dict[Any, Any]()
    room.put(shelf, "a", 1, 101)
    assert not shelf and room.held_bytes == 0


def test_a_shelf_is_cleared_alone() -> None:
    room, shelf, other = Room(100), dict[Any, Any](), dict[Any, Any]()
    for key in "ab":
        room.put(shelf, key, 1, 10)
        room.put(other, key, 1, 10)
    room.take(shelf, "no such answer")
    room.clear(shelf)
    assert not shelf and len(other) == 2 and room.held_bytes == 20
