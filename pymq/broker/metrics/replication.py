"""Roles and lag: what ``pymq broker status`` tells, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.broker.parts import BrokerParts
from pymq.broker.replication.status import CutHistory
from pymq.config.values import ASYNC_MASTER, SLAVE, SYNC_MASTER
from pymq.metrics.family import PAUSE, Family, Metric, Reading, counter, gauge, single, state_set
from pymq.store.counting import units_from
from pymq.wire.bodies_replication import CONNECTING, FOLLOWING, GONE, JOINING, REFUSED, WAITING, SlaveState

_SLAVE = ("slave_id", "slave_address")
NO_EPOCH = 0
QUEUES_AT_ONCE = 1000

ROLE = gauge("pymq_replication_role", "1 for the role this broker has.", "role")
BROKER_ID = gauge("pymq_replication_broker_id", "0 is the master, others are slaves.")
EPOCH = gauge("pymq_replication_epoch", "Number of the newest reign this broker knows: each promotion makes one.")
CONFIRMED = gauge(
    "pymq_replication_confirmed_bytes", "Physical offset up to which as many slaves have the log as must.", unit="bytes"
)
REQUIRED = gauge("pymq_replication_required_slaves", "Slaves that must have a message before its send is answered.")
IN_SYNC = gauge("pymq_replication_in_sync_slaves", "Slaves that are near the log's end.")
DEGRADED = gauge("pymq_replication_degraded", "1 while sends wait for fewer slaves than are required.")
REFUSING = gauge("pymq_replication_refusing_sends", "1 while no send is taken because too few slaves follow.")
PROBLEMS = gauge("pymq_replication_problems", "Reasons why this broker does not replicate as it should.")
HELD = gauge("pymq_replication_reign_held", "1 while a master takes no sends because others may have more of its log.")
REGAINED = gauge(
    "pymq_replication_regained_bytes", "Log bytes that slaves gave back at the start of this master.", unit="bytes"
)
CONNECTED = gauge("pymq_replication_slave_connected", "1 while the slave is connected.", *_SLAVE)
SLAVE_IN_SYNC = gauge("pymq_replication_slave_in_sync", "1 while the slave is near the log's end.", *_SLAVE)
LAG_BYTES = gauge("pymq_replication_slave_lag_bytes", "Log bytes the slave lacks.", *_SLAVE, unit="bytes")
LAG_MESSAGES = gauge("pymq_replication_slave_lag_messages", "Messages the slave lacks.", *_SLAVE)
LAG_TIME = gauge(
    "pymq_replication_slave_lag_seconds", "Age of the oldest byte the slave lacks.", *_SLAVE, unit="seconds"
)
SLAVE_RATE = gauge(
    "pymq_replication_slave_bytes_per_second", "Log bytes the slave takes.", *_SLAVE, unit="bytes/second"
)
LINK_STATE = gauge("pymq_replication_link_state", "Slave: 1 for the state of its link to the master.", "state")
LINK_LAG_BYTES = gauge("pymq_replication_link_lag_bytes", "Slave: bytes of its master's log it lacks.", unit="bytes")
LINK_LAG_TIME = gauge(
    "pymq_replication_link_lag_seconds", "Slave: time since it last had all of its master's log.", unit="seconds"
)
LINK_RATE = gauge("pymq_replication_link_bytes_per_second", "Slave: log bytes it takes.", unit="bytes/second")
TABLES_AGE = gauge(
    "pymq_replication_tables_age_seconds",
    "Slave: time since topics, groups and offsets were known to be its master's.",
    unit="seconds",
)
ROLE_CHANGES = counter("pymq_replication_role_changes_total", "Changes of role since the process began.")
CUTS = counter("pymq_replication_cuts_total", "Times that an end of this log was cut because its master's differs.")
CUT_BYTES = counter("pymq_replication_cut_bytes_total", "Log bytes that were cut.", unit="bytes")
CUT_MESSAGES = counter("pymq_replication_cut_messages_total", "Messages that were cut.")

_ROLES = (ASYNC_MASTER, SYNC_MASTER, SLAVE)
_LINK_STATES = (WAITING, JOINING, CONNECTING, FOLLOWING, REFUSED)
_OF_SLAVES = (CONNECTED, SLAVE_IN_SYNC, LAG_BYTES, LAG_MESSAGES, LAG_TIME, SLAVE_RATE)


class ReplicationMetrics:
    """Of one set of parts. The record of cuts is read once: nothing is cut while parts live."""

    metrics = (
        *(
            ROLE,
            BROKER_ID,
            EPOCH,
            CONFIRMED,
            REQUIRED,
            IN_SYNC,
            DEGRADED,
            REFUSING,
            PROBLEMS,
            HELD,
            REGAINED,
            *_OF_SLAVES,
        ),
        *(LINK_STATE, LINK_LAG_BYTES, LINK_LAG_TIME, LINK_RATE, TABLES_AGE, CUTS, CUT_BYTES, CUT_MESSAGES),
    )

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._cuts = CutHistory(parts.files, parts.config.store_path_root_dir)

    def collect(self) -> Iterator[Family | None]:
        parts = self._parts
        reigns = parts.lineage.lineage.reigns
        yield state_set(ROLE, _ROLES, self._role_name())
        yield single(BROKER_ID, parts.role.broker_id)
        yield single(EPOCH, reigns[-1].epoch if reigns else NO_EPOCH)
        cuts = self._cuts.cuts()
        yield single(CUTS, len(cuts))
        yield single(CUT_BYTES, sum(cut.end - cut.start for cut in cuts))
        yield single(CUT_MESSAGES, sum(cut.message_count for cut in cuts))
        if parts.role.is_master:
            yield from self._as_master()
        else:
            yield from self._as_slave()

    def _role_name(self) -> str:
        if not self._parts.role.is_master:
            return SLAVE
        return SYNC_MASTER if self._parts.sync_mode.is_on else ASYNC_MASTER

    # -- a master --------------------------------------------------------------------------------------------------

    def _as_master(self) -> Iterator[Family | None]:
        parts, sync_mode = self._parts, self._parts.sync_mode
        states = parts.feeds.states() if parts.feeds is not None else []
        slaves = _distinct([slave for slave in states if slave.state != REFUSED])
        regained = parts.tail.regained
        problems = [
            *parts.watch.troubles,
            parts.tail.held_for,
            *(slave.problem for slave in slaves if slave.state != GONE),
        ]
        yield single(CONFIRMED, sync_mode.copied())
        yield single(REQUIRED, sync_mode.wanted_slaves)
        yield single(IN_SYNC, sum(slave.in_sync for slave in slaves))
        yield single(DEGRADED, sync_mode.is_degraded)
        yield single(REFUSING, sync_mode.is_refusing)
        yield single(PROBLEMS, sum(map(bool, problems)))
        yield single(HELD, parts.tail.is_held)
        yield single(REGAINED, regained.end - regained.start if regained is not None else 0)
        end = parts.store.physical_max_offset
        yield _of_slaves(CONNECTED, slaves, [slave.state != GONE for slave in slaves])
        yield _of_slaves(SLAVE_IN_SYNC, slaves, [slave.in_sync for slave in slaves])
        yield _of_slaves(LAG_BYTES, slaves, [max(0, end - slave.acked_offset) for slave in slaves])
        yield _of_slaves(LAG_TIME, slaves, [slave.lag_ms / 1000 for slave in slaves])
        yield _of_slaves(SLAVE_RATE, slaves, [slave.bytes_per_second for slave in slaves])
        counts = [0.0] * len(slaves)
        for index, slave in enumerate(slaves):
            for part in self._messages_behind(slave.acked_offset):
                counts[index] += part
                yield PAUSE
        yield _of_slaves(LAG_MESSAGES, slaves, counts)

    def _messages_behind(self, physical_offset: int) -> Iterator[int]:
        """The sum of what this gives is how many messages' records lie behind; it comes in parts."""
        count = 0
        for number, queue in enumerate(self._parts.store.queue_table, 1):
            if queue.last_physical_offset >= physical_offset:
                count += units_from(queue, physical_offset)
            if number % QUEUES_AT_ONCE == 0:
                yield count
                count = 0
        yield count

    # -- a slave ---------------------------------------------------------------------------------------------------

    def _as_slave(self) -> Iterator[Family]:
        parts = self._parts
        assert parts.link_view is not None
        link = parts.link_view.state()
        yield single(PROBLEMS, sum(map(bool, [*parts.watch.troubles, link.problem])))
        yield state_set(LINK_STATE, _LINK_STATES, link.state)
        yield single(LINK_RATE, link.bytes_per_second)
        # What is not known yet is left out: no figure would be true.
        if link.lag_bytes >= 0:
            yield single(LINK_LAG_BYTES, link.lag_bytes)
        if link.lag_ms >= 0:
            yield single(LINK_LAG_TIME, link.lag_ms / 1000)
        if link.metadata_age_ms >= 0:
            yield single(TABLES_AGE, link.metadata_age_ms / 1000)


def _distinct(slaves: list[SlaveState]) -> list[SlaveState]:
    """Each once, as it is now: one that has just connected anew is in the list twice for a moment."""
    return list({(slave.broker_id, slave.address): slave for slave in reversed(slaves)}.values())


def _of_slaves(metric: Metric, slaves: list[SlaveState], values: list[float] | list[bool] | list[int]) -> Family:
    """A slave of RocketMQ does not tell its id: it has the label -1, and its connection's address."""
    labels = [(str(slave.broker_id), slave.address) for slave in slaves]
    return Family(metric, [Reading(both, float(value)) for both, value in zip(labels, values, strict=True)])
