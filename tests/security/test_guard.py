"""Every row of every server, through its dispatcher, against every kind of sender; and the remarks of refusals."""

from __future__ import annotations

import json
import re

import pytest

from pymq.broker import row_access
from pymq.errors import Refusal
from pymq.model.access import EVERY_NAME
from pymq.model.names import SCHEDULE_TOPIC, retry_topic
from pymq.security.acl_5x import acl_info, user_info
from pymq.security.addresses import parse_address, parse_pattern
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.guard import DECISION_SIZE_MAX, DECISIONS_MAX, Guard
from pymq.security.identities import Identity, User, Users, UserType
from pymq.security.policies import Policies
from pymq.security.signature import Secret, signed_fields
from pymq.security.user_table import UserTable, as_json, from_json
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher, Peer, Route, Sender
from pymq.wire.header import encode_header
from pymq.wire.headers.pull import PullMessageHeader, ViewMessageHeader
from pymq.wire.reply import Reply
from tests.broker.world import FakePeer
from tests.security.matrix import EXPECTED, SENDERS
from tests.security.rows import CLUSTER, NAME_SERVER, ROLES, sample_header, sample_request
from tests.security.test_policies import custom, deny, entry

HERE = parse_address("10.0.0.1")
ANONYMOUS, WRONG = "anonymous", "wrong-signature"
POLICY_ADMINISTRATOR = "policy-administrator"
SECRETS = {name: Secret(f"secret of {name}") for name in (*SENDERS.values(), POLICY_ADMINISTRATOR)}
TYPES = {"administrator": UserType.SUPER, "server": UserType.INNER}
USERS = Users(User(name, secret, TYPES.get(name, UserType.NORMAL)) for name, secret in SECRETS.items())
POLICIES = Policies(
    {
        "reader": custom(entry("Topic:T*", "Sub"), entry("Group:G", "Sub")),
        "writer": custom(entry("Topic:T*", "Pub")),
        "group-owner": custom(entry("Topic:T*", "Sub Get"), entry("Group:G*")),
        "topic-owner": custom(entry("Topic:T*")),
        "operator": custom(entry("Cluster:*", "Get List"), entry("Topic:*", "List")),
    }
)
GUARDS = {role: Guard(USERS, POLICIES, EVERY_NAME if role == NAME_SERVER else CLUSTER) for role in ROLES}
BROKER = GUARDS["broker"]


def request_of(sender: str, row: Route) -> Command:
    """Return the row's sample request as ``sender`` sends it."""
    request = sample_request(row)
    header = sample_header(row.header)
    request.ext = {} if header is None else encode_header(header)
    if sender == WRONG:
        request.ext = signed_fields("administrator", SECRETS["reader"], request.ext, request.body)
    elif sender != ANONYMOUS:
        request.ext = signed_fields(sender, SECRETS[sender], request.ext, request.body)
    return request


def handle(request: Command, header: object, peer: Peer) -> Reply:
    """Stand for a row's handler, which finds a record of topic T."""
    request.check_found_topic("T")
    return Reply()


def passes(guard: Guard, row: Route, sender: str) -> bool:
    dispatcher = Dispatcher([row._replace(handler=handle)], "server", gate=Gatekeeper(guard))
    reply = dispatcher.dispatch(FakePeer("10.0.0.1:5555"), request_of(sender, row))
    assert reply is not None and reply.code in (ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION), reply.remark
    return reply.code == ResponseCode.SUCCESS


@pytest.mark.parametrize("role", ROLES)
def test_the_matrix_of_requests_and_senders(role: str) -> None:
    found = {
        row.name: "".join(letter if passes(GUARDS[role], row, sender) else "-" for letter, sender in SENDERS.items())
        for row in ROLES[role]()
    }
    assert found == EXPECTED[role]


def requested_guard(role: str) -> Guard:
    """Return the guard of the same users and policies, made by AUTH_* requests and read again from their file."""
    root = identity("administrator").user
    assert root is not None
    table = UserTable()
    for user in USERS:
        if user.kind is not UserType.INNER:
            table = table.with_new_user(user.name, user_info(user, with_secret=True), root)
    for name, policy in [*POLICIES, (POLICY_ADMINISTRATOR, custom(entry("*")))]:
        table = table.with_acl(name, acl_info(name, policy))
    table = from_json(json.loads(json.dumps(as_json(table))))
    server = USERS.get("server")
    assert server is not None
    return Guard(Users([*table.users, server]), table.policies, EVERY_NAME if role == NAME_SERVER else CLUSTER)


@pytest.mark.parametrize("role", ROLES)
def test_the_matrix_is_the_same_for_users_made_by_requests(role: str) -> None:
    guard = requested_guard(role)
    for row in ROLES[role]():
        found = "".join(letter if passes(guard, row, sender) else "-" for letter, sender in SENDERS.items())
        assert found == EXPECTED[role][row.name], row.name
        # A user that may do everything by its policy is no server, and no user of type Super.
        assert passes(guard, row, POLICY_ADMINISTRATOR) != row.access.peers_only


def identity(name: str) -> Identity:
    user = USERS.get(name)
    assert user is not None
    return Identity(user)


def remark(guard: Guard, name: str, topic: str = "T") -> str:
    """Return the remark of a refused pull of ``topic``."""
    header = sample_header(PullMessageHeader, topic=topic)
    with pytest.raises(Refusal) as caught:
        guard.check(identity(name), row_access.CONSUME, Command(Code.PULL_MESSAGE), header, HERE)
    assert caught.value.code == ResponseCode.NO_PERMISSION
    return caught.value.remark


def test_a_refusal_has_the_remark_of_rocketmq() -> None:
    where = "User:writer has no permission to access Topic:T from 10.0.0.1"
    assert remark(BROKER, "writer") == f"{where}, no matched policies."
    denying = Guard(USERS, Policies({"writer": custom(deny("Topic:*"), entry("*"))}), CLUSTER)
    assert remark(denying, "writer") == f"{where}, the decision is deny."
    assert "Group:other from" in remark(BROKER, "reader", retry_topic("other"))


def test_a_row_between_servers_says_so() -> None:
    with pytest.raises(Refusal, match="User:topic-owner is no server: PYMQ_READ_LOG is for brokers"):
        BROKER.check(identity("topic-owner"), row_access.PEERS, Command(Code.PYMQ_READ_LOG), None, HERE)


def test_a_white_list_opens_all_rows_but_those_between_servers() -> None:
    guard = Guard(Users([], parse_pattern("10.0.0.*")), Policies(), CLUSTER)
    for row in ROLES["broker"]():
        assert passes(guard, row, ANONYMOUS) != row.access.peers_only


def test_the_topic_that_a_handler_finds_is_checked() -> None:
    view, pull = row_access.VIEW_MESSAGE, row_access.CONSUME
    header = sample_header(ViewMessageHeader, topic=None)
    BROKER.check(identity("reader"), view, Command(Code.VIEW_MESSAGE_BY_ID), header, HERE)
    BROKER.check_found_topic(identity("reader"), view, "T", HERE)
    BROKER.check_found_topic(identity("reader"), pull, "secret", HERE)
    for topic, resource in (("secret", "Topic:secret"), (retry_topic("x"), "Group:x"), (SCHEDULE_TOPIC, "Cluster:*")):
        with pytest.raises(Refusal, match=re.escape(f"access {resource} from")):
            BROKER.check_found_topic(identity("reader"), view, topic, HERE)


@pytest.mark.parametrize("sender", [ANONYMOUS, WRONG])
def test_who_is_not_proven_hears_nothing_of_what_is_served(sender: str) -> None:
    dispatcher = Dispatcher([], "broker", {}, Gatekeeper(BROKER))
    request = Command(77_777)
    if sender == WRONG:
        request.ext = signed_fields("administrator", SECRETS["reader"], {}, b"")
    reply = dispatcher.dispatch(FakePeer(), request)
    assert reply is not None and reply.code == ResponseCode.NO_PERMISSION and "77777" not in (reply.remark or "")


def test_a_failure_of_the_gate_lets_nothing_pass(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def admit(self, request: Command, peer: Peer) -> Sender:
            raise RuntimeError("bug")

    row = next(row for row in ROLES["broker"]() if row.name == "HEART_BEAT")
    reply = Dispatcher([row._replace(handler=handle)], "broker", gate=Broken()).dispatch(FakePeer(), Command(row.code))
    assert reply is not None and reply.code == ResponseCode.SYSTEM_ERROR and "bug" in caplog.text


def test_kept_decisions_are_few_and_short() -> None:
    """A user may name topics of any length and number, each of which it may use."""
    guard = Guard(USERS, POLICIES, CLUSTER)
    longest = ("reader", "10.0.0.1", 11, "T" * (DECISION_SIZE_MAX - len("reader10.0.0.1")))
    guard.keep_allowed(longest)
    assert guard.was_allowed(longest)
    longer = (*longest[:3], longest[3] + "T")
    guard.keep_allowed(longer)
    assert not guard.was_allowed(longer)
    for number in range(DECISIONS_MAX + 1):
        guard.keep_allowed(("reader", "10.0.0.1", 11, f"T{number}"))
    assert len(guard._allowed) <= DECISIONS_MAX and guard.was_allowed(("reader", "10.0.0.1", 11, f"T{DECISIONS_MAX}"))
