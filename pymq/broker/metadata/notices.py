"""Notices: members hear that their group changed, at once in small groups, in pieces in large ones.

RocketMQ sends every member a notice for every change. When 5,000 members of one group connect, that makes 12.5 million
frames. Members look at their group every 20 s anyway, so a late notice costs a new member seconds and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from pymq.wire.dispatch import Peer

MEMBERS_AT_ONCE = 256  # a group up to this size is notified at each change
NOTICES_A_TICK = 1000  # to members of larger groups, in some 20 ms

# Returns the connections of a group's members; none when the group is gone.
MembersOf = Callable[[str], Iterable[Peer]]


class Notices:
    """Sends NOTIFY_CONSUMER_IDS_CHANGED (40)."""

    def __init__(self, members_of: MembersOf) -> None:
        self._members_of = members_of
        self._waiting: dict[str, deque[Peer]] = {}  # by large group: members that the present round has not reached
        self._again: set[str] = set()  # groups that changed since their round began

    def send(self, group: str, count: int) -> None:
        """Notify the ``count`` members of a group that changed, now or, one piece a tick, soon."""
        if count <= MEMBERS_AT_ONCE:
            for peer in list(self._members_of(group)):
                _push(peer, group)
        elif group in self._waiting:
            self._again.add(group)
        else:
            self._waiting[group] = deque(self._members_of(group))

    def tick(self) -> None:
        """Send the next piece. Call it about every second."""
        room = NOTICES_A_TICK
        for group in list(self._waiting):
            members, waiting = set(self._members_of(group)), self._waiting[group]
            while waiting and room:
                peer = waiting.popleft()
                if peer in members:
                    _push(peer, group)
                    room -= 1
            if not waiting:
                del self._waiting[group]
                if group in self._again and members:
                    self._waiting[group] = deque(members)
                self._again.discard(group)
            if not room:
                return


def _push(peer: Peer, group: str) -> None:
    peer.push(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}, oneway=True))
