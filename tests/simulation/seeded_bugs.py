"""Bugs put into replication on purpose: a story or some seed must catch each.

As in tests/crash/seeded_bugs.py, a bug is a piece of the product's source that is replaced while it is planted. What
noticed it is named with it ("story …", "seed …" of hunting plans) and tried first: other changes of the product may
need another seed.
"""

from __future__ import annotations

import pymq.client.admin.promotion  # noqa: F401
from tests.crash.seeded_bugs import Bug


def _bug(name: str, where: str, old: str, new: str, noticed_by: str) -> Bug:
    return Bug(name, where, old, new, (noticed_by,), "pymq")


BUGS = (
    # -- answers that come too early
    _bug("answered before slaves have it", "broker.writer:Writer.commit",
         "needs_disk, needs_slaves = self._sync_flush(), self._copies.is_on",
         "needs_disk, needs_slaves = self._sync_flush(), False", "seed 1"),
    _bug("one slave is enough for two", "broker.replication.master.feeds:HaService.confirmed",
         "return acks[copies - 1] if len(acks) >= copies else 0", "return acks[0] if acks else 0", "seed 16"),
    _bug("what was sent counts as confirmed", "broker.replication.master.feeds:HaService.confirmed",
         "[feed.acked for feed", "[feed.next for feed", "seed 3"),
    _bug("shown before slaves have it", "broker.writer:Writer.commit",
         "await_confirm=needs_slaves", "await_confirm=False", "seed 1"),
    _bug("a slave reports what is not on its disk", "broker.replication.slave.link_session:HaClientSession.report",
         "offset = min(offset, synced)", "pass", "seed 16"),
    # -- epoch history and cuts
    _bug("a promoted slave begins no new epoch", "broker.replication.epoch_history_file:EpochFile.open_as_master",
         "self.epoch history.begin if begins_epoch else self.epoch history.renew", "self.epoch history.renew",
         "story come back with a divergent tail"),
    _bug("no new epoch after an unclean stop", "broker.replication.epoch_history_file:EpochFile.is_as_left",
         "return was_clean and self._ended_at == log_end", "return True", "seed 6"),
    _bug("a divergent tail is taken for the master's", "broker.replication.master.join:_place_in_log",
         "        return common.offset", "        return end", "story come back with a divergent tail"),
    _bug("a stretch of epochs is left out", "broker.replication.epoch history:_shortened",
         "_stretch(epochs[first:behind]), ", "", "story come back after many epochs"),
    _bug("a slave keeps its own epoch history", "broker.replication.epoch_file:EpochFile.follow",
         "self._save(theirs.cut(log_end), None)", "pass", "seed 2"),
    _bug("a divergent tail is not cut", "broker.replication.slave.link:HaClient._joined",
         "if outcome.start is not None and outcome.start < end", "if outcome.start is not None and outcome.start < 0",
         "story come back with a divergent tail"),
    # -- a log's end that was lost
    _bug("a lost tail is asked of nobody", "broker.replication.tail_recovery.regained_tail:TailSearch._take_all",
         "for member in sorted(members, key=self._limit, reverse=True)", "for member in ()",
         "story lose the masters power"),
    _bug("a master does not wait for who has its tail", "broker.replication.tail_recovery.held_epoch:is_promise_at_risk",
         "return bool(missing) and", "return False and", "story lose power while the slave is dead"),
    _bug("who has a master's tail is not noted", "broker.replication.tail_recovery.unsynced_replicas:UnsyncedReplicas.note",
         "self._save({**self.slaves, broker_id: address})", "pass", "story lose power while the slave is dead"),
    _bug("slaves of a held epoch are told to cut", "broker.replication.tail_recovery.tail_recovery:TailRecovery.held_for",
         'return self._held.why if self._held is not None else ""', 'return ""',
         "story lose power while the slave is dead"),
    # -- roles
    _bug("the role is not kept on the disk", "broker.replication.roles.role_file:RoleFile.save",
         "self._table.save(msgspec.to_builtins(record))", "pass",
         "story come back with a divergent tail"),
    _bug("an old master serves on", "broker.replication.roles.second masters:judge",
         "newest.epoch > us.epoch history.epoch", "newest.epoch > us.epoch history.epoch + 1_000",
         "story come back with a divergent tail"),
    _bug("a frozen master takes writes", "broker.replication.roles.freeze:Freeze.begin",
         "self._store.refuse_writes(", "dict(why=", "story hand over and cut"),
    _bug("promoted before it has everything", "client.admin.promotion:Promotion._caught_up",
         "return 0 <= link", "return True or 0 <= link", "story hand over while tables stand still"),
    _bug("promoted although it lacks the log's end", "client.admin.promotion:Promotion._caught_up",
         "or theirs.log_end != ours.log_end", "", "story hand over while the log stands still"),
    _bug("a slave knows of no SYNC_MASTER", "broker.replication.roles.role_file:role_name_after_change",
         "return record.master_role or", "return", "seed 2"),
    # -- tables
    _bug("offsets that wait are overwritten", "broker.replication.slave.cursors:SlaveCursors.take_over",
         "self._pending.lay_over(taken, is_part=is_part)", "pass", "story commit to a slave"),
    _bug("an offset that waits is dropped when an older one arrives",
         "broker.replication.slave.pending_offsets:PendingOffsets.settle",
         "if queues.get(known.queue_id) == known.offset:", "if known.queue_id in queues:",
         "story commit to a slave twice"),
    _bug("an offset of what a master hides is taken for a lost one", "broker.handlers.offsets:OffsetHandlers._advance",
         "offset > queue.next_offset", "offset > queue.max_offset", "story commit to a slave what its master hides"),
    _bug("offsets that wait are forgotten by a promotion",
         "broker.replication.slave.pending_offsets:PendingOffsets.hand_over",
         "cursors.advance(pending.group, pending.topic, pending.queue_id, pending.offset)", "pass",
         "story start a slave as the master"),
    _bug("tables are copied once", "broker.replication.slave.metadata_copy:MetadataCopy._end_round",
         "self._is_busy = False", "pass", "seed 1"),
    _bug("a slave seldom asks for tables", "broker.replication.slave.metadata_copy:MetadataCopy._start_round",
         "self._next_ms = self._asked_ms + interval_ms", "self._next_ms = self._asked_ms + interval_ms + 9_000",
         "story fail over with what came behind a copy"),
    _bug("a slave that is promoted forgets what it had not saved", "broker.parts:BrokerParts.close",
         "steps.callback(self.cursors.save)", "pass", "story fail over with what came last"),
    # -- the log
    _bug("nothing is sent again after a reconnection", "broker.replication.master.feed:HaConnection._begin",
         "self.next = self.acked = self._begun_at = offset",
         "self.next = self.acked = self._begun_at = self._store.physical_max_offset", "seed 2"),
    _bug("the master's newest records are never sent", "broker.replication.master.feed:HaConnection._send",
         "self.next = at", "self.next = end", "story catch up with megabytes"),
)  # fmt: skip
