"""Which user a client's certificate stands for: rules that make a user's name of its subject.

The rules have the form of Kafka's ``ssl.principal.mapping.rules``. They see the subject as Kafka does, in the form of
RFC 2253: ``CN=orders,OU=Sales,O=Acme``. RocketMQ's certificates name no user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from pymq.clock import Clock
from pymq.errors import UsageError
from pymq.model.sized_cache import SizedCache

RULES_SETTING: Final = "tls.server.principalMappingRules"
SUBJECT_LENGTH_MAX: Final = 1024  # characters; a pattern of an operator may take long on more
RULE_COUNT_MAX: Final = 64
CERTIFICATES_LIMIT_BYTES: Final = 4 * 1024 * 1024
DEFAULT: Final = "DEFAULT"
_PART = r"(?:\\.|[^/\\])*"
_RULE = re.compile(
    rf"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<case>[LU]?))\s*"
)
_GROUP = re.compile(r"\$(\d)")


class Rule(NamedTuple):
    """One rule. ``pattern`` must match the whole subject; ``$1`` to ``$9`` of ``replacement`` are its groups."""

    text: str
    pattern: re.Pattern[str]
    replacement: str = "$0"
    case: str = ""

    def user_of(self, subject: str) -> str | None:
        """Return the user's name; None when the rule is not for this subject."""
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None
        name = _GROUP.sub(lambda group: match.group(int(group[1])) or "", self.replacement)
        return name.lower() if self.case == "L" else name.upper() if self.case == "U" else name


class Named(NamedTuple):
    """What rules say of one certificate. ``name`` is empty, and ``rule`` None, when it stands for no user."""

    subject: str
    name: str
    rule: Rule | None
    expires_at_ms: int


def parse_rules(text: str) -> list[Rule]:
    """Return the rules of a setting: ``DEFAULT`` or ``RULE:PATTERN/REPLACEMENT/`` with ``L`` or ``U`` behind it.

    Commas separate them. Raises UsageError.
    """
    rules: list[Rule] = []
    at = 0
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None or text[found.end() : found.end() + 1] not in ("", ",") or len(rules) == RULE_COUNT_MAX:
            raise UsageError(
                f"{text[at : at + 60]!r} is no rule: write DEFAULT, or RULE:PATTERN/NAME/ with L or U behind it for "
                f"small or capital letters, at most {RULE_COUNT_MAX} of them with commas in between"
            )
        rules.append(_rule(found))
        at = found.end() + 1
    return rules


def _rule(found: re.Match[str]) -> Rule:
    text = found[0].strip()
    if found["default"]:
        return Rule(text, re.compile(".*", re.DOTALL))
    try:
        pattern = re.compile(found["pattern"])
    except re.error as error:
        raise UsageError(f"{text[:60]!r} has a pattern that can't be used: {error}") from error
    used = [int(group) for group in _GROUP.findall(found["replacement"])]
    if max(used, default=0) > pattern.groups:
        raise UsageError(f"{text[:60]!r} names group ${max(used)}, and its pattern has {pattern.groups}")
    return Rule(text, pattern, re.sub(r"\\(.)", r"\1", found["replacement"]), found["case"])


def named(certificate: bytes, rules: Sequence[Rule]) -> Named:
    """Return the user for whom a certificate (DER) stands: the first rule that matches decides."""
    # Not a base dependency: only a server with TLS has certificates.
    from cryptography import x509  # noqa: PLC0415

    try:
        parsed = x509.load_der_x509_certificate(certificate)
        subject, expires = parsed.subject.rfc4514_string(), parsed.not_valid_after_utc
    except ValueError:  # OpenSSL takes more forms than the library
        return Named("", "", None, 0)
    expires_at_ms = int(expires.timestamp() * 1000)
    if subject and len(subject) <= SUBJECT_LENGTH_MAX:
        for rule in rules:
            name = rule.user_of(subject)
            if name is not None:
                return Named(subject, name, rule, expires_at_ms)
    return Named(subject, "", None, expires_at_ms)


class CertificateUsers:
    """Names the users of connections' certificates, which TLS has verified."""

    def __init__(self, rules: Sequence[Rule], clock: Clock) -> None:
        self._clock = clock
        self._named = SizedCache[bytes, Named](
            lambda certificate: named(certificate, rules),
            lambda certificate, found: len(certificate) + len(found.subject) + 500,
            CERTIFICATES_LIMIT_BYTES,
        )

    def user_of(self, certificate: bytes | None) -> str:
        """Return the user's name; empty without a certificate, for one that no rule is for, and after its time.

        It may end while the connection is open.
        """
        if not certificate:
            return ""
        found = self._named[certificate]
        return found.name if self._clock.now_ms() <= found.expires_at_ms else ""
