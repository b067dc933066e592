"""White lists of request codes, and servers that check proofs or rights alone."""

from __future__ import annotations

import pytest

from pymq.broker import row_access
from pymq.clock import ManualClock
from pymq.errors import Refusal
from pymq.model.access import Action, topic_need
from pymq.security.addresses import parse_address
from pymq.security.gatekeeper import Admitted, Gatekeeper, OpenRequests
from pymq.security.guard import BOTH, Checks, Guard
from pymq.security.identities import User, Users, UserType
from pymq.security.policies import Policies
from pymq.security.sender_limits import SenderLimits
from pymq.security.signature import Secret, signed_fields
from pymq.wire.codes import RequestCode as Code
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher, Route
from pymq.wire.reply import Reply
from tests.broker.world import FakePeer
from tests.security.rows import CLUSTER
from tests.security.test_policies import custom, entry

SECRET, WRONG = Secret("a-secret"), Secret("another-secret")
USERS = Users([User("root", SECRET, UserType.SUPER), User("servers", SECRET, UserType.INNER), User("ada", SECRET)])
POLICIES = Policies({"ada": custom(entry("Topic:T", "Sub"))})
NULL, SIGNATURE, RIGHT = "username cannot be null.", "check signature failed.", "has no permission"
ROWS = {
    Code.GET_BROKER_RUNTIME_INFO: row_access.SEE_BROKER,
    Code.CHECK_CLIENT_CONFIG: row_access.CHECK_FILTER,
    Code.PYMQ_READ_LOG: row_access.PEERS,
}


def gatekeeper(unproven: set[int] | None = None, free: set[int] | None = None, checks: Checks = BOTH) -> Gatekeeper:
    gate = Gatekeeper(Guard(USERS, POLICIES, CLUSTER, checks))
    gate.open_requests = OpenRequests(frozenset(unproven or ()), frozenset(free or ()))
    return gate


def ask(gate: Gatekeeper, code: int, name: str = "", secret: Secret = SECRET) -> str:
    """Return the remark of the refusal; empty for a request that is served."""
    ext = signed_fields(name, secret, {}, b"") if name else {}
    rows = [Route(code, None, lambda request, header, peer: Reply(), access) for code, access in ROWS.items()]
    reply = Dispatcher(rows, "broker", gate=gate).dispatch(FakePeer(), Command(code, ext=ext))
    assert reply is not None
    return reply.remark or ""


INFO, FILTER, SERVERS = ROWS


@pytest.mark.parametrize(
    ("unproven", "free", "stranger", "wrong", "ada"),
    [
        (set[int](), set[int](), NULL, SIGNATURE, RIGHT),
        ({INFO}, set[int](), NULL, NULL, RIGHT),
        (set[int](), {INFO}, NULL, SIGNATURE, ""),
        ({INFO}, {INFO}, "", "", ""),
        ({FILTER}, {FILTER}, NULL, SIGNATURE, RIGHT),
    ],
)
def test_white_lists_open_the_requests_that_they_name(
    unproven: set[int], free: set[int], stranger: str, wrong: str, ada: str
) -> None:
    gate = gatekeeper(unproven, free)
    for expected, found in (
        (stranger, ask(gate, INFO)),
        (wrong, ask(gate, INFO, "ada", WRONG)),
        (ada, ask(gate, INFO, "ada")),
    ):
        assert expected in found and bool(expected) == bool(found)
    assert ask(gate, INFO, "root") == ""


def test_a_request_that_needs_no_right_is_open_by_the_first_list_alone() -> None:
    assert ask(gatekeeper({FILTER}), FILTER) == ""
    assert ask(gatekeeper(), FILTER) == NULL


def test_no_list_opens_a_request_between_servers() -> None:
    gate = gatekeeper({SERVERS}, {SERVERS})
    for name in ("", "ada"):
        assert "is no server" in ask(gate, SERVERS, name)
    assert "is no server" in ask(gate, SERVERS, "servers", WRONG)
    assert ask(gate, SERVERS, "servers") == ""


def test_who_sends_an_open_request_with_a_wrong_proof_is_no_user() -> None:
    gate = gatekeeper({INFO}, {INFO})
    gate.limits = SenderLimits(ManualClock())
    sender = gate.admit(Command(INFO, ext=signed_fields("root", WRONG, {}, b"")), FakePeer())
    assert (sender.name, sender.is_administrator, sender.is_proven) == ("", False, False)
    assert not sender.may_read("T") and not sender.may_publish("T")
    assert gate.refused_count == 0 and not gate.limits.failed_proofs.has_blocked


def test_without_rights_every_proven_user_may_do_everything_but_what_servers_do() -> None:
    gate = gatekeeper(checks=Checks(rights=False))
    assert ask(gate, INFO, "ada") == ""
    assert ask(gate, INFO) == NULL and ask(gate, INFO, "ada", WRONG) == SIGNATURE
    assert "is no server" in ask(gate, SERVERS, "ada")
    sender = admitted(gate, "ada", SECRET)
    assert sender.may_publish("any") and not sender.is_administrator
    sender.check_found_topic(row_access.VIEW_MESSAGE, "any")


def test_without_proof_a_name_is_believed_but_makes_no_server_and_no_administrator() -> None:
    gate = gatekeeper(checks=Checks(proof=False))
    assert ask(gate, INFO) == NULL and "User:eve is not found." in ask(gate, INFO, "eve")
    assert RIGHT in ask(gate, INFO, "ada", WRONG)
    assert ask(gate, INFO, "root", WRONG) == ""
    assert "is no server" in ask(gate, SERVERS, "servers", WRONG) and ask(gate, SERVERS, "servers") == ""
    assert "is no server" in ask(gate, SERVERS, "root", WRONG)
    believed, proven = (admitted(gate, "root", secret) for secret in (WRONG, SECRET))
    assert (believed.name, believed.is_administrator, believed.is_proven) == ("root", False, False)
    assert (proven.is_administrator, proven.is_proven) == (True, True)
    assert admitted(gate, "ada", WRONG).may_read("T")
    with pytest.raises(Refusal, match="no permission to access Topic:other"):
        admitted(gate, "ada", WRONG).check_found_topic(row_access.VIEW_MESSAGE, "other")


def admitted(gate: Gatekeeper, name: str, secret: Secret) -> Admitted:
    return gate.admit(Command(INFO, ext=signed_fields(name, secret, {}, b"")), FakePeer())


def test_an_unproven_identity_stays_unproven_when_users_change() -> None:
    found = admitted(gatekeeper(checks=Checks(proof=False)), "root", WRONG).identity
    again = USERS.still(found, parse_address("127.0.0.1"))
    assert again is not None and not again.is_proven and not again.is_administrator


def test_rights_of_this_moment_decide_about_a_row() -> None:
    gate = gatekeeper()
    sender = admitted(gate, "ada", SECRET)
    need = topic_need("T", Action.SUB)
    assert sender.may(need) and not sender.may(topic_need("other", Action.SUB))
    gate.replace(Guard(USERS, Policies(), CLUSTER))
    assert not sender.may(need), "the right was taken away while the answer was made"
    free = gatekeeper(free={INFO})
    assert admitted(free, "ada", SECRET).may(topic_need("other", Action.SUB)), "the request needs no right"
