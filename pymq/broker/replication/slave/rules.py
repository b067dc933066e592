"""Which requests a slave serves and which it refuses. A test checks that each request code is here once.

A slave's log and tables are its master's, so only copying may write them. A slave serves requests that read, clients'
heartbeats and consumers' commits. Java: DefaultMessageStore.checkStoreStatus refuses sends
(SERVICE_NOT_AVAILABLE), AdminBrokerProcessor.validateSlave and resetOffset administration (SYSTEM_ERROR).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pymq.errors import Refusal
from pymq.wire.access import any_user
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Handler, Peer, Route
from pymq.wire.reply import Reply

_SENDS: Final = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)
POPS: Final = (
    RequestCode.POP_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    RequestCode.PEEK_MESSAGE,
    RequestCode.NOTIFICATION,
    RequestCode.POLLING_INFO,
)
_TRANSACTIONS: Final = (RequestCode.END_TRANSACTION, RequestCode.RESUME_CHECK_HALF_MESSAGE)
_LOCKS: Final = (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ)
CHANGES: Final = (
    RequestCode.UPDATE_AND_CREATE_TOPIC,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
    RequestCode.DELETE_TOPIC_IN_BROKER,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.DELETE_SUBSCRIPTIONGROUP,
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.CLONE_GROUP_OFFSET,
    RequestCode.SET_MESSAGE_REQUEST_MODE,
)
USER_CHANGES: Final = (
    RequestCode.AUTH_CREATE_USER,
    RequestCode.AUTH_UPDATE_USER,
    RequestCode.AUTH_DELETE_USER,
    RequestCode.AUTH_CREATE_ACL,
    RequestCode.AUTH_UPDATE_ACL,
    RequestCode.AUTH_DELETE_ACL,
)

# Request code -> (response code, what the slave does not do).
REFUSED: Final[dict[int, tuple[int, str]]] = {
    **dict.fromkeys(_SENDS, (ResponseCode.SERVICE_NOT_AVAILABLE, "takes no messages")),
    **dict.fromkeys(POPS, (ResponseCode.SERVICE_NOT_AVAILABLE, "hands out no messages")),
    **dict.fromkeys(_TRANSACTIONS, (ResponseCode.SLAVE_NOT_AVAILABLE, "ends and checks no transactions")),
    RequestCode.RECALL_MESSAGE: (ResponseCode.SLAVE_NOT_AVAILABLE, "recalls no messages"),
    **dict.fromkeys(_LOCKS, (ResponseCode.SERVICE_NOT_AVAILABLE, "gives no locks")),
    **dict.fromkeys(CHANGES, (ResponseCode.SYSTEM_ERROR, "changes no topics, groups or offsets")),
}

# mqadmin sends these to every broker of a cluster and stops at the first refusal.
LEFT_TO_MASTER: Final = frozenset({RequestCode.CLEAN_UNUSED_TOPIC, *USER_CHANGES})

SERVED: Final = frozenset(
    {
        # Reading. The pull handler applies slaveReadEnable.
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.QUERY_CONSUME_QUEUE,
        # Consumers' offsets: commits are kept and sent to the master.
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        # Connected clients. No group is created for them.
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.REGISTER_FILTER_SERVER,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.GET_ALL_PRODUCER_INFO,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        # Tables and figures.
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_TOPIC_CONFIG,
        RequestCode.GET_TOPIC_STATS_INFO,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        RequestCode.GET_TIMER_CHECK_POINT,
        RequestCode.GET_TIMER_METRICS,
        RequestCode.GET_CONSUME_STATS,
        RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.QUERY_CONSUME_TIME_SPAN,
        RequestCode.QUERY_CORRECTION_OFFSET,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        RequestCode.VIEW_BROKER_STATS_DATA,
        # Users, as the master has them.
        RequestCode.AUTH_GET_USER,
        RequestCode.AUTH_LIST_USER,
        RequestCode.AUTH_GET_ACL,
        RequestCode.AUTH_LIST_ACL,
        # This broker itself: its settings, its disk, its role.
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_BROKER_HA_STATUS,
        RequestCode.GET_BROKER_EPOCH_CACHE,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.PYMQ_JOIN_MASTER,
        RequestCode.PYMQ_COPY_METADATA,
        RequestCode.PYMQ_GET_REPLICATION_STATUS,
        RequestCode.PYMQ_CHANGE_ROLE,
        RequestCode.PYMQ_CHANGE_RAFT_GROUP,
        RequestCode.PYMQ_LIST_LOG_DIGESTS,
        RequestCode.PYMQ_READ_LOG,
        RequestCode.PYMQ_RAFT_MESSAGE,
        RequestCode.PYMQ_RAFT_APPEND,
        RequestCode.PYMQ_RAFT_NODE,
        RequestCode.PYMQ_PLAN_BROKER_CONFIG,
    }
)


def routes_on_slave(routes: Iterable[Route], text: Callable[[str], str]) -> list[Route]:
    """Return a slave's routes: a refused request is answered before its header is decoded.

    What a slave refuses, or leaves to its master, touches nothing: every proven user may hear that.
    ``text`` makes the remark of a refusal, see :func:`refusal_text`.
    """
    return [_on_slave(route, text) for route in routes]


def _on_slave(route: Route, text: Callable[[str], str]) -> Route:
    if route.code in REFUSED:
        return route._replace(header=None, handler=_refusing(*REFUSED[route.code], text), access=any_user())
    if route.code in LEFT_TO_MASTER:
        return route._replace(header=None, handler=_leave_to_master, access=any_user())
    return route


def _leave_to_master(request: Command, header: None, peer: Peer) -> Reply:
    return Reply(remark="nothing was done here: a slave's tables follow its master's")


def refusal_text(broker_name: str, broker_id: int, master_address: str, what: str) -> str:
    """Return the text of a refusal; ``what`` the slave does not do. ``master_address`` is empty while it is unknown."""
    master = (
        f"at {master_address}"
        if master_address
        else "(not known yet: check that one is registered at the name servers)"
    )
    return f"{broker_name} is a slave (id {broker_id}) and {what}: ask its master {master}"


def _refusing(code: int, what: str, text: Callable[[str], str]) -> Handler:
    def refuse(request: Command, header: None, peer: Peer) -> Reply:
        raise Refusal(code, text(what))

    return refuse
