"""The options of one tail, and the position it has in each queue."""

from __future__ import annotations

from dataclasses import dataclass, field

from pymq.client import MessageQueue
from pymq.operations.message.selection import MessageSelection
from pymq.operations.queues import QueueChoice
from pymq.operations.start import Start

LOOK_BACK_MAX = 100_000  # messages, over all queues, in search of the last ones that match


@dataclass(frozen=True)
class TailOptions:
    """The options of the command. ``topics``: names and patterns; empty: all topics of applications.

    ``retries``, ``dead_letters``: groups whose topics are read too. ``count`` None: no limit. ``stop`` None: no end;
    its kind is OFFSET or TIME. ``is_group_named``: the user chose ``group``, which some broker must have unless
    ``create_group``. ``look_back_max``: messages.
    """

    topics: list[str]
    start: Start
    count: int | None
    follow: bool
    selection: MessageSelection
    queue: QueueChoice | None
    group: str
    commit: bool
    namesrv: str
    stop: Start | None = None
    retries: list[str] = field(default_factory=list)
    dead_letters: list[str] = field(default_factory=list)
    is_group_named: bool = False
    create_group: bool = False
    look_back_max: int = LOOK_BACK_MAX


@dataclass
class Cursor:
    """The position in one queue. ``offset``: the next to read; ``end``: the queue's end when the tail began;
    ``done``: the offset after the last message shown or skipped, which may be committed."""

    queue: MessageQueue
    offset: int
    end: int
    done: int
    committed: int = -1
    is_over: bool = False  # it has reached the end that the command was given
