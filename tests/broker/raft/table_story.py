"""Stories of tables: three replicas with logs, leaders that change, are paused or killed, and tables that follow.

The logs keep Raft's rules in a few lines of their own: a leader has all confirmed records, and a replica's log is cut
back to where it agrees with its leader's. After each step every replica's tables must be what a fold of the confirmed
records gives, and what was answered must be in it.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pymq.broker.raft.table_log import TableLog, TableRecord
from pymq.broker.raft.table_records import TABLE_KINDS
from pymq.broker.raft.tables import Table, Tables
from pymq.errors import StoreUnavailableError

REPLICA_COUNT = 3
STEP_COUNT = 120
_NAMES = ("topics.json", "consumerOffset.json", "subscriptionGroup.json", "auth.json")
_RECORD_BYTES = 10  # each record takes as much of the log


class Entry(NamedTuple):
    """A record of a log."""

    term: int
    body: bytes


@dataclass
class Saved:
    """What a replica has on its disk beside its log."""

    tables: list[Table] = field(default_factory=list)
    end: int = 0


class Node:
    """One replica: its log, and the product's tables on top of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log: list[Entry] = []
        self.confirmed = 0  # records of its log that it knows to be confirmed
        self.leads_term = 0
        self.own_start = 0
        self.saved = Saved()
        self.fails_writes = False
        self.start()

    def start(self) -> None:
        """Begin with what the disk has: some tables may be newer than others."""
        tables = Tables(self.saved.end)
        for table in self.saved.tables:
            tables.put(table.copy())
        self.leads_term = 0
        self.confirmed = min(self.confirmed, len(self.log))
        self.tables = TableLog(tables, self._write)

    def _write(self, bodies: Any) -> list[int]:
        if self.fails_writes:
            self.log += [Entry(self.leads_term, body) for body in bodies[:-1]]  # a full disk takes some of them
            raise StoreUnavailableError("the disk is full")
        self.log += [Entry(self.leads_term, body) for body in bodies]
        return [(len(self.log) - len(bodies) + 1 + at) * _RECORD_BYTES for at in range(len(bodies))]

    def records(self, start: int, end: int) -> list[TableRecord]:
        """Return the records between two numbers of records."""
        return [TableRecord((at + 1) * _RECORD_BYTES, self.log[at].body) for at in range(start, end)]

    def learn(self, confirmed: int) -> None:
        """Hear how much is confirmed."""
        if confirmed <= self.confirmed:
            return
        before, self.confirmed = self.confirmed, confirmed
        if self.leads_term:
            self.tables.confirm(confirmed * _RECORD_BYTES)
        else:
            for record in self.records(before, confirmed):
                self.tables.take(record)

    def lead(self, term: int) -> None:
        self.leads_term, self.own_start = term, len(self.log)
        self.tables.lead(self.records(self.tables.tables.end // _RECORD_BYTES, len(self.log)))

    def stop_leading(self) -> None:
        if self.leads_term:
            self.leads_term = 0
            self.tables.follow()
            for record in self.records(self.tables.tables.end // _RECORD_BYTES, self.confirmed):
                self.tables.take(record)

    def save(self, rng: random.Random) -> None:
        """Save some of the tables, and sometimes how far all of them are saved."""
        tables = self.tables.tables
        kept = {table.name: table for table in self.saved.tables}
        chosen = [table for table in tables.all() if rng.random() < 0.7]
        kept |= {table.name: table.copy() for table in chosen}
        is_whole = len(chosen) == len(tables.all())
        self.saved = Saved(list(kept.values()), tables.end if is_whole else self.saved.end)

    def restart(self) -> None:
        self.confirmed = min(self.confirmed, self.saved.end // _RECORD_BYTES)
        self.start()
        known = self.confirmed
        for record in self.records(self.saved.end // _RECORD_BYTES, known):
            self.tables.take(record)

    def replace(self, leader: Node) -> None:
        """Be an empty disk that gets a leader's tables and log."""
        self.log, self.saved = list(leader.log), Saved()
        self.confirmed = 0
        self.start()
        tables = Tables(leader.tables.tables.end)
        for table in leader.tables.tables.all():
            tables.put(table.copy())
        self.tables.replace(tables)
        self.confirmed = tables.end // _RECORD_BYTES


class World:
    """All replicas, and what must be so after each step."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.term = 0
        self.nodes = [Node(self) for _ in range(REPLICA_COUNT)]
        self.confirmed: list[Entry] = []
        self.folds: list[dict[str, str]] = [{}]  # the tables' content by the number of confirmed records
        self._fold = Fold()
        self.answered: list[tuple[str, str]] = []  # a table's name, and its content that was answered
        self.refused_count = 0
        self.history: dict[str, set[str]] = {name: {_text({})} for name in _NAMES}

    def play(self, step_count: int) -> None:
        """Take steps, and check after each."""
        steps = [self.change] * 6 + [self.copy] * 8 + [self.confirm] * 5 + [self.elect] * 2 + [self.fail_write]
        steps += [self.save] * 2 + [self.restart, self.replace, self.write_whole]
        for _ in range(step_count):
            self.rng.choice(steps)()
            self.check()
        self.settle()

    def settle(self) -> None:
        """Let everything be confirmed and told: then no change is without an answer."""
        self.elect(must=True)
        leader = self.leader()
        assert leader is not None
        leader.tables.propose("topics.json", {"topicConfigTable": {"last": {}}}, lambda error: None)
        for node in self.nodes:
            self.copy(node, is_whole=True)
        self.confirm()
        for node in self.nodes:
            node.learn(len(self.confirmed))
            assert node.tables.pending_count == 0
            assert node.tables.tables.end == len(self.confirmed) * _RECORD_BYTES
        self.check()
        assert len({_all(node.tables.tables) for node in self.nodes}) == 1

    def leader(self) -> Node | None:
        """Return who leads the newest term; others that think they lead are heard by nobody."""
        return next((node for node in self.nodes if self.term and node.leads_term == self.term), None)

    # -- steps ---------------------------------------------------------------------------------------------------

    def change(self) -> None:
        """Some leader, perhaps a former one that does not know it, gets a change."""
        leaders = [node for node in self.nodes if node.leads_term]
        if not leaders:
            return
        node, name = self.rng.choice(leaders), self.rng.choice(_NAMES)
        planned = node.tables.planned(name)
        wanted = _changed(self.rng, name, {} if planned is None else planned.as_object())
        content = _text(wanted)

        def done(error: StoreUnavailableError | None) -> None:
            if error is None:
                self.answered.append((name, content))
            else:
                self.refused_count += 1

        node.tables.propose(name, wanted, done)
        if not node.fails_writes:
            again = node.tables.planned(name)
            assert again is None or _text(again.as_object()) == content, "a leader plans with its own change"

    def fail_write(self) -> None:
        """A leader's disk takes a part of a change."""
        node = self.leader()
        if node is not None:
            node.fails_writes = True
            self.change()
            node.fails_writes = False

    def write_whole(self) -> None:
        """The leader writes its tables as they are, which changes none of them."""
        node = self.leader()
        if node is not None:
            before = _planned(node)
            node.tables.write_whole()
            assert _planned(node) == before

    def copy(self, node: Node | None = None, *, is_whole: bool = False) -> None:
        """A follower gets some of the newest leader's log; what it has in its place is cut off."""
        leader, node = self.leader(), node or self.rng.choice(self.nodes)
        if leader is None or node is leader:
            return
        node.stop_leading()
        equal = _equal_count(node.log, leader.log)
        assert equal >= node.confirmed
        missing = len(leader.log) - equal
        node.log = leader.log[: equal + (missing if is_whole else self.rng.randint(0, missing))]
        if self.rng.random() < 0.7:
            node.learn(min(leader.confirmed, len(node.log)))

    def confirm(self) -> None:
        """The newest leader counts who has what; only with a record of its own does it count."""
        leader = self.leader()
        if leader is None:
            return
        end = sorted(_equal_count(node.log, leader.log) for node in self.nodes)[REPLICA_COUNT // 2]
        if end > leader.own_start:
            assert leader.log[: len(self.confirmed)] == self.confirmed, "a leader has all that is confirmed"
            self._note_confirmed(leader.log[:end])
            leader.learn(end)

    def elect(self, *, must: bool = False) -> None:
        """A replica that a majority's logs allow to leads the next term; a former leader may not hear of it."""
        able = [node for node in self.nodes if sum(_last(node) >= _last(other) for other in self.nodes) >= 2]
        node = self.rng.choice(able)
        for other in self.nodes:
            if other is node or must or self.rng.random() < 0.5:
                other.stop_leading()
        self.term += 1
        node.lead(self.term)

    def save(self) -> None:
        self.rng.choice(self.nodes).save(self.rng)

    def restart(self) -> None:
        self.rng.choice(self.nodes).restart()

    def replace(self) -> None:
        """A follower's disk is replaced, while the others have what is confirmed."""
        leader, node = self.leader(), self.rng.choice(self.nodes)
        others = [other for other in self.nodes if other is not node]
        if leader is None or node is leader or min(len(other.log) for other in others) < len(self.confirmed):
            return
        if all(other.log[: len(self.confirmed)] == self.confirmed for other in others):
            node.replace(leader)

    # -- checks --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        for node in self.nodes:
            tables = node.tables.tables
            assert tables.end <= len(self.confirmed) * _RECORD_BYTES, "tables have what nobody confirmed"
            for table in tables.all():
                # A table may have been saved later than the others.
                expected = self.folds[max(tables.end, table.end) // _RECORD_BYTES].get(table.name, _text({}))
                assert _text(table.as_object()) == expected, f"{table.name} is not what its log says"
        for name, content in self.answered:
            assert content in self.history[name], f"an answered change of {name} is missing"

    def _note_confirmed(self, log: list[Entry]) -> None:
        while len(self.confirmed) < len(log):
            self.confirmed.append(log[len(self.confirmed)])
            self.folds.append(self._fold.take(self.confirmed[-1]))
            for name, content in self.folds[-1].items():
                self.history[name].add(content)


def play(seed: int, step_count: int = STEP_COUNT) -> World:
    """Play a story; raises AssertionError where a rule is broken."""
    world = World(seed)
    world.play(step_count)
    return world


def _last(node: Node) -> tuple[int, int]:
    return (node.log[-1].term if node.log else 0, len(node.log))


def _equal_count(log: list[Entry], other: list[Entry]) -> int:
    """Return how many records two logs share from their begin on."""
    pairs = enumerate(zip(log, other, strict=False))
    return next((at for at, (one, two) in pairs if one != two), min(len(log), len(other)))


class Fold:
    """The tables that a log gives, by a reading of the records that shares nothing with the product's."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Any]] = {}
        self._parts: list[dict[str, Any]] = []

    def take(self, entry: Entry) -> dict[str, str]:
        """Read one more record; return the content of all tables as texts."""
        body = json.loads(entry.body)
        self._parts = [body] if body["part"] == 0 else [*self._parts, body]
        if body["isLast"]:
            table = self.tables.setdefault(body["table"], {})
            for part in self._parts:
                for member, keys in part["removed"].items():
                    for key in keys:
                        table.get(member, {}).pop(key, None)
                for member, entries in part["entries"].items():
                    table.setdefault(member, {}).update(entries)
                table.update(part["values"])
        return {name: _text(table) for name, table in self.tables.items()}


def _changed(rng: random.Random, name: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return a table's content with some entries added, changed and removed."""
    kind = TABLE_KINDS[name]
    wanted: dict[str, Any] = {member: dict(content.get(member, {})) for member in kind.entries}
    for entries in wanted.values():
        for _ in range(rng.randint(0, 3)):
            entries[f"T{rng.randrange(5)}@g"] = {"0": rng.randrange(4)}
        if entries and rng.random() < 0.3:
            del entries[rng.choice(list(entries))]
    for member in kind.values:
        wanted[member] = {"counter": rng.randrange(1000)}
    return wanted


def _text(content: dict[str, Any]) -> str:
    """Return a table's content as a text that is equal for equal contents; empty and derived members don't count."""
    content = {member: value for member, value in content.items() if value and member != "groupTopicMap"}
    return json.dumps(content, sort_keys=True)


def _planned(node: Node) -> list[str]:
    planned = [node.tables.planned(name) for name in _NAMES]
    return [_text(table.as_object()) for table in planned if table is not None]


def _all(tables: Tables) -> str:
    return json.dumps({table.name: _text(table.as_object()) for table in tables.all()}, sort_keys=True)


if __name__ == "__main__":
    import sys

    from pymq.broker.raft import table_records

    table_records.PART_BYTES_MAX = 160  # so that changes go in parts
    first, last = map(int, sys.argv[1:3])
    answered_count = sum(len(play(seed).answered) for seed in range(first, last + 1))
    print(f"{last - first + 1} stories, {answered_count} answered changes, none missing")
