"""ClientBackend: a cluster through the client library. It serves clusters of PyMQ and of RocketMQ alike."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from pymq.client.ack_frames import AckFrames
from pymq.client.answers import read_answer
from pymq.client.instance import ClientInstance
from pymq.client.lite_popping import popped_lites
from pymq.client.outgoing import Outgoing
from pymq.client.popped_answer import popped_with_receipts
from pymq.client.pulling import filter_result, pull_once
from pymq.client.queue_offsets import QueueOffsets
from pymq.client.route_cache import read_queues, why_not_read
from pymq.client.sender import Deadline, Sender
from pymq.client.subscription import explained
from pymq.errors import NoQueueError, PymqError, RefusedError, UnreachableError
from pymq.model import pop, sysflag
from pymq.model.inner_batch import is_inner_batch
from pymq.model.lite_topics import light_place
from pymq.model.message import MessageQueue, PullResult, SendResult
from pymq.model.message_types import NORMAL, TYPE_ATTRIBUTE
from pymq.model.properties import RETRY_TOPIC
from pymq.model.record import MalformedRecordError, decode_record
from pymq.model.route import BrokerData
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.model.timers import decode_handle
from pymq.model.transactions import COMMIT, ROLLBACK
from pymq.net.client import OnRequest, RemotingClient
from pymq.net.tls import WatchedContext
from pymq.proxy.backend import OnQuestion, OnUnsubscribed, Pull, Receive, Received, TransactionPlace
from pymq.proxy.checks import MIXED
from pymq.proxy.first_answer import first_answer
from pymq.proxy.memberships import Memberships
from pymq.proxy.protocol.names import Code
from pymq.proxy.receipts import Handle
from pymq.proxy.recent_values import RecentValues
from pymq.proxy.refusals import ProxyRefusal
from pymq.proxy.settings import GroupRules
from pymq.wire.bodies_admin import decode_admin_body
from pymq.wire.bodies_client import HeartbeatData, ProducerData, encode_body
from pymq.wire.bodies_lites import LiteSubscription, LiteSubscriptions
from pymq.wire.bodies_route import decode_cluster_info
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, request
from pymq.wire.header import decode_header
from pymq.wire.headers.admin import GetTopicConfigHeader, GroupHeader
from pymq.wire.headers.lites import NotifyUnsubscribeLiteHeader, PopLiteHeader
from pymq.wire.headers.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeAnswer,
    ChangeInvisibleTimeHeader,
    PopMessageHeader,
)
from pymq.wire.headers.pull import ViewMessageHeader
from pymq.wire.headers.send import ConsumerSendMsgBackHeader, RecallMessageAnswer, RecallMessageHeader
from pymq.wire.headers.transaction import CheckTransactionHeader, EndTransactionHeader
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

PRODUCER_GROUP = "PYMQ_PROXY"
SEND_TIMEOUT_S = 3.0
SEND_RETRIES_MAX = 2
CALL_TIMEOUT_S = 3.0
ANSWER_SLACK_S = 5.0  # a broker answers a parked pop so much late at most
ALL_QUEUES = -1
FROM_END = 1
TO_DEAD_LETTERS = -1
_WITH_TRANSACTIONS = ("TRANSACTION", MIXED)
NOT_THAT_MESSAGE = "the receipt handle names a place in the log at which its message is not"
_NOTHING = (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND)


class ClientBackend:
    """Serves the proxy from the cluster of a started client instance."""

    def __init__(self, instance: ClientInstance, tls: WatchedContext | None = None) -> None:
        """``tls``: of the connections for members of groups."""
        clock = instance.clock
        self._tls = tls
        self._instance = instance
        self._clock = clock
        self._sender = Sender(instance, PRODUCER_GROUP, SEND_RETRIES_MAX, None, avoids_slow=False)
        self._ack_frames = AckFrames(instance.remoting.language, instance.remoting.version)
        self._recent_routes = RecentValues(instance.routes.renew, clock)
        self._recent_types = RecentValues(self._ask_type, clock)
        self._recent_rules = RecentValues(self._ask_rules, clock)
        self._memberships = Memberships(self._connect, self._recent_routes.get)
        self.join = self._memberships.join
        self.leave = self._memberships.leave
        self._on_operator: OnRequest | None = None
        self._on_question: OnQuestion | None = None
        self._on_unsubscribed: OnUnsubscribed = lambda client_id, group, lite: None
        instance.remoting.on_request = self._on_request
        self._offsets = QueueOffsets(instance)
        self.commit = self._offsets.commit
        self.committed = self._offsets.committed
        self.route = self._recent_routes.get
        self.topic_type = self._recent_types.get
        self.group_rules = self._recent_rules.get

    def hear_operators(self, on_request: OnRequest) -> None:
        """Have ``on_request`` answer what operators ask members through their brokers."""
        self._on_operator = on_request

    async def close(self) -> None:
        """End the connections of members."""
        await self._memberships.close()

    async def queues_to_write(self, topic: str) -> list[MessageQueue]:
        """Return the topic's writable queues. Raises NotFoundError for an unknown topic."""
        if not self._recent_routes.is_known(topic):
            await self.route(topic)  # without it, the client library would expect the broker to create the topic
        known = self._instance.routes.known_queues(topic)
        return known if known is not None else await self._instance.routes.queues_to_write(topic)

    async def send(self, outgoing: Outgoing, queue: MessageQueue | None) -> SendResult:
        """Send to ``queue``, or to any one."""
        deadline = Deadline(self._clock, SEND_TIMEOUT_S)
        if queue is None:
            return await self._sender.anywhere(outgoing, deadline)
        return await self._sender.attempt(outgoing, queue, deadline)

    async def receive(self, order: Receive) -> list[Received]:
        """Return messages, after a wait for the first one; an empty list when none came."""
        broker = order.broker_name or await self._readable_broker(order.topic)
        if order.lite_client:
            return await self._receive_lites(order, broker)
        header = PopMessageHeader(
            consumer_group=order.group,
            topic=order.topic,
            queue_id=ALL_QUEUES,
            max_msg_nums=order.count_max,
            invisible_time=order.invisible_ms,
            poll_time=order.wait_ms,
            born_time=0,  # the broker's clock: this one may be wrong
            init_mode=FROM_END,
            exp_type=order.subscription.expression_type,
            exp=order.subscription.expression,
            order=order.is_orderly,
            attempt_id=order.attempt_id,
        )
        address = await self._address(order.topic, broker)
        timeout_s = order.wait_ms / 1000 + ANSWER_SLACK_S
        answer = await self._instance.remoting.invoke(address, request(RequestCode.POP_MESSAGE, header), timeout_s)
        if answer.code in _NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise explained(RefusedError(answer.code, answer.remark, address), order.subscription)
        found = []
        for message, receipt in popped_with_receipts(answer, address, broker):
            handle = Handle(receipt, message.queue_id, message.queue_offset, message.physical_offset)
            if order.subscription.accepts(message.tags):
                found.append(Received(message, handle))
            else:  # another tag with the same hash: it is not this group's
                await self.ack(order.topic, order.group, handle)
        return found

    async def _receive_lites(self, order: Receive, broker: str) -> list[Received]:
        """Return messages of the lite topics that a client subscribes to."""
        header = PopLiteHeader(
            client_id=order.lite_client,
            consumer_group=order.group,
            topic=order.topic,
            max_msg_num=order.count_max,
            invisible_time=order.invisible_ms,
            poll_time=order.wait_ms,
            born_time=0,  # the broker's clock: this one may be wrong
            attempt_id=order.attempt_id,
        )
        address = await self._address(order.topic, broker)
        timeout_s = order.wait_ms / 1000 + ANSWER_SLACK_S
        answer = await self._instance.remoting.invoke(address, request(RequestCode.POP_LITE_MESSAGE, header), timeout_s)
        if answer.code in _NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark, address)
        found = []
        for each in popped_lites(answer, address, order.topic, broker):
            receipt = pop.decode_receipt(each.receipt)
            place = each.message.physical_offset
            found.append(Received(each.message, Handle(receipt, 0, each.lite_offset, place, each.lite_topic or "")))
        return found

    async def subscribe_lites(self, entry: LiteSubscription) -> None:
        """Have all brokers of the parent topic change a client's subscriptions to lite topics.

        Raises what the first broker raised that did not do so.
        """
        route = await self.route(entry.topic or "")
        body = encode_body(LiteSubscriptions(subscription_set=[entry]))
        calls = [
            self._instance.remoting.invoke_ok(
                address, request(RequestCode.LITE_SUBSCRIPTION_CTL, body=body), CALL_TIMEOUT_S
            )
            for broker in route.broker_datas
            if (address := broker.master_address) is not None
        ]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def hear_unsubscribed(self, on_unsubscribed: OnUnsubscribed) -> None:
        """Have ``on_unsubscribed`` called when a broker says that another client has a lite topic."""
        self._on_unsubscribed = on_unsubscribed

    async def pull(self, order: Pull) -> PullResult:
        """Return messages of a queue, after a wait for the first one."""
        result = await pull_once(
            self._instance,
            order.group,
            order.queue,
            order.offset,
            order.subscription,
            count_max=order.count_max,
            bytes_max=None,
            suspend_ms=order.wait_ms,
            sys_flag=sysflag.PULL_SUBSCRIPTION,
        )
        filter_result(result, order.subscription)
        return result

    async def offset_of(self, queue: MessageQueue, since_ms: int | None, *, at_end: bool) -> int:
        """Return the offset behind a queue's last message, or its first since a time, or its first."""
        if since_ms is not None:
            return await self._offsets.by_time(queue, since_ms)
        return await (self._offsets.max_offset(queue) if at_end else self._offsets.min_offset(queue))

    async def ack(self, topic: str, group: str, handle: Handle) -> None:
        """Acknowledge a message."""
        answering = self._begin_ack(topic, group, handle) if not handle.lite else None
        if answering is not None:
            answer = await answering[0]
            if answer.code != ResponseCode.SUCCESS:
                raise RefusedError(answer.code, answer.remark, answering[1])
            return
        header = AckMessageHeader(
            consumer_group=group,
            topic=handle.topic(group, topic),
            queue_id=handle.queue_id,
            extra_info=handle.extra_info,
            offset=handle.offset,
            lite_topic=handle.lite or None,
        )
        await self._ask(topic, handle.receipt.broker_name, request(RequestCode.ACK_MESSAGE, header))

    def _begin_ack(self, topic: str, group: str, handle: Handle) -> tuple[asyncio.Future[Command], str] | None:
        """Write an acknowledgement by the shortest way.

        Return the future of the answer and the broker's address; None if it must wait, or needs a signature.
        """
        remoting, address = (
            self._instance.remoting,
            self._instance.routes.known_read_address(handle.receipt.broker_name),
        )
        is_known = address is not None and self._recent_routes.is_known(topic)
        if not is_known or address is None or remoting.sign is not None or not remoting.is_ready(address):
            return None
        opaque = remoting.next_opaque()
        frame = self._ack_frames.frame(
            group, handle.topic(group, topic), handle.queue_id, handle.extra_info, handle.offset, opaque
        )
        future = remoting.call_frame(address, frame, opaque, RequestCode.ACK_MESSAGE, CALL_TIMEOUT_S)
        return None if future is None else (future, address)

    async def change_invisible(self, topic: str, group: str, handle: Handle, invisible_ms: int) -> Handle:
        """Let a message come again after ``invisible_ms`` from now. Return its new handle."""
        header = ChangeInvisibleTimeHeader(
            consumer_group=group,
            topic=handle.topic(group, topic),
            queue_id=handle.queue_id,
            extra_info=handle.extra_info,
            offset=handle.offset,
            invisible_time=invisible_ms,
            lite_topic=handle.lite or None,
        )
        command = request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        answer = await self._ask(topic, handle.receipt.broker_name, command)
        fields = read_answer(ChangeInvisibleTimeAnswer, answer, handle.receipt.broker_name)
        start = handle.receipt.start_offset if fields.revive_qid == pop.ORDERLY_REVIVE_QUEUE else handle.offset
        receipt = handle.receipt._replace(
            start_offset=start,
            pop_time_ms=fields.pop_time,
            invisible_ms=fields.invisible_time,
            revive_queue_id=fields.revive_qid,
        )
        return handle._replace(receipt=receipt)

    async def check_place(self, topic: str, group: str, handle: Handle) -> None:
        """Check that the record at a handle's place in the log is the message that the handle names.

        Raises ProxyRefusal (INVALID_RECEIPT_HANDLE).
        """
        header = ViewMessageHeader(offset=handle.log_offset, topic=handle.topic(group, topic))
        address = await self._address(topic, handle.receipt.broker_name)
        command = request(RequestCode.VIEW_MESSAGE_BY_ID, header)
        answer = await self._instance.remoting.invoke(address, command, CALL_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS or not is_named_by(handle, topic, group, answer.body):
            raise ProxyRefusal(Code.INVALID_RECEIPT_HANDLE, NOT_THAT_MESSAGE)

    async def to_dead_letters(self, topic: str, group: str, handle: Handle, message_id: str) -> None:
        """Move the message at a handle's place to the group's dead letters, whichever message that is."""
        header = ConsumerSendMsgBackHeader(
            offset=handle.log_offset,
            group=group,
            delay_level=TO_DEAD_LETTERS,
            origin_msg_id=message_id,
            origin_topic=topic,
            max_reconsume_times=0,
        )
        await self._ask(topic, handle.receipt.broker_name, request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
        await self.ack(topic, group, handle)

    async def end_transaction(
        self, place: TransactionPlace, transaction_id: str, *, is_commit: bool, is_checked: bool
    ) -> None:
        """Commit or roll back; ``is_checked``: because a broker asked."""
        header = EndTransactionHeader(
            producer_group=place.topic,
            tran_state_table_offset=place.queue_offset,
            commit_log_offset=place.log_offset,
            commit_or_rollback=COMMIT if is_commit else ROLLBACK,
            from_transaction_check=is_checked,
            msg_id=transaction_id,
            transaction_id=transaction_id,
            topic=place.topic,
        )
        await self._ask(place.topic, place.broker_name, request(RequestCode.END_TRANSACTION, header))

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Recall a message that waits for its time. Return its id."""
        broker = _broker_of_recall(recall_handle)
        header = RecallMessageHeader(topic=topic, recall_handle=recall_handle, producer_group=PRODUCER_GROUP)
        answer = await self._ask(topic, broker, request(RequestCode.RECALL_MESSAGE, header))
        return read_answer(RecallMessageAnswer, answer, broker).message_id

    async def publish_for(self, topics: Collection[str], on_question: OnQuestion) -> None:
        """Let brokers know who may be asked about transactions of these topics; call it again every BEAT_MS."""
        self._on_question = on_question
        by_address: dict[str, list[ProducerData]] = {}
        for topic in topics:
            try:
                if await self.topic_type(topic) in _WITH_TRANSACTIONS:
                    for broker in (await self.route(topic)).broker_datas:
                        if broker.master_address is not None:
                            by_address.setdefault(broker.master_address, []).append(ProducerData(group_name=topic))
            except PymqError as error:
                log.debug("no broker of %s knows its producers: %s", topic, error)
        for address, groups in by_address.items():
            beat = HeartbeatData(client_id=self._instance.client_id, producer_data_set=groups)
            try:
                command = request(RequestCode.HEART_BEAT, body=encode_body(beat))
                await self._instance.remoting.invoke_ok(address, command, CALL_TIMEOUT_S)
            except PymqError as error:
                log.info("%s does not know the producers of %d topics: %s", address, len(groups), error)

    def _on_request(self, command: Command, address: str) -> Reply | None:
        """Take a broker's question about a transaction, or its word that a subscription has ended."""
        if command.code == RequestCode.NOTIFY_UNSUBSCRIBE_LITE:
            lost = decode_header(NotifyUnsubscribeLiteHeader, command.ext)
            self._on_unsubscribed(lost.client_id, lost.consumer_group, lost.lite_topic)
            return None
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            text = f" request type {command.code} not supported by this proxy"
            return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)
        header = decode_header(CheckTransactionHeader, command.ext)
        try:
            message = decode_record(command.body)
        except MalformedRecordError as error:
            log.warning("%s asks about a transaction whose message can't be read: %s", address, error)
            return None
        broker = header.broker_name or self._broker_at(address)
        place = TransactionPlace(message.topic, broker, header.tran_state_table_offset, header.commit_log_offset)
        if self._on_question is not None:
            self._on_question(message, header.transaction_id or header.msg_id or message.message_id, place)
        return None

    def _broker_at(self, address: str) -> str:
        brokers = self._instance.routes.brokers()
        return next((each.broker_name for each in brokers if address in each.broker_addrs.values()), "")

    def _connect(self, language: str) -> RemotingClient:
        remoting = self._instance.remoting
        return RemotingClient(
            clock=self._clock, language=language, on_request=self._on_operator, sign=remoting.sign, tls=self._tls
        )

    async def _ask(self, topic: str, broker: str, command: Command) -> Command:
        return await self._instance.remoting.invoke_ok(await self._address(topic, broker), command, CALL_TIMEOUT_S)

    async def _address(self, topic: str, broker: str) -> str:
        if not self._recent_routes.is_known(topic):
            await self.route(topic)
        known = self._instance.routes.known_read_address(broker)
        return known or await self._instance.routes.read_address(MessageQueue(topic, broker, 0))

    async def _readable_broker(self, topic: str) -> str:
        route = await self.route(topic)
        queues = read_queues(topic, route)
        if not queues:
            raise NoQueueError(why_not_read(topic, route))
        return self._instance.rng.choice(queues).broker_name

    async def _ask_type(self, topic: str) -> str:
        route = await self.route(topic)
        addresses = [address for each in route.broker_datas if (address := each.master_address) is not None]
        if not addresses:
            raise UnreachableError(f"topic {topic} has no broker with a master now")
        command = request(RequestCode.GET_TOPIC_CONFIG, GetTopicConfigHeader(topic=topic, lo=True))

        async def ask(address: str) -> str:
            answer = await self._instance.remoting.invoke_ok(address, command)
            return decode_admin_body(TopicConfig, answer.body).attributes.get(TYPE_ATTRIBUTE, NORMAL)

        return await first_answer(addresses, ask) or NORMAL

    async def _ask_rules(self, group: str) -> GroupRules:
        """Return the rules of the first broker that has the group; the defaults when none has it."""
        command = request(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, GroupHeader(group=group))

        async def ask(address: str) -> GroupRules | None:
            answer = await self._instance.remoting.invoke(address, command, CALL_TIMEOUT_S)
            if answer.code == ResponseCode.SUCCESS:
                return GroupRules.of(decode_admin_body(SubscriptionGroupConfig, answer.body))
            if answer.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise RefusedError(answer.code, answer.remark, address)
            return None

        brokers = self._instance.routes.brokers() or await self._brokers()
        addresses = [address for broker in brokers if (address := broker.master_address) is not None]
        return await first_answer(addresses, ask) or GroupRules()

    async def _brokers(self) -> list[BrokerData]:
        command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
        answer = await self._instance.name_servers.invoke(command)
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark)
        return list(decode_cluster_info(answer.body).broker_addr_table.values())


def is_named_by(handle: Handle, topic: str, group: str, record: bytes) -> bool:
    """Return whether a record is the message that a handle of ``group`` for ``topic`` names: its queue and offset.

    Two pairs of a group and a topic can share a retry topic: the record's own origin decides.
    """
    try:
        found = decode_record(record)
    except MalformedRecordError:
        return False
    if handle.receipt.retry_flag != pop.NORMAL and found.properties.get(RETRY_TOPIC, topic) != topic:
        return False
    if handle.lite:
        place = light_place(found.topic, found.raw_properties)
        return found.topic == topic and place == (handle.lite, handle.offset)
    if (found.topic, found.queue_id) != (handle.topic(group, topic), handle.queue_id):
        return False
    # A record of several messages has the place of its first one; the broker tells the caller what it does with them.
    return found.queue_offset == handle.offset or is_inner_batch(found)


def _broker_of_recall(recall_handle: str) -> str:
    """Return the broker that a recall handle names. Raises ProxyRefusal for a text that is none."""
    try:
        return decode_handle(recall_handle).broker_name
    except ValueError as error:
        raise ProxyRefusal(Code.INTERNAL_SERVER_ERROR, str(error)) from error
