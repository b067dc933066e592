"""Users of certificates: the rules that name them, and what a certificate proves."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from pymq.clock import ManualClock
from pymq.config import BrokerConfig, load_broker_config
from pymq.errors import ConfigError, Refusal, UsageError
from pymq.security.addresses import parse_address
from pymq.security.certificate_users import RULE_COUNT_MAX, SUBJECT_LENGTH_MAX, CertificateUsers, named, parse_rules
from pymq.security.gatekeeper import Gatekeeper
from pymq.security.guard import Guard
from pymq.security.identities import User, Users, UserType
from pymq.security.policies import Policies
from pymq.security.security import open_certificate_users
from pymq.security.signature import Secret, signed_fields
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from tests.broker.world import FakePeer
from tests.certificates import certificates, mutual_tls_settings

HERE = parse_address("10.0.0.1")
SECRET = Secret("12345678")
USERS = Users(
    [
        User("client", SECRET),
        User("ada", SECRET),
        User("off", SECRET, is_enabled=False),
        User("s", SECRET, UserType.INNER),
    ]
)
SALES = "CN=Orders,OU=Sales,O=Acme"
BY_CN = "RULE:^CN=([^,+]+)(,.*)?$/$1/"
DAY_MS = 24 * 3_600_000


def der(path: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(path.read_text("ascii"))


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", SALES),
        (BY_CN, "Orders"),
        (f"{BY_CN}L", "orders"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/U", "ORDERS@SALES"),
        ("RULE:^CN=(.*?),OU=Service.*$/$1/ , RULE:.*O=Acme/acme/", "acme"),
        ("RULE:CN=Orders/part/", None),  # it must match the whole subject
        (r"RULE:.*Sales,O=(.*)/a\/$1/", "a/Acme"),
        ("RULE:^CN=(x)?.*$/n$1/", "n"),
        ("", None),
    ],
)
def test_the_first_rule_that_matches_the_subject_names_the_user(rules: str, name: str | None) -> None:
    found = [rule.user_of(SALES) for rule in parse_rules(rules)]
    assert next((one for one in found if one is not None), None) == name


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ("CN=(.*)", "is no rule: write DEFAULT, or RULE:PATTERN/NAME/"),
        ("DEFAULT DEFAULT", "'DEFAULT DEFAULT' is no rule"),
        ("RULE:a/b", "is no rule"),
        ("RULE:a/b/X", "is no rule"),
        ("RULE:(/b/", "can't be used: missing"),
        ("RULE:(a)/$2/", r"names group \$2, and its pattern has 1"),
        (",".join(["DEFAULT"] * (RULE_COUNT_MAX + 1)), "at most 64"),
    ],
)
def test_a_rule_that_can_not_be_used_is_refused(rules: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_rules(rules)
    with pytest.raises(ConfigError, match=f"tls.server.principalMappingRules: .*{text}"):
        open_certificate_users(rules, Gatekeeper(Guard(USERS, Policies(), "C")), ManualClock())


def test_as_many_rules_as_allowed_are_taken() -> None:
    assert len(parse_rules(",".join(["DEFAULT"] * RULE_COUNT_MAX))) == RULE_COUNT_MAX


def test_rules_need_users_and_certificates() -> None:
    with pytest.raises(ConfigError, match="names users, and this server has none: set authenticationEnabled"):
        open_certificate_users("DEFAULT", None, ManualClock())
    open_certificate_users("", None, ManualClock())
    keys = mutual_tls_settings() | {
        "tls.server.principalMappingRules": "DEFAULT",
        "tls.server.need.client.auth": "none",
    }
    with pytest.raises(ConfigError, match="which this server does not ask for"):
        load_broker_config(None, keys)
    assert BrokerConfig().tls_server_principal_mapping_rules == ""


def test_a_certificate_counts_until_its_time_is_over() -> None:
    clock = ManualClock(certificates().made_at_ms)
    users = CertificateUsers(parse_rules(BY_CN), clock)
    client = der(certificates().client.cert_path)
    assert users.user_of(client) == "client"
    assert users.user_of(None) == users.user_of(b"no certificate") == ""
    assert CertificateUsers([], clock).user_of(client) == ""
    clock.advance(29 * DAY_MS)
    assert users.user_of(client) == "client"
    clock.advance(2 * DAY_MS)
    assert users.user_of(client) == ""


def test_a_subject_that_is_too_long_stands_for_no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    client = der(certificates().client.cert_path)
    for limit, name in ((len("CN=client"), "CN=client"), (len("CN=client") - 1, "")):
        monkeypatch.setattr("pymq.security.certificate_users.SUBJECT_LENGTH_MAX", limit)
        assert named(client, parse_rules("DEFAULT")).name == name
    assert SUBJECT_LENGTH_MAX == 1024


def test_a_certificate_proves_requests_without_a_signature() -> None:
    def sender(certificate_user: str, **ext: str) -> str:
        try:
            return USERS.authenticate(ext, b"", 479, HERE, certificate_user).name
        except Refusal as refusal:
            return refusal.remark

    assert sender("client", topic="T") == "client"
    assert sender("", topic="T") == "username cannot be null."
    assert sender("missing") == "User:missing is not found."
    assert sender("off") == "User:off is disabled."
    # A signature must hold, and wins.
    assert sender("client", **signed_fields("ada", SECRET, {}, b"")) == "ada"
    assert sender("client", **signed_fields("client", Secret("other"), {}, b"")) == "check signature failed."
    assert sender("client", AccessKey="client") == "check signature failed."
    assert sender("client", Signature="x") == "username cannot be null."


def test_a_connection_without_a_certificate_proves_nothing() -> None:
    gatekeeper = Gatekeeper(Guard(USERS, Policies(), "C"))
    peer = FakePeer("10.0.0.1:5555")
    peer.client_certificate = der(certificates().client.cert_path)
    request = Command(RequestCode.CHECK_CLIENT_CONFIG)
    with pytest.raises(Refusal, match="username cannot be null"):
        gatekeeper.admit(request, peer)  # without rules a certificate names no user
    open_certificate_users(BY_CN, gatekeeper, ManualClock(certificates().made_at_ms))
    assert gatekeeper.admit(request, peer).name == "client"
    with pytest.raises(Refusal, match="username cannot be null"):
        gatekeeper.admit(request, FakePeer("10.0.0.1:5555"))
    gatekeeper.replace(Guard(Users([User("ada", SECRET)]), Policies(), "C"))
    with pytest.raises(Refusal, match="User:client is not found"):
        gatekeeper.admit(request, peer)
