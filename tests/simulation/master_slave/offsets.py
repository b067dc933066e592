"""Checks committed offsets at rest: safe ones are still there, and none lies beyond its queue's end."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.broker_node import SimBroker
from tests.simulation.clients import QUEUE_COUNT, TOPIC
from tests.simulation.history import Commit, History, Incident
from tests.simulation.master_slave.following import Followings
from tests.simulation.timeline import MS, SECOND

# A saved table is at most this old when its broker dies: flushConsumerOffsetInterval, the save itself, a tick.
OFFSETS_OLD_US = 5_000 * MS
# A slave that followed this long has what its master had before: slaveSyncInterval, a broken question, a tick.
COPIED_US = 5 * SECOND

Places = dict[tuple[int, int], bytes]  # bodies by queue and offset


class Offsets:
    """Checks that each group's offset is the newest accepted one, or one that a death may have left."""

    def __init__(self, brokers: list[SimBroker], history: History, followings: Followings) -> None:
        self._brokers = brokers
        self._history = history
        self._followings = followings

    def look(self, master: SimBroker, there: Places) -> None:
        """Check the offsets of ``master``, the only one, whose messages are ``there``."""
        assert master.parts is not None
        say = self._history.violated
        # An operator may have chosen one of two masters, and with it the offsets it took.
        is_chosen = self._history.operations["masters demoted by hand"] > 0
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
        """Return whether no incident may have cost the offset.

        A death may cost it until it is saved, a promotion until the slave has copied it. When a slave that has it
        becomes the master, only what happens after that counts.
        """
        incidents = self._history.incidents
        since_us = commit.time_us - SECOND  # a broker that died a moment ago may have answered
        for incident in incidents:
            if incident.is_done and incident.time_us >= commit.time_us and _has(incident, commit):
                since_us, address = incident.time_us + 1, incident.node
                commit = commit._replace(time_us=since_us, address=address, was_master=True, epoch=int(incident.detail))
        return not any(
            self._may_cost(incident, commit) if incident.time_us >= since_us else _is_unheard(incident, commit)
            for incident in incidents
        )

    def _may_cost(self, incident: Incident, commit: Commit) -> bool:
        """Return whether the incident may have cost the offset.

        A paused broker saves nothing; what a full disk rejected is saved with the next try. A slave brings the offsets
        it took to its master once it follows one, however late, and the master saves them after that.
        """
        node = broker_of(incident, self._brokers)
        if node.address != commit.address:
            if incident.kind in ("promote", "force"):
                return not (_has(incident, commit) or self._could_copy(node, commit, incident.time_us))
            if not commit.was_master and incident.kind in ("kill", "power"):
                return True
        return self._is_younger(OFFSETS_OLD_US, node, commit.time_us, incident.time_us)

    def _could_copy(self, slave: SimBroker, commit: Commit, until_us: int) -> bool:
        """Return whether it followed a master with the offset for long enough, and lived until it saved the table."""
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
        """Return the time by which the slave that took it had surely brought it to its master; None for never."""
        for span in self._followings.of(self._at(commit.address)):
            start_us = max(span.start_us, commit.time_us)
            if span.end_us - start_us >= COPIED_US and span.epoch >= commit.epoch:
                return start_us + COPIED_US
        return None

    def _died_soon(self, slave: SimBroker, start_us: int, until_us: int) -> bool:
        """Return whether it died before what it copied from ``start_us`` on was on its disk."""
        return any(
            incident.kind in ("kill", "power")
            and broker_of(incident, self._brokers) is slave
            and start_us <= incident.time_us <= until_us
            and self._is_younger(COPIED_US + OFFSETS_OLD_US, slave, start_us, incident.time_us)
            for incident in self._history.incidents
        )

    def _is_younger(self, age_us: int, node: SimBroker, since_us: int, at_us: int) -> bool:
        """Return whether its broker ran for at most ``age_us`` in between, or twice that if its disk was full."""
        return node.moving_us(since_us, at_us) <= (age_us + node.save_us) * (
            2 if node.had_full_disk(since_us, at_us) else 1
        )

    def _at(self, address: str) -> SimBroker:
        return next(broker for broker in self._brokers if broker.address == address)

    def _is_backed(self, commit: Commit, there: Places) -> bool:
        """Return whether the message that the group had read last is still where it was.

        A truncated end of the log takes the offsets behind it along: other messages come to stand there.
        """
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
    """Return whether another broker was the master by then, and the one that took the commit did not know.

    Two brokers that are promoted out of sight of each other have the same epoch.
    """
    if not promotion.is_done or commit.address == promotion.node:
        return False
    epoch = int(promotion.detail)
    return commit.epoch <= epoch if commit.was_master else commit.epoch < epoch


def broker_of(incident: Incident, brokers: Sequence[SimBroker]) -> SimBroker:
    """Return the broker of an incident: ``node`` is the name of a dead one, or the address of a promoted one."""
    return next(broker for broker in brokers if incident.node in (broker.name, broker.address))


def _has(incident: Incident, commit: Commit) -> bool:
    """Return whether the promoted broker had the offset then."""
    queues = incident.offsets.get(f"{TOPIC}@{commit.group}", {})
    return int(queues.get(str(commit.queue_id), -1)) >= commit.offset
