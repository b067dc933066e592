"""Brokers that name servers have forgotten."""

from __future__ import annotations

from pymq.operations.unlisted import unlisted


def test_brokers_that_are_not_listed_are_named_with_the_reason() -> None:
    found = unlisted(["b", "a", "c"], {"c": 1, "d": 2})
    assert list(found) == ["a", "b"] and "no name server lists it" in found["a"]
    assert unlisted([], ["a"]) == {} == unlisted(["a"], ["a"])
