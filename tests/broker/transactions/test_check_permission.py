"""Whom a secured broker asks about an open transaction: only who may publish to the topic of its message."""

from __future__ import annotations

import pytest

from pymq.model.access import Action, topic_need
from pymq.security.addresses import parse_address, parse_pattern
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.guard import Guard
from pymq.security.identities import Identity, User, Users
from pymq.security.policies import Policies
from pymq.security.signature import Secret
from pymq.wire.bodies_client import HeartbeatData, ProducerData, encode_body
from pymq.wire.codes import RequestCode as Code
from tests.broker.assembly.test_security import ACL, callers, guard
from tests.broker.transactions.driver import GROUP, TransactionProducer, run_round, world_with_topic
from tests.broker.world import World

HERE = parse_address("10.0.0.1")
SECRET = Secret("12345678")


def producers(world: World, gatekeeper: Gatekeeper, *names: str) -> list[TransactionProducer]:
    """Return producers of those users, all of which name the same group."""
    by = callers(world, gatekeeper)
    found = []
    for name in names:
        one = TransactionProducer(world, joins=False)
        one.caller, one.peer = by[name], by[name].peer
        data = HeartbeatData(client_id=name, producer_data_set=[ProducerData(group_name=GROUP)])
        one.caller.ok(Code.HEART_BEAT, encode_body(data))
        found.append(one)
    return found


def test_only_who_may_publish_to_the_topic_is_asked_about_an_open_transaction() -> None:
    world = world_with_topic()
    members = producers(world, Gatekeeper(guard()), "producer", "stranger", "consumer", "administrator")
    for number in range(4):
        members[0].half(b"%d" % number, UNIQ_KEY=str(number))
    run_round(world)
    assert [len(one.asked()) for one in members] == [2, 0, 0, 2]


@pytest.mark.parametrize(
    "change", [("T=PUB", "T=DENY"), ("accessKey: producer", "accessKey: another"), ("producer-secret", "other-secret")]
)
def test_a_producer_is_not_asked_any_more_when_its_user_lost_the_right(
    change: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    world = world_with_topic()
    gatekeeper = Gatekeeper(guard())
    [producer] = producers(world, gatekeeper, "producer")
    producer.half()
    run_round(world)
    assert len(producer.asked()) == 1
    gatekeeper.replace(guard(ACL.replace(*change)))
    run_round(world)
    run_round(world)
    assert not producer.asked()
    [line] = [record.message for record in caplog.records if "no producer is asked" in record.message]
    assert "none of the 1 that are connected may publish to that topic" in line
    gatekeeper.replace(guard())
    run_round(world)
    is_same_user = change[0] == "T=PUB"  # else it was gone, or had another secret, and proves itself again
    assert len(producer.asked()) == is_same_user


def test_an_earlier_proof_counts_as_long_as_a_new_one_would() -> None:
    white = tuple(parse_pattern("10.0.0.*"))
    user = User("a", SECRET)
    assert Users([user]).still(Identity(user), HERE) == Identity(user)
    assert Users([User("a", Secret("other"))]).still(Identity(user), HERE) is None
    assert Users([User("a", SECRET, is_enabled=False)]).still(Identity(user), HERE) is None
    assert Users().still(Identity(user), HERE) is None
    trusted = Identity(User("a", SECRET, trusted_from=white), is_trusted=True)
    assert Users([User("a", SECRET, trusted_from=white)]).following(Users([user])).still(trusted, HERE) is None
    assert trusted.user is not None
    again = Users([User("a", SECRET, trusted_from=white)]).following(Users([trusted.user]))
    assert again.still(trusted, HERE) == trusted
    assert Users([user]).still(trusted, HERE) is None  # it has signed nothing
    unnamed = Identity(None, is_trusted=True)
    assert Users([], white).still(unnamed, HERE) == unnamed
    assert Users([user]).still(unnamed, HERE) is None
    assert not Guard(Users([user]), Policies(), "C").may(Identity(user), topic_need("T", Action.PUB), HERE)
