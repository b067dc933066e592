"""The paper's figure 2 as a small model on lists of entries, and all orders of events against it, to a depth.

The model knows no bytes, epochs, hints or ticks: an entry is its term. Each event is one exchange of messages between
real nodes; everything else that they send is lost.
"""

from __future__ import annotations

import argparse
import pickle
import sys
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from pymq.raft.core import Role
from pymq.raft.messages import Message
from pymq.raft.node import RaftNode
from pymq.raft.state import MembershipEntry, RaftState, Replica
from tests.raft.bench import N0, N1, N2, NODES, THREE, LeastRandom

REPLICAS = (N0, N1, N2)
ROUNDS = 4  # heartbeats until two nodes have nothing more to say


class Event(NamedTuple):
    kind: str  # elect, write, replicate, receive (the follower's disk is too slow to acknowledge), restart
    node: int
    others: tuple[int, ...] = ()


class ModelNode:
    def __init__(self) -> None:
        self.term, self.vote, self.is_leader = 0, -1, False
        self.log: tuple[int, ...] = ()
        self.commit_index = 0
        self.synced_index = 0  # what the disk has
        self.match_index: dict[int, int] = {}

    def see(self, term: int) -> None:
        if term > self.term:
            self.term, self.vote, self.is_leader = term, -1, False

    def key(self) -> tuple:
        matches = tuple(sorted(self.match_index.items())) if self.is_leader else ()
        return self.term, self.vote, self.is_leader, self.log, self.commit_index, self.synced_index, matches


class Model:
    """Three nodes, by the rules for servers of figure 2."""

    def __init__(self) -> None:
        self.nodes = [ModelNode() for _ in REPLICAS]

    def key(self) -> tuple:
        return tuple(node.key() for node in self.nodes)

    def elect(self, candidate: int, voters: tuple[int, ...]) -> None:
        one = self.nodes[candidate]
        one.term, one.vote, one.is_leader = one.term + 1, candidate, False
        one.synced_index = len(one.log)
        term, votes = one.term, 1
        for place in voters:
            other = self.nodes[place]
            other.see(term)
            up_to_date = (one.log[-1:], len(one.log)) >= (other.log[-1:], len(other.log))
            if other.term == term and other.vote in (-1, candidate) and up_to_date:
                other.vote = candidate
                votes += 1
            one.see(other.term)
        if one.term == term and votes >= 2:
            one.is_leader, one.match_index = True, {}

    def write(self, leader: int) -> None:
        one = self.nodes[leader]
        one.log += (one.term,)
        one.synced_index = len(one.log)
        self._commit(one)

    def replicate(self, leader: int, follower: int, *, is_synced: bool) -> None:
        one, other = self.nodes[leader], self.nodes[follower]
        other.see(one.term)
        one.see(other.term)
        if not one.is_leader:
            return
        common = 0
        while common < min(len(one.log), len(other.log)) and one.log[common] == other.log[common]:
            common += 1
        if common < len(one.log):
            other.log = one.log
            other.synced_index = min(other.synced_index, common)
        if is_synced:
            other.synced_index = len(other.log)
        match = min(other.synced_index, len(one.log))
        one.match_index[follower] = max(one.match_index.get(follower, 0), match)
        self._commit(one)
        other.commit_index = max(other.commit_index, one.commit_index)

    def _commit(self, one: ModelNode) -> None:
        ends = sorted([len(one.log), *(one.match_index.get(place, 0) for place in range(len(REPLICAS)))])
        majority = ends[-2]
        if majority > one.commit_index and one.log[majority - 1] == one.term:
            one.commit_index = majority


class Group:
    """The same three nodes as RaftNode; an entry is a record of one byte."""

    def __init__(self) -> None:
        entries = (MembershipEntry(0, THREE),)
        self.states = [RaftState(replica, memberships=entries) for replica in REPLICAS]
        self.nodes = [RaftNode(state, 0, 0, NODES, LeastRandom()) for state in self.states]

    def drive(self, place: int, *, is_synced: bool = True) -> list[Message]:
        """Do what a node wants, and return its messages."""
        node = self.nodes[place]
        messages: list[Message] = []
        while True:
            ready = node.ready()
            if ready.truncate_to is not None:
                node.truncated()
                continue
            self.states[place] = ready.state or self.states[place]
            messages += ready.messages
            if not is_synced or node.log.synced_end == node.log.end:
                return messages
            node.persisted(node.log.end, node.log.truncation_count)

    def exchange(self, first: int, second: int, *, is_synced: bool = True) -> None:
        """Deliver what two nodes have to say to each other until they are quiet."""
        waiting = self.drive(first)
        while waiting:
            message = waiting.pop(0)
            for place, other in ((first, second), (second, first)):
                if message.to == REPLICAS[place] and message.sender == REPLICAS[other]:
                    self.nodes[place].step(message)
                    waiting += self.drive(place, is_synced=is_synced or place == first)

    def elect(self, candidate: int, voters: tuple[int, ...]) -> None:
        self.nodes[candidate]._ask_votes(is_transfer=True)  # as when a leader asks for it: no pre-vote in figure 2
        asked = self.drive(candidate)
        for place in voters:
            for message in asked:
                if message.to == REPLICAS[place]:
                    self.nodes[place].step(message)
            for answer in self.drive(place, is_synced=False):
                if answer.to == REPLICAS[candidate]:
                    self.nodes[candidate].step(answer)
                    self.drive(candidate)

    def write(self, leader: int) -> None:
        self.nodes[leader].propose(self.nodes[leader].log.end + 1)
        self.drive(leader)

    def replicate(self, leader: int, follower: int, *, is_synced: bool) -> None:
        for _ in range(ROUNDS):
            leadership = self.nodes[leader].leadership
            if leadership is not None:
                leadership.beat()
                self.exchange(leader, follower, is_synced=is_synced)

    def restart(self, place: int) -> None:
        end = self.nodes[place].log.end
        self.nodes[place] = RaftNode(self.states[place], 0, end, NODES, LeastRandom())

    def seen(self, place: int) -> tuple:
        """Return what the model says of a node, too."""
        node = self.nodes[place]
        log = tuple(piece.epoch for piece in node.log.pieces(0, node.log.end) for _ in range(piece.begin, piece.end))
        vote = self.states[place].vote
        at = REPLICAS.index(Replica(*vote)) if vote is not None else -1
        return node.term, at, node.role is Role.LEADER, log, node.confirm_offset


def events(model: Model) -> Iterator[Event]:
    for place, node in enumerate(model.nodes):
        others = tuple(other for other in range(len(REPLICAS)) if other != place)
        for count in (1, 2):
            yield from (Event("elect", place, voters) for voters in combinations(others, count))
        if node.is_leader:
            yield Event("write", place)
            for other in others:
                yield Event("replicate", place, (other,))
                yield Event("receive", place, (other,))
        yield Event("restart", place)


def apply(event: Event, model: Model, group: Group) -> None:
    match event.kind:
        case "elect":
            model.elect(event.node, event.others)
            group.elect(event.node, event.others)
        case "write":
            model.write(event.node)
            group.write(event.node)
        case "restart":
            node = model.nodes[event.node]
            group.restart(event.node)
            kept = group.nodes[event.node].confirm_offset
            assert kept <= node.commit_index
            node.is_leader, node.commit_index, node.synced_index = False, kept, len(node.log)
        case _:
            is_synced = event.kind == "replicate"
            model.replicate(event.node, event.others[0], is_synced=is_synced)
            group.replicate(event.node, event.others[0], is_synced=is_synced)


def explore(depth: int) -> int:
    """Compare nodes and model after every order of ``depth`` events. Returns how many states were seen."""
    start = Model(), Group()
    states = {start[0].key()}
    level: list[tuple[bytes, tuple[Event, ...]]] = [(pickle.dumps(start), ())]
    for _ in range(depth):
        following = []
        for dumped, before in level:
            for event in events(pickle.loads(dumped)[0]):
                model, group = pickle.loads(dumped)
                apply(event, model, group)
                for place, node in enumerate(model.nodes):
                    wanted, seen = node.key()[:5], group.seen(place)
                    assert wanted == seen, f"after {(*before, event)}: node {place} is {seen}, the model says {wanted}"
                if model.key() not in states:
                    states.add(model.key())
                    following.append((pickle.dumps((model, group)), (*before, event)))
        level = following
    return len(states)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.raft.interleavings", description=__doc__)
    parser.add_argument("--depth", type=int, default=6, help="the number of events (default 6)")
    options = parser.parse_args()
    print(f"{explore(options.depth)} states, all as in the model")
    return 0


if __name__ == "__main__":
    sys.exit(main())
