"""Users: the proof of a request's sender, RocketMQ's remarks, and that an administrator is always left."""

from __future__ import annotations

import pytest

from pymq.errors import Refusal
from pymq.security.addresses import parse_address, parse_pattern
from pymq.security.identities import NAME_LENGTH_MAX, User, Users, UserType
from pymq.security.signature import Secret, signed_fields
from pymq.wire.codes import ResponseCode

HERE = parse_address("10.0.0.1")
SECRET = Secret("12345678")
ADMIN = User("admin", Secret("admin-secret"), UserType.SUPER)
READER = User("reader", SECRET)
USERS = Users([ADMIN, READER, User("off", SECRET, is_enabled=False)])


def authenticate(users: Users, ext: dict[str, str], address: str = "10.0.0.1") -> str:
    return users.authenticate(ext, b"body", 479, parse_address(address)).name


def refusal(users: Users, ext: dict[str, str]) -> str:
    with pytest.raises(Refusal) as caught:
        authenticate(users, ext)
    assert caught.value.code == ResponseCode.NO_PERMISSION
    return caught.value.remark


def signed(name: str, secret: Secret = SECRET) -> dict[str, str]:
    return signed_fields(name, secret, {"topic": "T"}, b"body")


def test_a_right_signature_proves_the_sender() -> None:
    assert authenticate(USERS, signed("reader")) == "reader"


def test_other_requests_get_the_remarks_of_rocketmq() -> None:
    assert refusal(USERS, {}) == "username cannot be null."
    assert refusal(USERS, {"AccessKey": "", "Signature": "x"}) == "username cannot be null."
    assert refusal(USERS, signed("missing")) == "User:missing is not found."
    assert refusal(USERS, signed("off")) == "User:off is disabled."
    assert refusal(USERS, signed("reader", Secret("other"))) == "check signature failed."
    assert refusal(USERS, {"AccessKey": "reader"}) == "check signature failed."
    assert refusal(USERS, signed("reader") | {"topic": "U"}) == "check signature failed."
    assert len(refusal(USERS, signed("x" * 100_000))) < NAME_LENGTH_MAX + 40


def test_an_address_of_a_white_list_needs_no_signature() -> None:
    users = Users([User("a", SECRET, trusted_from=tuple(parse_pattern("10.0.0.*")))], parse_pattern("192.168.*.*"))
    assert users.authenticate({"AccessKey": "a"}, b"", 479, HERE).is_trusted
    assert users.authenticate({}, b"", 479, parse_address("192.168.3.4")).name == "white list"
    assert refusal(users, {}) == "username cannot be null."
    with pytest.raises(Refusal, match="check signature failed"):
        authenticate(users, {"AccessKey": "a"}, "10.0.1.1")


def test_a_disabled_user_is_refused_also_from_its_white_address() -> None:
    users = Users([User("a", SECRET, is_enabled=False, trusted_from=tuple(parse_pattern("*")))])
    assert refusal(users, {"AccessKey": "a"}) == "User:a is disabled."


def test_a_proof_ends_with_its_user() -> None:
    identity = USERS.authenticate(signed("reader"), b"body", 479, HERE)
    renewed = Users([ADMIN, User("reader", SECRET)])
    assert renewed.still(identity, HERE) is None, "another user of the name, with the same secret"
    assert renewed.following(USERS).still(identity, HERE) is not None, "the file was read again"
    gone = Users([ADMIN]).following(USERS)
    assert renewed.following(gone).still(identity, HERE) is None
    changed = Users([ADMIN, User("reader", Secret("other"))]).following(USERS)
    assert changed.still(identity, HERE) is None
    assert renewed.following(changed).still(identity, HERE) is None, "the former secret again"


def test_the_last_administrator_stays() -> None:
    for change in (
        lambda: USERS.without_user("admin"),
        lambda: USERS.with_user(User("admin", SECRET)),
        lambda: USERS.with_user(User("admin", SECRET, UserType.SUPER, is_enabled=False)),
    ):
        with pytest.raises(Refusal, match="no enabled user of type Super"):
            change()
    two = USERS.with_user(User("second", SECRET, UserType.SUPER))
    assert two.without_user("admin").get("admin") is None
    assert len(USERS.without_user("reader")) == 2 and len(USERS) == 3


def test_a_table_without_administrator_may_change() -> None:
    users = Users([READER]).with_user(User("other", SECRET)).without_user("reader")
    assert [user.name for user in users] == ["other"]


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\n", "x" * (NAME_LENGTH_MAX + 1)])
def test_a_name_that_is_not_usable_is_refused(name: str) -> None:
    with pytest.raises(Refusal, match="username"):
        USERS.with_user(User(name, SECRET))
    assert USERS.with_user(User("x" * NAME_LENGTH_MAX, SECRET))


def test_two_users_of_a_name_are_refused() -> None:
    with pytest.raises(Refusal, match="existed"):
        Users([READER, READER])
