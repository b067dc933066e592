"""All dispatch rows of the three servers, a sample request for each, and the needs of a row as text."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

import msgspec

from pymq.broker.assembly.wiring import routes_in_role
from pymq.clock import ManualClock
from pymq.config import NamesrvConfig
from pymq.config.runtime import RuntimeSettings
from pymq.filterserver.handlers import FilterServerHandlers
from pymq.model.access import EVERY_NAME
from pymq.namesrv.kv import KvConfig
from pymq.namesrv.routes import namesrv_routes
from pymq.namesrv.table import RouteTable
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import Command
from pymq.wire.dispatch import Route
from pymq.wire.header import Header
from tests.broker.world import World

CLUSTER: Final = "C"
NAME_SERVER = "name server"
# Values of header fields by name. Other required fields get a number or a text of no meaning.
VALUES: Final[dict[str, str]] = {
    "topic": "T",
    "parent_topic": "T",
    "topic_list": "T2;T3",
    "consumer_group": "G",
    "group": "G",
    "group_name": "G",
    "src_group": "G1",
    "dest_group": "G2",
    "compare_group": "G1",
    "filter_groups": "G2,G3",
    "producer_group": "P",
    "cluster": "N",
    "cluster_name": "N",
}
SUBSCRIPTIONS = {"groupName": "G", "subscriptionDataSet": [{"topic": "T"}, {"topic": "%RETRY%G"}]}
QUEUE = {"topic": "T", "brokerName": "b", "queueId": 0}
BODIES: Final[dict[int, object]] = {
    Code.HEART_BEAT: {
        "clientID": "c",
        "consumerDataSet": [SUBSCRIPTIONS],
        "producerDataSet": [{"groupName": "P"}],
    },
    Code.LOCK_BATCH_MQ: {"consumerGroup": "G", "clientId": "c", "mqSet": [QUEUE, QUEUE]},
    Code.UNLOCK_BATCH_MQ: {"consumerGroup": "G", "clientId": "c", "mqSet": [QUEUE]},
    Code.BATCH_ACK_MESSAGE: {"acks": [{"c": "G", "t": "T", "so": 1, "q": 0, "rq": 0, "pt": 1}]},
    Code.LITE_SUBSCRIPTION_CTL: {
        "subscriptionSet": [{"action": "PARTIAL_ADD", "clientId": "c", "group": "G", "topic": "T"}]
    },
    Code.QUERY_ASSIGNMENT: {"topic": "T", "consumerGroup": "G", "clientId": "c"},
    Code.SET_MESSAGE_REQUEST_MODE: {"topic": "T", "consumerGroup": "G"},
    Code.UPDATE_AND_CREATE_TOPIC_LIST: {"topicConfigList": [{"topicName": "T"}, {"topicName": "T2"}]},
    Code.DELETE_TOPIC_IN_BROKER_LIST: {"topicList": ["T", "T2"]},
    Code.DELETE_SUBSCRIPTION_GROUP_LIST: {"groupNameList": ["G", "G2"]},
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: {"groupName": "G"},
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: {"groupConfigList": [{"groupName": "G"}, {"groupName": "G2"}]},
}


def broker_rows() -> list[Route]:
    return routes_in_role(World().parts)


def namesrv_rows() -> list[Route]:
    config = NamesrvConfig()
    return namesrv_routes(RouteTable(ManualClock()), KvConfig(), config, RuntimeSettings(config, lambda: 0))


def filter_server_rows() -> list[Route]:
    nothing: Any = None
    return FilterServerHandlers(
        link=nothing, classes=nothing, workers=nothing, filtering=nothing, budget=nothing
    ).routes()


ROLES = {"broker": broker_rows, NAME_SERVER: namesrv_rows, "filter server": filter_server_rows}


def sample_header(cls: type[Header] | None, **values: str | None) -> Header | None:
    """Return a header in which every field of :data:`VALUES` has its value, or that of ``values``."""
    if cls is None:
        return None
    given: dict[str, Any] = {}
    for field in msgspec.structs.fields(cls):
        if field.name in VALUES:
            given[field.name] = values.get(field.name, VALUES[field.name])
        elif field.required:
            is_text = field.type is str or str in get_args(field.type)
            given[field.name] = "x" if is_text else 1
    return cls(**given)


def sample_request(route: Route) -> Command:
    body = BODIES.get(route.code)
    return Command(route.code, body=json.dumps(body).encode() if body is not None else b"")


def needs_text(route: Route, cluster: str = CLUSTER) -> str:
    """Return what the row's sample request needs, as the page of the design writes it."""
    access = route.access
    if access.peers_only:
        return "server"
    parts = [str(need) for need in access.needs(sample_request(route), sample_header(route.header), cluster)]
    if access.found_topic:
        parts.append(f"{' or '.join(action.value for action in access.found_topic)} on the topic that is found")
    return "; ".join(parts) or "any user"


def table_lines(role: str) -> list[str]:
    """Return the rows of the page's table of a role."""
    cluster = EVERY_NAME if role == NAME_SERVER else CLUSTER
    rows = sorted(ROLES[role](), key=lambda row: row.code)
    return [f"| {row.code} | {row.name} | {needs_text(row, cluster)} |" for row in rows]
