"""Seeded bugs of what is open on purpose: replies, white lists, switches that are off. Tests that catch them."""

from __future__ import annotations

from typing import Final

from pymq.broker.fast.secured import PlainCheck
from pymq.broker.handlers.replies import ReplyHandlers
from pymq.security import acl_migration, policies
from pymq.security.gatekeeper import Admitted, Gatekeeper
from pymq.security.identities import Identity, Users
from pymq.security.policies import Policies
from tests.planting import Bug, Text

_GATE, _FAST = "test_gatekeeper", "test_secured"

OPENING_BUGS: Final = [
    Bug(
        "a white list opens what servers do",
        Text(Admitted.check, "if self.is_free and not access.peers_only:", "if self.is_free:"),
        (f"{_GATE}.test_no_list_opens_a_request_between_servers",),
    ),
    Bug(
        "a request that needs no user needs no right",
        Text(Gatekeeper._admitted, "code in self.open_requests.free", "code in self.open_requests.unproven"),
        (f"{_GATE}.test_white_lists_open_the_requests_that_they_name",),
    ),
    Bug(
        "a stranger is who it says",
        Text(Policies._policy_for, "if user is None:", "if False:"),
        (f"{_GATE}.test_white_lists_open_the_requests_that_they_name",),
    ),
    Bug(
        "a believed name is an administrator",
        Text(Identity.is_administrator, "self.is_proven and", ""),
        (f"{_GATE}.test_without_proof_a_name_is_believed_but_makes_no_server_and_no_administrator",),
    ),
    Bug(
        "a believed name is a server",
        Text(policies.is_peer, "identity.is_proven and", ""),
        (f"{_GATE}.test_without_proof_a_name_is_believed_but_makes_no_server_and_no_administrator",),
    ),
    Bug(
        "a change of users proves who was believed",
        Text(Users.still, "Identity(user, is_trusted, identity.is_proven)", "Identity(user, is_trusted)"),
        (f"{_GATE}.test_an_unproven_identity_stays_unproven_when_users_change",),
    ),
    Bug(
        "an open pull opens the fast path",
        Text(PlainCheck.allows, "self._gatekeeper.open_requests.has(command.code)", "False"),
        (f"{_FAST}.test_an_open_request_takes_the_plain_path",),
    ),
    Bug(
        "a migrated account is not bound by its own permission",
        Text(acl_migration.migrated_policy, "default[entry.resource] = entry", "pass"),
        ("test_acl_migration.test_a_migrated_account_may_what_it_could",),
    ),
    Bug(
        "a start takes a user's old secret back",
        Text(acl_migration.with_accounts, "table.users.get(name) is not None", "False"),
        ("test_acl_migration.test_users_that_are_there_and_the_servers_own_stay_as_they_are",),
    ),
    Bug(
        "a migrated account needs no signature from its white address",
        Text(acl_migration.migrated_user, "user.kind)", "user.kind, True, user.trusted_from)"),
        ("test_acl_migration.test_an_administrator_becomes_super_but_for_one_that_rules_bind",),
    ),
    Bug(
        "every user's replies are stored",
        Text(ReplyHandlers.reply, "request.sender is None or request.sender.may_publish(topic.topic_name)", "True"),
        ("test_replies.test_every_user_may_reply_and_has_a_copy_stored_by_the_right_to_publish",),
    ),
]
