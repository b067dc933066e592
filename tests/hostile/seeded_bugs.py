"""Bugs put on purpose into the rules that hold attacks: a unit test of the rule must fail with each.

The ``suites`` of a bug are test files: the shortest one that notices it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymq.broker.handlers.replies import ReplyHandlers
from pymq.broker.handlers.settings import SettingsHandlers
from pymq.broker.messages.long_polls import LongPolls
from pymq.broker.messages.waiting_answers import WaitingAnswers
from pymq.broker.metadata import clients
from pymq.broker.metadata.producer_ids import ProducerIds
from pymq.broker.replication.history import epoch_history, log_proof
from pymq.broker.replication.master.ha_connection import HaConnection
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.master.join_tokens import JoinTokens
from pymq.broker.replication.roles import member_proof, second_master, unclear_members
from pymq.broker.replication.roles.group_probe import Member
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.member_proof import MemberProof
from pymq.broker.replication.slave.ha_client import HaClient
from pymq.broker.replication.slave.joining import Joining
from pymq.broker.replication.startup_check import StartupCheck
from pymq.broker.upkeep.lasting_objects import LastingObjects
from pymq.broker.work.sliced_work import SlicedWork
from pymq.client.admin.promotion import Promotion
from pymq.client.admin.promotion_plan import PromotionPlan
from pymq.client.tracing import Tracer
from pymq.config import runtime
from pymq.config.base import Config
from pymq.config.runtime import RuntimeSettings
from pymq.model import epochs
from pymq.model.inflation import InflationBudget
from pymq.namesrv import claims
from pymq.namesrv.group_memory import GroupMemory
from pymq.namesrv.table import RouteTable
from pymq.net import descriptors
from pymq.net.buffer_account import BufferAccount
from pymq.net.memory_budget import MemoryBudget
from pymq.net.rounds import Rounds
from pymq.net.turn_watch import TurnWatch
from pymq.rate_limited_log import RateLimitedLog
from pymq.store.disk import regular_files
from pymq.store.disk.fs import RealFiles
from pymq.store.index import entry_proof, index_file, index_lookup
from pymq.store.index.index_service import IndexService
from pymq.store.lifecycle.checkpointer import Checkpointer
from pymq.store.lifecycle.expiry import Expiry
from pymq.store.lifecycle.housekeeping import Housekeeping
from pymq.store.lifecycle.pauses import Pauses
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_table import QueueTable
from pymq.store.queue.tail_round import TailRound
from pymq.store.replica.follower import Follower
from pymq.store.write import store_time
from tests.planting import Bug, Seam, Text, does_nothing, gives

Real = Callable[..., Any]
ROLES, SLAVE, MASTER = (f"tests/broker/replication/{room}" for room in ("roles", "slave", "master"))
CLAIMS, GROUP = (f"tests/namesrv/test_{name}.py" for name in ("claims", "group_memory"))
PEERS = f"{ROLES}/test_known_peers.py"
UNCLEAR = f"{ROLES}/test_unclear_members.py"
STARTUP = "tests/broker/replication/test_startup_check.py"
HISTORY = "tests/broker/replication/test_epoch_history.py"
REPLIES = "tests/broker/handlers/test_replies.py"
PROMOTION = "tests/client/admin/test_promotion.py"
BUDGET = "tests/net/test_memory_budget.py"
ROUND = "tests/store/queue/test_tail_round.py"
REGULAR, SOUND_FILES = "tests/store/disk/test_regular_files.py", "tests/offline/test_sound_files.py"
MODES, HOUSEKEEPING = "tests/store/disk/test_fs.py", "tests/store/lifecycle/test_housekeeping.py"
SETTINGS, CONFIG_REQUESTS = "tests/test_config_runtime.py", "tests/broker/handlers/test_settings.py"


def _calls_all_newer(real: Real, report: object, holder: object) -> bool:
    return True


async def _takes_it_for_a_slave(real: Real, promotion: Promotion, plan: PromotionPlan, *args: object) -> Any:
    return plan.target.status


def _finds_no_other_host(real: Real, memory: GroupMemory, address: str, host: str) -> bool:
    return memory.is_named_slave(address) or not memory._named_slaves


def _keeps_the_first(real: Real, table: JoinTokens, token: int, now_ms: int) -> Any:
    slave = real(table, token, now_ms)
    if slave is not None:
        table._open[token] = (slave, now_ms)
    return slave


BUGS = (
    # -- whose word counts
    Bug("every broker is known", Seam(KnownPeers.is_known, gives(True)), (PEERS,)),
    Bug("any broker may join", Seam(KnownPeers.why_not_slave, gives("")), (PEERS,)),
    Bug("one host joins for another", Seam(KnownPeers.why_not_from, gives("")), (PEERS,)),
    Bug("any host follows without a token", Seam(KnownPeers.may_follow_without_token, gives(True)), (PEERS,)),
    Bug("any host is a known one's", Seam(KnownPeers.is_known_host, gives(True)), (PEERS,)),
    Bug("claims of strangers aren't counted", Seam(KnownPeers.note_stranger, gives("")), (PEERS,)),
    Bug("every epoch is trusted", Seam(second_master.why_distrusted, gives("")), (f"{ROLES}/test_second_master.py",)),
    Bug("another history's master keeps this one from starting",
        Text(second_master._blocks_start, "or member.doubt or why_implausible(member.epoch_history, "
             "us.epoch_history.epoch)", ""),
        (f"{ROLES}/test_second_master.py",)),
    Bug("any report after a token gives a place",
        Text(HaConnection._prove, "and offset != start", "and False"), (f"{MASTER}/test_ha_service.py",)),
    # -- starts beside members that do not say what they are
    Bug("any name server's word keeps a master from starting",
        Text(unclear_members.decide_start, "if is_confirmed(member.address)]", "]"), (UNCLEAR,)),
    Bug("a member that had a place counts as dead",
        Text(unclear_members.decide_start, "if is_confirmed(member.address)]", "if False]"), (UNCLEAR,)),
    Bug("members that start are not awaited",
        Text(unclear_members.decide_start, "waited_ms < UNCLEAR_MS_MAX", "waited_ms < 0"), (UNCLEAR,)),
    Bug("strangers are awaited for ever",
        Text(unclear_members.decide_start, "waited_ms < UNCLEAR_MS_MAX", "waited_ms >= 0"), (UNCLEAR,)),
    Bug("nothing is asked again", Text(StartupCheck._findings, "await self._pause(RETRY_MS)", "break"),
        (STARTUP,)),
    Bug("an unclear member is a second master", Seam(Member.is_unclear, gives(False)),
        (f"{ROLES}/test_second_master.py",)),
    Bug("what is late is no proof for ever",
        Text(MemberProof.check, "is_unproven=not is_final", "is_unproven=False"), (f"{ROLES}/test_member_proof.py",)),
    Bug("a listed broker has a place",
        Seam(KnownPeers.is_confirmed, lambda real, peers, address: peers.is_known(address)), (PEERS,)),
    Bug("a place is not kept on the disk", Text(KnownPeers.confirm, "self._write()", "pass"), (PEERS,)),
    Bug("every history is plausible", Seam(epoch_history.why_implausible, gives("")), (HISTORY,)),
    Bug("epochs may jump", Seam(epochs.why_jumping, gives("")), (HISTORY,)),
    Bug("any history shares an entry", Seam(epoch_history.shares_entry, gives(True)), (HISTORY,)),
    # -- proofs of the log
    Bug("no member must prove its epoch", Seam(MemberProof._must_prove, gives(False)),
        (f"{ROLES}/test_member_proof.py",)),
    Bug("a master without an epoch is believed", Seam(member_proof._without_epoch, lambda real, member: member),
        (f"{ROLES}/test_member_proof.py",)),
    Bug("any digest proves a log", Seam(log_proof._judge, gives(("", True))),
        ("tests/broker/replication/test_log_proof.py",)),
    Bug("a byte proves a log", Text(log_proof.piece_before, "if size >= PROOF_BYTES_MIN:", "if True:"),
        ("tests/broker/replication/test_log_proof.py",)),
    Bug("a master need not prove that it has a slave's log",
        Seam(Joining._prove, lambda real, joining, joined: joining._report(joined)), (f"{SLAVE}/test_joining.py",)),
    Bug("a slave truncates what no history proves",
        Text(HaClient._begin_truncation, "if not common.is_known or common.offset != start:", "if False:"),
        (f"{SLAVE}/test_ha_client.py",)),
    Bug("a slave truncates all of its log",
        Text(HaClient._begin_truncation, "elif start <= log_start or end - start > size_max or joined.unproven:",
             "elif end - start > size_max:"),
        (f"{SLAVE}/test_ha_client.py",)),
    Bug("a slave truncates as much as is asked",
        Text(HaClient._begin_truncation, "or end - start > size_max or", "or"), (f"{SLAVE}/test_ha_client.py",)),
    # -- the HA port
    Bug("a report without a token counts",
        Text(HaConnection._prove, "if offset is None or not (self.joined_slave is not NOT_JOINED or "
             "self._owner.may_follow(self)):", "if offset is None:"),
        (f"{MASTER}/test_ha_service.py",)),
    Bug("a peer that joined nothing is in sync",
        Text(HaConnection.counts, "self.is_slave and", ""), (f"{MASTER}/test_ha_service.py",)),
    Bug("a token serves twice", Seam(JoinTokens.take, _keeps_the_first), (f"{MASTER}/test_join_tokens.py",)),
    Bug("strangers keep all places", Seam(HaService.on_opened, does_nothing), (f"{MASTER}/test_ha_service.py",)),
    # -- promotions
    Bug("a log with other bytes lacks nothing",
        Text(PromotionPlan.lag_bytes, "0 if member.log_problem else member", "member"),
        ("tests/client/admin/test_promotion_plan.py",)),
    Bug("a silent slave's promotion is taken back",
        Seam(Promotion._late_status, _takes_it_for_a_slave), (PROMOTION,)),
    # -- a name server's claims
    Bug("an address has no owner", Seam(claims._owner, gives(None)), (CLAIMS,)),
    Bug("an address is not kept for its host", Seam(claims._kept_address_problem, gives("")), (CLAIMS,)),
    Bug("a report moves a living group to another cluster", Seam(claims._cluster_problem, gives("")), (CLAIMS,)),
    Bug("a name server takes any epoch", Seam(claims._epoch_problem, gives("")), (CLAIMS,)),
    Bug("an id goes to the last that claims it", Seam(claims._id_problem, gives("")), (CLAIMS,)),
    Bug("an id is not kept for a group's members", Seam(claims._kept_id_problem, gives("")), (CLAIMS,)),
    Bug("every epoch is a newer one", Seam(claims._is_newer, _calls_all_newer), (CLAIMS,)),
    Bug("any broker succeeds a master", Seam(claims._is_successor, gives(True)), (CLAIMS,)),
    Bug("a stranger keeps a master's id", Seam(claims._is_back, gives(False)), (CLAIMS,)),
    Bug("any master gets an id back",
        Text(claims._is_back, "or memory.is_named_slave(holder.identity.address)", ""), (CLAIMS,)),
    Bug("any peer unregisters a broker",
        Text(RouteTable.unregister, "if not live.is_of(connection) and not self.brokers.is_silent(live) and "
             "self.brokers.is_listed(live):", "if False:"),
        ("tests/namesrv/test_table.py",)),
    Bug("any master names slaves", Seam(GroupMemory.may_name, gives(True)), (GROUP,)),
    Bug("a named master's address is enough to name slaves", Seam(GroupMemory.may_name, _finds_no_other_host),
        (GROUP,)),
    # -- memory
    Bug("the budget has no limit", Seam(MemoryBudget.is_over, gives(False)), (BUDGET,)),
    Bug("no connection is closed over the budget", Seam(MemoryBudget.relieve, does_nothing), (BUDGET,)),
    Bug("parked requests need no room", Seam(MemoryBudget.check_room, does_nothing), (BUDGET,)),
    Bug("registrations take the whole budget", Seam(MemoryBudget.check_registration, does_nothing),
        (BUDGET, "tests/namesrv/test_routes.py")),
    Bug("any number of answers waits",
        Text(WaitingAnswers._count, "if not self._is_full and held_bytes > limit_bytes:", "if False:"),
        ("tests/broker/messages/test_waiting_answers.py",)),
    Bug("what a closed connection held stays counted", Seam(MemoryBudget.forget, does_nothing), (BUDGET,)),
    Bug("many small connections outlive a large one",
        Text(MemoryBudget.relieve, "by_host.setdefault(holder.host, [])", "by_host.setdefault(str(number), [])"),
        (BUDGET,)),
    Bug("unfinished frames aren't counted", Seam(BufferAccount.note_unfinished, does_nothing),
        ("tests/net/test_server_memory.py",)),
    Bug("unread answers aren't counted", Seam(BufferAccount.note_write, does_nothing),
        ("tests/net/test_server_memory.py",)),
    Bug("all bodies together may inflate to anything",
        Text(InflationBudget.decompress, "self._left_bytes -= len(inflated)", "pass"),
        ("tests/model/test_inflation.py",)),
    Bug("connections take the descriptors of files", Seam(descriptors.takes_reserved, gives(False)),
        ("tests/net/test_descriptors.py",)),
    Bug("properties that wait for the index have no limit",
        Text(IndexService._bound_pending, "or self._pending.size_bytes > _PENDING_BYTES_MAX", ""),
        ("tests/store/test_index.py",)),
    Bug("keys are read again without a limit",
        Text(IndexService._read_behind, "or self._pending.size_bytes >= BATCH_PROPERTIES_BYTES", ""),
        ("tests/store/test_index.py",)),
    Bug("a requester that reads nothing gets replies",
        Text(ReplyHandlers._push, "if requester.is_behind:", "if False:"), (REPLIES,)),
    Bug("ids of producers stay when they leave", Seam(ProducerIds.leave, does_nothing), (REPLIES,)),
    Bug("any number of traces waits",
        Text(Tracer._note, "if len(self._waiting) >= WAITING_COUNT_MAX:", "if False:"),
        ("tests/client/test_tracing.py",)),
    Bug("a trace message has any size",
        Text(Tracer._next_message, "if records and is_too_much:", "if False:"), ("tests/client/test_tracing.py",)),
    # -- turns
    Bug("work has no end of its slice",
        Text(SlicedWork._run_slice, "if self._now_s() >= end_s:\n                return False", "pass"),
        ("tests/broker/upkeep/test_sliced_work.py",)),
    Bug("any amount of work waits",
        Text(SlicedWork.run, "if len(self._waiting) >= WAITING_COUNT_MAX:", "if False:"),
        ("tests/broker/upkeep/test_sliced_work.py",)),
    Bug("a round has no end",
        Text(Rounds._continue, "if number and self._turns.now_s() >= end_s:", "if False:"),
        ("tests/net/test_rounds.py",)),
    Bug("heavy connections go first",
        Text(Rounds.rest, "elif is_heavy:", "elif False:"), ("tests/net/test_rounds.py",)),
    Bug("each tag of a heartbeat is kept as an object", Seam(clients._pack, does_nothing),
        ("tests/broker/metadata/test_clients.py",)),
    Bug("a round reads a piece of every unfinished frame",
        Text(Rounds._continue_pieces, "left_bytes -= piece_bytes", "pass"), ("tests/net/test_rounds.py",)),
    Bug("connections in the midst of a frame never rest",
        Text(Rounds.end_reads, "if not self._has_ended_reads:", "if False:"), ("tests/net/test_rounds.py",)),
    Bug("a turn's answers have no limit", Seam(LongPolls.is_turn_full, gives(False)),
        ("tests/broker/messages/test_long_polls.py",)),
    Bug("long turns aren't noticed", Seam(TurnWatch._judge, does_nothing), ("tests/net/test_turn_watch.py",)),
    Bug("a look-up walks a whole slot", Text(index_file.Walk.__init__, "self.left = left", "self.left = 1 << 60"),
        ("tests/store/test_index.py",)),
    Bug("a look-up walks a chain without a rest",
        Text(index_file.IndexFile._walk_some, "min(STEP_COUNT, walk.left)", "walk.left"),
        ("tests/store/test_index.py",)),
    Bug("an index file is looked up in before it is proven",
        Text(index_lookup.find_records_in_steps, "if not file.is_proven and", "if False and"),
        ("tests/store/index/test_entry_proof.py",)),
    Bug("the proof of index files has no limit",
        Text(entry_proof.Prover.prove_in_steps, "if bytes_max <= 0:", "if False:"),
        ("tests/store/index/test_entry_proof.py",)),
    # -- the tails of many queues
    Bug("all tails are written in one turn",
        Text(TailRound.work, "max(self._share(len(self._tails)), 1)", "len(self._tails)"), (HOUSEKEEPING,)),
    Bug("a round looks at all queues at once",
        Text(TailRound._find_ends, "self._queues[done : done + LOOKS_A_CALL]", "self._queues[done:]"), (ROUND,)),
    Bug("units that came during the look at queues count",
        Seam(ConsumeQueue.end_below, lambda real, queue, physical_offset: queue.max_offset), (ROUND,)),
    Bug("a tail that was written before the look takes later units along", Seam(TailRound.note_write, does_nothing),
        (ROUND,)),
    Bug("objects of many queues are looked at again and again", Seam(LastingObjects.tick, does_nothing),
        ("tests/broker/upkeep/test_lasting_objects.py",)),
    Bug("a checkpoint vouches for units that came during a round",
        Text(Housekeeping._note_round, "self._round_state[0]", "self._log.visible_end"), (HOUSEKEEPING,)),
    Bug("a whole write leaves a round on",
        Text(QueueTable.note_ends, "self._round = None", "pass"), (HOUSEKEEPING,)),
    Bug("a round counts queues that were deleted meanwhile", Seam(TailRound.forget, does_nothing), (HOUSEKEEPING,)),
    # -- other users of the machine
    Bug("a store's directories are open", Text(RealFiles.makedirs, "os.mkdir(path, DIRECTORY_MODE)", "os.mkdir(path)"),
        (MODES,)),
    Bug("directories above a store are open",
        Text(RealFiles._make_missing, "each.mkdir(DIRECTORY_MODE, exist_ok=True)", "each.mkdir(exist_ok=True)"),
        (MODES,)),
    Bug("a store's files are open", Text(regular_files.open_regular, "flags, FILE_MODE)", "flags, 0o644)"), (MODES,)),
    # -- what stands in a data directory
    Bug("what is no regular file is opened",
        Text(regular_files.open_regular, "if kind is not FileKind.FILE:", "if False:"), (REGULAR,)),
    Bug("a link in the place of a file is followed",
        Text(regular_files.open_regular, "else os.O_NOFOLLOW", "else 0"), (REGULAR,)),
    Bug("a FIFO holds up its reader", Text(regular_files.open_regular, "os.O_NONBLOCK", "0"), (REGULAR,)),
    Bug("a file of any size is read", Seam(regular_files.check_whole_size, does_nothing), (REGULAR,)),
    Bug("links among queues are followed",
        Text(QueueTable._queue_names, "not in (FileKind.DIRECTORY,", "not in (FileKind.LINK, FileKind.DIRECTORY,"),
        (SOUND_FILES,)),
    # -- log lines
    Bug("peers fill the log",
        Text(RateLimitedLog.write, "if self._line_count >= LINES_MAX:", "if False:"),
        ("tests/test_rate_limited_log.py",)),
    # -- clocks
    Bug("a search by time does not know where times go back",
        Text(CommitLog.commit, "if last_store_ms < self.last_store_ms:", "if False:"),
        ("tests/store/log/test_time_steps.py",)),
    Bug("a slave does not know where times go back",
        Text(Follower._dispatch_quickly, "if taken.goes_back:", "if False:"), ("tests/store/log/test_time_steps.py",)),
    Bug("a checkpoint vouches for times that were not saved",
        Text(Checkpointer.save, "if not self._log.time_steps.save():", "if False:"),
        ("tests/store/log/test_time_steps.py",)),
    Bug("a store time far ahead stays", Seam(store_time.next_store_ms, lambda real, last_ms, now_ms: max(last_ms,
        now_ms)),
        ("tests/store/lifecycle/test_store_times.py",)),
    Bug("store times go back with the clock", Seam(store_time.next_store_ms, lambda real, last_ms, now_ms: now_ms),
        ("tests/store/lifecycle/test_store_times.py",)),
    Bug("a leap of the clock ages all segments", Seam(Pauses.uncounted_ms, gives(0)),
        ("tests/store/lifecycle/test_pauses.py",)),
    Bug("segments of a wrong clock keep older ones", Text(Expiry.segments, "if times_ms and max(times_ms) >",
        "if False and max(times_ms) >"), ("tests/store/lifecycle/test_expiry.py",)),
    # -- settings at run time
    Bug("a change overwrites one that came between", Seam(RuntimeSettings._is_newest, gives(True)), (SETTINGS,)),
    Bug("two changes are saved at once",
        Text(RuntimeSettings.plan, "self._keeper.is_busy", "False"), (SETTINGS,)),
    Bug("a role is taken back without a check",
        Text(RuntimeSettings.plan, "**{key: format_value(self.config.started(key)) for key in forgotten}", ""),
        (SETTINGS,)),
    Bug("a kept change takes effect unsaved",
        Text(SettingsHandlers.update_config, "if change.kept is None:", "if True:"), (CONFIG_REQUESTS,)),
    Bug("a value hides another key",
        Text(runtime.parse_changes, 'character != "\\n"', "False"), (CONFIG_REQUESTS,)),
    Bug("every key changes at run time",
        Text(Config._changeable, "if not row.runtime:", "if False:"), (SETTINGS,)),
)  # fmt: skip
