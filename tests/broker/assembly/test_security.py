"""A secured broker: what handlers find is checked too, waiting requests end when permissions change, and the fast path
takes exactly what the plain path would."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.assembly.security import BrokerSecurity
from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.row_access import PEERS
from pymq.client import Admin, Credentials, Message, MessageQueue, Producer, PullConsumer
from pymq.clock import ManualClock, SystemClock
from pymq.config import load_broker_config, load_namesrv_config
from pymq.errors import RefusedError
from pymq.model.ids import encode_offset_id
from pymq.model.names import dlq_topic, retry_topic
from pymq.model.tables import TopicConfig
from pymq.namesrv.server import NameServer
from pymq.security.addresses import parse_address
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.guard import Guard
from pymq.security.identities import Users
from pymq.security.plain_acl import parse_plain_acl, users_and_policies
from pymq.security.policies import Policies
from pymq.security.security import open_certificate_users
from pymq.security.sender_limits import FAILED_PROOFS_MAX, SenderLimits
from pymq.wire.bodies_auth import AclEntryInfo
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import SERIALIZE_JSON, SERIALIZE_ROCKETMQ, Command, decode_command, encode_command, request
from pymq.wire.dispatch import Dispatcher, Route
from pymq.wire.ha import encode_report
from tests.broker.assembly.test_broker import make_broker, until
from tests.broker.fast.test_pull import fields as pull_fields
from tests.broker.fast.test_send import TOPIC, opened, ordinary
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, FakePeer, World
from tests.certificates import certificates
from tests.security.rows import ROLES

ACL = """
accounts:
- {accessKey: administrator, secretKey: administrator-secret, admin: true}
- {accessKey: producer, secretKey: producer-secret, topicPerms: [T=PUB, orders=PUB]}
- {accessKey: consumer, secretKey: consumer-secret, topicPerms: [T=SUB, orders=SUB], groupPerms: [G=SUB]}
- {accessKey: stranger, secretKey: stranger-secret, topicPerms: [other=PUB|SUB], groupPerms: [other=SUB]}
- {accessKey: operator, secretKey: operator-secret, admin: true, topicPerms: [other=PUB|SUB]}
"""
NAMES = ("administrator", "producer", "consumer", "stranger", "operator")


def credentials(name: str, secret: str | None = None) -> Credentials:
    return Credentials(name, secret or f"{name}-secret")


def guard(text: str = ACL) -> Guard:
    acl = parse_plain_acl(text.encode())
    users, policies = users_and_policies(acl)
    return Guard(Users(users, acl.trusted_from()), Policies(policies), "DefaultCluster")


def callers(world: World, gatekeeper: Gatekeeper | None = None) -> dict[str, Caller]:
    gate = gatekeeper or Gatekeeper(guard())
    return {name: Caller(world, gate=gate, credentials=credentials(name)) for name in NAMES}


# -- what handlers find ----------------------------------------------------------------------------------------------


def test_a_look_up_by_id_needs_the_topic_that_is_found() -> None:
    world = World()
    by = callers(world)
    by["administrator"].ok(17, topic="T", readQueueNums=1, writeQueueNums=1, perm=6, defaultTopic="TBW102")
    placed = world.put("T")
    assert by["consumer"].ok(Code.VIEW_MESSAGE_BY_ID, offset=placed.physical_offset).body
    for name in ("producer", "stranger"):
        code, remark = by[name].refused(Code.VIEW_MESSAGE_BY_ID, offset=placed.physical_offset)
        assert code == ResponseCode.NO_PERMISSION and f"User:{name} has no permission to access Topic:T" in remark
    code, _ = by["stranger"].refused(Code.VIEW_MESSAGE_BY_ID, offset=placed.physical_offset, topic="other")
    assert code == ResponseCode.NO_PERMISSION


def test_what_was_deleted_of_a_topic_is_shown_to_its_users_alone() -> None:
    """The number in a refused request tells nobody whether a topic that they may not see was made again."""
    world = World()
    by = callers(world)
    for _ in range(2):
        by["administrator"].ok(17, topic="T", readQueueNums=1, writeQueueNums=1, perm=6, defaultTopic="TBW102")
        world.put("T")
        world.parts.metadata.topics.delete("T")
        world.parts.store.delete_topics("T")
    by["administrator"].ok(17, topic="T", readQueueNums=1, writeQueueNums=1, perm=6, defaultTopic="TBW102")
    world.put("T")
    end = world.parts.store.deletions.end("T")
    pull: dict[str, Any] = {
        "consumerGroup": "G",
        "topic": "T",
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 0,
    }
    pull |= {"commitOffset": 0, "suspendTimeoutMillis": 0, "subVersion": 0}
    nobody = Caller(world, gate=Gatekeeper(guard()))
    for caller in (by["stranger"], by["producer"], nobody):
        answers = {caller.refused(Code.PULL_MESSAGE, **pull, pymqDeletedBelow=known) for known in (0, end, 2**63 - 1)}
        assert len(answers) == 1 and answers.pop()[0] == ResponseCode.NO_PERMISSION
    for caller in (by["stranger"], by["producer"], by["consumer"], nobody):
        answers = {caller.refused(Code.DELETE_TOPIC_IN_BROKER, topic="T", pymqDeletedBelow=known) for known in (0, end)}
        assert len(answers) == 1 and answers.pop()[0] == ResponseCode.NO_PERMISSION
    assert "made again" in by["consumer"].refused(Code.PULL_MESSAGE, **pull, pymqDeletedBelow=0)[1]
    assert by["stranger"].refused(Code.GET_TOPIC_STATS_INFO, topic="T")[0] == ResponseCode.NO_PERMISSION
    assert world.parts.store.max_offset("T", 0) == 1


@pytest.mark.parametrize("topic", [retry_topic("G"), dlq_topic("G")])
def test_retries_and_dead_letters_follow_their_group(topic: str) -> None:
    world = World()
    by = callers(world)
    world.parts.metadata.groups.ensure("G")
    world.parts.metadata.topics.ensure_internal(topic, 1)
    placed = world.put(topic)
    assert by["consumer"].ok(Code.VIEW_MESSAGE_BY_ID, offset=placed.physical_offset).body
    code, remark = by["stranger"].refused(Code.VIEW_MESSAGE_BY_ID, offset=placed.physical_offset)
    assert code == ResponseCode.NO_PERMISSION and "Group:G" in remark


def test_rows_of_all_are_those_of_the_single_requests() -> None:
    """Each user gets the rows of exactly the topics and groups about which single requests tell it."""
    world = World()
    metadata = world.parts.metadata
    metadata.topics.put([TopicConfig(topic_name=name) for name in ("T", "orders", "other", "secret")])
    for group in ("G", "other", "secret"):
        metadata.groups.ensure(group)
        Caller(world, address=f"127.0.0.1:{6000 + len(group)}").ok(Code.HEART_BEAT, beat(group, group, "T"))
    topics, groups = metadata.topics.all(), metadata.groups.all()

    def serves(caller: Caller, code: int, **fields: Any) -> bool:
        reply = caller.ask(code, **fields)
        return reply is not None and reply.code == 0

    def rows(caller: Caller, code: int, member: str, **fields: Any) -> set[str]:
        reply = caller.ask(code, **fields)
        assert reply is not None and reply.code in (0, ResponseCode.NO_PERMISSION)
        return set(json.loads(reply.body)[member]) if reply.code == 0 else set()

    counts = set()
    for name, caller in callers(world).items():
        ends = {one for one in topics if serves(caller, Code.GET_TOPIC_STATS_INFO, topic=one)}
        assert rows(caller, Code.GET_TOPIC_STATS_INFO, "pymqEnds", topic="-", pymqAll="true") == ends, name
        members = {one for one in groups if serves(caller, Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup=one)}
        asked = {"consumerGroup": "-", "pymqAll": "true"}
        assert rows(caller, Code.GET_CONSUMER_CONNECTION_LIST, "pymqMembers", **asked) == members, name
        sees_all = serves(caller, Code.GET_BROKER_CONSUME_STATS)
        lags = {one for one in groups if sees_all or serves(caller, Code.GET_CONSUME_STATS, consumerGroup=one)}
        asked = {"consumerGroup": "-", "pymqAll": "groups"}
        assert rows(caller, Code.GET_CONSUME_STATS, "pymqGroups", **asked) == lags, name
        counts.add((len(ends), len(members), len(lags)))
    assert (len(topics), 3, 3) in counts and len(counts) > 1


def test_the_right_to_a_group_comes_before_the_group_itself() -> None:
    world = World()
    by = callers(world)
    assert world.parts.metadata.groups.get("G") is None
    for topic in (retry_topic("G"), dlq_topic("G")):
        code, remark = by["stranger"].refused(Code.SEND_MESSAGE_V2, b"x", **ordinary(b=topic))
        assert code == ResponseCode.NO_PERMISSION and "access Group:G from" in remark
        code, remark = by["consumer"].refused(Code.SEND_MESSAGE_V2, b"x", **ordinary(b=topic))
        assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_a_message_of_another_topic_is_not_sent_back_to_an_own_group() -> None:
    world = World()
    by = callers(world)
    by["administrator"].ok(17, topic="T", readQueueNums=1, writeQueueNums=1, perm=6, defaultTopic="TBW102")
    placed = world.put("T")
    asked: dict[str, Any] = {"offset": placed.physical_offset, "delayLevel": 1}
    code, remark = by["stranger"].refused(Code.CONSUMER_SEND_MSG_BACK, group="other", **asked)
    assert code == ResponseCode.NO_PERMISSION and "Topic:T" in remark
    assert by["consumer"].ask(Code.CONSUMER_SEND_MSG_BACK, group="G", **asked) is None  # it waits for the commit


def test_a_message_of_another_topic_is_not_given_to_an_own_consumer() -> None:
    world = World()
    by = callers(world)
    by["administrator"].ok(Code.HEART_BEAT, beat("c1"))
    placed = world.put("T")
    message_id = encode_offset_id(world.parts.requests.sends._store_host, placed.physical_offset)
    asked: dict[str, Any] = {"consumerGroup": "g", "clientId": "c1", "brokerName": "broker-a", "msgId": message_id}
    for named in (asked, {**asked, "topic": "other"}):
        code, remark = by["operator"].refused(Code.CONSUME_MESSAGE_DIRECTLY, **named)
        assert code == ResponseCode.NO_PERMISSION and "Topic:T" in remark
    assert by["administrator"].peer.asked == []
    assert by["administrator"].ask(Code.CONSUME_MESSAGE_DIRECTLY, **asked) is None
    assert len(by["administrator"].peer.asked) == 1


def test_a_transaction_is_ended_by_those_who_may_send_to_its_topic() -> None:
    world = World()
    by = callers(world)
    by["administrator"].ok(17, topic="T", readQueueNums=1, writeQueueNums=1, perm=6, defaultTopic="TBW102")
    header: dict[str, Any] = {"a": "P", "b": "T", "c": "TBW102", "d": "1", "e": "0", "f": "4", "g": "1", "h": "0"}
    properties = "TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x01ABC\x02"
    by["producer"].ask(Code.SEND_MESSAGE_V2, b"half", **header, i=properties)
    world.parts.messages.writer.commit()
    (half,) = world.messages("RMQ_SYS_TRANS_HALF_TOPIC")
    ending: dict[str, Any] = {
        "producerGroup": "P",
        "tranStateTableOffset": 0,
        "commitLogOffset": half.physical_offset,
        "commitOrRollback": 8,
    }
    for name in ("consumer", "stranger"):
        code, remark = by[name].refused(Code.END_TRANSACTION, **ending)
        assert code == ResponseCode.NO_PERMISSION and "Topic:T" in remark
    code, _ = by["stranger"].refused(Code.END_TRANSACTION, topic="other", **ending)
    assert code == ResponseCode.NO_PERMISSION
    code, _ = by["producer"].refused(Code.RESUME_CHECK_HALF_MESSAGE, topic="T", msgId=half.offset_message_id)
    assert code == ResponseCode.NO_PERMISSION
    assert world.messages("T") == []
    assert by["producer"].ask(Code.END_TRANSACTION, **ending) is None
    world.parts.messages.writer.commit()
    assert [message.body for message in world.messages("T")] == [b"half"]


# -- waiting requests -------------------------------------------------------------------------------------------------


def test_a_waiting_pull_gets_no_message_after_its_permission_was_taken() -> None:
    world = opened()
    gatekeeper = Gatekeeper(guard())
    gatekeeper.add_listener(world.parts.requests.dismiss_all)
    consumer = callers(world, gatekeeper)["consumer"]
    asked: dict[str, Any] = {**pull_fields(topic=TOPIC, queueOffset="0", queueId="1"), "sysFlag": "6"}
    assert consumer.ask(Code.PULL_MESSAGE, **asked) is None
    popping: dict[str, Any] = {
        "consumerGroup": "G",
        "topic": TOPIC,
        "queueId": 1,
        "maxMsgNums": 8,
        "invisibleTime": 60_000,
        "pollTime": 15_000,
        "bornTime": world.clock.now_ms(),
        "initMode": 0,
    }
    assert consumer.ask(Code.POP_MESSAGE, **popping) is None
    gatekeeper.replace(guard(ACL.replace("[T=SUB, orders=SUB]", "[orders=SUB]")))
    world.put(TOPIC, queue_id=1)
    while world.parts.after_turn():
        world.parts.end_turn()  # commits the check point of a pop that got a message
    pulled, popped = consumer.peer.answers
    assert (pulled.code, pulled.body) == (ResponseCode.PULL_NOT_FOUND, b"")
    assert (popped.code, popped.body) == (ResponseCode.POLLING_TIMEOUT, b"")
    assert consumer.refused(Code.PULL_MESSAGE, **asked)[0] == ResponseCode.NO_PERMISSION
    assert consumer.refused(Code.POP_MESSAGE, **popping)[0] == ResponseCode.NO_PERMISSION
    assert world.parts.requests.long_polls.count == world.parts.requests.pop_polls.count == 0


# -- the fast path -----------------------------------------------------------------------------------------------------


def signed(command: Command, name: str | None, secret: str | None = None) -> bytes:
    if name is not None:
        credentials(name, secret).sign(command)
    return encode_command(command)[4:]


def test_the_fast_path_takes_what_the_plain_path_allows() -> None:
    gatekeeper = Gatekeeper(guard())
    world = opened()
    world.parts.metadata.groups.ensure("G")
    fast_path = world.parts.requests.secured_fast_path(gatekeeper)
    dispatcher = broker_dispatcher(world.parts, gatekeeper)
    taken = {"send": 0, "pull": 0}
    cases = itertools.product(
        taken,
        (None, "administrator", "producer", "consumer", "stranger", "nobody-at-all"),
        (None, "wrong-secret"),
        (SERIALIZE_JSON, SERIALIZE_ROCKETMQ),
        (TOPIC, "other"),
        ({}, {"OnsChannel": "ALIYUN"}, {"l": "0"}, {"m": "true"}, {"e": "01"}),
        (b"", b"body", b"broker-a"),  # what is changed after the signature
    )
    for kind, name, secret, serialize, topic, more, changed in cases:
        ext = ordinary(b=topic, **more) if kind == "send" else {**pull_fields(topic=topic, queueOffset="0"), **more}
        code, body = (310, b"body") if kind == "send" else (11, b"")
        payload = signed(Command(code, ext=ext, body=body, serialize=serialize), name, secret)
        is_whole = not changed or changed not in payload
        if changed:
            payload = payload.replace(changed, changed[:-1] + b"z")
        if fast_path(FakePeer(), payload):  # type: ignore[arg-type]
            taken[kind] += 1
            reply = dispatcher.dispatch(FakePeer(), decode_command(payload))
            assert reply is None or reply.code != ResponseCode.NO_PERMISSION
            assert name in ("administrator", "producer" if kind == "send" else "consumer")
            assert secret is None and topic == TOPIC and is_whole
        world.parts.messages.writer.commit()
    assert taken["send"] >= 10 and taken["pull"] >= 10, taken


@pytest.mark.parametrize("serialize", [SERIALIZE_JSON, SERIALIZE_ROCKETMQ])
def test_the_fast_path_stops_at_once_when_a_permission_is_taken(serialize: int) -> None:
    gatekeeper = Gatekeeper(guard())
    world = opened()
    fast_path = world.parts.requests.secured_fast_path(gatekeeper)
    payload = signed(Command(310, ext=ordinary(), body=b"x", serialize=serialize), "producer")
    assert fast_path(FakePeer(), payload) and fast_path(FakePeer(), payload)  # type: ignore[arg-type]
    gatekeeper.replace(guard(ACL.replace("T=PUB", "T=DENY")))
    assert not fast_path(FakePeer(), payload)  # type: ignore[arg-type]


@pytest.mark.parametrize("serialize", [SERIALIZE_JSON, SERIALIZE_ROCKETMQ])
def test_the_fast_path_refuses_a_blocked_user_and_goes_on_for_others(serialize: int) -> None:
    gatekeeper = Gatekeeper(guard())
    gatekeeper.limits = SenderLimits(ManualClock())
    fast_path = opened().parts.requests.secured_fast_path(gatekeeper)

    def taken(name: str) -> bool:
        payload = signed(Command(310, ext=ordinary(), body=b"x", serialize=serialize), name)
        return fast_path(FakePeer(), payload)  # type: ignore[arg-type]

    assert taken("producer") and taken("administrator")
    for _ in range(FAILED_PROOFS_MAX):
        gatekeeper.limits.failed_proofs.note(parse_address("127.0.0.1"), "producer")
    assert not taken("producer") and taken("administrator")


@pytest.mark.parametrize("serialize", [SERIALIZE_JSON, SERIALIZE_ROCKETMQ])
def test_the_fast_path_takes_unsigned_requests_of_a_certificates_user(serialize: int) -> None:
    gatekeeper = Gatekeeper(guard())
    clock = ManualClock(certificates().made_at_ms)
    open_certificate_users("RULE:CN=client/producer/", gatekeeper, clock)
    fast_path = opened().parts.requests.secured_fast_path(gatekeeper)
    peer = FakePeer()
    peer.client_certificate = ssl.PEM_cert_to_DER_cert(certificates().client.cert_path.read_text())

    def taken(name: str | None, secret: str | None = None, to: FakePeer = peer, **ext: str) -> bool:
        command = Command(310, ext={**ordinary(), **ext}, body=b"x", serialize=serialize)
        return fast_path(to, signed(command, name, secret))  # type: ignore[arg-type]

    assert taken(None) and taken(None) and taken("producer")
    assert not taken(None, to=FakePeer())
    assert not taken("consumer") and not taken("producer", "wrong") and not taken(None, Signature="x")
    gatekeeper.replace(guard(ACL.replace("accessKey: producer", "accessKey: another")))
    assert not taken(None)
    gatekeeper.replace(guard())
    assert taken(None)
    clock.advance(31 * 24 * 3_600_000)
    assert not taken(None)


@pytest.mark.parametrize("code", [row.code for row in ROLES["broker"]() if row.code not in (310, 320, 11, 361)])
def test_every_other_request_takes_the_plain_path(code: int) -> None:
    world = opened()
    fast_path = world.parts.requests.secured_fast_path(Gatekeeper(guard()))
    command = Command(code, ext={**pull_fields(topic=TOPIC), **ordinary()}, body=b"body")
    for payload in (signed(command, "administrator"), signed(command, None)):
        assert not fast_path(FakePeer(), payload)  # type: ignore[arg-type]


# -- over sockets ----------------------------------------------------------------------------------------------------


def private(path: Path, content: str) -> str:
    path.write_text(content)
    path.chmod(0o600)
    return str(path)


async def has_replies(requester: Producer, consumer: PullConsumer, namesrv: str) -> None:
    """Check that a request of the producer is answered by the user of the consumer, who may publish nothing."""
    queue = MessageQueue("orders", "broker-a", 1)
    asked = asyncio.ensure_future(requester.request(Message("orders", b"?"), timeout_s=30, queue=queue))
    async with Producer("R", namesrv=namesrv, credentials=credentials("consumer")) as replier:
        while not (found := (await consumer.pull(queue, 0, suspend_ms=1000)).messages()):
            pass
        await replier.reply(found[0], b"!")
    assert (await asked).body == b"!"


def test_a_secured_cluster_serves_proven_users_and_follows_its_file(tmp_path: Path) -> None:
    acl = tmp_path / "plain_acl.yml"
    keys: dict[str, Any] = {
        "aclEnable": "true",
        "plainAclFile": private(acl, ACL),
        "innerCredentialsFile": private(tmp_path / "inner.yml", "accessKey: servers\nsecretKey: inner-secret\n"),
    }

    async def scenario() -> None:
        namesrv = NameServer(
            clock=SystemClock(), config=load_namesrv_config(None, {**keys, "auditLogDir": str(tmp_path / "names")})
        )
        await namesrv.start(port=0)
        directory = str(tmp_path / "audit")
        master = make_broker(
            tmp_path / "master", namesrv.address, haSlaveHosts="127.0.0.1", auditLogDir=directory, **keys
        )
        await master.start()
        slave = make_broker(tmp_path / "slave", namesrv.address, brokerId="1", **keys)
        await slave.start()
        stranger_reads, stranger_says = await asyncio.open_connection("127.0.0.1", master.config.ha_listen_port)
        stranger_says.write(encode_report(0))  # haSlaveHosts names its host
        queue = MessageQueue("orders", "broker-a", 0)
        try:
            assert len(namesrv.table.brokers) == 2  # the servers sign
            with pytest.raises(RefusedError, match="username cannot be null"):
                async with Admin(namesrv.address) as anonymous:
                    await anonymous.topics.names()
            async with Producer("P", namesrv=namesrv.address, credentials=credentials("administrator")) as producer:
                await producer.send(Message("orders", b"0"), queue=queue)
            wrong = credentials("producer", "wrong-secret")
            async with Producer("P", namesrv=namesrv.address, credentials=wrong) as producer:
                with pytest.raises(RefusedError, match=r"check signature failed\."):
                    await producer.send(Message("orders", b"no"))
            async with (
                Producer("P", namesrv=namesrv.address, credentials=credentials("producer")) as producer,
                PullConsumer("G", namesrv=namesrv.address, credentials=credentials("consumer")) as consumer,
                PullConsumer("G", namesrv=namesrv.address, credentials=credentials("stranger")) as stranger,
            ):
                await producer.send(Message("orders", b"1"), queue=queue)
                assert master.parts is not None and master.parts.requests.fast_sends.count >= 1
                found = await consumer.pull(queue, 0)
                assert [message.body for message in found.messages()] == [b"0", b"1"]
                with pytest.raises(RefusedError, match="no permission to access"):
                    await stranger.pull(queue, 0)
                await has_replies(producer, consumer, namesrv.address)
                await until(lambda: slave.parts is not None and slave.parts.store.max_offset("orders", 0) == 2)
                waiting = asyncio.ensure_future(consumer.pull(queue, 2, suspend_ms=15_000))
                await until(lambda: master.parts is not None and master.parts.requests.long_polls.count == 1)
                private(acl, ACL.replace("orders=SUB", "orders=DENY"))
                master.run_jobs()
                assert (await waiting).messages() == []
                with pytest.raises(RefusedError, match="has no permission to access Topic:orders"):
                    await consumer.pull(queue, 2)
                await producer.send(Message("orders", b"2"), queue=queue)
                private(acl, "accounts: 1")
                master.run_jobs()  # the old rules stay
                await producer.send(Message("orders", b"3"), queue=queue)
        finally:
            await slave.stop()
            await master.stop()
            await namesrv.stop()
        assert await stranger_reads.read() == b""
        stranger_says.close()

    asyncio.run(scenario())
    at_broker, at_names = (_refused(tmp_path / name) for name in ("audit", "names"))
    assert ("broker-a-0", "consumer", True, "PULL_MESSAGE") in at_broker
    assert {("name server", "", False), ("name server", "producer", False)} <= {line[:3] for line in at_names}


def _refused(directory: Path) -> set[tuple[Any, ...]]:
    """Return server, user, whether it was proven, and request of each refusal in an audit log."""
    lines = [json.loads(line) for line in (directory / "audit.log").read_text().splitlines()]
    return {(one["server"], one["user"], one["proven"], one["name"]) for one in lines if one["what"] == "refusal"}


def test_members_of_a_raft_group_prove_themselves_while_the_broker_is_closed(tmp_path: Path) -> None:
    """The users of its metadata are closed as well: servers alone are known then."""
    inner = private(tmp_path / "inner.yml", "accessKey: servers\nsecretKey: inner-secret\n")
    settings = {
        "users": {
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "innerClientAuthenticationCredentials": f"file:{inner}",
        },
        "an ACL file": {
            "aclEnable": "true",
            "plainAclFile": private(tmp_path / "plain_acl.yml", ACL),
            "innerCredentialsFile": inner,
        },
    }
    asked: list[Command] = []
    row = Route(Code.PYMQ_RAFT_NODE, None, lambda command, *_: asked.append(command), PEERS)
    for keys in settings.values():
        gate = BrokerSecurity(load_broker_config(None, keys), ManualClock()).member_gate
        assert gate is not None
        for name, secret, is_taken in (
            ("servers", "inner-secret", True),
            ("servers", "another-secret", False),
            ("producer", "producer-secret", False),
            (None, None, False),
        ):
            asked.clear()
            command = decode_command(signed(request(Code.PYMQ_RAFT_NODE), name, secret))
            reply = Dispatcher([row], "broker", gate=gate).dispatch(FakePeer(), command)
            assert bool(asked) == is_taken
            assert is_taken or (reply is not None and reply.code == ResponseCode.NO_PERMISSION)
    assert BrokerSecurity(load_broker_config(None, {}), ManualClock()).member_gate is None


def test_users_of_a_broker_reach_its_slave_and_lose_their_rights_at_once(tmp_path: Path) -> None:
    root = private(tmp_path / "root.yml", "accessKey: root\nsecretKey: root-secret\n")
    inner = private(tmp_path / "inner.yml", "accessKey: servers\nsecretKey: inner-secret\n")
    keys: dict[str, Any] = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": f"file:{root}",
        "innerClientAuthenticationCredentials": f"file:{inner}",
    }

    async def scenario() -> None:
        path = tmp_path / "master" / "config" / "auth.json"
        namesrv = NameServer(clock=SystemClock(), config=load_namesrv_config(None, {**keys, "authFile": str(path)}))
        await namesrv.start(port=0)
        master = make_broker(tmp_path / "master", namesrv.address, haSlaveHosts="127.0.0.1", **keys)
        await master.start()
        slave = make_broker(tmp_path / "slave", namesrv.address, brokerId="1", **keys)
        await slave.start()
        assert path.stat().st_mode & 0o777 == 0o600  # also when it was made for the first administrator
        queue = MessageQueue("orders", "broker-a", 0)
        try:
            async with Admin(namesrv.address, credentials=credentials("root")) as admin:
                await admin.auth.create_user(master.address, "ada", "ada-secret")
                names = ("Topic:ord*", "Group:G")
                entries = [AclEntryInfo(resource=name, actions=["Sub"], decision="Allow") for name in names]
                await admin.auth.put_acl(master.address, "ada", entries)
                assert namesrv.security is not None
                namesrv.security.look()
                async with Producer("P", namesrv=namesrv.address, credentials=credentials("root")) as producer:
                    await producer.send(Message("orders", b"0"), queue=queue)
                async with PullConsumer("G", namesrv=namesrv.address, credentials=credentials("ada")) as consumer:
                    assert [message.body for message in (await consumer.pull(queue, 0)).messages()] == [b"0"]
                    waiting = asyncio.ensure_future(consumer.pull(queue, 1, suspend_ms=15_000))
                    await until(lambda: master.parts is not None and master.parts.requests.long_polls.count == 1)
                    await admin.auth.delete_user(master.address, "ada")
                    assert (await waiting).messages() == []
                    with pytest.raises(RefusedError, match="User:ada is not found"):
                        await consumer.pull(queue, 1)
                await admin.auth.create_user(master.address, "bob", "bob-secret")

                def has_followed() -> bool:
                    return slave.parts is not None and slave.parts.metadata.auth.table.users.get("bob") is not None

                await until(has_followed)
                await admin.auth.create_user(slave.address, "eve", "eve-secret")  # left to its master
                found = await admin.auth.users(slave.address)
                assert [user.username for user in found] == ["bob", "root"]
        finally:
            await slave.stop()
            await master.stop()
            await namesrv.stop()

    asyncio.run(scenario())
