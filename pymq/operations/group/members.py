"""A group's live members: who they are, which queues they own, what they do now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pymq.client import MessageQueue
from pymq.client.admin import Admin
from pymq.client.admin.asking import for_each
from pymq.client.admin.groups import MEMBERS_ASKED_MAX
from pymq.errors import NotFoundError, RefusedError, UnreachableError, UsageError
from pymq.model.hosts import format_address
from pymq.model.ids import decode_offset_id
from pymq.model.names import RETRY_PREFIX, check_group
from pymq.operations.auth.proof import proof_of
from pymq.operations.group.lag import not_found
from pymq.operations.message.lookup import find_by_id
from pymq.wire.bodies_admin import Connection, ConsumerConnections, ConsumerRunningInfo
from pymq.wire.versions import version_name

MEMBERS_AT_ONCE = 16
_BROADCASTING = "BROADCASTING"


class Member(NamedTuple):
    """A member, and the address of a broker that it is connected to."""

    connection: Connection
    broker: str


async def members(admin: Admin, group: str) -> dict[str, Any]:
    """Return the group's members with the queues they own, and queues that no member owns.

    At most MEMBERS_ASKED_MAX members are asked for their queues. Raises NotFoundError for an unknown group.
    """
    online = await _online(admin, group)
    found = _members(online)
    asked = list(found.values())[:MEMBERS_ASKED_MAX]

    async def ask(member: Member) -> ConsumerRunningInfo | None:
        try:
            return await admin.groups.running_info(member.broker, group, member.connection.client_id)
        except (RefusedError, UnreachableError):
            return None

    answers = await for_each(asked, ask, MEMBERS_AT_ONCE)
    infos = {member.connection.client_id: info for member, info in zip(asked, answers, strict=True)}
    owners = {
        queue: client_id
        for client_id, info in infos.items()
        if info is not None
        for queue in (*info.mq_table, *info.mq_pop_table)
        if not queue.topic.startswith(RETRY_PREFIX)
    }
    is_broadcast = any(answer.message_model == _BROADCASTING for _, answer in online)
    is_complete = len(asked) == len(found) and all(info is not None for info in answers)
    unowned = await _unowned(admin, online, owners) if is_complete and not is_broadcast else []
    return {
        "group": group,
        "mode": next((answer.message_model for _, answer in online if answer.message_model), None),
        "members": [_member_record(member, infos.get(client_id)) for client_id, member in found.items()],
        "queues": [_queue_record(queue, owner) for queue, owner in sorted((owners | dict.fromkeys(unowned)).items())],
        "without_answer": [client_id for client_id in found if infos.get(client_id) is None],
        "differing_subscriptions": differing_records(await admin.groups.differing_subscriptions(group)),
    }


async def client(admin: Admin, group: str, client_id: str, *, with_stacks: bool) -> dict[str, Any]:
    """Return what one member says about itself. Raises NotFoundError when it is not online."""
    member = await _member(admin, group, client_id)
    info = await admin.groups.running_info(member.broker, group, client_id, with_stacks=with_stacks)
    record = _member_record(member, info) | {"group": group, "properties": info.properties}
    del record["queues"]
    record["subscriptions"] = [
        {"topic": one.topic, "expression": one.sub_string or "*", "type": one.expression_type or "TAG"}
        for one in sorted(info.subscription_set, key=lambda one: one.topic)
    ]
    record["queues"] = [
        {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id} | _figures(state)
        for queue, state in sorted((info.mq_table | info.mq_pop_table).items())
    ]
    record["rates"] = [{"topic": topic} | _rates(figures) for topic, figures in sorted(info.status_table.items())]
    record["stack"] = info.jstack
    return record


async def client_or_silence(
    admin: Admin, group: str, client_id: str, *, with_stacks: bool
) -> tuple[dict[str, Any], str]:
    """Return what :func:`client` does, and an empty text.

    Of a member that does not answer, or that can't be asked, return what a broker knows, and the reason. What the
    member alone knows is None. Raises NotFoundError when it is not online, RefusedError for a sender without the right.
    """
    try:
        return await client(admin, group, client_id, with_stacks=with_stacks), ""
    except NotFoundError:
        raise
    except (RefusedError, UnreachableError) as error:
        if isinstance(error, RefusedError) and proof_of(error) is not None:
            raise
        member = await _member(admin, group, client_id)
        unknown: dict[str, Any] = dict.fromkeys(("properties", "subscriptions", "queues", "rates", "stack"))
        return _member_record(member, None) | {"group": group} | unknown, str(error)


async def consume(
    admin: Admin, group: str, client_id: str, message_id: str, topic: str | None, *, is_dry: bool
) -> dict[str, Any]:
    """Have one member handle one stored message now, and return its result. The group's offsets stay.

    With ``is_dry`` only find both; then the result is None.

    Raises NotFoundError for a member that is not online, or a message that isn't there.
    """
    await _member(admin, group, client_id)
    found = await find_by_id(admin, message_id, topic)
    if len(found) > 1:
        ids = ", ".join(message.offset_message_id for message in found)
        raise UsageError(f"{len(found)} messages have the id {message_id}: name one of {ids}")
    (message,) = found
    record: dict[str, Any] = {
        "group": group,
        "client_id": client_id,
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "topic": message.topic,
    }
    if is_dry:
        return record | {"result": None, "succeeded": None, "remark": None, "spent_ms": None}
    host, port, _ = decode_offset_id(message.offset_message_id)
    result = await admin.groups.consume_directly(
        format_address(host, port), group, client_id, message.topic, message.offset_message_id
    )
    return record | {
        "result": result.consume_result,
        "succeeded": result.consume_result == "CR_SUCCESS",
        "remark": result.remark,
        "spent_ms": result.spent_time_mills,
    }


def differing_records(differences: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Return a record for each selection of topics that members subscribe to differently."""
    return [
        {"topic": topic, "selection": selection, "members": count}
        for topic, selections in differences.items()
        for selection, count in selections.items()
    ]


async def _online(admin: Admin, group: str) -> list[tuple[str, ConsumerConnections]]:
    check_group(group)
    online = [(target.address, answer) for target, answer in await admin.groups.online(group)]
    if not online and group not in await admin.groups.all_configs():
        raise not_found(admin, group)
    return online


def _members(online: list[tuple[str, ConsumerConnections]]) -> dict[str, Member]:
    found = {one.client_id: Member(one, broker) for broker, answer in online for one in answer.connection_set}
    return dict(sorted(found.items()))


async def _member(admin: Admin, group: str, client_id: str) -> Member:
    found = _members(await _online(admin, group))
    if client_id not in found:
        there = ", ".join(list(found)[:8]) or "none"
        raise NotFoundError(f"no member {client_id!r} of {group!r} is online: there are {there}")
    return found[client_id]


async def _unowned(
    admin: Admin, online: list[tuple[str, ConsumerConnections]], owners: Mapping[MessageQueue, str]
) -> list[MessageQueue]:
    """Return the readable queues of subscribed topics that no member reads."""
    topics = {topic for _, answer in online for topic in answer.subscription_table}
    free: list[MessageQueue] = []
    for topic in sorted(topic for topic in topics if not topic.startswith(RETRY_PREFIX)):
        try:
            route = await admin.topics.route(topic)
        except NotFoundError:
            continue
        free += [
            queue
            for data in route.queue_datas
            for queue in (MessageQueue(topic, data.broker_name, number) for number in range(data.read_queue_nums))
            # A queue of -1 stands for all of a broker's: members that pop share them.
            if queue not in owners and MessageQueue(topic, data.broker_name, -1) not in owners
        ]
    return free


def _member_record(member: Member, info: ConsumerRunningInfo | None) -> dict[str, Any]:
    connection = member.connection
    own = [] if info is None else [*info.mq_table, *info.mq_pop_table]
    return {
        "client_id": connection.client_id,
        "address": connection.client_addr,
        "language": connection.language,
        "version": version_name(connection.version),
        "queues": None if info is None else sum(not queue.topic.startswith(RETRY_PREFIX) for queue in own),
    }


def _queue_record(queue: MessageQueue, owner: str | None) -> dict[str, Any]:
    return {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id, "owner": owner}


def _figures(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "committed": state.get("commitOffset"),
        "cached": state.get("cachedMsgCount", state.get("waitAckCount")),
        "last_pull_ms": state.get("lastPullTimestamp", state.get("lastPopTimestamp")),
        "last_consumed_ms": state.get("lastConsumeTimestamp"),
        "locked": state.get("locked"),
    }


def _rates(figures: Mapping[str, float]) -> dict[str, Any]:
    return {
        "pulled_per_second": figures.get("pullTPS"),
        "pull_ms": figures.get("pullRT"),
        "consumed_per_second": figures.get("consumeOKTPS"),
        "failed_per_second": figures.get("consumeFailedTPS"),
        "consume_ms": figures.get("consumeRT"),
        "failed_in_an_hour": figures.get("consumeFailedMsgs"),
    }
