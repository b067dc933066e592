"""Progress: what a leader knows of one member's log (nextIndex and matchIndex, §5.3), and what it sends it next."""

from __future__ import annotations

from pymq.raft.core import Core
from pymq.raft.messages import AppendAnswer, AppendRequest, Heartbeat, Snapshot, SnapshotOffer
from pymq.raft.state import Replica


class Progress:
    """The member's disk has our log below ``match_end``. We send from ``next_end``.

    While probing, requests are empty: they look for the place where both logs are equal. ``silent_ticks`` is how long
    nothing was heard of it, ``acked_round`` the newest heartbeat that it answered.
    """

    def __init__(self, core: Core, replica: Replica) -> None:
        self._core = core
        self._replica = replica
        self.match_end = 0
        self.next_end = core.log.end
        self.is_probing = True
        self.needs_snapshot = False
        self.silent_ticks = 0
        self.acked_round = 0
        self.synced_end = 0
        self._is_answered = True

    def send(self) -> None:
        """Send what is new. The driver cuts a long request into several, at ends of records."""
        core, log = self._core, self._core.log
        if self.needs_snapshot or self.next_end < log.begin:
            self.needs_snapshot = True
            return
        end = self.next_end if self.is_probing else log.end
        previous, pieces = log.position(self.next_end), log.pieces(self.next_end, end)
        memberships = log.memberships_in(self.next_end, end)
        core.outbox.append(
            AppendRequest(core.me, self._replica, core.term, previous, pieces, memberships, core.confirm_offset)
        )
        self.next_end = end

    def send_new(self) -> None:
        """Send at once what was proposed, when the place is known."""
        if not self.is_probing and self.next_end < self._core.log.end:
            self.send()

    def beat(self, round_number: int) -> None:
        """Send a heartbeat."""
        core = self._core
        confirm_offset = min(core.confirm_offset, self.match_end)
        core.outbox.append(Heartbeat(core.me, self._replica, core.term, confirm_offset, round_number))

    def send_again(self) -> None:
        """Send again what nobody answered since the last call."""
        core = self._core
        if self.needs_snapshot:
            core.outbox.append(SnapshotOffer(core.me, self._replica, core.term, snapshot_of(core)))
        elif self.is_probing or (self.match_end < core.log.end and not self._is_answered):
            self.next_end = self.next_end if self.is_probing else self.match_end
            self.send()
        self._is_answered = False

    def on_answer(self, answer: AppendAnswer) -> None:
        """Move forward, or back to where the hint says that both logs may be equal."""
        self._is_answered = True
        if answer.is_accepted:
            self.matched(answer.match_end)
            if self.is_probing:
                self.is_probing = False
                self.next_end = max(min(answer.previous_end, self._core.log.end), self.match_end)
            self.send_new()
        elif answer.previous_end > self.match_end:
            place = self._core.log.newest_below(answer.hint)
            self.is_probing = True
            self.next_end = max(self.match_end, min(place.end, answer.previous_end))
            self.send()

    def matched(self, end: int) -> None:
        """Note that the member's disk has our log below ``end``. No member can have more of it than we have."""
        self.match_end = max(self.match_end, min(end, self._core.log.end))
        self.next_end = max(self.next_end, self.match_end)

    def on_installed(self, end: int) -> None:
        """Go on behind a snapshot."""
        self.needs_snapshot = False
        self.is_probing = True
        self.matched(end)
        self.next_end = self.match_end
        self.send()


def snapshot_of(core: Core) -> Snapshot:
    """Return the snapshot that this node can give: all that is confirmed, with its last epoch (§7)."""
    log, end = core.log, core.confirm_offset
    epochs = tuple(epoch for epoch in log.epochs if epoch.start < end)
    memberships = log.memberships[:1] + tuple(entry for entry in log.memberships[1:] if entry.end <= end)
    return Snapshot(log.begin, log.position(end), epochs, memberships)
