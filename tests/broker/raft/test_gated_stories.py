"""Stories of tests/raft with a gate at each node: a group's own messages pass, whatever happens to it."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import pytest

from pymq.broker.raft.bodies import founding_id
from pymq.broker.raft.gate import FOREIGN, REPLAYED, Greeting, MessageGate, Refused
from pymq.broker.raft.handshake import Welcome
from pymq.raft.messages import Found, FoundPromise, Message, ReadIndexRequest
from pymq.raft.state import Replica
from tests.broker.raft.groups import SECRETS
from tests.raft import story, world
from tests.raft.disk import Record
from tests.raft.world import Packet, SimNode, World

HOSTS = {f"n{number}": [f"10.0.0.{number + 1}"] for number in range(5)}


class Sealed(NamedTuple):
    """A packet whose message travels as a body."""

    message: Message
    records: tuple[Record, ...]
    body: bytes
    session: str  # of its receiver, when it was sealed


class GatedWorld(World):
    """The world of the stories, with a gate for each start of a node."""

    def __init__(self, seed: int, count: int = 3) -> None:
        self.gates: dict[tuple[str, int], MessageGate] = {}
        self.refused: Counter[str] = Counter()
        self.taken = 0
        super().__init__(seed, count)

    def gate(self, node: SimNode) -> MessageGate:
        place = node.name, node.incarnation
        if place not in self.gates:
            rng = random.Random(str(place))
            self.gates[place] = MessageGate(cluster="c", group="g", node_id=node.name, secrets=lambda: SECRETS, rng=rng)
            self.gates[place].hosts = HOSTS
        memberships = node.raft.log.memberships
        self.gates[place].founded = founding_id(memberships[0].membership) if memberships else ""
        return self.gates[place]

    def send(self, sender: SimNode, packet: Packet) -> None:
        if packet.message.to.node_id == sender.name:  # its own former disk; nobody has a connection to itself
            return
        receiver = self.nodes[packet.message.to.node_id]
        ours, theirs = self.gate(sender), self.gate(receiver)
        if ours.sessions._to(receiver.name).session != theirs.sessions.own:
            self.greet(sender, receiver)
        body = ours.encode(packet.message)
        assert body is not None
        super().send(sender, Sealed(*packet, body, theirs.sessions.own))  # type: ignore[arg-type]

    def greet(self, sender: SimNode, receiver: SimNode) -> None:
        """Open a session, at once: what a handshake does in time is another test's."""
        ours, theirs = self.gate(sender), self.gate(receiver)
        ours.sessions.hello_nonce(receiver.name)
        greeting = theirs.take(ours.hello(Replica(sender.name, ""), receiver.name), HOSTS[sender.name][0])
        assert isinstance(greeting, Greeting)
        answer = theirs.welcome(Replica(receiver.name, ""), greeting.hello, greeting.session)
        assert isinstance(ours.take(answer, HOSTS[receiver.name][0]), Welcome)

    def take(self, node: SimNode, sealed: Sealed) -> Message | None:
        """Return the message when the gate lets it in. Only what the core would ignore may stay outside."""
        taken = self.gate(node).take(sealed.body, HOSTS[sealed.message.sender.node_id][0])
        if not isinstance(taken, Refused):
            assert isinstance(taken, Message) and taken == sealed.message
            self.taken += 1
            return taken
        self.refused[taken.reason] += 1
        is_late = taken.reason == REPLAYED or sealed.session != self.gate(node).sessions.own
        # A node that knows no group takes part in a founding that is over, or asks a leader for a current read.
        is_of_no_member = taken.reason == FOREIGN and isinstance(
            sealed.message, Found | FoundPromise | ReadIndexRequest
        )
        assert is_late or is_of_no_member, taken.text
        return None


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 1063, 1088])
def test_a_group_s_own_messages_pass_the_gates(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills, power losses, replaced disks, changes of members, deleted segments: the group comes to one log again."""
    receive = SimNode.receive

    def gated(node: SimNode, sealed: Sealed) -> None:
        assert isinstance(node.world, GatedWorld)
        message = node.world.take(node, sealed)
        if message is not None:
            receive(node, Packet(message, sealed.records))

    monkeypatch.setattr(world.SimNode, "receive", gated)
    monkeypatch.setattr(story, "World", GatedWorld)
    played = story.play(seed)
    assert isinstance(played, GatedWorld)
    assert played.taken > 50
