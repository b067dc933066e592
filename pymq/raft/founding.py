"""Founding: how the first membership comes to be, once, by all nodes of a group that has none yet.

A majority would not do: the disks of the others might have been in the group before. So the founder needs a promise of
each node that it is in no group and will take the first membership from no other replica. A founder with another disk
needs all promises again, and a node that is in the group gives none: there is one first membership at most.
"""

from __future__ import annotations

from pymq.raft.core import ELECTION_TICKS, Core
from pymq.raft.messages import Found, FoundPromise, FoundRequest, Introduction
from pymq.raft.state import Kind, Membership, MembershipEntry, Replica

PROMISED_MAX = 64  # founders, each after the disk of the one before was replaced
ANY_DISK = ""  # the disk id of a receiver that is known by its node id alone


class Founding:
    """A node's part in the founding. ``nodes`` are the ids of all nodes of the group; the first one is the founder."""

    def __init__(self, core: Core, nodes: tuple[str, ...]) -> None:
        self._core = core
        self._others = tuple(node for node in nodes if node != core.me.node_id)
        self._founder = nodes[0]
        self._promises: dict[str, FoundPromise] = {}
        self._ticks = 0

    def tick(self) -> None:
        """Ask for what is missing, once an election time-out."""
        core = self._core
        self._ticks += 1
        if self._ticks % ELECTION_TICKS != 1 or (core.is_founded and core.me in core.log.membership.replicas):
            return
        for node in self._others:
            core.outbox.append(Introduction(core.me, Replica(node, ANY_DISK), core.term, core.log.last))
        if not core.is_founded and core.me.node_id == self._founder:
            for node in self._others:
                core.outbox.append(FoundRequest(core.me, Replica(node, ANY_DISK), core.term))
            self._found_if_all_promised()

    def on_request(self, request: FoundRequest) -> None:
        """Promise to take the first membership from this replica alone; a promise to an earlier disk of it ends."""
        core = self._core
        if request.sender.node_id != self._founder:
            return
        if core.is_founded:
            self._repeat(request.sender)
        elif request.sender not in core.promised[:-1]:
            if request.sender not in core.promised:
                if len(core.promised) >= PROMISED_MAX:
                    core.problems.append(
                        f"{len(core.promised)} founders had a promise, that is the limit: see pymq docs raft"
                    )
                    return
                core.promised += (request.sender,)
            core.outbox.append(FoundPromise(core.me, request.sender, core.term, core.log.last))

    def on_promise(self, promise: FoundPromise) -> None:
        if not self._core.is_founded and promise.sender.node_id in self._others:
            self._promises[promise.sender.node_id] = promise
            self._found_if_all_promised()

    def on_found(self, found: Found) -> None:
        """Take the first membership, from the promised founder, for the log as it was promised."""
        core = self._core
        if core.is_founded:
            return
        if core.me.node_id == self._founder:
            self._give_up(found)
            return
        is_promised = core.promised[-1:] in ((found.founder,), (found.sender,))
        if is_promised and core.log.last == found.last and core.me in found.membership.voters:
            self._take(found.membership)

    def on_introduction(self, message: Introduction) -> None:
        """Repeat the first membership for a replica that missed it."""
        if message.sender in self._core.log.memberships[0].membership.voters:
            self._repeat(message.sender)

    def _give_up(self, found: Found) -> None:
        """The disk before this one has founded the group: found none, and release those who promised to follow."""
        core = self._core
        if found.founder != core.me:
            core.promised = (found.founder,)
            for replica in sorted(found.membership.voters):
                core.outbox.append(Found(core.me, replica, core.term, found.founder, found.last, found.membership))

    def _repeat(self, to: Replica) -> None:
        """Send the oldest membership that is known. If it is not the first one, it does not fit the receiver's log."""
        core = self._core
        first = core.log.memberships[0]
        founder = first.membership.replica_of(self._founder)
        if founder is not None:
            last = core.log.position(first.end)
            core.outbox.append(Found(core.me, to, core.term, founder, last, first.membership))

    def _found_if_all_promised(self) -> None:
        core, promises = self._core, self._promises
        if len(promises) < len(self._others) or core.me.node_id != self._founder or core.promised:
            return
        ends = {node: promise.last for node, promise in promises.items()} | {core.me.node_id: core.log.last}
        if len(set(ends.values())) > 1:
            where = ", ".join(f"{node} {last.end} (epoch {last.epoch})" for node, last in sorted(ends.items()))
            core.problems.append(f"the group can't be founded, the nodes' logs end at different offsets: {where}")
            return
        replicas = sorted([core.me, *(promise.sender for promise in promises.values())])
        membership = Membership(tuple((replica, Kind.VOTER) for replica in replicas))
        self._take(membership)
        for replica in core.other_voters():
            core.outbox.append(Found(core.me, replica, core.term, core.me, core.log.last, membership))

    def _take(self, membership: Membership) -> None:
        """Begin with this membership. All of the log counts as confirmed: all nodes have it."""
        core = self._core
        core.log.memberships = (MembershipEntry(core.log.end, membership),)
        core.confirm_offset = core.log.end
        core.term = max(core.term, core.log.last.epoch)
