"""PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361): checks pulls, reads for them, and parks a pull that finds nothing.

The checks come in the order of Java's PullMessageProcessor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pymq.broker.handlers.read_checks import check_broker_reads, check_group_reads, topic_to_read
from pymq.broker.messages.long_polls import SUSPEND_MAX_MS, LongPolls, ParkedPull
from pymq.broker.messages.message_filter import MessageFilter
from pymq.broker.messages.reader import Reader, ReadOutcome
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.runtime import Runtime
from pymq.errors import PymqError, Refusal
from pymq.model import sysflag
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.pull import PullMessageAnswer, PullMessageHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.messages.expressions import Expressions
    from pymq.broker.replication.read_advice import ReadAdvice
    from pymq.broker.stats.stats_manager import StatsManager
    from pymq.store.store import GetResult


class PullHandlers:
    """Answers pulls with messages, or parks them until there are some."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        expressions: Expressions,
        reader: Reader,
        advice: ReadAdvice,
        stats: StatsManager,
    ) -> None:
        self._config = runtime.config
        self._clock = runtime.clock
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._clients = metadata.clients
        self._cursors = metadata.cursors
        self._broadcast_begins = metadata.broadcast_begins
        self._expressions = expressions
        self._reader = reader
        self._advice = advice
        self._stats = stats
        self.long_polls = LongPolls(
            runtime.clock,
            self.retry,
            runtime.config.parked_pull_count_max,
            budget=runtime.budget,
            refuse=self.refuse_parked,
            dismiss=self.dismiss_parked,
        )

    def pull(self, request: Command, header: PullMessageHeader, peer: Peer) -> Reply | None:
        """Return the messages from an offset on, or None when the pull was parked."""
        self._check_target(header)
        message_filter = self._filter_of(header)
        if header.sys_flag & sysflag.PULL_COMMIT_OFFSET:
            self._cursors.commit_from_pull(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        reset = self._take_reset(header, peer)
        if reset is not None:
            return self._reset_reply(header, reset)
        if self.long_polls.is_turn_full:
            self.long_polls.defer(peer, request.envelope(), _without_filter(header), message_filter)
            return None
        outcome = self._look(header, message_filter)
        if (
            outcome.code == ResponseCode.PULL_NOT_FOUND
            and self._may_suspend(header)
            and self._park(request.envelope(), header, message_filter, peer)
        ):
            return None
        self.long_polls.turn_bytes += outcome.result.size_bytes
        return self._reply(header, outcome)

    def quickly(
        self, header: PullMessageHeader, peer: Peer, code: int, opaque: int, serialize: int
    ) -> tuple[GetResult, int] | bool:
        """Do what :meth:`pull` does, if that is to find messages or to park.

        Return the messages and the suggested broker id, or True when the pull was parked; False for everything else,
        which changes nothing. Raises Refusal as :meth:`pull` does.
        """
        self._check_target(header)
        message_filter = self._filter_of(header)
        # A filter of records may read many of them and accept none: don't do that work twice.
        if self._cursors.has_resets or message_filter.accept is not None or self.long_polls.is_turn_full:
            return False
        if self._broadcast_begins.is_new(header.consumer_group, header.topic, header.queue_id, peer):
            return False
        outcome = self._read(header, message_filter)
        is_found = outcome.code == ResponseCode.SUCCESS
        if not is_found and (
            outcome.code != ResponseCode.PULL_NOT_FOUND or not self._may_suspend(header) or self.long_polls.is_full
        ):
            return False
        if header.sys_flag & sysflag.PULL_COMMIT_OFFSET:
            self._cursors.commit_from_pull(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        if not is_found:
            is_parked = self._park(Command(code, opaque=opaque, serialize=serialize), header, message_filter, peer)
            self._stats.missed_pulls += is_parked
            return is_parked
        self._count(header, outcome.result)
        self.long_polls.turn_bytes += outcome.result.size_bytes
        return outcome.result, self._suggestion(header, outcome.result)

    def retry(self, parked: ParkedPull) -> int:
        """Read again for a parked pull, and answer with the result. Offsets may have been reset meanwhile.

        Return the size of the answer's body.
        """
        header: PullMessageHeader = parked.header
        try:
            reset = self._take_reset(header, parked.peer)
            if reset is not None:
                reply = self._reset_reply(header, reset)
            else:
                reply = self._reply(header, self._look(header, parked.message_filter))
        except (PymqError, OSError) as error:  # a damaged record or disk must not stop the other parked pulls
            reply = Reply(ResponseCode.SYSTEM_ERROR, str(error))
        parked.peer.answer(parked.request, reply)
        return len(reply.body)

    def refuse_parked(self, parked: ParkedPull) -> None:
        """Answer a parked pull that messages have come for, but no room for an answer."""
        remark = (
            f"messages came for this pull, but clients leave too many answers unread: within {SUSPEND_MAX_MS} ms there "
            "was no room for this one (memoryBudgetBytes); pull again in a moment"
        )
        parked.peer.answer(parked.request, Reply(ResponseCode.SYSTEM_BUSY, remark))

    def dismiss_parked(self, parked: ParkedPull) -> None:
        """Answer a parked pull that messages were not found, so that its sender asks, and is checked, again."""
        header: PullMessageHeader = parked.header
        low, high = self._reader.ends(header.topic, header.queue_id)
        answer = PullMessageAnswer(next_begin_offset=header.queue_offset, min_offset=low, max_offset=high)
        remark = "users or permissions have changed: pull again"
        parked.peer.answer(parked.request, Reply(ResponseCode.PULL_NOT_FOUND, remark, answer))

    def _take_reset(self, header: PullMessageHeader, peer: Peer) -> int | None:
        """Return where the puller has to go on instead, once; None almost always."""
        reset = self._cursors.take_reset(header.consumer_group, header.topic, header.queue_id)
        begins = self._broadcast_begins.begin(
            header.consumer_group, header.topic, header.queue_id, header.queue_offset, peer
        )
        return 0 if begins and reset is None else reset

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_target(self, header: PullMessageHeader) -> None:
        config = self._config
        if self._advice.is_slave and not config.slave_read_enable:
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"{config.broker_name} is a slave (id {config.broker_id}) and serves no reads: pull from its master or "
                "set slaveReadEnable=true here",
            )
        check_broker_reads(config)
        check_group_reads(self._groups, header.consumer_group, header.topic)
        topic_to_read(self._topics, header.topic, header.queue_id)
        known = header.pymq_deleted_below
        if known is not None and self._reader.deleted_below(header.topic) > known:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic {header.topic} was deleted and made again after this read was planned: plan again",
            )

    def _filter_of(self, header: PullMessageHeader) -> MessageFilter:
        """Return the messages that the pull accepts, by the request itself or by the group's heartbeat."""
        if header.sys_flag & sysflag.PULL_SUBSCRIPTION:
            return self._expressions.message_filter(header.expression_type, header.subscription)
        subscription = self._clients.subscription(header.consumer_group, header.topic)
        if subscription is None:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
                f"no consumer of group {header.consumer_group} subscribes to {header.topic} here yet: it does with "
                "its next heartbeat",
            )
        if subscription.sub_version < header.sub_version:
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the subscription of {header.consumer_group} to {header.topic} is of version "
                f"{subscription.sub_version}, the pull's is {header.sub_version}: the next heartbeat brings it",
            )
        return self._expressions.message_filter(
            subscription.expression_type, subscription.sub_string, wrong=ResponseCode.FILTER_DATA_NOT_EXIST
        )

    # -- reading -------------------------------------------------------------------------------------------------

    def _look(self, header: PullMessageHeader, message_filter: MessageFilter) -> ReadOutcome:
        """Read. A pull without messages is counted here, one with messages when it is answered."""
        outcome = self._read(header, message_filter)
        self._stats.missed_pulls += outcome.code != ResponseCode.SUCCESS
        return outcome

    def _read(self, header: PullMessageHeader, message_filter: MessageFilter) -> ReadOutcome:
        outcome = (
            self._read_counted(header, message_filter)
            if message_filter.accept is not None
            else self._read_plain(header, message_filter)
        )
        if outcome.code == ResponseCode.PULL_OFFSET_MOVED and self._advice.keeps_offsets:
            outcome.result.next_offset = header.queue_offset
            return ReadOutcome(ResponseCode.PULL_NOT_FOUND, outcome.result)
        return outcome

    def _read_plain(self, header: PullMessageHeader, message_filter: MessageFilter) -> ReadOutcome:
        return self._reader.read(
            header.topic,
            header.queue_id,
            header.queue_offset,
            header.max_msg_nums,
            header.max_msg_bytes,
            message_filter,
            header.pymq_max_msg_nums,
        )

    def _read_counted(self, header: PullMessageHeader, message_filter: MessageFilter) -> ReadOutcome:
        """Read through an expression, and count that for the group."""
        stats, clock = self._stats, self._clock
        errors, begun_ms = stats.filter_errors, clock.monotonic_ms()
        outcome = self._read_plain(header, message_filter)
        stats.filters.add(
            header.topic,
            header.consumer_group,
            header.queue_offset,
            outcome.result,
            stats.filter_errors - errors,
            clock.monotonic_ms() - begun_ms,
        )
        return outcome

    def _suggestion(self, header: PullMessageHeader, result: GetResult) -> int:
        group = self._groups.get(header.consumer_group)
        return self._advice.broker_id(group, header.topic, header.queue_id, result)

    def _park(self, envelope: Command, header: PullMessageHeader, message_filter: MessageFilter, peer: Peer) -> bool:
        suspend_ms = self._suspend_ms(header)
        return self.long_polls.park(peer, envelope, _without_filter(header), message_filter, suspend_ms)

    def _may_suspend(self, header: PullMessageHeader) -> bool:
        return bool(header.sys_flag & sysflag.PULL_SUSPEND) and header.suspend_timeout_millis > 0

    def _suspend_ms(self, header: PullMessageHeader) -> int:
        config = self._config
        wanted_ms = header.suspend_timeout_millis if config.long_polling_enable else config.short_polling_time_ms
        return self._advice.suspend_ms(wanted_ms, self._groups.get(header.consumer_group))

    def _reply(self, header: PullMessageHeader, outcome: ReadOutcome) -> Reply:
        code, result = outcome
        answer = PullMessageAnswer(
            suggest_which_broker_id=self._suggestion(header, result),
            next_begin_offset=result.next_offset,
            min_offset=result.min_offset,
            max_offset=result.max_offset,
        )
        if code != ResponseCode.SUCCESS:
            return Reply(code, result.status.name, answer)
        self._count(header, result)
        return Reply(code, result.status.name, answer, b"".join(result.chunks))

    def _count(self, header: PullMessageHeader, result: GetResult) -> None:
        self._cursors.note_pulled(header.consumer_group, header.topic, header.queue_id, result.next_offset)
        self._stats.messages_got(header.consumer_group, header.topic, result.count, result.size_bytes)

    def _reset_reply(self, header: PullMessageHeader, offset: int) -> Reply:
        """Tell a consumer to go on from the offset that an operator reset it to."""
        low, high = self._reader.ends(header.topic, header.queue_id)
        answer = PullMessageAnswer(next_begin_offset=offset, min_offset=low, max_offset=high)
        return Reply(ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", answer)


def _without_filter(header: PullMessageHeader) -> PullMessageHeader:
    """Return what a parked pull needs of its header: its filter is made already, and peers can make its text large."""
    return msgspec.structs.replace(header, subscription=None, expression_type=None)
