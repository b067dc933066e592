"""The access column of the broker's table: what the sender of each kind of request must be allowed.

Rows whose requests need the same share a constant. ``found_topic`` is for requests that name a place in the log: the
handler finds the record and its topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pymq.broker import body_needs
from pymq.model.access import Action, Need, topic_need
from pymq.model.names import reply_topic
from pymq.wire.access import (
    Claim,
    any_user,
    cluster,
    group,
    groups,
    in_body,
    needs,
    peers_only,
    popped_topic,
    topic,
    topics,
    unless_all,
)
from pymq.wire.command import Command

PUB: Final = Action.PUB
SUB: Final = Action.SUB
CREATE: Final = Action.CREATE
UPDATE: Final = Action.UPDATE
DELETE: Final = Action.DELETE
GET: Final = Action.GET


def _replied_topic(request: Command, header: Any, of_cluster: str) -> Iterable[Need]:
    # The reply goes to the one client that the request names; the handler asks before it stores a copy.
    return () if header.topic == reply_topic(of_cluster) else (topic_need(header.topic, PUB),)


# -- Messages
PUBLISH: Final = needs(topic(PUB))
REPLY: Final = needs(Claim(("topic",), _replied_topic, (PUB,)))
CONSUME: Final = needs(topic(SUB), group(SUB))
SUBSCRIBE_LITE: Final = needs(in_body(body_needs.lite_subscriptions))
USE_RECEIPT: Final = needs(popped_topic(SUB), group(SUB))
USE_RECEIPTS: Final = needs(in_body(body_needs.acknowledged))
SEND_BACK: Final = needs(group(SUB, field="group"), found_topic=(SUB,))
END_TRANSACTION: Final = needs(topic(PUB), found_topic=(PUB,))
RESUME_CHECK: Final = needs(topic(UPDATE), found_topic=(UPDATE,))
READ_TOPIC: Final = needs(topic(SUB, GET))
VIEW_MESSAGE: Final = needs(topic(SUB, GET), found_topic=(SUB, GET))
# A consumer gets a message that it did not ask for.
CONSUME_DIRECTLY: Final = needs(topic(SUB), group(UPDATE), found_topic=(SUB,))

# -- Consumers
HEARTBEAT: Final = needs(in_body(body_needs.subscriptions))
UNREGISTER: Final = needs(group(SUB))
LIST_MEMBERS: Final = needs(group(SUB, GET))
LOCK: Final = needs(in_body(body_needs.locked_queues))
QUERY_OFFSET: Final = needs(topic(SUB, GET), group(SUB, GET))
UPDATE_OFFSET: Final = needs(topic(SUB, UPDATE), group(SUB, UPDATE))
ASSIGN: Final = needs(in_body(body_needs.assigned))
SET_MODE: Final = needs(in_body(body_needs.request_mode))
CHECK_FILTER: Final = any_user()  # shows only whether an expression can be parsed

# -- Operators: topics and groups
CREATE_TOPIC: Final = needs(topic(CREATE))
CREATE_TOPICS: Final = needs(in_body(body_needs.created_topics, CREATE))
DELETE_TOPIC: Final = needs(topic(DELETE))
DELETE_TOPICS: Final = needs(in_body(body_needs.deleted_topics, DELETE))
SEE_TOPIC: Final = needs(topic(GET))
SEE_PARENT: Final = needs(topic(GET, field="parent_topic"))
CREATE_GROUP: Final = needs(in_body(body_needs.created_group, CREATE))
CREATE_GROUPS: Final = needs(in_body(body_needs.created_groups, CREATE))
DELETE_GROUP: Final = needs(group(DELETE, field="group_name"))
DELETE_GROUPS: Final = needs(in_body(body_needs.deleted_groups, DELETE))
SEE_ENDS: Final = needs(*unless_all(topic(GET)))
SEE_GROUP: Final = needs(group(GET, field="group"))
SEE_PARENT_OF_GROUP: Final = needs(topic(GET, field="parent_topic"), group(GET, field="group"))
SEE_LITE_LAG: Final = needs(group(GET, field="group"), found_topic=(GET,))
CHANGE_GROUP: Final = needs(group(UPDATE, field="group"))
SEE_CONNECTIONS: Final = needs(*unless_all(group(GET)))
SEE_MEMBERS: Final = needs(group(GET))
SEE_TOPIC_OF_GROUP: Final = needs(topic(GET), group(GET, field="group"))
CHANGE_TOPIC_OF_GROUP: Final = needs(topic(UPDATE), group(UPDATE, field="group"))

# -- Operators: what groups have consumed
SEE_LAG: Final = needs(*unless_all(topic(GET), topics(GET, field="topic_list", separator=";"), group(GET)))
SEE_QUEUE_OF_GROUP: Final = needs(topic(GET), group(GET))
COMPARE_GROUPS: Final = needs(
    topic(GET), group(GET, field="compare_group"), groups(GET, field="filter_groups", separator=",")
)
CLONE_OFFSETS: Final = needs(topic(UPDATE), group(GET, field="src_group"), group(UPDATE, field="dest_group"))

# -- Operators: this broker
SEE_BROKER: Final = needs(cluster(GET))
CHANGE_BROKER: Final = needs(cluster(UPDATE))
CHANGE_SETTINGS: Final = needs(body_needs.changed_settings)
DELETE_DATA: Final = needs(cluster(DELETE))

# -- Between servers
PEERS: Final = peers_only()
