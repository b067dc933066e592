"""ServerHooks: what the owner of a server does at the ends of turns and connections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

ConnectionT = TypeVar("ConnectionT")


@dataclass(frozen=True, slots=True)
class ServerHooks(Generic[ConnectionT]):
    """Calls at the end of each turn, after the turn's answers are written, and when a connection has ended.

    ``after_turn`` returns True to be called again after the next round.
    """

    on_turn_end: Callable[[], None] | None = None
    after_turn: Callable[[], bool] | None = None
    on_disconnect: Callable[[ConnectionT], None] | None = None
