"""Roles and lag: what ``pymq broker status`` shows, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.report.replication_status import TruncationHistory
from pymq.config.values import ASYNC_MASTER, SLAVE, SYNC_MASTER
from pymq.metrics.family import PAUSE, Family, Metric, Reading, counter, gauge, single, state_set
from pymq.wire.bodies_replication import CONNECTING, FOLLOWING, GONE, JOINING, REFUSED, WAITING, SlaveState

_SLAVE = ("slave_id", "slave_address")
NO_EPOCH = 0
QUEUES_AT_ONCE = 1000

ROLE = gauge("pymq_replication_role", "1 for the role this broker has.", "role")
BROKER_ID = gauge("pymq_replication_broker_id", "0 is the master, others are slaves.")
EPOCH = gauge("pymq_replication_epoch", "Number of the newest epoch this broker knows; each promotion begins one.")
CONFIRMED = gauge(
    "pymq_replication_confirm_offset_bytes",
    "Physical offset up to which enough slaves have the log.",
    unit="bytes",
)
REQUIRED = gauge("pymq_replication_required_slaves", "Slaves that must have a message before its send is answered.")
IN_SYNC = gauge("pymq_replication_in_sync_slaves", "Slaves that are near the log's end.")
DEGRADED = gauge("pymq_replication_degraded", "1 while sends wait for fewer slaves than are required.")
REFUSING = gauge("pymq_replication_refusing_sends", "1 while sends are refused because too few slaves follow.")
PROBLEMS = gauge("pymq_replication_problems", "Reasons why this broker does not replicate as it should.")
HELD = gauge("pymq_replication_epoch_fenced", "1 while a master refuses sends because slaves may have more of its log.")
RECOVERED_TAIL = gauge(
    "pymq_replication_recovered_tail_bytes",
    "Log bytes that slaves gave back at the start of this master.",
    unit="bytes",
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
HA_CLIENT_STATE = gauge("pymq_replication_ha_client_state", "Slave: 1 for the state of its HA client.", "state")
HA_CLIENT_LAG_BYTES = gauge(
    "pymq_replication_ha_client_lag_bytes", "Slave: bytes of its master's log that it lacks.", unit="bytes"
)
HA_CLIENT_LAG_TIME = gauge(
    "pymq_replication_ha_client_lag_seconds", "Slave: time since it last had all of its master's log.", unit="seconds"
)
HA_CLIENT_RATE = gauge("pymq_replication_ha_client_bytes_per_second", "Slave: log bytes it takes.", unit="bytes/second")
TABLES_AGE = gauge(
    "pymq_replication_tables_age_seconds",
    "Slave: time since topics, groups and offsets were known to equal its master's.",
    unit="seconds",
)
TRUNCATION_WAITING = gauge(
    "pymq_replication_truncation_waiting_bytes",
    "Slave: log bytes that it truncates to follow its master once `pymq broker rejoin` allows it.",
    unit="bytes",
)
STRANGERS = counter(
    "pymq_replication_strangers_total", "Claims of brokers that no name server lists and no operator named."
)
ROLE_CHANGES = counter("pymq_replication_role_changes_total", "Changes of role since the process began.")
TRUNCATIONS = counter("pymq_replication_truncations_total", "Times that a divergent tail of this log was truncated.")
TRUNCATED_BYTES = counter("pymq_replication_truncated_bytes_total", "Log bytes that were truncated.", unit="bytes")
TRUNCATED_MESSAGES = counter("pymq_replication_truncated_messages_total", "Messages that were truncated.")

_ROLES = (ASYNC_MASTER, SYNC_MASTER, SLAVE)
_HA_CLIENT_STATES = (WAITING, JOINING, CONNECTING, FOLLOWING, REFUSED)
_OF_SLAVES = (CONNECTED, SLAVE_IN_SYNC, LAG_BYTES, LAG_MESSAGES, LAG_TIME, SLAVE_RATE)


class ReplicationMetrics:
    """The figures of replication. The history of truncations is read once: none happens while these parts exist."""

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
            RECOVERED_TAIL,
            *_OF_SLAVES,
        ),
        *(
            HA_CLIENT_STATE,
            HA_CLIENT_LAG_BYTES,
            HA_CLIENT_LAG_TIME,
            HA_CLIENT_RATE,
            TABLES_AGE,
            TRUNCATION_WAITING,
            STRANGERS,
            TRUNCATIONS,
            TRUNCATED_BYTES,
            TRUNCATED_MESSAGES,
        ),
    )

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._truncations = TruncationHistory(parts.runtime.files, parts.config.store_path_root_dir)

    def collect(self) -> Iterator[Family | None]:
        parts = self._parts
        entries = parts.replication.epoch_file.history.entries
        yield state_set(ROLE, _ROLES, self._role_name())
        yield single(BROKER_ID, parts.role.broker_id)
        yield single(EPOCH, entries[-1].epoch if entries else NO_EPOCH)
        truncations = self._truncations.truncations()
        yield single(TRUNCATIONS, len(truncations))
        yield single(TRUNCATED_BYTES, sum(truncate.end - truncate.start for truncate in truncations))
        yield single(TRUNCATED_MESSAGES, sum(truncate.message_count for truncate in truncations))
        yield single(STRANGERS, parts.replication.known_peers.stranger_count)
        if parts.role.is_master:
            yield from self._as_master()
        else:
            yield from self._as_slave()

    def _role_name(self) -> str:
        if not self._parts.role.is_master:
            return SLAVE
        return SYNC_MASTER if self._parts.replication.sync_mode.is_on else ASYNC_MASTER

    # -- a master --------------------------------------------------------------------------------------------------

    def _as_master(self) -> Iterator[Family | None]:
        parts, sync_mode = self._parts, self._parts.replication.sync_mode
        slaves = _distinct([slave for slave in parts.side.slave_states() if slave.state != REFUSED])
        recovered_tail = parts.replication.tail_recovery.recovered_tail
        problems = [
            *parts.master_monitor.troubles,
            parts.replication.tail_recovery.fenced_for,
            *(slave.problem for slave in slaves if slave.state != GONE),
        ]
        yield single(CONFIRMED, sync_mode.confirm_offset())
        yield single(REQUIRED, sync_mode.required_slaves)
        yield single(IN_SYNC, sum(slave.in_sync for slave in slaves))
        yield single(DEGRADED, sync_mode.is_degraded)
        yield single(REFUSING, sync_mode.is_refusing)
        yield single(PROBLEMS, sum(map(bool, problems)))
        yield single(HELD, parts.replication.tail_recovery.is_fenced)
        yield single(RECOVERED_TAIL, recovered_tail.end - recovered_tail.start if recovered_tail is not None else 0)
        end = parts.store.physical_max_offset
        yield _of_slaves(CONNECTED, slaves, [slave.state != GONE for slave in slaves])
        yield _of_slaves(SLAVE_IN_SYNC, slaves, [slave.in_sync for slave in slaves])
        yield _of_slaves(LAG_BYTES, slaves, [max(0, end - slave.ack_offset) for slave in slaves])
        yield _of_slaves(LAG_TIME, slaves, [slave.lag_ms / 1000 for slave in slaves])
        yield _of_slaves(SLAVE_RATE, slaves, [slave.bytes_per_second for slave in slaves])
        counts = [0.0] * len(slaves)
        for index, slave in enumerate(slaves):
            for part in self._messages_behind(slave.ack_offset):
                counts[index] += part
                yield PAUSE
        yield _of_slaves(LAG_MESSAGES, slaves, counts)

    def _messages_behind(self, physical_offset: int) -> Iterator[int]:
        """Yield the number of messages stored from ``physical_offset`` on, in parts to be added up."""
        count = 0
        for number, queue in enumerate(self._parts.store.queue_views(), 1):
            count += queue.count_from(physical_offset)
            if number % QUEUES_AT_ONCE == 0:
                yield count
                count = 0
        yield count

    # -- a slave ---------------------------------------------------------------------------------------------------

    def _as_slave(self) -> Iterator[Family]:
        parts = self._parts
        ha_client = parts.side.ha_client_state()
        assert ha_client is not None
        yield single(PROBLEMS, sum(map(bool, [*parts.master_monitor.troubles, ha_client.problem])))
        yield state_set(HA_CLIENT_STATE, _HA_CLIENT_STATES, ha_client.state)
        yield single(HA_CLIENT_RATE, ha_client.bytes_per_second)
        log_end, truncate_to = parts.store.physical_max_offset, ha_client.truncate_to
        yield single(TRUNCATION_WAITING, log_end - truncate_to if truncate_to >= 0 else 0)
        # A figure that is not known yet is left out: any number would be wrong.
        if ha_client.lag_bytes >= 0:
            yield single(HA_CLIENT_LAG_BYTES, ha_client.lag_bytes)
        if ha_client.lag_ms >= 0:
            yield single(HA_CLIENT_LAG_TIME, ha_client.lag_ms / 1000)
        if ha_client.metadata_age_ms >= 0:
            yield single(TABLES_AGE, ha_client.metadata_age_ms / 1000)


def _distinct(slaves: list[SlaveState]) -> list[SlaveState]:
    """Return each slave once, in its newest state: one that has just reconnected is listed twice for a moment."""
    return list({(slave.broker_id, slave.address): slave for slave in reversed(slaves)}.values())


def _of_slaves(metric: Metric, slaves: list[SlaveState], values: list[float] | list[bool] | list[int]) -> Family:
    """Return a reading per slave. RocketMQ's slaves send no id: their labels are -1 and the connection's address."""
    labels = [(str(slave.broker_id), slave.address) for slave in slaves]
    return Family(metric, [Reading(both, float(value)) for both, value in zip(labels, values, strict=True)])
