"""LongPolls: pulls that found nothing and wait by queue for a matching arrival or their deadline.

The pulls of a queue that have the same filter form a group. An arrival looks at each group once, not at each pull, and
answers are made in slices: between two slices the event loop serves other connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from pymq.broker.messages.message_filter import MessageFilter
from pymq.broker.messages.waiting_table import SLICE_MS, TURN_BYTES_MAX, WaitingRequest, WaitingTable
from pymq.clock import Clock
from pymq.net.memory_budget import MemoryBudget
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer

PARKED_COUNT_MAX = 100_000
SUSPEND_MAX_MS = 30_000
DEFER_MAX_MS = 10_000
# Different filters of one queue that an arrival looks at. Pulls with further ones are due at every arrival: they read
# again and find out.
QUEUE_FILTERS_MAX = 1_000

_EVERYTHING = MessageFilter()

QueueKey = tuple[str, int]
AnyAccepted = Callable[[MessageFilter], bool]


class ParkedPull(WaitingRequest):
    """One waiting pull, with what it reads."""

    __slots__ = ("group", "header")

    def __init__(
        self,
        peer: Peer,
        request: Command,
        header: Any,
        message_filter: MessageFilter,
        deadline_ms: int,
        group: PullGroup | None,
    ) -> None:
        super().__init__(peer, request, message_filter, deadline_ms)
        self.header = header
        self.group = group
        self.is_due = group is None

    def release(self) -> None:
        """Give up what is not needed any more: the list of due pulls keeps a pull longer than it waits."""
        self.header = None
        self.message_filter = _EVERYTHING
        self.group = None


class PullGroup:
    """The parked pulls of one queue with one filter.

    ``any_accepted`` is set while it is open whether the filter's record test accepts what arrived.
    """

    __slots__ = ("any_accepted", "key", "message_filter", "pulls")

    def __init__(self, key: QueueKey, message_filter: MessageFilter) -> None:
        self.key = key
        self.message_filter = message_filter
        self.pulls: dict[int, ParkedPull] = {}
        self.any_accepted: AnyAccepted | None = None


class LongPolls:
    """The table of parked pulls, and of those that wait for another turn. ``turn_bytes`` is the size of the answers to
    pulls in this turn."""

    def __init__(
        self,
        clock: Clock,
        retry: Callable[[ParkedPull], int],
        count_max: int = PARKED_COUNT_MAX,
        *,
        budget: MemoryBudget,
        refuse: Callable[[ParkedPull], None],
        dismiss: Callable[[ParkedPull], None] = lambda parked: None,
    ) -> None:
        """``retry`` reads again, answers, and returns the answer's size; it must not park. ``refuse`` answers a pull
        whose time is over before there was room for its answer, ``dismiss`` one that :meth:`dismiss_all` ends."""
        self._clock = clock
        self._retry = retry
        self._refuse = refuse
        self._dismiss = dismiss
        self._budget = budget
        self._count_max = count_max
        self._by_queue: dict[QueueKey, dict[MessageFilter, PullGroup]] = {}
        self._table: WaitingTable[ParkedPull] = WaitingTable(budget)
        self._due: deque[ParkedPull] = deque()
        self._deferred: deque[ParkedPull] = deque()
        self._behind: dict[Peer, list[ParkedPull]] = {}  # due pulls of peers that don't read their answers
        self._lacks_room = False  # for answers to due pulls, as the budget said since the last tick
        self._open: deque[PullGroup] = deque()  # their record test has not seen yet what arrived
        self._is_time_over = False  # for some pull, perhaps
        self._next_kind = 0  # of work
        self._is_released = False  # the broker stops
        self.turn_bytes = 0
        self.refused_count = 0

    @property
    def count(self) -> int:
        """How many pulls wait."""
        return self._table.count

    def park(self, peer: Peer, request: Command, header: Any, message_filter: MessageFilter, suspend_ms: int) -> bool:
        """Park a pull for at most ``suspend_ms`` (clamped to 30 s). Return False when the table is full.

        ``request`` is kept: the :meth:`Command.envelope` of the pull. Raises Refusal when the memory budget has no
        room.
        """
        if self.is_full:
            self.refused_count += 1
            return False
        self._table.check_room(message_filter, "a waiting pull")
        key = (header.topic, header.queue_id)
        groups = self._by_queue.setdefault(key, {})
        group = groups.get(message_filter)
        if group is None:
            group = _add_group(groups, key, message_filter)
        parked = self._keep(peer, request, header, message_filter, min(suspend_ms, SUSPEND_MAX_MS), group)
        group.pulls[parked.number] = parked
        return True

    def defer(self, peer: Peer, request: Command, header: Any, message_filter: MessageFilter) -> None:
        """Let a pull wait for another turn, because this one is full. ``request`` as for :meth:`park`.

        Raises Refusal when the memory budget has no room.
        """
        self._table.check_room(message_filter, "a waiting pull")
        self._deferred.append(self._keep(peer, request, header, message_filter, DEFER_MAX_MS))

    def _keep(
        self,
        peer: Peer,
        request: Command,
        header: Any,
        message_filter: MessageFilter,
        wait_ms: int,
        group: PullGroup | None = None,
    ) -> ParkedPull:
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        parked = ParkedPull(peer, request, header, message_filter, deadline_ms, group)
        self._table.add(parked)
        return parked

    @property
    def is_full(self) -> bool:
        """True when no further pull may park."""
        return self._table.count >= self._count_max or self._is_released

    @property
    def is_turn_full(self) -> bool:
        """True when further pulls must wait for another turn: this one has made many answers, or the memory of closed
        connections is not free yet."""
        return self.turn_bytes > TURN_BYTES_MAX or self._budget.closing_bytes > 0

    def is_waited_for(self, topic: str, queue_id: int) -> bool:
        """Return True when a pull of the queue is parked."""
        return bool(self._by_queue) and (topic, queue_id) in self._by_queue

    def on_arrival(self, topic: str, queue_id: int, tags_codes: Sequence[int], any_accepted: AnyAccepted) -> None:
        """Take note of new messages in a queue: pulls that accept one of them are due. The store's commit calls this.

        ``any_accepted`` reads the messages themselves, and all later ones. :meth:`wake` calls it, at most once for each
        record filter of parked pulls.
        """
        groups = self._by_queue.get((topic, queue_id))
        if not groups:
            return
        arrived = frozenset(tags_codes)
        for group in list(groups.values()):
            codes, accept = group.message_filter[:2]
            if codes is not None and codes.isdisjoint(arrived):
                continue
            if accept is None:
                self._make_due(group)
            elif group.any_accepted is None:  # else it will see these messages too
                group.any_accepted = any_accepted
                self._open.append(group)

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """Make every pull of a queue due, whatever its filter: an operator reset an offset."""
        for group in list(self._by_queue.get((topic, queue_id), {}).values()):
            self._make_due(group)

    def dismiss_all(self) -> None:
        """End every waiting pull without reading for it, because its sender may not be allowed to read any more.

        They are due: :meth:`wake` answers them, in slices as always.
        """
        self._table.dismiss_all()
        for groups in list(self._by_queue.values()):
            for group in list(groups.values()):
                self._make_due(group)

    def wake(self) -> bool:
        """Answer deferred pulls, and those that an arrival or their deadline made due. Return True when more are due.

        It ends after SLICE_MS or TURN_BYTES_MAX. Called once a turn, after the commit.
        """
        self.turn_bytes = 0
        if not self._due and not self._open and not self._is_time_over and not self._deferred:
            return False
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._take_step():
            if self._clock.monotonic_ms() >= end_ms:
                break
        self.turn_bytes = 0  # what comes in before the next turn's end is another turn
        return bool(self._deferred or self._open or self._is_time_over or (self._due and not self._lacks_room))

    def wake_the_only_one(self) -> None:
        """Answer the due pull if it is all that is to do, as when one consumer waits for a message.

        Called once a turn, before :meth:`wake`. So its answer is written together with those to the turn's sends, and
        nothing has to look at everything.
        """
        if (
            len(self._due) == 1
            and not (self._open or self._is_time_over or self._deferred or self._lacks_room)
            and not self.is_turn_full
        ):
            self._answer_due(self._due.popleft())

    def tick(self) -> None:
        """Answer pulls whose time is over, as :meth:`wake` does. Take up those of peers that read again."""
        for peer in [peer for peer in self._behind if peer.closed or not peer.is_behind]:
            self._due.extend(self._behind.pop(peer))
        self._lacks_room = False
        self._is_time_over = self._table.next_deadline_ms is not None
        self.wake()

    def disconnect(self, peer: Peer) -> None:
        """Drop the pulls of a connection that has ended, as soon as due pulls are looked at."""
        self._due.extend(self._table.forget_peer(peer))

    def release_some(self) -> bool:
        """Answer waiting pulls, because the broker stops; return True when more wait. From now on no pull may park.

        It ends after SLICE_MS or TURN_BYTES_MAX.
        """
        self._is_released = True
        end_ms, size_bytes = self._clock.monotonic_ms() + SLICE_MS, 0
        while size_bytes <= TURN_BYTES_MAX and (parked := self._table.take_any()) is not None:
            parked.is_due = True  # refused when there is no room for an answer
            size_bytes += self._finish_late(parked)
            if self._clock.monotonic_ms() >= end_ms:
                break
        return self._table.next_deadline_ms is not None

    def _take_step(self) -> bool:
        """Answer one pull, or look at one group. Return False when nothing is left to do."""
        # In rotation: much of one kind must not keep the others waiting.
        is_full = self.is_turn_full
        for _ in range(4):
            self._next_kind = (self._next_kind + 1) % 4
            if self._next_kind == 0 and self._due and not self._lacks_room and not is_full:
                self._answer_due(self._due.popleft())
                return True
            if self._next_kind == 3 and self._deferred and not is_full:
                self._answer_due(self._deferred.popleft(), needs_room=False)
                return True
            if self._next_kind == 1 and self._open:
                self._look(self._open.popleft())
                return True
            if self._next_kind == 2 and self._is_time_over:
                self._is_time_over = self._take_overdue()
                return True
        return False

    def _answer_due(self, parked: ParkedPull, *, needs_room: bool = True) -> None:
        """Answer a pull, unless its peer does not read or the memory budget has no room: then it goes on waiting."""
        if parked.done or parked.peer.closed:
            self._finish(parked)
        elif parked.peer.is_behind:
            self._behind.setdefault(parked.peer, []).append(parked)
        elif needs_room and not self._budget.has_room():
            self._due.appendleft(parked)
            self._lacks_room = True
        else:
            self.turn_bytes += self._finish(parked)

    def _look(self, group: PullGroup) -> None:
        """Have the group's record test see what arrived."""
        any_accepted, group.any_accepted = group.any_accepted, None
        if group.pulls and any_accepted is not None and any_accepted(group.message_filter):
            self._make_due(group)

    def _take_overdue(self) -> bool:
        """Answer the pull whose deadline comes first. Return False when it has not come."""
        parked = self._table.take_overdue(self._clock.monotonic_ms())
        if parked is None:
            return False
        self._finish_late(parked)
        return True

    def _make_due(self, group: PullGroup) -> None:
        for parked in group.pulls.values():
            parked.is_due = True
        self._due.extend(group.pulls.values())
        group.pulls = {}
        self._forget(group)

    def _forget(self, group: PullGroup) -> None:
        groups = self._by_queue.get(group.key, {})
        if groups.get(group.message_filter) is group:
            del groups[group.message_filter]
            if not groups:
                del self._by_queue[group.key]

    def _finish_late(self, parked: ParkedPull) -> int:
        """Answer a pull whose time is over; refuse one that messages came for and that found no room until now.

        Return the answer's size.
        """
        if parked.is_due and not parked.done and (parked.peer.is_behind or not self._budget.has_room()):
            return self._finish(parked, self._refuse)
        return self._finish(parked)

    def _finish(self, parked: ParkedPull, answer: Callable[[ParkedPull], int | None] | None = None) -> int:
        """Answer a pull, by default with what it reads. Return the answer's size."""
        if parked.done:
            return 0
        self._table.finish(parked)
        group = parked.group
        if group is not None and group.pulls.pop(parked.number, None) is not None and not group.pulls:
            self._forget(group)
        if self._table.is_dismissed(parked):
            answer = self._dismiss
        size_bytes = 0 if parked.peer.closed else (answer or self._retry)(parked)
        parked.release()
        return size_bytes or 0


def _add_group(groups: dict[MessageFilter, PullGroup], key: QueueKey, message_filter: MessageFilter) -> PullGroup:
    """Return a new group, or beyond the limit the one that every arrival makes due."""
    if len(groups) >= QUEUE_FILTERS_MAX:
        message_filter = _EVERYTHING
    group = groups.get(message_filter)
    if group is None:
        group = groups[message_filter] = PullGroup(key, message_filter)
    return group
