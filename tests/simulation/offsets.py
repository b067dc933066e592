"""What groups committed, looked at when all is quiet: what was safe is there, and nothing goes beyond a queue's end."""

from __future__ import annotations

from tests.simulation.broker_node import SimBroker
from tests.simulation.clients import QUEUE_COUNT, TOPIC
from tests.simulation.following import Followings
from tests.simulation.history import Commit, History, Incident
from tests.simulation.timeline import MS, SECOND

# A saved table is this old at most when its broker dies: flushConsumerOffsetInterval, the save itself, a tick.
OFFSETS_OLD_US = 5_000 * MS
# Whoever followed for so long has what its master had before: slaveSyncInterval, a question that broke off, a tick.
COPIED_US = 5 * SECOND

Places = dict[tuple[int, int], bytes]  # bodies by queue and offset


class Offsets:
    """A group's offset is the newest that was taken, or one that a death may have left."""

    def __init__(self, brokers: list[SimBroker], history: History, followings: Followings) -> None:
        self._brokers = brokers
        self._history = history
        self._followings = followings

    def look(self, master: SimBroker, there: Places) -> None:
        """At ``master``, the only one, whose messages are ``there``."""
        assert master.parts is not None
        say = self._history.violated
        is_chosen = self._history.operations["masters demoted by hand"] > 0  # with the offsets it took
        for group in {commit.group for commit in self._history.commits}:
            for queue_id in range(QUEUE_COUNT):
                now = master.parts.metadata.cursors.query(group, TOPIC, queue_id)
                end = master.parts.store.max_offset(TOPIC, queue_id)
                if now > end:
                    say(f"{group} stands at {now} in queue {queue_id}, which ends at {end}")
                missing = [
                    commit.offset
                    for commit in self._history.commits
                    if (commit.group, commit.queue_id) == (group, queue_id) and now < min(commit.offset, end)
                    and self._is_safe(commit) and self._is_backed(commit, there)
                ]  # fmt: skip
                if missing and not is_chosen:
                    say(f"{group} stands at {now} in queue {queue_id}, {max(missing)} was committed and safe")

    def _is_safe(self, commit: Commit) -> bool:
        """No death came before it was saved, and no promotion before it was copied; or nothing since a slave became the
        master with it."""
        incidents = self._history.incidents
        since_us = commit.time_us - SECOND  # who died a moment ago may have answered
        for incident in incidents:
            if incident.is_done and incident.time_us >= commit.time_us and _has(incident, commit):
                since_us, address = incident.time_us + 1, incident.node
                commit = commit._replace(time_us=since_us, address=address, was_master=True, epoch=int(incident.detail))
        return not any(
            self._may_cost(incident, commit) if incident.time_us >= since_us else _is_unheard(incident, commit)
            for incident in incidents
        )

    def _may_cost(self, incident: Incident, commit: Commit) -> bool:
        """Who is paused saves nothing; what a full disk did not take is saved with the next try. What a slave took is
        brought to its master once it follows one, however late, and saved there after that."""
        node = broker_of(incident, self._brokers)
        if node.address != commit.address:
            if incident.kind in ("promote", "force"):
                return not (_has(incident, commit) or self._could_copy(node, commit, incident.time_us))
            if not commit.was_master and incident.kind in ("kill", "power"):
                return True
        return self._is_younger(OFFSETS_OLD_US, node, commit.time_us, incident.time_us)

    def _could_copy(self, slave: SimBroker, commit: Commit, until_us: int) -> bool:
        """It followed a master that had the offset for long enough, and lived on until the table was saved."""
        since_us = commit.time_us if commit.was_master else self._brought_us(commit)
        if since_us is None:
            return False
        for span in self._followings.of(slave):
            start_us = max(span.start_us, since_us)
            is_long = min(span.end_us, until_us) - start_us >= COPIED_US
            if is_long and span.epoch >= commit.epoch and not self._died_soon(slave, start_us, until_us):
                return True
        return False

    def _brought_us(self, commit: Commit) -> int | None:
        """When the slave that took it had brought it to its master for sure."""
        for span in self._followings.of(self._at(commit.address)):
            start_us = max(span.start_us, commit.time_us)
            if span.end_us - start_us >= COPIED_US and span.epoch >= commit.epoch:
                return start_us + COPIED_US
        return None

    def _died_soon(self, slave: SimBroker, start_us: int, until_us: int) -> bool:
        """Before what it copied from ``start_us`` on was on its disk."""
        return any(
            incident.kind in ("kill", "power")
            and broker_of(incident, self._brokers) is slave
            and start_us <= incident.time_us <= until_us
            and self._is_younger(COPIED_US + OFFSETS_OLD_US, slave, start_us, incident.time_us)
            for incident in self._history.incidents
        )

    def _is_younger(self, age_us: int, node: SimBroker, since_us: int, at_us: int) -> bool:
        """By the time in which its broker ran."""
        return node.moving_us(since_us, at_us) <= age_us * (2 if node.had_full_disk(since_us, at_us) else 1)

    def _at(self, address: str) -> SimBroker:
        return next(broker for broker in self._brokers if broker.address == address)

    def _is_backed(self, commit: Commit, there: Places) -> bool:
        """The message its group had read last is where it was. A log's end that was taken back, if it may be, takes
        the offsets behind it along: later messages there are others."""
        place = commit.queue_id, commit.offset - 1
        last = next(
            (
                seen
                for seen in reversed(self._history.seen)
                if (seen.queue_id, seen.queue_offset) == place
                and seen.group == commit.group
                and seen.time_us <= commit.time_us
            ),
            None,
        )
        return last is None or there.get(place) == last.content


def _is_unheard(promotion: Incident, commit: Commit) -> bool:
    """Another broker was the master by then, and who took the commit did not know. Two that were promoted out of sight
    of each other have one epoch."""
    if not promotion.is_done or commit.address == promotion.node:
        return False
    epoch = int(promotion.detail)
    return commit.epoch <= epoch if commit.was_master else commit.epoch < epoch


def broker_of(incident: Incident, brokers: list[SimBroker]) -> SimBroker:
    """Incidents name the broker that died, or the address of the one that was promoted."""
    return next(broker for broker in brokers if incident.node in (broker.name, broker.address))


def _has(incident: Incident, commit: Commit) -> bool:
    """Whoever was promoted had the offset then."""
    queues = incident.offsets.get(f"{TOPIC}@{commit.group}", {})
    return int(queues.get(str(commit.queue_id), -1)) >= commit.offset
