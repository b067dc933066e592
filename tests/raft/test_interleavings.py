"""Nodes do what figure 2 of the paper says, in every order of a few events."""

from __future__ import annotations

from tests.raft.interleavings import explore


def test_nodes_are_as_the_model_in_every_order() -> None:
    assert explore(3) > 100
