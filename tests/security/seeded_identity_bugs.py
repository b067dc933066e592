"""Seeded bugs in certificates as users, in what users make, and in what brokers tell their peers and producers."""

from __future__ import annotations

from pymq.broker.fast.secured import SendCheck
from pymq.broker.replication.slave.ha_client import HaClient
from pymq.broker.replication.slave.ha_client_session import HaClientSession
from pymq.broker.replication.slave.joining import Joining
from pymq.broker.transactions.checks import TransactionChecks
from pymq.filterserver.server import FilterServer
from pymq.security.certificate_users import CertificateUsers, Rule
from pymq.security.gatekeeper import Admitted, Gatekeeper
from pymq.security.identities import Users
from pymq.security.made_by_users import MadeByUsers
from tests.planting import Bug, Text

_BROKER, _CERTIFICATES, _CHECKS = "test_security", "test_certificate_users", "test_check_permission"
_HA, _MADE = "test_ha_proof", "test_made_by_users"

IDENTITY_BUGS = [
    Bug(
        "an address sends what it likes once its sender is proven",
        Text(Gatekeeper.admit, "limits.check_address(self._addresses[peer.address], len(request.body))", "pass"),
        ("test_sender_limits.test_an_address_has_a_rate_of_bytes_whoever_sends_them",),
    ),
    Bug(
        "a certificate wins over a signature",
        Text(Users.authenticate, "if not is_signed:", "if certificate_user:"),
        (f"{_CERTIFICATES}.test_a_certificate_proves_requests_without_a_signature",),
    ),
    Bug(
        "beside a certificate a signature need not hold",
        Text(Users.authenticate, "if is_signed and", "if not certificate_user and"),
        (f"{_CERTIFICATES}.test_a_certificate_proves_requests_without_a_signature",),
    ),
    Bug(
        "a certificate counts for ever",
        Text(CertificateUsers.user_of, "self._clock.now_ms() <= found.expires_at_ms", "True"),
        (f"{_CERTIFICATES}.test_a_certificate_counts_until_its_time_is_over",),
    ),
    Bug(
        "a rule is for a part of a subject",
        Text(Rule.user_of, "fullmatch", "match"),
        (f"{_CERTIFICATES}.test_the_first_rule_that_matches_the_subject_names_the_user",),
    ),
    Bug(
        "an unsigned send needs no certificate",
        Text(SendCheck.allows, "self._gatekeeper.certificate_user(connection)", '"producer"'),
        (f"{_BROKER}.test_the_fast_path_takes_unsigned_requests_of_a_certificates_user",),
    ),
    Bug(
        "a filter server keeps no audit log",
        Text(FilterServer.start, "gate, self.audit", "gate, None"),
        ("test_filter_audit.test_refusals_of_a_filter_server_are_in_its_audit_log",),
    ),
    Bug(
        "a slave believes the answer of any master",
        Text(Joining._answered, "if challenge and not", "if False and not"),
        (f"{_HA}.test_an_answer_to_the_joining_counts_only_with_its_proof",),
    ),
    Bug(
        "a slave takes the frames of any master",
        Text(HaClientSession._take_proof, "if not PeerProof(prove=self._prove).is_right(", "if not (lambda *_: True)("),
        (f"{_HA}.test_frames_count_only_after_the_proof",),
    ),
    Bug(
        "a slave follows any RocketMQ master",
        Text(HaClient._connect, "self._prove is not None and", "False and"),
        (f"{_HA}.test_a_rocketmq_master_is_followed_only_when_its_host_is_named",),
    ),
    Bug(
        "a slave asks for no proof",
        Text(HaClient._join, "self._prove is not None else", "False else"),
        (f"{_HA}.test_a_master_without_the_credentials_is_not_followed",),
    ),
    Bug(
        "every member of a group is asked about its transactions",
        Text(TransactionChecks._find_members, " if client.may_publish(topic)", ""),
        (f"{_CHECKS}.test_only_who_may_publish_to_the_topic_is_asked_about_an_open_transaction",),
    ),
    Bug(
        "who could publish once may be asked for ever",
        Text(Users.still, "user is None or identity.user is None or not", "False and not"),
        (f"{_CHECKS}.test_an_earlier_proof_counts_as_long_as_a_new_one_would",),
    ),
    Bug(
        "a user that is made again takes over a former one's proofs",
        Text(Users.still, "user.token is not identity.user.token", "user.secret != identity.user.secret"),
        ("test_identities.test_a_proof_ends_with_its_user",),
    ),
    Bug(
        "what a user makes is not counted",
        Text(MadeByUsers._note, "made[name] = now_ms", "pass"),
        (f"{_MADE}.test_a_user_makes_as_many_as_the_limit",),
    ),
    Bug(
        "what is being made does not count",
        Text(MadeByUsers._counts, "self._clock.monotonic_ms() - at_ms < MAKING_MS or ", ""),
        (f"{_MADE}.test_a_name_counts_while_it_is_being_made",),
    ),
    Bug(
        "administrators have a limit too",
        Text(MadeByUsers.check, "user.kind is not UserType.NORMAL", "False"),
        (f"{_MADE}.test_administrators_servers_and_white_lists_have_no_limit",),
    ),
    Bug(
        "the gate forgets what users make",
        Text(Admitted.check, "self.gatekeeper.made is not None", "False"),
        (f"{_MADE}.test_a_broker_refuses_what_is_beyond",),
    ),
]
