"""Brokers with groups, and the rows of all topics and groups as a sender gets them."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from pymq.client import Credentials
from pymq.model.tables import TopicConfig
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.guard import Guard
from pymq.security.identities import User, Users, UserType
from pymq.security.policies import Policies, Policy
from pymq.security.signature import Secret
from pymq.wire.bodies_admin import decode_admin_body
from pymq.wire.bodies_rows import EVERY_ROW, EndsPage, LagsPage, MembersPage, PairsPage, PlacesPage, ReadersPage
from pymq.wire.codes import RequestCode as Code
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, World

SECRET = "a-secret-of-a-user"
CLUSTER = "DefaultCluster"
PageT = TypeVar("PageT", bound=msgspec.Struct)


def world_of(groups: int = 3, topics: int = 4, queues: int = 2, messages: int = 5, **settings: Any) -> World:
    """Return a broker with topics t0, t1, ... of ``messages`` a queue, a second apart; group g0 has consumed none, g1
    one of each queue, and so on."""
    world = World(**settings)
    names = [f"t{number}" for number in range(topics)]
    world.parts.metadata.topics.put(
        [TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues) for name in names]
    )
    for _ in range(messages):
        for name in names:
            for queue_id in range(queues):
                world.put(name, queue_id=queue_id)
        world.clock.advance(1000)
    for number in range(groups):
        world.parts.metadata.groups.ensure(f"g{number}")
        for name in names:
            for queue_id in range(queues):
                world.parts.metadata.cursors.commit(f"g{number}", name, queue_id, min(number, messages))
    return world


def as_user(world: World, policy: Policy | None, name: str = "ada") -> Caller:
    """Return a client of a user with these rights; the signer of no user without rights."""
    users = Users([User(name, Secret(SECRET), UserType.NORMAL)]) if policy is not None else Users([])
    guard = Guard(users, Policies({name: policy} if policy is not None else {}), CLUSTER)
    return Caller(world, gate=Gatekeeper(guard), credentials=Credentials(name, SECRET))


def ends(caller: Caller, **fields: Any) -> EndsPage:
    return _page(EndsPage, caller, Code.GET_TOPIC_STATS_INFO, topic=EVERY_ROW, pymqAll="true", **fields)


def lags(caller: Caller, **fields: Any) -> LagsPage:
    return _page(LagsPage, caller, Code.GET_CONSUME_STATS, consumerGroup=EVERY_ROW, pymqAll="groups", **fields)


def readers(caller: Caller, **fields: Any) -> ReadersPage:
    return _page(ReadersPage, caller, Code.GET_CONSUME_STATS, consumerGroup=EVERY_ROW, pymqAll="topics", **fields)


def pairs(caller: Caller, **fields: Any) -> PairsPage:
    return _page(PairsPage, caller, Code.GET_CONSUME_STATS, consumerGroup=EVERY_ROW, pymqAll="lags", **fields)


def places(caller: Caller, **fields: Any) -> PlacesPage:
    return _page(PlacesPage, caller, Code.GET_CONSUME_STATS, consumerGroup=EVERY_ROW, pymqAll="places", **fields)


def members(caller: Caller, **fields: Any) -> MembersPage:
    return _page(
        MembersPage, caller, Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup=EVERY_ROW, pymqAll="true", **fields
    )


def _page(kind: type[PageT], caller: Caller, code: int, **fields: Any) -> PageT:
    return decode_admin_body(kind, caller.ok(code, **fields).body)


def join(world: World, client_id: str, group: str, topic: str, **fields: Any) -> Caller:
    """Return the connection of a member that subscribes to the topic."""
    caller = Caller(world, address=f"127.0.0.1:{6000 + len(client_id)}")
    caller.ok(Code.HEART_BEAT, beat(client_id, group, topic, **fields))
    return caller
