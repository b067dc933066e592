"""Checks the promises during and after a run, from outside: on disks, in open stores, in what clients noted."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any, Protocol

from pymq.broker.assembly.parts import BrokerParts
from pymq.model.record import StoredMessage
from pymq.store.replica.divergent_tail import DIVERGENT_DIRECTORY
from tests.simulation.broker_node import ROOT, SEGMENT_BYTES, SimBroker
from tests.simulation.clients import QUEUE_COUNT, TOPIC, messages_of
from tests.simulation.history import ACKED, History, Incident, Seen, Send, name_of
from tests.simulation.master_slave.following import Followings
from tests.simulation.master_slave.offsets import Offsets, broker_of
from tests.simulation.master_slave.plan import MasterSlavePlan
from tests.simulation.timeline import SECOND

# A message of a SYNC_FLUSH master may wait this long for the disk: the slowest fsync, and the one before it.
SYNCING_US = 5 * SECOND
DIVERGENT = f"{ROOT}/{DIVERGENT_DIRECTORY}/"


def log_bytes(broker: SimBroker, start: int, size: int, *, on_disk: bool = False) -> bytes:
    """Return bytes of a broker's log files, as its operating system sees them, or only what its disk has."""
    found = []
    while size > 0:
        at = start % SEGMENT_BYTES
        take = min(size, SEGMENT_BYTES - at)
        found.append(bytes(_segment_bytes(broker, start - at, on_disk=on_disk)[at : at + take]))
        start += take
        size -= take
    return b"".join(found)


def _segment_bytes(broker: SimBroker, start: int, *, on_disk: bool) -> bytes | bytearray:
    """Return the log file that begins at ``start``, not copied; empty when there is none."""
    node = broker.disk.files.nodes.get(_segment_path(start))
    return b"" if node is None else (node.synced or b"") if on_disk else node.data


@cache
def _segment_path(start: int) -> str:
    return f"{ROOT}/commitlog/{start:020d}"


def holds(broker: SimBroker, physical: int, content: bytes, *, on_disk: bool = False) -> bool:
    """Return whether the message stands at this offset of the broker's log. No record lies in two files."""
    at = physical % SEGMENT_BYTES
    segment = _segment_bytes(broker, physical - at, on_disk=on_disk)
    size = int.from_bytes(segment[at : at + 4], "big")
    return len(content) < size <= SEGMENT_BYTES - at and segment.find(content, at, at + size) >= 0


def held(broker: SimBroker, content: bytes) -> bool:
    """Return whether the message stands in a tail that was truncated from the broker's log."""
    kept = (
        node for path, node in broker.disk.files.nodes.items() if path.startswith(DIVERGENT) and path.endswith(".log")
    )
    return any(node.data.find(content) >= 0 for node in kept)


class Replicas(Protocol):
    """The brokers of one name, and what is known of them."""

    brokers: list[SimBroker]
    history: History
    followings: Followings

    @property
    def plan(self) -> MasterSlavePlan: ...

    def broker_at(self, address: str) -> SimBroker: ...


class Watcher:
    """Checks each answer at the moment it arrives."""

    def __init__(self, cluster: Replicas) -> None:
        self._cluster = cluster
        self._brokers = cluster.brokers
        self._history = cluster.history
        self._copies_needed = cluster.plan.copies_needed
        self._acked: dict[tuple[int, str, int], Send] = {}
        self._disturbed_us = -SECOND  # the latest loss of log bytes: older sends can't be checked

    def disturb(self, now_us: int) -> None:
        """Record that a log loses bytes now: a message answered a moment ago may lose a copy that it had."""
        self._disturbed_us = now_us

    def answered(self, send: Send) -> None:
        """Check a send that was acknowledged."""
        key = (send.epoch, send.epoch_id, send.physical)
        other = self._acked.setdefault(key, send)
        if other is not send and send.epoch > 0:
            self._history.violated(f"two messages were acknowledged at one place: {named(other)} and {named(send)}")
        server = self._cluster.broker_at(send.address)
        # A slave that answered was the master a moment ago.
        send.is_sync = server.is_sync_master or (not server.is_master and self._copies_needed > 1)
        if not send.is_sync and self._copies_needed > 1:
            # A slave promoted by force before it ever saw its master can't know that its group has a SYNC_MASTER.
            self._history.operations["acknowledged by a master that forgot SYNC_MASTER"] += 1
            if not any(incident.kind == "force" for incident in self._history.incidents):
                self._history.violated(f"{server.name} acknowledges as an ASYNC_MASTER")
            return
        if self._disturbed_us >= send.invoked_us:
            return
        copies = self._copies(
            send.physical, send.content, self._copies_needed, on_disk=self._cluster.plan.is_sync_flush
        )
        if len(copies) < self._copies_needed:
            self._history.violated(f"{named(send)} was acknowledged with copies on {copies or 'no broker'}")

    def seen(self, seen: Seen) -> None:
        """Check a message that a consumer got."""
        send = self._history.sent.get(seen.content)
        if send is None or self._disturbed_us >= send.invoked_us:
            return
        server = self._cluster.broker_at(seen.address)
        if seen.physical < server.opened_end or (server.is_master and not server.is_sync_master):
            return  # it was in the log at the start, where a master can't know whether slaves have it
        # A slave serves what it has, maybe before all other slaves have it.
        needed = self._copies_needed if server.is_master else min(self._copies_needed, 2)
        copies = self._copies(seen.physical, seen.content, needed)
        if len(copies) < needed:
            self._history.violated(
                f"{name_of(seen.content)} of queue {seen.queue_id}@{seen.queue_offset} was shown by {seen.address} "
                f"with copies on {copies or 'no broker'}"
            )

    def _copies(self, physical: int, content: bytes, needed: int, *, on_disk: bool = False) -> list[str]:
        """Return the brokers that hold the message, as far as ``needed`` asks.

        After a promotion without the master one of them may have truncated it, as the operator chose, before another
        one hears of that.
        """
        copies = [broker.name for broker in self._brokers if holds(broker, physical, content, on_disk=on_disk)]
        if len(copies) < needed and any(incident.kind in ("force", "promote") for incident in self._history.incidents):
            copies += [broker.name for broker in self._brokers if broker.name not in copies and held(broker, content)]
        return copies


class Verdict:
    """Checks the cluster at rest: it has one master, the others are its copies, and all promises are kept."""

    def __init__(self, cluster: Replicas) -> None:
        self._followings = cluster.followings
        self._copies_needed = cluster.plan.copies_needed
        self._epoch_ends: dict[tuple[int, str], int] = {}
        self._brokers = cluster.brokers
        self._history = cluster.history
        self._flush_age_us = cluster.plan.flush_age_us
        self._say = self._history.violated

    def look(self) -> None:
        masters = [broker for broker in self._brokers if broker.is_master]
        if len(masters) != 1:
            self._say(f"{len(masters)} masters at rest: {[broker.name for broker in masters]}")
            return
        (master,) = masters
        assert master.parts is not None
        epoch_history, end = master.parts.replication.epoch_file.history, master.parts.store.physical_max_offset
        self._epoch_ends = {
            (entry.epoch, entry.epoch_id): epoch_history.end_of(place, end)
            for place, entry in enumerate(epoch_history.entries)
        }
        for broker in self._brokers:
            if broker is not master:
                self._same_log(master, broker)
                self._same_other_queues(master, broker)
                self._same_tables(master, broker)
        queues = {queue_id: messages_of(master.parts, queue_id) for queue_id in range(QUEUE_COUNT)}
        for broker in self._brokers:
            if broker is not master and broker.parts is not None:
                self._same_queues(broker, queues)
        for queue_id, messages in queues.items():
            self._dense(queue_id, messages)
        self._sent(queues)
        self._losses(master, queues)
        self._seen_are_there(queues)
        Offsets(self._brokers, self._history, self._followings).look(master, placed(queues))

    # -- copies -------------------------------------------------------------------------------------------------

    def _same_log(self, master: SimBroker, slave: SimBroker) -> None:
        if slave.parts is None or master.parts is None:
            self._say(f"{slave.name} is not open at rest")
            return
        ours, theirs = master.parts.store, slave.parts.store
        if ours.physical_max_offset != theirs.physical_max_offset:
            self._say(
                f"{slave.name}'s log ends at {theirs.physical_max_offset}, its master {master.name}'s at "
                f"{ours.physical_max_offset}: {slave.parts.side.ha_client_state() or 'no link'}"
            )
            return
        start = max(ours.physical_min_offset, theirs.physical_min_offset)
        size = ours.physical_max_offset - start
        if log_bytes(master, start, size) != log_bytes(slave, start, size):
            self._say(f"the logs of {master.name} and {slave.name} differ between {start} and {start + size}")

    def _same_queues(self, broker: SimBroker, queues: dict[int, list[StoredMessage]]) -> None:
        assert broker.parts is not None
        for queue_id, messages in queues.items():
            start = broker.parts.store.min_offset(TOPIC, queue_id)
            wanted = [(m.queue_offset, m.physical_offset) for m in messages if m.queue_offset >= start]
            found = [(m.queue_offset, m.physical_offset) for m in messages_of(broker.parts, queue_id)]
            if wanted != found[max(0, len(found) - len(wanted)) :]:
                self._say(f"queue {queue_id} of {broker.name} is another than its master's")

    def _same_other_queues(self, master: SimBroker, slave: SimBroker) -> None:
        """Compare the ends of all queues, also those of topics that came and went."""
        if slave.parts is None or master.parts is None:
            return
        taken_back = self._deletions_taken_back(master.parts, slave.parts)
        ends = []
        for parts in (master.parts, slave.parts):
            store = parts.store
            ends.append(
                {
                    (topic, queue_id): store.max_offset(topic, queue_id)
                    for topic, queue_id in store.queues()
                    if store.max_offset(topic, queue_id) and topic not in taken_back
                }
            )
        if ends[0] != ends[1]:
            self._say(f"queues of {slave.name} differ from {master.name}'s: {_difference(*ends)}")

    def _deletions_taken_back(self, ours: BrokerParts, theirs: BrokerParts) -> set[str]:
        """Return topics whose deletion the slave knows, but not the master, because it was promoted without its own."""
        if not any(incident.kind in ("promote", "force") for incident in self._history.incidents):
            return set()
        known = ours.store.deletions
        return {topic for topic, end in theirs.store.deletions.ends.items() if end > known.end(topic)}

    def _same_tables(self, master: SimBroker, slave: SimBroker) -> None:
        if slave.parts is None or master.parts is None:
            return
        ours, theirs = master.parts, slave.parts
        pairs = (
            ("topics", ours.metadata.topics.all(), theirs.metadata.topics.all()),
            ("groups", ours.metadata.groups.all(), theirs.metadata.groups.all()),
            ("offsets", _offsets_of(ours), _offsets_of(theirs)),
        )
        for name, here, there in pairs:
            if here != there:
                self._say(f"{name} of {slave.name} differ from {master.name}'s: {_difference(here, there)}")

    # -- messages -----------------------------------------------------------------------------------------------

    def _dense(self, queue_id: int, messages: list[StoredMessage]) -> None:
        offsets = [message.queue_offset for message in messages]
        if offsets and offsets != list(range(offsets[0], offsets[0] + len(offsets))):
            self._say(f"queue {queue_id} has holes or repeats: {offsets[:50]}")
        places = [message.physical_offset for message in messages]
        if places != sorted(places):
            self._say(f"queue {queue_id} is not in the log's order")

    def _sent(self, queues: dict[int, list[StoredMessage]]) -> None:
        """Check that each message was sent, stands there once, and keeps its producer's order."""
        sends = self._history.sent
        for queue_id, messages in queues.items():
            last: dict[str, int] = {}
            found = set[bytes]()
            for message in messages:
                send = sends.get(message.body)
                if send is None or send.queue_id != queue_id:
                    self._say(f"queue {queue_id}@{message.queue_offset} holds an unsent message: {message.body[:40]!r}")
                    continue
                if message.body in found:
                    self._say(f"{named(send)} stands twice in queue {queue_id}")
                found.add(message.body)
                if send.outcome != ACKED:
                    continue  # its producer gave up, but the message may have arrived much later
                if last.get(send.producer, -1) >= send.invoked_us:
                    self._say(f"{named(send)} is out of its producer's order in queue {queue_id}")
                last[send.producer] = send.invoked_us

    def _losses(self, master: SimBroker, queues: dict[int, list[StoredMessage]]) -> None:
        """Check that each acknowledged message is where its answer said, unless an incident may have cost it."""
        there = placed(queues)
        lost_by_epoch: dict[tuple[int, str], list[Send]] = defaultdict(list)
        for send in self._history.sends:
            if send.outcome == ACKED and there.get((send.queue_id, send.queue_offset)) != send.content:
                lost_by_epoch[send.epoch, send.epoch_id].append(send)
                if not self.may_be_lost(send):
                    self._say(f"lost: {named(send)}")
        self._history.operations["acknowledged messages lost as allowed"] += sum(map(len, lost_by_epoch.values()))
        for entry, lost in lost_by_epoch.items():
            if entry[0] <= 0:
                continue  # the broker that answered was gone when the answer came
            first = min(send.physical for send in lost)
            kept = [
                send
                for send in self._history.sends
                if send.outcome == ACKED and (send.epoch, send.epoch_id) == entry and send.physical > first
                and there.get((send.queue_id, send.queue_offset)) == send.content
            ]  # fmt: skip
            if kept:
                self._say(f"lost: {named(lost[0])}, but {named(kept[0])} behind it in the log is there")

    def may_be_lost(self, send: Send) -> bool:
        """Return whether an incident may have cost the message. docs/testing.md says what each kind may cost."""
        for incident in self._history.incidents:
            at_us = incident.time_us
            if incident.kind == "force":
                # An operator gave up what the chosen slave does not have.
                # The old master, or one forced earlier, may go on because it does not know this.
                end = self._epoch_ends.get((send.epoch, send.epoch_id), -1)
                if send.invoked_us <= at_us or send.physical >= end:
                    return True
            elif incident.kind == "promote" and send.answered_us >= at_us and send.epoch < int(incident.detail):
                # The new master died before any broker heard of it, and the old one, thought dead, went on.
                if self._died(incident):
                    return True
            elif (
                incident.kind == "promote"
                and not send.is_sync
                and (send.invoked_us <= at_us or send.epoch < int(incident.detail))
            ):
                return True
        lost_copies = self._without_power(send.answered_us)
        return len(lost_copies) >= (self._copies_needed if send.is_sync else 1) or any(
            self._was_promoted_later(incident) for incident in self._history.incidents if incident.node in lost_copies
        )

    def _was_promoted_later(self, power: Incident) -> bool:
        """Return whether the broker that lost copies with its power was promoted later, without its master."""
        return power.kind == "power" and any(
            incident.kind in ("promote", "force")
            and incident.time_us >= power.time_us
            and incident.node == self._address(power.node)
            for incident in self._history.incidents
        )

    def _without_power(self, time_us: int) -> set[str]:
        """Return the brokers that lost power before their logs of this time were on their disks."""
        limit_us = self._flush_age_us
        return {
            incident.node
            for incident in self._history.incidents
            if incident.kind == "power"
            and limit_us is not None
            and 0 <= broker_of(incident, self._brokers).moving_us(time_us, incident.time_us) <= limit_us
        }

    def _died(self, promotion: Incident) -> bool:
        """Return whether the promoted broker died later."""
        return any(
            incident.kind in ("kill", "power", "stop") and self._address(incident.node) == promotion.node
            for incident in self._history.incidents
            if incident.time_us >= promotion.time_us
        )

    def _address(self, name: str) -> str:
        return next(broker.address for broker in self._brokers if broker.name == name)

    def _seen_are_there(self, queues: dict[int, list[StoredMessage]]) -> None:
        """Check that each message a consumer saw still stands at its place, unless it may have been lost."""
        sends = self._history.sent
        there = placed(queues)
        for seen in self._history.seen:
            send = sends.get(seen.content)
            if send is None:
                self._say(f"a consumer got an unsent message: {seen.content[:40]!r}")
                continue
            body = there.get((seen.queue_id, seen.queue_offset))
            if body != seen.content and not self._may_vanish(seen, send):
                self._say(
                    f"{name_of(seen.content)} was read at queue {seen.queue_id}@{seen.queue_offset}, and is not there"
                )

    def _may_vanish(self, seen: Seen, send: Send) -> bool:
        """Return whether a message that a consumer saw may be lost. Showing it counts as acknowledging it."""
        shown = Send(
            send.content, send.producer, send.queue_id, seen.address, send.invoked_us, seen.time_us, epoch=seen.epoch,
            physical=seen.physical, epoch_id=seen.epoch_id, is_sync=send.is_sync,
        )  # fmt: skip
        return (
            self.may_be_lost(shown)
            or (send.answered_us >= 0 and self.may_be_lost(send))
            or any(self._was_not_on_its_disk(seen, send, incident) for incident in self._history.incidents)
        )

    def _was_not_on_its_disk(self, seen: Seen, send: Send, incident: Incident) -> bool:
        """Return whether the master lost it with its page cache, although a slave had shown it already.

        A SYNC_MASTER gets it back from that slave, so the slave must have lost it as well.
        """
        if incident.kind != "power":
            return False
        was_starting = not incident.detail and self._address(incident.node) == send.address
        if incident.detail != seen.epoch_id and not was_starting:
            return False
        age_us = broker_of(incident, self._brokers).moving_us(send.invoked_us, incident.time_us)
        if self._flush_age_us is None:
            return send.outcome != ACKED and 0 <= age_us <= SYNCING_US
        is_alone = self._copies_needed == 1 or len(self._without_power(send.invoked_us)) > 1
        return is_alone and 0 <= age_us <= self._flush_age_us


def placed(queues: dict[int, list[StoredMessage]]) -> dict[tuple[int, int], bytes]:
    """Return message bodies by queue id and queue offset."""
    return {(queue_id, message.queue_offset): message.body for queue_id, found in queues.items() for message in found}


def _difference(here: object, there: object) -> str:
    if isinstance(here, dict) and isinstance(there, dict):
        for key in sorted(set(here) | set(there), key=str):
            if here.get(key) != there.get(key):
                return f"{key}: {there.get(key)} for {here.get(key)}"
    return f"{there} for {here}"


def named(send: Send) -> str:
    """Return the name of a message, its place and its answer, for a violation."""
    return (
        f"{name_of(send.content)} (queue {send.queue_id}@{send.queue_offset}, log {send.physical}, epoch {send.epoch}, "
        f"answered at {send.answered_us / SECOND:.4f} by {send.address})"
    )


def _offsets_of(parts: BrokerParts) -> dict[str, Any]:
    return dict(parts.metadata.cursors.as_table()["offsetTable"])
