"""RocketMQ 4.x ACL files (``plain_acl.yml``): read with line and column, printed, and turned into users and policies.

The meaning is that of RocketMQ 4.9: an account's own permission for a topic or group replaces the default one, and an
account without ``admin: true`` may not administer.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from dataclasses import dataclass
from typing import Final

from pymq.errors import UsageError
from pymq.model.access import ALL_ACTIONS, Action, ResourceKind, owning_group
from pymq.model.names import TRACE_TOPIC
from pymq.security.addresses import AddressRange, parse_pattern
from pymq.security.identities import User, UserType
from pymq.security.policies import Effect, Entry, Match, Policy, ResourcePattern
from pymq.security.signature import Secret
from pymq.security.yaml_tree import Listing, Mapping, Node, Place, Scalar, YamlError, parse_yaml

KEY_LENGTH_MIN: Final = 7  # of access and secret keys (Java: AclConstants)
ACCOUNTS_MAX: Final = 10_000
RULES_MAX: Final = 10_000  # of one account
_DENY, _PUB, _SUB = "DENY", "PUB", "SUB"
_PERMISSIONS: Final[dict[str, frozenset[Action]]] = {
    _DENY: frozenset(),
    _PUB: frozenset({Action.PUB}),
    _SUB: frozenset({Action.SUB}),
    "PUB|SUB": frozenset({Action.PUB, Action.SUB}),
    "SUB|PUB": frozenset({Action.PUB, Action.SUB}),
}
_TEXTS = {actions: text for text, actions in reversed(_PERMISSIONS.items())}
_TRAFFIC: Final = frozenset({Action.PUB, Action.SUB})
_TRUE = frozenset({"true", "yes", "on", "y"})
_FALSE = frozenset({"false", "no", "off", "n"})
_WHITE_LIST = "globalWhiteRemoteAddresses"
_FILE_KEYS: Final = frozenset({_WHITE_LIST, "accounts", "dataVersion"})  # RocketMQ writes the last one itself
_ACCOUNT_KEYS: Final = frozenset(
    {
        "accessKey",
        "secretKey",
        "whiteRemoteAddress",
        "admin",
        "defaultTopicPerm",
        "defaultGroupPerm",
        "topicPerms",
        "groupPerms",
    }
)

Permission = frozenset[Action]


@dataclass(frozen=True)
class Account:
    """One account of a file. A permission is what of Pub and Sub it allows; empty is DENY."""

    access_key: str
    secret: Secret
    white_address: str = ""
    is_admin: bool = False
    default_topic: Permission = frozenset()
    default_group: Permission = frozenset()
    topics: tuple[tuple[str, Permission], ...] = ()
    groups: tuple[tuple[str, Permission], ...] = ()

    def user(self) -> User:
        """Return the account's user. An administrator with rules of its own is bound to them, so it is a normal one."""
        is_super = self.is_admin and not (self.topics or self.groups)
        return User(
            self.access_key,
            self.secret,
            UserType.SUPER if is_super else UserType.NORMAL,
            trusted_from=tuple(parse_pattern(self.white_address)),
        )

    def policy(self) -> Policy:
        """Return the account's policy."""
        entries = [_entry(_literal(ResourceKind.TOPIC, TRACE_TOPIC), {Action.PUB})]
        if self.is_admin:
            entries.append(_entry(ResourcePattern(ResourceKind.CLUSTER, Match.ANY), ALL_ACTIONS))
            for kind in (ResourceKind.TOPIC, ResourceKind.GROUP):
                entries.append(_entry(ResourcePattern(kind, Match.ANY), ALL_ACTIONS - _TRAFFIC))
        entries += _own_entries(ResourceKind.TOPIC, self.topics, self.default_topic)
        entries += _own_entries(ResourceKind.GROUP, self.groups, self.default_group)
        defaults = [
            _entry(ResourcePattern(kind, Match.ANY), allowed)
            for kind, allowed in ((ResourceKind.TOPIC, self.default_topic), (ResourceKind.GROUP, self.default_group))
            if allowed
        ]
        return Policy(tuple(entries), tuple(defaults))


@dataclass(frozen=True)
class PlainAcl:
    """A file. ``notes``: what in it has no effect or opens more than one may think, as sentences with their lines."""

    white_addresses: tuple[str, ...] = ()
    accounts: tuple[Account, ...] = ()
    notes: tuple[str, ...] = ()

    def trusted_from(self) -> list[AddressRange]:
        """Return the addresses of the global white list."""
        return [block for text in self.white_addresses for block in parse_pattern(text)]


def parse_plain_acl(raw: bytes) -> PlainAcl:
    """Return the meaning of a file. Raises YamlError with line and column."""
    return _Reader().read(parse_yaml(raw))


def format_plain_acl(acl: PlainAcl) -> str:
    """Return the file's text, secrets included."""
    lines = [f"{_WHITE_LIST}:", *(f"- {_quoted(text)}" for text in acl.white_addresses)]
    if not acl.white_addresses:
        lines = [f"{_WHITE_LIST}: []"]
    lines.append("accounts:" if acl.accounts else "accounts: []")
    for account in acl.accounts:
        lines += [
            f"- accessKey: {_quoted(account.access_key)}",
            f"  secretKey: {_quoted(account.secret.reveal())}",
            f"  whiteRemoteAddress: {_quoted(account.white_address)}",
            f"  admin: {'true' if account.is_admin else 'false'}",
            f"  defaultTopicPerm: {_TEXTS[account.default_topic]}",
            f"  defaultGroupPerm: {_TEXTS[account.default_group]}",
        ]
        for key, rules in (("topicPerms", account.topics), ("groupPerms", account.groups)):
            lines += [f"  {key}:"] if rules else []
            lines += [f"  - {_quoted(f'{name}={_TEXTS[allowed]}')}" for name, allowed in rules]
    return "\n".join(lines) + "\n"


def users_and_policies(acl: PlainAcl) -> tuple[list[User], Dict[str, Policy]]:
    """Return what a file means in the one model of permission."""
    return (
        [account.user() for account in acl.accounts],
        {account.access_key: account.policy() for account in acl.accounts},
    )


class _Reader:
    """Walks the tree of one file."""

    def __init__(self) -> None:
        self._notes: list[str] = []

    def read(self, root: Node) -> PlainAcl:
        if not isinstance(root, Mapping):
            raise YamlError(root.place, f"the file is no mapping: begin with {_WHITE_LIST}: or accounts:")
        self._note_unknown(root, _FILE_KEYS)
        white = []
        for item in _items(root.members.get(_WHITE_LIST)):
            text = _text(item, _WHITE_LIST) or ""
            if any(not block.parts for block in _pattern(text, item.place)):
                self._note(item.place, f"{_WHITE_LIST} has {text}: every address may do everything without a signature")
            white.append(text)
        nodes = _items(root.members.get("accounts"))
        if len(nodes) > ACCOUNTS_MAX:
            raise YamlError(nodes[ACCOUNTS_MAX].place, f"{len(nodes)} accounts, the limit is {ACCOUNTS_MAX}")
        accounts: dict[str, Account] = {}
        for node in nodes:
            account = self._account(node)
            if account.access_key in accounts:
                raise YamlError(node.place, f"the accessKey {account.access_key!r} has two accounts: keep one")
            accounts[account.access_key] = account
        return PlainAcl(tuple(white), tuple(accounts.values()), tuple(self._notes))

    def _account(self, node: Node) -> Account:
        if not isinstance(node, Mapping):
            raise YamlError(node.place, "an account is a mapping: begin with - accessKey:")
        self._note_unknown(node, _ACCOUNT_KEYS)
        members = node.members
        white = _text(members.get("whiteRemoteAddress"), "whiteRemoteAddress") or ""
        blocks = _pattern(white, members["whiteRemoteAddress"].place) if white else []
        name = _key(node, "accessKey")
        if any(not block.parts for block in blocks):
            place = members["whiteRemoteAddress"].place
            self._note(place, f"the account {name} has the white address {white}: its accessKey alone opens everything")
        return Account(
            name,
            Secret(_key(node, "secretKey")),
            white,
            _flag(members.get("admin")),
            _default(members.get("defaultTopicPerm"), "defaultTopicPerm"),
            _default(members.get("defaultGroupPerm"), "defaultGroupPerm"),
            self._rules(members.get("topicPerms"), "topicPerms"),
            self._rules(members.get("groupPerms"), "groupPerms"),
        )

    def _rules(self, node: Node | None, key: str) -> tuple[tuple[str, Permission], ...]:
        items = _items(node)
        if len(items) > RULES_MAX:
            raise YamlError(items[RULES_MAX].place, f"{key} has {len(items)} entries, the limit is {RULES_MAX}")
        rules: dict[str, Permission] = {}
        for item in items:
            text = _text(item, key) or ""
            name, equals, permission = (part.strip() for part in text.rpartition("="))
            if not name or not equals or permission not in _PERMISSIONS:
                known = ", ".join(_TEXTS.values())
                raise YamlError(item.place, f"{text[:60]!r} in {key} is no name=permission: use one of {known}")
            if name in rules:
                raise YamlError(item.place, f"{key} names {name[:60]!r} twice: keep one entry")
            if key == "topicPerms" and (group := owning_group(name)) is not None:
                self._note(item.place, f"{name} in topicPerms has no effect: the topic follows the group {group}")
            rules[name] = _PERMISSIONS[permission]
        return tuple(rules.items())

    def _note_unknown(self, node: Mapping, known: frozenset[str]) -> None:
        for key in node.members.keys() - known:
            self._note(node.places[key], f"the key {key[:40]!r} is not known and has no effect")

    def _note(self, place: Place, text: str) -> None:
        self._notes.append(f"line {place.line}, column {place.column}: {text}")


def _items(node: Node | None) -> list[Node]:
    """Return the entries of a list; a single text counts as a list of one, a missing value as an empty one."""
    if node is None or (isinstance(node, Scalar) and node.text is None):
        return []
    if isinstance(node, Mapping):
        raise YamlError(node.place, "a list is wanted here: begin each entry with -")
    return node.items if isinstance(node, Listing) else [node]


def _text(node: Node | None, key: str) -> str | None:
    if node is None:
        return None
    if not isinstance(node, Scalar):
        raise YamlError(node.place, f"{key} is a text: write it in quotes, without brackets")
    return node.text


def _key(node: Mapping, key: str) -> str:
    found = node.members.get(key)
    text = (_text(found, key) or "").strip()
    if found is None:
        raise YamlError(node.place, f"the account has no {key}: add it")
    if len(text) < KEY_LENGTH_MIN:
        raise YamlError(found.place, f"{key} has {len(text)} characters, the least is {KEY_LENGTH_MIN}: lengthen it")
    return text


def _flag(node: Node | None) -> bool:
    text = (_text(node, "admin") or "false").lower()
    if text not in _TRUE | _FALSE:
        assert node is not None
        raise YamlError(node.place, f"admin is {text[:20]!r}: use true or false")
    return text in _TRUE


def _default(node: Node | None, key: str) -> Permission:
    text = (_text(node, key) or _DENY).strip()
    if text not in _PERMISSIONS:
        assert node is not None
        raise YamlError(node.place, f"{key} is {text[:20]!r}: use one of {', '.join(_TEXTS.values())}")
    return _PERMISSIONS[text]


def _pattern(text: str, place: Place) -> list[AddressRange]:
    try:
        return parse_pattern(text)
    except UsageError as error:
        raise YamlError(place, str(error)) from error


def _own_entries(kind: ResourceKind, rules: tuple[tuple[str, Permission], ...], default: Permission) -> list[Entry]:
    """Return the entries for named topics or groups: what one does not allow, the default must not allow either."""
    entries = []
    for name, allowed in rules:
        pattern = _literal(kind, name)
        if allowed:
            entries.append(_entry(pattern, allowed))
            denied = default - allowed
        else:
            denied = ALL_ACTIONS
        if denied:
            entries.append(Entry(pattern, frozenset(denied), Effect.DENY))
    return entries


def _literal(kind: ResourceKind, name: str) -> ResourcePattern:
    return ResourcePattern(kind, Match.LITERAL, name)


def _entry(pattern: ResourcePattern, actions: frozenset[Action] | set[Action]) -> Entry:
    return Entry(pattern, frozenset(actions), Effect.ALLOW)


def _quoted(text: str) -> str:
    """Return the text in YAML's double quotes. What is not plain ASCII is escaped by its code point."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(sign: str) -> str:
    if sign in '"\\':
        return f"\\{sign}"
    return sign if " " <= sign <= "~" else f"\\U{ord(sign):08x}"
