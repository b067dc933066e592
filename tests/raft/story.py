"""A story: a group under faults that one seed draws, then peace, in which it must come to one log and take records."""

from __future__ import annotations

import random

from pymq.errors import RaftRefusedError
from pymq.raft.state import Kind, Membership
from tests.raft.checker import demand
from tests.raft.world import TICK, SimNode, World

STEPS = 50
PEACE_TICKS = 200


class Story:
    def __init__(self, seed: int, steps: int = STEPS) -> None:
        self.rng = random.Random(f"story {seed}")
        self.world = World(seed, self.rng.choice((3, 3, 3, 4, 5)))
        self._steps = steps
        self._is_asked = False
        self._wiped: set[str] = set()

    def play(self) -> World:
        world = self.world
        if self.rng.random() < 0.8:
            world.run(40 * TICK)
        world.is_faulty = True
        world.drop_chance = self.rng.choice((0.0, 0.02, 0.1))
        for _ in range(self._steps):
            self._act()
            world.run(self.rng.choice((TICK // 2, TICK, 3 * TICK, 12 * TICK)))
        self._peace()
        return world

    def _act(self) -> None:
        world, rng = self.world, self.rng
        node = rng.choice(list(world.nodes.values()))
        leader = world.leader()
        action = rng.choices(
            (
                "propose",
                "crash",
                "power",
                "pause",
                "cut",
                "isolate",
                "heal",
                "wipe",
                "change",
                "transfer",
                "read",
                "release",
                "hint",
            ),
            (30, 5, 5, 6, 6, 6, 9, 2, 7, 3, 8, 3, 4),
        )[0]
        match action:
            case "propose":
                for writer in world.nodes.values():
                    if writer.is_up and not writer.is_paused:
                        for _ in range(rng.randrange(1, 4)):
                            writer.propose()
            case "crash" | "power" | "pause":
                self._stop_or_start(node, action)
            case "cut":
                other = rng.choice(list(world.nodes.values()))
                world.cut.add((node.name, other.name))
                if rng.random() < 0.6:
                    world.cut.add((other.name, node.name))
            case "isolate":
                node = leader or node
                if rng.random() < 0.5:
                    world.cut.clear()
                ways = rng.choice(("in", "out", "both", "both"))
                world.cut |= {(name, node.name) for name in world.names if ways != "out"}
                world.cut |= {(node.name, name) for name in world.names if ways != "in"}
                if node.is_up and not node.is_paused:
                    node.propose()
            case "heal":
                world.cut.clear()
            case "wipe":
                self._wipe(node)
            case "change" if leader is not None and not leader.is_paused:
                self._change(leader)
            case "transfer" if leader is not None and not leader.is_paused:
                leader.transfer(rng.choice(world.names))
            case "read" if node.is_up and not node.is_paused:
                node.read()
            case "hint" if node.is_up and not node.is_paused:
                node.raft.lost(rng.choice(world.names))  # right or wrong
            case "release" if node.is_up and not node.is_paused:
                node.release()

    def _stop_or_start(self, node: SimNode, action: str) -> None:
        if not node.is_up:
            node.start()
        elif action == "pause":
            node.is_paused = not node.is_paused
        else:
            node.stop(power=action == "power")

    def _wipe(self, node: SimNode) -> None:
        """Replace the disk, while a majority of disks of each membership in use survives."""
        nodes = self.world.nodes.values()
        entries = [entry for other in nodes for entry in (*other.disk.state.memberships, *other.raft.log.memberships)]
        lost = node.disk.state.replica
        if self._wiped - {node.name} or not entries:
            return
        if any(len(entry.membership.voters - {lost}) < entry.membership.majority_count for entry in entries):
            return
        self._wiped.add(node.name)
        if node.is_up:
            node.stop()
        node.new_disk()
        node.start()

    def _change(self, leader: SimNode) -> None:
        raft, rng = leader.raft, self.rng
        replica, kind = rng.choice(raft.membership.members)
        if self._wiped:
            return
        wanted = {
            Kind.VOTER: rng.choice(
                (raft.membership.without(replica), raft.membership.with_member(replica, Kind.OBSERVER))
            ),
            Kind.OBSERVER: raft.membership.with_member(replica, Kind.LEARNER),
            Kind.LEARNER: raft.membership.with_member(replica, Kind.VOTER),
        }[kind]
        outside = [
            node for node in self.world.nodes.values() if node.disk.state.replica not in raft.membership.replicas
        ]
        if outside and rng.random() < 0.7:
            wanted = raft.membership.with_member(outside[0].disk.state.replica, Kind.LEARNER)
        self._propose(leader, wanted)

    def _propose(self, leader: SimNode, wanted: Membership) -> None:
        try:
            leader.raft.check_change(wanted)
        except RaftRefusedError:
            return
        leader.propose(wanted)

    def _peace(self) -> None:
        """End all faults. The group must elect a leader and confirm a new record."""
        world = self.world
        world.is_faulty, world.drop_chance = False, 0.0
        world.cut.clear()
        for node in world.nodes.values():
            node.is_paused = False
            if not node.is_up:
                node.start()
        why = ""
        for _ in range(PEACE_TICKS // 10):
            world.run(10 * TICK)
            why = self._unrest()
            if not why:
                return
        demand(False, f"liveness: {why} after {PEACE_TICKS} ticks of peace")

    def _unrest(self) -> str:
        """Return what is not as it should be; a record that is new is confirmed on all members."""
        leader = self.world.leader()
        if leader is None or leader.raft.leadership is None or not leader.raft.leadership.is_current:
            return "no leader"
        if not self._is_asked and not leader.propose():
            return "the leader takes no record"
        self._is_asked = True
        for replica in leader.raft.membership.replicas:
            node = self.world.nodes[replica.node_id]
            if node.raft.replica != replica:
                return f"{replica} was not replaced"
            if not node.disk.end == leader.disk.end == node.raft.confirm_offset == leader.raft.confirm_offset:
                return f"{node.name} did not catch up"
        return ""


def play(seed: int, steps: int = STEPS) -> World:
    return Story(seed, steps).play()
