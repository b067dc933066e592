"""Limits of what users make: topics and groups, by request and by first use."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pymq.broker.assembly.security import BrokerSecurity
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.made_by_users_table import MadeByUsersTable
from pymq.broker.metadata.table_saver import run_inline
from pymq.broker.replication.roles.role import Role
from pymq.clock import ManualClock
from pymq.config import load_broker_config
from pymq.errors import Refusal
from pymq.model.access import Action, Need, Resource, ResourceKind
from pymq.model.tables import TopicConfig
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.identities import Identity, User, UserType
from pymq.security.made_by_users import MADE_FILE, MADE_MEMBER, MAKING_MS, MadeByUsers
from pymq.security.signature import Secret
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.assembly.test_security import ACL, credentials, guard
from tests.broker.handlers.test_clients import beat
from tests.broker.replication.pair import Pair
from tests.broker.world import Caller, World

TOPIC, GROUP = ResourceKind.TOPIC, ResourceKind.GROUP
LIMIT = 2


class Making:
    """The limits of a broker with the topics and groups ``there``, and its files."""

    def __init__(self, *, topics: int = LIMIT, groups: int = LIMIT, files: MemoryFiles | None = None) -> None:
        self.clock = ManualClock()
        self.files = files or MemoryFiles()
        self.files.makedirs("/data/config")
        self.saver = ConfigTables(self.files, "/data", run_inline).saver(MADE_FILE, MADE_MEMBER)
        self.there: set[str] = set()
        settings = SimpleNamespace(user_topic_count_max=topics, user_group_count_max=groups)
        self.made = MadeByUsers(
            settings, self.clock, dict.fromkeys((TOPIC, GROUP), self.there.__contains__), self.saver
        )
        self.made.load()

    def make(
        self, name: str, user: str = "a", kind: UserType = UserType.NORMAL, what: ResourceKind = TOPIC, *actions: Action
    ) -> bool:
        """Return whether ``user`` may make a topic or a group, and make it."""
        need = Need(Resource(what, name), actions or ((Action.PUB,) if what is TOPIC else (Action.SUB,)))
        try:
            self.made.check(Identity(User(user, Secret("x"), kind)), [need])
        except Refusal as refusal:
            self.remark = refusal.remark
            assert refusal.code == ResponseCode.NO_PERMISSION
            return False
        self.there.add(name)
        return True


@pytest.mark.parametrize("what", [TOPIC, GROUP])
def test_a_user_makes_as_many_as_the_limit(what: ResourceKind) -> None:
    making = Making()
    making.there.add("old")
    assert all(making.make(name, what=what) for name in ("old", "t1", "t2", "t1"))
    assert not making.make("t3", what=what) and making.made.refused_count == 1
    kind = what.value.lower()
    assert f"user a has made 2 {kind}s, the limit is user{what.value}CountMax=2: delete some" in making.remark
    assert making.make("t3", user="b", what=what)  # another user's limit
    assert making.make("t3", what=what)  # it is there now
    making.there.remove("t1")
    making.clock.advance(MAKING_MS)
    assert making.make("t4", what=what) and not making.make("t5", what=what)


def test_topics_and_groups_count_apart_and_looking_counts_nothing() -> None:
    making = Making(topics=1)
    assert making.make("t") and making.make("g", what=GROUP)
    for action in (Action.GET, Action.DELETE):
        assert all(making.make(f"t{number}{action}", "a", UserType.NORMAL, TOPIC, action) for number in range(3))
    assert making.make("g2", "a", UserType.NORMAL, GROUP, Action.SUB, Action.GET)
    assert not making.make("t2", "a", UserType.NORMAL, TOPIC, Action.CREATE)
    assert all(Making(topics=0).make(f"t{number}") for number in range(3))


def test_administrators_servers_and_white_lists_have_no_limit() -> None:
    making = Making(topics=1)
    for kind in (UserType.SUPER, UserType.INNER):
        assert all(making.make(f"{kind}{number}", kind=kind) for number in range(3))
    need = Need(Resource(TOPIC, "more"), (Action.PUB,))
    for _ in range(3):
        making.made.check(Identity(None, is_trusted=True), [need])


def test_a_name_counts_while_it_is_being_made() -> None:
    making = Making()
    for name in ("t1", "t2"):
        assert making.make(name)
    making.there.clear()  # not saved yet
    making.clock.advance(MAKING_MS - 1)
    assert not making.make("t3")
    making.clock.advance(1)
    assert making.make("t3")


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_users_have_made_counts_after_a_restart(is_clean: bool) -> None:
    making = Making()
    assert all(making.make(name) for name in ("t1", "t2")) and making.make("g1", what=GROUP)
    making.made.save() if is_clean else making.made.tick()
    again = Making(files=making.files)
    again.there.update(making.there)
    assert not again.make("t3") and again.make("t3", user="b")
    assert again.make("g2", what=GROUP) and not again.make("g3", what=GROUP)
    again.there.remove("t1")
    assert again.make("t4") and not again.make("t5"), "what is gone counts no more"


def test_a_file_that_can_not_be_used_is_said_and_counts_begin_again(caplog: pytest.LogCaptureFixture) -> None:
    making = Making()
    making.saver.save({MADE_MEMBER: {"a": {"Planet": ["t1"]}}})
    again = Making(files=making.files)
    assert "madeByUsers.json can't be used" in caplog.text
    assert again.make("t1") and again.make("t2") and not again.make("t3")


def test_a_broker_refuses_what_is_beyond() -> None:
    settings: dict[str, Any] = {"userTopicCountMax": "1", "userGroupCountMax": "1"}
    world = World(**settings)
    text = ACL.replace("topicPerms: [T=PUB, orders=PUB]", "defaultTopicPerm: PUB|SUB, defaultGroupPerm: SUB")
    gatekeeper = Gatekeeper(guard(text))
    security = BrokerSecurity(load_broker_config(None, settings), world.clock)
    gatekeeper.made = security._made_by_users(world.parts)
    producer = Caller(world, gate=gatekeeper, credentials=credentials("producer"))
    header: dict[str, Any] = {"a": "P", "c": "TBW102", "d": "1", "e": "0", "f": "4", "g": "1", "h": "0", "i": ""}
    for topic, is_refused in (("New1", False), ("New2", True), ("New1", False)):
        reply = producer.ask(Code.SEND_MESSAGE_V2, b"x", b=topic, **header)
        world.parts.messages.writer.commit()
        assert (reply is not None and reply.code == ResponseCode.NO_PERMISSION) == is_refused
        assert (world.parts.metadata.topics.get(topic) is not None) == (not is_refused)
    producer.ok(Code.HEART_BEAT, beat(group="G1"))
    assert "userGroupCountMax=1" in producer.refused(Code.HEART_BEAT, beat(group="G2"))[1]
    assert world.parts.metadata.groups.get("G1") and not world.parts.metadata.groups.get("G2")
    slave = World(role=Role(1), **settings)
    assert security._made_by_users(slave.parts) is None
    assert BrokerSecurity(load_broker_config(None, {}), world.clock)._made_by_users(world.parts) is None


def test_a_slave_that_becomes_master_counts_what_users_made_before() -> None:
    pair = Pair(userTopicCountMax=LIMIT)
    security = BrokerSecurity(load_broker_config(None, {"userTopicCountMax": str(LIMIT)}), pair.clock)
    ada = Identity(User("ada", Secret("x"), UserType.NORMAL))

    def make(made: MadeByUsers | None, topic: str) -> None:
        assert made is not None
        made.check(ada, [Need(Resource(TOPIC, topic), (Action.PUB,))])

    made = security._made_by_users(pair.master.parts)
    for topic in ("t1", "t2"):
        make(made, topic)
        pair.master.parts.metadata.topics.put([TopicConfig(topic_name=topic)])
    assert made is not None
    made.tick()
    pair.run(1000)
    assert pair.file(pair.slave, "madeByUsers") == {MADE_MEMBER: {"ada": {"Topic": ["t1", "t2"]}}}
    master = pair.promote()
    with pytest.raises(Refusal, match="user ada has made 2 topics"):
        make(security._made_by_users(master.parts), "t3")
    pair.master.parts.close()


def test_a_master_whose_file_can_not_be_read_sends_an_empty_table() -> None:
    making = Making()
    making.files.open(f"/data/config/{MADE_FILE}", create=True).pwrite(0, b"{")
    assert MadeByUsersTable(making.saver).as_table() == {MADE_MEMBER: {}}


def test_what_a_user_made_that_is_gone_counts_no_more() -> None:
    making = Making()
    assert making.make("t1") and making.make("t2")
    making.made.forget_others({"a"})
    assert not making.make("t3")
    making.made.forget_others({"b"})
    assert making.make("t3"), "a user of the name that is made again"
