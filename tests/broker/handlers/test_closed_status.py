"""Request 9103 while a broker of a Raft group changes its role: its node is seen, unless the broker is secured."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pymq.broker.handlers.closed import ClosedDispatcher
from pymq.broker.handlers.closed_status import closed_status_routes
from pymq.broker.raft.report import group_state
from pymq.config import load_broker_config
from pymq.errors import Refusal
from pymq.wire.bodies_replication import ReplicationStatus
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher
from tests.broker.raft.groups import OneNode
from tests.broker.world import FakePeer
from tests.raft.bench import follower, state_of

COMMAND = Command(RequestCode.PYMQ_GET_REPLICATION_STATUS)


def group_without_a_leader() -> Any:
    group: Any = OneNode(follower(state_of()))
    group.driver = SimpleNamespace()
    group.confirm_offset = group.node.confirm_offset
    return group


def test_the_node_s_state_is_answered_while_everything_else_is_refused() -> None:
    group = group_without_a_leader()
    routes = closed_status_routes(load_broker_config(None, {"brokerName": "shard-a"}), group)
    closed = ClosedDispatcher("the broker is becoming slave 1", Dispatcher(routes, "broker"))
    reply = closed.dispatch(FakePeer(), COMMAND)
    assert reply is not None and reply.code == ResponseCode.SUCCESS
    status = msgspec.json.decode(reply.body, type=ReplicationStatus)
    assert (status.broker_name, status.raft) == ("shard-a", group_state(group))
    other = closed.dispatch(FakePeer(), Command(RequestCode.GET_BROKER_RUNTIME_INFO))
    assert other is not None and other.code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_node_that_has_not_begun_says_so() -> None:
    group = group_without_a_leader()
    group.driver = None
    (route,) = closed_status_routes(load_broker_config(None, {}), group)
    with pytest.raises(Refusal, match="the broker starts"):
        route.handler(COMMAND, None, FakePeer())


def test_a_secured_broker_shows_nothing_while_its_users_are_closed() -> None:
    secured = load_broker_config(None, {"aclEnable": "true", "plainAclFile": "/etc/pymq/plain_acl.yml"})
    assert closed_status_routes(secured, group_without_a_leader()) == []
