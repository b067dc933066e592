"""Consumption of lite topics: POP_LITE_MESSAGE (200070), LITE_SUBSCRIPTION_CTL (200071), TRIGGER_LITE_DISPATCH.

Acknowledgements are those of all pops, with the field ``liteTopic`` (:class:`~pymq.broker.handlers.pop.PopHandlers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.handlers.pop_checks import LATE_MS, check_wishes, failed_reply, is_late, late_reply, wait_ms_of
from pymq.broker.handlers.read_checks import check_broker_reads, check_group_reads, topic_to_read
from pymq.broker.messages.message_filter import MessageFilter
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.pop.lite_control import LiteControl
from pymq.broker.pop.lite_popper import LiteAsk, LitePopped, LitePopper
from pymq.broker.pop.lite_subscriptions import EVERYBODY, LiteClient, LiteSubscriptions
from pymq.broker.pop.pop_polls import ANY_QUEUE, ParkedPop, PopPolls
from pymq.broker.replication.roles.write_fence import hand_over_refusal
from pymq.broker.runtime import Runtime
from pymq.errors import PymqError
from pymq.model.lite_topics import split_light_queue
from pymq.model.pop import ORDERLY_REVIVE_QUEUE
from pymq.wire.bodies_lites import decode_lite_subscriptions
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.lites import PopLiteAnswer, PopLiteHeader, TriggerLiteHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.store.store import LightReader, StagedLight

NOBODY = "the client has no subscriptions to lite topics of this group: send LITE_SUBSCRIPTION_CTL (200071) first"


class LitePopHandlers:
    """Answers lite pops, and has them wait for news."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        metadata: Metadata,
        lights: LightReader,
        subscriptions: LiteSubscriptions,
        control: LiteControl,
        popper: LitePopper,
        wake_in: Callable[[int], None],
        other_waiting_count: Callable[[], int],
        is_fenced: Callable[[], bool],
    ) -> None:
        """``wake_in`` has the tick of :attr:`polls` called in so many ms; ``other_waiting_count``: of other pops, which
        share a limit with these; ``is_fenced``: during a hand-over."""
        self._is_fenced = is_fenced
        self._config = runtime.config
        self._clock = runtime.clock
        self._topics = metadata.topics
        self._groups = metadata.groups
        self._subscriptions = subscriptions
        self._control = control
        self._popper = popper
        self.polls = PopPolls(
            runtime.clock,
            self._retry,
            self._give_up,
            budget=runtime.budget,
            count_max=lambda: runtime.config.max_pop_polling_size - other_waiting_count(),
            queue_count_max=lambda: runtime.config.pop_polling_size,
            wake_in=wake_in,
        )
        subscriptions.wake = self._wake
        lights.listen(self._on_published)

    # -- subscriptions -------------------------------------------------------------------------------------------

    def subscribe(self, request: Command, header: None, peer: Peer) -> Reply:
        """Change clients' subscriptions. An entry that is refused leaves those before it in effect."""
        check_broker_reads(self._config)
        user = _user_of(request)
        for entry in decode_lite_subscriptions(request.body):
            self._control.change(entry, peer, user)
        return Reply()

    def trigger(self, request: Command, header: TriggerLiteHeader, peer: Peer) -> Reply:
        """Have the subscriptions of a client, or of all of a group's clients, looked through for news."""
        self._groups.require(header.group)
        wanted = header.client_id or ""
        for client in list(self._subscriptions.clients_of(header.group)):
            if not wanted or client.client_id == wanted:
                self._control.look_again(client)
        return Reply()

    # -- pop -----------------------------------------------------------------------------------------------------

    def pop(self, request: Command, header: PopLiteHeader, peer: Peer) -> Reply | None:
        """Hand out messages of the client's lite topics, or let the pop wait for some."""
        try:
            return self._pop(request, header, peer)
        except PymqError as error:
            return failed_reply(error, PopLiteAnswer())

    def _pop(self, request: Command, header: PopLiteHeader, peer: Peer) -> Reply | None:
        wait_ms = wait_ms_of(header.born_time, header.poll_time, self._clock.now_ms())
        if is_late(wait_ms):
            return late_reply(self._config.broker_name, wait_ms, PopLiteAnswer())
        self._check(header)
        ask = LiteAsk(
            header.consumer_group,
            header.client_id,
            _user_of(request),
            header.max_msg_num,
            header.invisible_time,
            header.attempt_id,
        )
        client = self._client_of(ask)
        if client is not None:
            self._subscriptions.renew(client)
        if self.polls.is_turn_full and self._park(request, client, ask, peer, max(wait_ms, LATE_MS), is_due=True):
            return None
        popped = self._popper.pop(client, ask, self._clock.now_ms()) if client is not None else None
        if popped is not None and popped.records:
            return self._found(ask, popped)
        if wait_ms <= 0:
            return _nothing(ResponseCode.POLLING_TIMEOUT, client)
        has_more = popped is not None and popped.has_more
        if self._park(request, client, ask, peer, wait_ms, is_due=has_more):
            return None
        return _nothing(ResponseCode.POLLING_FULL, client)

    def _client_of(self, ask: LiteAsk) -> LiteClient | None:
        """Return the client that pops; None while it has no subscriptions. Raises Refusal for another user's."""
        return self._subscriptions.owned(ask.group, ask.client_id, ask.user)

    def _check(self, header: PopLiteHeader) -> None:
        """Check a lite pop. Raises Refusal."""
        check_broker_reads(self._config)
        check_wishes("maxMsgNum", header.max_msg_num, header.invisible_time, header.attempt_id)
        topic_to_read(self._topics, header.topic, ANY_QUEUE, or_all=True)
        self._control.rules(header.consumer_group, header.topic)
        check_group_reads(self._groups, header.consumer_group, header.topic)

    def _park(
        self,
        request: Command,
        client: LiteClient | None,
        ask: LiteAsk,
        peer: Peer,
        wait_ms: int,
        *,
        is_due: bool = False,
    ) -> bool:
        shares = client is not None and client.group.is_wildcard
        place = (EVERYBODY if shares else ask.client_id, ask.group, ANY_QUEUE)
        return self.polls.park(peer, request, ask, place, MessageFilter(), wait_ms, is_due=is_due)

    def _found(self, ask: LiteAsk, popped: LitePopped) -> Reply:
        self.polls.turn_bytes += popped.size_bytes
        answer = PopLiteAnswer(
            pop_time=popped.pop_time_ms,
            invisible_time=ask.invisible_ms,
            revive_qid=ORDERLY_REVIVE_QUEUE,
            order_count_info=";".join(popped.counts),
        )
        return Reply(ResponseCode.SUCCESS, "FOUND", answer, b"".join(popped.records))

    # -- waiting requests ----------------------------------------------------------------------------------------

    def _retry(self, parked: ParkedPop, is_last: bool) -> bool:
        """Look again for a waiting pop. Return False when it found nothing and is to wait on."""
        ask: LiteAsk = parked.ask
        try:
            if self._is_fenced():  # the slave that takes over may have copied by now what is handed out
                raise hand_over_refusal()
            client = self._client_of(ask)
            popped = self._popper.pop(client, ask, self._clock.now_ms()) if client is not None else None
        except (PymqError, OSError) as error:  # it must not stop the other requests
            parked.peer.answer(parked.request, failed_reply(error, PopLiteAnswer()))
            return True
        # A pop that came before its subscriptions does not wait where others of a wildcard group wait.
        waits_alone = client is not None and client.group.is_wildcard and parked.group != EVERYBODY
        if popped is not None and popped.records:
            parked.peer.answer(parked.request, self._found(ask, popped))
        elif is_last or waits_alone:
            parked.peer.answer(parked.request, _nothing(ResponseCode.POLLING_TIMEOUT, client))
        else:
            parked.looks_again = popped is not None and popped.has_more
            return False
        return True

    def _give_up(self, parked: ParkedPop, remark: str) -> None:
        """Answer a request without messages."""
        parked.peer.answer(parked.request, Reply(ResponseCode.POLLING_TIMEOUT, remark, PopLiteAnswer()))

    # -- news ----------------------------------------------------------------------------------------------------

    def on_free(self, light_queue: str, group: str) -> None:
        """Take note that a lite topic gives a group messages again."""
        names = split_light_queue(light_queue)
        if names is not None and self._control.has_news(group, *names):
            self._subscriptions.on_free(*names, group)

    def _on_published(self, staged: list[StagedLight]) -> None:
        if self._subscriptions.client_count:
            for parent, lite, *_ in staged:
                self._subscriptions.on_news(parent, lite)

    def _wake(self, group: str, client_id: str) -> bool:
        """Wake one pop that waits there."""
        if not self.polls.waiting_count(client_id, group, ANY_QUEUE):
            return False
        self.polls.wake_group(group, client_id)
        return True


def _nothing(code: int, client: LiteClient | None) -> Reply:
    return Reply(code, "NO_MESSAGE_IN_QUEUE" if client is not None else NOBODY, PopLiteAnswer())


def _user_of(request: Command) -> str:
    """Return the user's name; empty on a broker that checks nothing."""
    return request.sender.name if request.sender is not None else ""
