"""Slaves that a test moves by hand, in place of a master's HaService."""

from __future__ import annotations

from tests.broker.world import World


class FakeSlaves:
    """``acks``: the log offset each connected slave has."""

    def __init__(self, world: World, count: int = 0) -> None:
        self._world = world
        self.acks = [0] * count
        self.is_lagging = False  # none of them counts as in sync
        world.parts.replication.sync_mode.slaves = self
        world.parts.messages.waiting_answers.release_confirmed()

    @property
    def in_sync_count(self) -> int:
        return 0 if self.is_lagging else len(self.acks)

    def offset_acked_by(self, slave_count: int) -> int:
        acks = sorted(self.acks, reverse=True)
        return acks[slave_count - 1] if len(acks) >= slave_count else 0

    def ack(self, place: int = 0, offset: int | None = None) -> None:
        """Report that a slave has the log up to ``offset``, or all of it."""
        self.acks[place] = self._world.parts.store.physical_max_offset if offset is None else offset
        self._world.parts.messages.waiting_answers.release_confirmed()

    def come(self) -> None:
        self.acks.append(0)
        self._world.parts.messages.waiting_answers.release_confirmed()

    def leave(self) -> None:
        self.acks.pop()
        self._world.parts.messages.waiting_answers.release_confirmed()
