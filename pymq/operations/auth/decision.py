"""Why a user may do something: finds a user's rules, and explains the decision about one request."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymq.client.admin import Admin
from pymq.errors import NotFoundError, Refusal, UsageError
from pymq.model.access import Action, Need, Resource, ResourceKind, topic_need
from pymq.operations.auth.users import no_user
from pymq.security.acl_5x import changed_user, merged
from pymq.security.addresses import parse_address
from pymq.security.certificate_users import RULES_SETTING, Named, named, parse_rules
from pymq.security.identities import Identity, User
from pymq.security.plain_acl import parse_plain_acl, users_and_policies
from pymq.security.policies import NO_POLICY, Match, Policies, Policy, ResourcePattern, parse_actions
from pymq.security.private_file import read_private_file
from pymq.security.signature import Secret
from pymq.wire.bodies_auth import UserInfo

_UNKNOWN = "unknown"  # in place of a secret, which is not asked for
CERTIFICATE = "certificate:"  # no user's name has a colon


@dataclass
class Asked:
    """Whom the check is about: a user, or who a certificate stands for. ``named`` is what its rules say."""

    name: str
    certificate: bytes | None = None
    mapping: str | None = None
    named: Named | None = None

    @classmethod
    def of(cls, text: str, mapping: str | None) -> Asked:
        """Return whom a command's argument means. Raises UsageError for a file that is no certificate."""
        if not text.startswith(CERTIFICATE):
            if mapping is not None:
                raise UsageError(f"--mapping is for a certificate: write {CERTIFICATE}FILE in place of {text}")
            return cls(text)
        path = text.removeprefix(CERTIFICATE)
        try:
            return cls("", ssl.PEM_cert_to_DER_cert(_first_certificate(Path(path).read_text("ascii"))), mapping)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} can't be used as a certificate in PEM: {error}") from error

    def user_by(self, mapping: str) -> str:
        """Return the user's name, by these rules for certificates unless the command has its own.

        Raises UsageError for rules that can't be used or are missing, and a certificate that stands for no user.
        """
        if self.certificate is None:
            return self.name
        mapping = mapping if self.mapping is None else self.mapping
        if not mapping:
            raise UsageError(
                f"certificates stand for no user there, {RULES_SETTING} is empty: set it, or try --mapping"
            )
        self.named = named(self.certificate, parse_rules(mapping))
        if not self.named.name:
            raise UsageError(f"no rule of {mapping} is for the subject {self.named.subject}: add one")
        return self.named.name


def _first_certificate(text: str) -> str:
    end = "-----END CERTIFICATE-----"
    return text[text.find("-----BEGIN CERTIFICATE-----") : text.find(end) + len(end)]


def rules_of_file(path: str, asked: Asked) -> tuple[User, Policy]:
    """Return a user of a 4.x ACL file and its policy. Raises UsageError, NotFoundError."""
    name = asked.user_by("")
    users, policies = users_and_policies(parse_plain_acl(read_private_file(path)))
    found = next((user for user in users if user.name == name), None)
    if found is None:
        raise NotFoundError(f"no account {name!r} in {path}: it has {', '.join(sorted(user.name for user in users))}")
    return found, policies.get(name, NO_POLICY)


async def rules_of_broker(admin: Admin, broker: str | None, asked: Asked) -> tuple[User, Policy]:
    """Return a user of a broker and its policy. Raises NotFoundError, UsageError."""
    chosen = await admin.cluster.select((), [broker]) if broker else await admin.cluster.masters()
    if not chosen:
        raise NotFoundError("no broker is registered at the name server: start one, or wait for it to register")
    address = chosen[0].address
    is_broker_asked = asked.certificate is not None and asked.mapping is None
    settings = (await admin.settings.read(address)).values if is_broker_asked else {}
    name = asked.user_by(settings.get(RULES_SETTING, ""))
    info, acl = await admin.auth.user(address, name), await admin.auth.acl(address, name)
    if info is None:
        raise no_user(name)
    known = UserInfo(user_type=info.user_type, user_status=info.user_status)
    try:
        user = changed_user(User(name, Secret(_UNKNOWN)), known)
        return user, NO_POLICY if acl is None else merged(NO_POLICY, acl)
    except Refusal as error:
        raise UsageError(f"{address} has rules of {name} that PyMQ does not know: {error.remark}") from error


def explained(
    user: User, policy: Policy, action: str, resource: str, source: str, asked: Asked | None = None
) -> dict[str, Any]:
    """Return the decision and every rule that was looked at. Raises UsageError."""
    wanted, need = _need(action, resource)
    address = parse_address(source)
    is_trusted = any(block.contains(address) for block in user.trusted_from)
    decision = Policies({user.name: policy}).explain(Identity(user, is_trusted), need.resource, wanted, address)
    is_allowed, why = decision.is_allowed, decision.why
    if not user.is_enabled:
        is_allowed, why = False, f"{user.name} is disabled: pymq auth user update {user.name} --enable"
    found = asked.named if asked is not None else None
    by = {} if found is None or found.rule is None else {"subject": found.subject, "mapping": found.rule.text}
    return {
        **by,
        "user": user.name,
        "type": user.kind.value,
        "enabled": user.is_enabled,
        "action": wanted.value,
        "resource": str(need.resource),
        "source": str(address),
        "allowed": is_allowed,
        "why": why,
        "rules": [
            {
                "level": step.level,
                "rule": str(step.entry),
                "applies": step.mismatch is None,
                "why_not": step.mismatch,
            }
            for step in decision.steps
        ],
    }


def _need(action: str, resource: str) -> tuple[Action, Need]:
    """Return what is asked for, as a broker asks: a retry topic counts as its group."""
    actions = parse_actions([action])
    if len(actions) != 1:
        raise UsageError("All is no single action: ask for each, such as Pub")
    [wanted] = actions
    kind_name, _, name = resource.partition(":")
    if kind_name.strip().lower() == ResourceKind.TOPIC.value.lower() and name and not name.endswith("*"):
        need = topic_need(name, wanted)
        return need.actions[0], need
    pattern = ResourcePattern.parse(resource)
    if pattern.kind is None or pattern.match is Match.PREFIX:
        raise UsageError(f"{resource[:60]!r} is no single resource: ask about one, such as Topic:orders or Cluster:*")
    return wanted, Need(Resource(pattern.kind, pattern.name or "*"), (wanted,))
