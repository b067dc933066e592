"""Seeded bugs in identity and permission, which their tests must catch. Each is one wrong step that one could write.

Their ``suites`` are tests as ``module.function``.
"""

from __future__ import annotations

from pymq.broker.fast.secured import PlainCheck, SendCheck
from pymq.broker.handlers import transactions
from pymq.broker.handlers.auth import AuthHandlers
from pymq.broker.handlers.query import QueryHandlers
from pymq.broker.handlers.relay import RelayHandlers
from pymq.broker.handlers.replicas import MasterReplicaHandlers
from pymq.broker.messages.long_polls import LongPolls
from pymq.broker.messages.retries import Retries
from pymq.broker.metadata.auth_manager import AuthManager
from pymq.broker.pop.pop_polls import PopPolls
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.peer_proof import PeerProof
from pymq.broker.report.group_rows import GroupRows
from pymq.broker.report.row_pages import Sight
from pymq.config import security as config_security
from pymq.model import access as model
from pymq.security import acl_5x, addresses, audit, plain_acl, policies, sender_limits, signature
from pymq.security.addresses import AddressRange
from pymq.security.audit import Audit
from pymq.security.audit_file import AuditFile
from pymq.security.gatekeeper import Admitted, Gatekeeper
from pymq.security.identities import Users
from pymq.security.plain_acl import Account
from pymq.security.policies import Entry, Policies, ResourcePattern
from pymq.security.sender_limits import Buckets, FailedProofs, Failures
from pymq.security.signature import Secret
from pymq.security.user_table import UserTable
from pymq.security.yaml_tree import _Builder
from pymq.wire import access as wire
from pymq.wire import dispatch, ha
from tests.planting import Bug, Seam, Text, does_nothing, gives
from tests.security.seeded_identity_bugs import IDENTITY_BUGS
from tests.security.seeded_opening_bugs import OPENING_BUGS

_SIGNATURE, _POLICIES, _USERS, _ROWS = "test_signature", "test_policies", "test_identities", "test_rows"
_BROKER, _HA, _AUDIT, _LIMITS = "test_security", "test_ha_proof", "test_audit", "test_sender_limits"
_TABLE, _AUTH = "test_user_table", "test_auth"
_RULES = f"{_POLICIES}.test_each_rule"

BUGS = [
    *IDENTITY_BUGS,
    *OPENING_BUGS,
    Bug(
        "any signature is right",
        Seam(signature.is_signed_with, gives(True)),
        (f"{_USERS}.test_other_requests_get_the_remarks_of_rocketmq",),
    ),
    Bug(
        "a body is not signed",
        Text(signature.signed_content, " + body", ""),
        (f"{_SIGNATURE}.test_another_value_body_secret_or_field_is_a_wrong_signature",),
    ),
    Bug(
        "fields are signed in the order they came in",
        Text(signature.signed_content, "_values_of[tuple(ext)](ext)", "v for n, v in ext.items() if n != SIGNATURE"),
        (f"{_SIGNATURE}.test_real_clients_sign_as_pymq_does",),
    ),
    Bug(
        "names are ordered by code points",
        Text(signature.signed_content, "_values_of[tuple(ext)](ext)", "ext[n] for n in sorted(ext) if n != SIGNATURE"),
        (f"{_SIGNATURE}.test_names_beyond_the_bmp_are_ordered_as_java_orders_them",),
    ),
    Bug(
        "every version may add the late field",
        Text(signature.is_signed_with, "if version <= LATE_FIELD_VERSION_MAX and", "if"),
        (f"{_SIGNATURE}.test_only_old_clients_may_add_the_late_field_after_signing",),
    ),
    Bug(
        "an empty secret is one",
        Text(Secret.__init__, "if not text:", "if False:"),
        (f"{_SIGNATURE}.test_an_empty_secret_is_refused",),
    ),
    Bug(
        "a secret is shown",
        Text(Secret.__repr__, '"Secret(***)"', "str(self._key)"),
        (f"{_SIGNATURE}.test_a_secret_shows_itself_nowhere",),
    ),
    Bug(
        "a disabled user is proven",
        Text(Users.authenticate, "not user.is_enabled", "False"),
        (f"{_USERS}.test_other_requests_get_the_remarks_of_rocketmq",),
    ),
    Bug(
        "a white list knows no address",
        Text(Users.authenticate, "any(block.contains(address) for block in user.trusted_from)", "user.trusted_from"),
        (f"{_USERS}.test_an_address_of_a_white_list_needs_no_signature",),
    ),
    Bug(
        "the last administrator can go",
        Text(Users._changed, "had and", "False and"),
        (f"{_USERS}.test_the_last_administrator_stays",),
    ),
    Bug("one allow is enough", Text(policies.allows, "return all(", "return any("), (_RULES,)),
    Bug(
        "the vaguest entry goes first",
        Text(policies._deciding, "most = max(", "most = min("),
        (_RULES,),
    ),
    Bug(
        "all prefixes are equally exact",
        Text(policies.ResourcePattern.exactness, "len(self.name)", "0"),
        (_RULES,),
    ),
    Bug("without an entry the answer is yes", Text(policies.allows, "return False", "return True"), (_RULES,)),
    Bug(
        "default entries count beside custom ones",
        Text(policies.allows, "if deciding:", "if any(entry.effect is Effect.ALLOW for entry in deciding):"),
        (_RULES,),
    ),
    Bug(
        "addresses of an entry have no meaning", Text(Entry.mismatch, "if self.sources and", "if False and"), (_RULES,)
    ),
    Bug(
        "a name of a star is for all names",
        Text(ResourcePattern.covers, "resource.name == EVERY_NAME", "False"),
        ("test_plain_acl.test_a_name_with_a_star_is_that_name",),
    ),
    Bug(
        "a literal is a prefix",
        Text(ResourcePattern.covers, "resource.name == self.name", "resource.name.startswith(self.name)"),
        (_RULES,),
    ),
    Bug(
        "one need is enough",
        Text(Policies.refused_need, "return need", "pass"),
        (f"{_POLICIES}.test_every_need_must_be_allowed_by_one_of_its_actions",),
    ),
    Bug(
        "a white list makes a peer",
        Text(policies.is_peer, "identity.user is not None and", "identity.is_trusted or identity.user is not None and"),
        (f"{_POLICIES}.test_only_servers_and_administrators_are_peers",),
    ),
    Bug(
        "an inner user has a policy of its own",
        Text(Policies._policy_for, "INNER_POLICY if user.kind is UserType.INNER else ", ""),
        (f"{_POLICIES}.test_an_inner_user_reads_and_copies_but_does_not_send_or_administer",),
    ),
    Bug(
        "entries about retry topics are taken",
        Seam(ResourcePattern._check_owned, does_nothing),
        (f"{_POLICIES}.test_an_entry_for_a_topic_that_follows_its_group_is_refused",),
    ),
    Bug(
        "a range counts its first number only",
        Text(AddressRange.contains, "first <= part <= last", "first == part"),
        ("test_addresses.test_patterns_of_acl_files",),
    ),
    Bug(
        "ipv4 in ipv6 is another address",
        Text(addresses.parse_address, "address.ipv4_mapped or address", "address"),
        ("test_addresses.test_an_ipv4_address_written_as_ipv6_is_that_ipv4_address",),
    ),
    Bug(
        "a default adds to an own permission",
        Text(plain_acl._own_entries, "denied = default - allowed", "denied = frozenset()"),
        ("test_plain_acl.test_an_own_permission_replaces_the_default_one",),
    ),
    Bug(
        "DENY denies nothing",
        Text(plain_acl._own_entries, "denied = ALL_ACTIONS", "denied = frozenset()"),
        ("test_plain_acl.test_permissions_for_groups",),
    ),
    Bug(
        "every administrator is a super user",
        Text(Account.user, "self.is_admin and not (self.topics or self.groups)", "self.is_admin"),
        ("test_plain_acl.test_an_administrator_with_rules_of_its_own_is_bound_to_them",),
    ),
    Bug(
        "aliases are taken",
        Text(_Builder.build, 'kind == "AliasEvent" or getattr(event, "anchor", None)', "False"),
        ("test_plain_acl.test_an_error_has_line_and_column",),
    ),
    Bug(
        "YAML nests without end",
        Text(_Builder._begin, "len(self._open) >= DEPTH_MAX", "False"),
        ("test_plain_acl.test_an_error_has_line_and_column",),
    ),
    Bug(
        "an update drops other entries",
        Text(acl_5x.merged, "if entry.resource not in new", "if False"),
        ("test_acl_5x.test_an_entry_replaces_the_one_of_its_resource_and_others_stay",),
    ),
    Bug(
        "a new entry stands beside the old one",
        Text(acl_5x.merged, "if entry.resource not in new", "if True"),
        ("test_acl_5x.test_an_entry_replaces_the_one_of_its_resource_and_others_stay",),
    ),
    Bug(
        "a deletion of one level empties both",
        Text(acl_5x.without, "_is_custom(policy_type) != is_custom", "False"),
        ("test_acl_5x.test_deletion_of_a_resource_of_a_level_and_of_all",),
    ),
    Bug(
        "a request can make a user for servers",
        Text(
            acl_5x.changed_user,
            "_known(_TYPES, info.user_type,",
            "_known({kind.value.lower(): kind for kind in UserType}, info.user_type,",
        ),
        ("test_acl_5x.test_a_user_that_is_not_usable_is_refused",),
    ),
    Bug(
        "a retry topic is any topic",
        Seam(model.owning_group, gives(None)),
        (f"{_ROWS}.test_a_pull_of_a_retry_topic_needs_that_groups_permission",),
    ),
    Bug(
        "the broker's own topics are any topics",
        Text(model.topic_need, "is_send_forbidden(topic)", "False"),
        ("test_access.test_a_topic_with_messages_of_all_others_needs_all_clusters",),
    ),
    Bug(
        "an empty name needs nothing",
        Text(wire._named, "and field in _optional_fields(type(header))", ""),
        (f"{_ROWS}.test_no_empty_name_takes_a_need_away",),
    ),
    Bug(
        "a row without an access is served",
        Text(dispatch._check_access, "not isinstance(route.access, Access)", "False"),
        (f"{_ROWS}.test_a_row_whose_access_is_none_can_not_be_registered",),
    ),
    # -- users that operators change
    Bug(
        "a normal user makes an administrator",
        Text(UserTable.with_new_user, "user.kind is UserType.SUPER and not by.is_administrator", "False"),
        (f"{_TABLE}.test_only_a_super_user_changes_super_users",),
    ),
    Bug(
        "a normal user takes over an administrator",
        Seam(UserTable._check_super, does_nothing),
        (f"{_TABLE}.test_only_a_super_user_changes_super_users",),
    ),
    Bug(
        "a deleted user leaves its rules to the next of its name",
        Text(UserTable.without_user, "self.policies.with_policy(name, NO_POLICY)", "self.policies"),
        (f"{_TABLE}.test_users_are_made_changed_and_deleted",),
    ),
    Bug(
        "rules are given to a user that is not there",
        Seam(UserTable._check_subject, does_nothing),
        (f"{_TABLE}.test_what_a_request_has_wrong_is_refused_with_rocketmqs_text",),
    ),
    Bug(
        "a deleted user keeps its rights",
        Seam(AuthManager._changed, does_nothing),
        (f"{_AUTH}.test_a_user_is_made_shown_changed_and_deleted",),
    ),
    Bug(
        "a change counts before it is saved",
        Text(
            AuthManager.change,
            "self._state.change(lambda holder: holder.apply(change), saved)",
            "self._holder.apply(change); saved(None)",
        ),
        (
            f"{_AUTH}.test_a_change_counts_and_is_answered_once_it_is_saved",
            "test_auth_manager.test_a_power_loss_at_any_call_leaves_the_old_or_the_new_table",
        ),
    ),
    Bug(
        "a user has the servers' name",
        Seam(AuthManager._check_reserved, does_nothing),
        (f"{_AUTH}.test_the_name_of_the_servers_is_not_given_to_a_user",),
    ),
    Bug(
        "who may read users is shown their passwords",
        Text(AuthHandlers.list_users, "self._sender(request).is_administrator", "True"),
        (f"{_AUTH}.test_who_may_read_users_is_not_shown_their_passwords",),
    ),
    Bug(
        "users are changed where nothing proves a sender",
        Text(AuthHandlers._check_on, "if self._auth.is_on:", "if True:"),
        (f"{_AUTH}.test_a_broker_without_users_of_its_own_refuses",),
    ),
    Bug(
        "whom a certificate proves is no administrator",
        Seam(Admitted.is_administrator, gives(False)),
        (f"{_AUTH}.test_a_certificate_proves_who_changes_users",),
    ),
    Bug(
        "who may change a cluster is an administrator",
        Seam(Admitted.is_administrator, gives(True)),
        (f"{_AUTH}.test_a_certificate_proves_who_changes_users",),
    ),
    Bug(
        "a secret on a command line is taken",
        Text(config_security.check_where_secrets_are, "config.origin(key) == ORIGIN_FLAG", "False"),
        ("test_acl_file.test_security_settings_that_exclude_each_other",),
    ),
    # -- enforcement
    Bug(
        "a proven sender may do everything",
        Text(dispatch.Dispatcher.dispatch, "sender.check(route.access, command, header)", "pass"),
        ("test_guard.test_the_matrix_of_requests_and_senders",),
    ),
    Bug(
        "a handler has nothing to check a found topic with",
        Text(dispatch.Dispatcher.dispatch, "if route.access.found_topic:", "if False:"),
        (f"{_BROKER}.test_a_look_up_by_id_needs_the_topic_that_is_found",),
    ),
    Bug(
        "a look-up by id does not check the topic",
        Text(QueryHandlers.by_id, "request.check_found_topic(name)", "pass"),
        (f"{_BROKER}.test_a_look_up_by_id_needs_the_topic_that_is_found",),
    ),
    Bug(
        "rows of all topics have topics that the sender may not see",
        Seam(Sight.topic, gives(True)),
        ("test_topic_rows.test_a_user_gets_the_topics_that_the_single_request_gives",),
    ),
    Bug(
        "rows of all groups have groups that the sender may not see",
        Seam(Sight.lag, gives(True)),
        ("test_group_rows.test_a_user_gets_the_groups_that_the_single_requests_give",),
    ),
    Bug(
        "members of any group are counted for any user",
        Seam(Sight.members, gives(True)),
        ("test_member_rows.test_a_user_gets_the_groups_that_the_single_request_gives",),
    ),
    Bug(
        "a sender who may see no row gets an empty answer",
        Seam(Sight.check, does_nothing),
        ("test_topic_rows.test_a_user_gets_the_topics_that_the_single_request_gives",),
    ),
    Bug(
        "rows of topics are those of groups that the sender may not see",
        Text(GroupRows._is_read, "group in groups", "group"),
        ("test_group_rows.test_the_place_of_a_page_names_nothing_that_the_sender_may_not_see",),
    ),
    Bug(
        "any user may ask for a single topic's ends",
        Seam(wire._asks_for_all, gives(True)),
        ("test_topic_rows.test_the_single_request_still_needs_its_topic",),
    ),
    Bug(
        "a user without a right that was taken away still sees rows",
        Text(Admitted.may, "self.gatekeeper.guard", "self.guard"),
        ("test_gatekeeper.test_rights_of_this_moment_decide_about_a_row",),
    ),
    Bug(
        "a message of any topic is sent back",
        Text(Retries.send_back, "check_topic(message.topic)", "pass"),
        (f"{_BROKER}.test_a_message_of_another_topic_is_not_sent_back_to_an_own_group",),
    ),
    Bug(
        "a transaction is ended by any user",
        Seam(transactions._check_topic, does_nothing),
        (f"{_BROKER}.test_a_transaction_is_ended_by_those_who_may_send_to_its_topic",),
    ),
    Bug(
        "a message of any topic is consumed directly",
        Text(RelayHandlers._message, "check_topic(name)", "pass"),
        (f"{_BROKER}.test_a_message_of_another_topic_is_not_given_to_an_own_consumer",),
    ),
    Bug(
        "the fast path takes any signature",
        Text(SendCheck.allows, "user.secret.has_signed(content + payload[body_at:], signature)", "True"),
        (f"{_BROKER}.test_the_fast_path_takes_what_the_plain_path_allows",),
    ),
    Bug(
        "the fast path does not sign the body",
        Text(SendCheck.allows, " + payload[body_at:]", ""),
        (f"{_BROKER}.test_the_fast_path_takes_what_the_plain_path_allows",),
    ),
    Bug(
        "the fast path takes every topic",
        Text(SendCheck.allows, "not guard.was_allowed((user.name, connection.host, ext.topic))", "False"),
        (f"{_BROKER}.test_the_fast_path_stops_at_once_when_a_permission_is_taken",),
    ),
    Bug(
        "one allowed topic allows all",
        Text(PlainCheck.allows, "*self._kept_with, *fields", "*self._fields"),
        (f"{_BROKER}.test_the_fast_path_takes_what_the_plain_path_allows",),
    ),
    Bug(
        "waiting pulls outlive their permission",
        Seam(LongPolls.dismiss_all, does_nothing),
        (f"{_BROKER}.test_a_waiting_pull_gets_no_message_after_its_permission_was_taken",),
    ),
    Bug(
        "waiting pops outlive their permission",
        Seam(PopPolls.dismiss_all, does_nothing),
        (f"{_BROKER}.test_a_waiting_pull_gets_no_message_after_its_permission_was_taken",),
    ),
    Bug(
        "any proof is right at the HA port",
        Seam(PeerProof.is_right, gives(True)),
        (f"{_HA}.test_a_wrong_proof_gets_nothing",),
    ),
    Bug(
        "a proof covers no nonce",
        Text(ha.proven_content, " + nonce", ""),
        (f"{_HA}.test_a_proof_of_another_joining_is_wrong",),
    ),
    Bug(
        "a proof works again and again",
        Text(HaService.redeem, "self._join_tokens.take", "self._join_tokens.find"),
        (f"{_HA}.test_a_proof_works_once",),
    ),
    Bug(
        "a wrong proof voids the token of a slave",
        Text(HaService.redeem, "self._join_tokens.find", "self._join_tokens.take"),
        (f"{_HA}.test_a_peer_that_has_only_seen_a_token_takes_it_from_no_slave",),
    ),
    Bug(
        "a host of haSlaveHosts needs no proof",
        Text(HaService.may_follow, "if self.peer_proof.is_required:", "if False:"),
        (f"{_HA}.test_a_peer_without_a_token_gets_nothing_whatever_else_names_its_host",),
    ),
    Bug(
        "a master without credentials asks for none",
        Text(MasterReplicaHandlers._admit, "proof.is_required and proof.prove is None", "False"),
        (f"{_HA}.test_a_master_without_credentials_gives_no_token",),
    ),
    Bug(
        "a flood of refusals fills the audit log",
        Text(Audit._has_room, "kind.line_count >= LINES_MAX[what]", "False"),
        (f"{_AUDIT}.test_a_flood_of_refusals_is_counted_and_leaves_other_kinds_alone",),
    ),
    Bug(
        "what was left out of the audit log is not told",
        Seam(Audit._tell_omitted, does_nothing),
        (f"{_AUDIT}.test_the_last_minute_is_told_at_the_stop",),
    ),
    Bug(
        "the audit log has secrets",
        Text(audit.shown_fields, "MASK if is_secret else str(value)", "str(value)"),
        (f"{_AUDIT}.test_secrets_and_signatures_are_not_in_a_line",),
    ),
    Bug(
        "the audit log has no late answer",
        Text(dispatch.Dispatcher._heard, "auditor is None", "True"),
        (f"{_AUDIT}.test_a_change_is_one_line_that_says_who_where_what_and_how_it_ended",),
    ),
    Bug(
        "an audit log that fails stops requests",
        Text(Audit._write, "except OSError", "except ZeroDivisionError"),
        (f"{_AUDIT}.test_a_failing_disk_stops_nothing_and_is_logged_once",),
    ),
    Bug(
        "the audit log keeps every file",
        Text(AuditFile._rotate, "range(1, self._count_max)", "range(1, 1000)"),
        (f"{_AUDIT}.test_files_move_on_and_the_oldest_goes",),
    ),
    Bug(
        "the audit log leaves a file to others",
        Text(AuditFile._open, "stat.S_IMODE(found.st_mode) != FILE_MODE", "False"),
        (f"{_AUDIT}.test_only_the_owner_can_use_the_files",),
    ),
    Bug(
        "nobody is ever blocked",
        Seam(FailedProofs.check, does_nothing),
        (f"{_LIMITS}.test_a_user_is_blocked_at_an_address_after_so_many_failures_and_for_so_long",),
    ),
    Bug(
        "a user is blocked one failure later",
        Text(Failures.note, "count + 1 < self._count_max", "count < self._count_max"),
        (f"{_LIMITS}.test_a_user_is_blocked_at_an_address_after_so_many_failures_and_for_so_long",),
    ),
    Bug(
        "what a blocked user sends prolongs it",
        Text(FailedProofs.note, "self.check(address, user)", "pass"),
        (f"{_LIMITS}.test_a_client_that_goes_on_is_not_blocked_for_ever",),
    ),
    Bug(
        "one user's failures block all of its address",
        Text(FailedProofs.note, "(key, user)", '(key, "")'),
        (f"{_LIMITS}.test_a_user_is_blocked_at_an_address_after_so_many_failures_and_for_so_long",),
    ),
    Bug(
        "the fast path knows no blocked users",
        Seam(Gatekeeper.is_blocked, gives(False)),
        (f"{_BROKER}.test_the_fast_path_refuses_a_blocked_user_and_goes_on_for_others",),
    ),
    Bug(
        "names that no user has count alone",
        Text(Gatekeeper._known, "UNKNOWN_USER", "name"),
        (f"{_LIMITS}.test_names_that_no_user_has_are_one",),
    ),
    Bug(
        "who was proven is blocked with its address",
        Text(Gatekeeper.prove, "limits.failed_proofs.note_proven(address, identity.name)", "pass"),
        (f"{_LIMITS}.test_an_administrator_on_the_address_of_a_client_that_hammers_is_served",),
    ),
    Bug(
        "many names block no address",
        Text(FailedProofs.note, "if not self._of_addresses.is_blocked(key)", "if False"),
        (f"{_LIMITS}.test_many_names_block_the_address_but_for_users_who_were_proven_there",),
    ),
    Bug(
        "failures count for ever",
        Text(Failures.note, "now_ms - began_ms >= FAILED_PROOFS_WINDOW_MS", "False"),
        (f"{_LIMITS}.test_failures_that_are_spread_over_time_block_nothing",),
    ),
    Bug(
        "each IPv6 address counts alone",
        Text(sender_limits._key, "address.version == 4", "True"),
        (f"{_LIMITS}.test_all_addresses_of_an_ipv6_network_are_one",),
    ),
    Bug(
        "a bucket grows beyond its limit",
        Text(
            Buckets.take,
            "min(left + (now_ms - at_ms) * rate / 1000, rate * _BURST_S)",
            "left + (now_ms - at_ms) * rate / 1000",
        ),
        (f"{_LIMITS}.test_a_rate_allows_a_seconds_worth_at_once_and_then_so_many_a_second",),
    ),
    Bug(
        "the table of addresses grows",
        Text(sender_limits._keep, "len(table) >= count_max", "False"),
        (f"{_LIMITS}.test_the_tables_of_addresses_are_bounded",),
    ),
]
