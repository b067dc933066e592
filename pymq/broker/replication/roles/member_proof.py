"""MemberProof: asks members that claim a newer epoch, or to be the master, to prove that they have our log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory, common_point
from pymq.broker.replication.history.log_proof import ProvenLog, ask_for_proof, piece_before
from pymq.broker.replication.roles.group_probe import Member
from pymq.model.route import MASTER_ID
from pymq.wire.streams import Network

PROVEN_MEMBERS_MAX = 64  # that are not asked again; beyond: the oldest is forgotten


class MemberProof:
    """Belongs to one broker. ``log`` returns its log, None while that can't be read; ``epoch_history`` its epochs."""

    def __init__(
        self, network: Network, epoch_history: Callable[[], EpochHistory], log: Callable[[], ProvenLog | None]
    ) -> None:
        self._network = network
        self._epoch_history = epoch_history
        self._log = log
        self._proven: dict[tuple[str, EpochEntry], None] = {}

    def check(self, members: list[Member], on_done: Callable[[list[Member]], None]) -> None:
        """Call ``on_done`` with the same members. A member that did not prove its claims has a ``doubt``."""
        ours, log = self._epoch_history(), self._log()
        if not ours.entries or log is None or log.end == log.start:
            on_done(members)  # nothing can be proven, and nothing lost
            return
        asked = [place for place, member in enumerate(members) if self._must_prove(member, ours)]
        checked, waiting = [_without_epoch(member) for member in members], len(asked)
        if not waiting:
            on_done(checked)
            return

        def done(place: int, why: str, is_final: bool) -> None:
            nonlocal waiting
            waiting -= 1
            if why:
                checked[place] = dataclasses.replace(members[place], doubt=why, is_unproven=not is_final)
            else:
                self._note_proven(members[place])
            if not waiting:
                on_done(checked)

        for place in asked:
            self._ask(members[place], ours, log, partial(done, place))

    def _must_prove(self, member: Member, ours: EpochHistory) -> bool:
        entries = member.epoch_history.entries
        if not entries or (member.address, entries[-1]) in self._proven:
            return False
        return entries[-1].epoch > ours.epoch or member.broker_id == MASTER_ID

    def _note_proven(self, member: Member) -> None:
        self._proven[member.address, member.epoch_history.entries[-1]] = None
        if len(self._proven) > PROVEN_MEMBERS_MAX:
            del self._proven[next(iter(self._proven))]

    def _ask(self, member: Member, ours: EpochHistory, log: ProvenLog, on_done: Callable[[str, bool], None]) -> None:
        status = member.status
        assert status is not None
        common = common_point(ours, log.end, member.epoch_history, status.log_end)
        common_end = min(common.offset, status.log_end)
        piece = piece_before(log, common_end, status.log_start) if common.is_known else None
        if piece is None:
            on_done(f"the epoch histories and logs of {member.address} and this broker have nothing in common", True)
        else:
            ask_for_proof(self._network, member.address, log, piece, on_done)


def _without_epoch(member: Member) -> Member:
    """Return ``member``, with a doubt if it says that it is a PyMQ master and gives no epoch: each has begun one."""
    status = member.status
    if status is None or status.epoch_history or status.broker_id != MASTER_ID:
        return member
    return dataclasses.replace(member, doubt=f"{member.address} gives no epoch, which every PyMQ master has")
