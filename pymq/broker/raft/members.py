"""The members of a Raft group, from the keys of RocketMQ's DLedger mode, with a reason for each value that can't be.

RocketMQ cuts ``dLegerPeers`` at ``;``, takes the text before the first ``-`` as the id, and makes the brokerId of a
follower from the number in the id (Java: DLedgerClientRpcService.updatePeers, DLedgerCommitLog). It checks neither.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pymq.config.raft import ELECTION_TIMEOUT_DEFAULT_MS, ENABLED_KEY, GROUP_KEY, PEERS_KEY, PREFERRED_KEY, SELF_KEY
from pymq.config.values import BROKER_ID_MAX
from pymq.errors import ConfigError
from pymq.model.hosts import format_address, parse_address

MEMBER_COUNT_MIN = 2
# A send waits for a majority: with more members it waits for more disks, and a group survives the loss of four.
MEMBER_COUNT_MAX = 9
NODE_NUMBER_MAX = BROKER_ID_MAX - 1  # the brokerId of a follower is its number plus 1
HOST_LENGTH_MAX = 253  # of a host's name in DNS
_NODE = re.compile(r"n(0|[1-9][0-9]{0,9})")
_SHOWN_LENGTH = 60  # characters of a wrong value in a refusal
_EXAMPLE = "n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911"


class RaftSettings(Protocol):
    """The settings that :func:`read_group` reads: those of :class:`pymq.config.raft.RaftConfig`, and the name."""

    broker_name: str
    raft_group: str
    raft_peers: str
    raft_self_id: str
    preferred_leader: str
    raft_election_timeout_ms: int


class Member(NamedTuple):
    """One broker of a group. ``node`` is its id (``n0``); ``host`` and ``port`` are where it listens to the others."""

    node: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """``host:port``, with brackets around an IPv6 host."""
        return format_address(self.host, self.port)

    @property
    def is_local(self) -> bool:
        """True when its own machine alone reaches it."""
        return _is_loopback(self.host)

    @property
    def broker_id(self) -> int:
        """The brokerId under which it registers as a follower; as the leader it has 0."""
        return broker_id_of(self.node)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A group as one member's settings describe it.

    ``members`` are in the order of their numbers, so every member has the same tuple. ``preferred`` are the ids of
    the members that should lead, the best one first. ``election_timeout_ms``: who hears no leader for so long, or up to
    twice as long, begins an election.
    """

    name: str
    self_id: str
    members: tuple[Member, ...]
    preferred: tuple[str, ...] = ()
    election_timeout_ms: int = ELECTION_TIMEOUT_DEFAULT_MS

    @property
    def own(self) -> Member:
        """The member that this broker is."""
        return self.member(self.self_id)

    @property
    def others(self) -> tuple[Member, ...]:
        """The members that this broker is not."""
        return tuple(member for member in self.members if member.node != self.self_id)

    @property
    def majority(self) -> int:
        """The number of members that an election or a send needs."""
        return len(self.members) // 2 + 1

    @property
    def is_local(self) -> bool:
        """True when all members are on one machine, and no other machine reaches them."""
        return all(member.is_local for member in self.members)

    def member(self, node: str) -> Member:
        """Return the member with the id ``node``, which must be one."""
        return next(member for member in self.members if member.node == node)

    @property
    def peers_text(self) -> str:
        """The members in the form of ``dLegerPeers``, the same text on every member."""
        return peers_text(self.members)


def broker_id_of(node: str) -> int:
    """Return the brokerId of the follower ``node``. Java: DLedgerCommitLog adds 1 to the number as well."""
    return int(node[1:]) + 1


def peers_text(members: Iterable[Member]) -> str:
    """Return members in the form of ``dLegerPeers``."""
    return ";".join(f"{member.node}-{member.address}" for member in members)


def peers_of_flag(text: str) -> str:
    """Return the value of ``--peers``, ``n0=host:port,n1=host:port``, in the form of ``dLegerPeers``.

    A text that has that form already stays as it is. Raises ConfigError.
    """
    if "=" not in text:
        return text
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not part.partition("=")[1]:
            raise ConfigError(f"--peers: {_shown(part)} is no member: write n0=HOST:PORT,n1=HOST:PORT,n2=HOST:PORT")
    return ";".join(f"{node.strip()}-{address.strip()}" for node, _, address in (part.partition("=") for part in parts))


def read_group(config: RaftSettings) -> GroupSettings:
    """Return the group that the settings describe. Raises ConfigError with the value, the limit and the next step."""
    name = _group_name(config)
    members = parse_peers(config.raft_peers)
    nodes = [member.node for member in members]
    _check_self(config.raft_self_id.strip(), nodes)
    preferred = _parse_preferred(config.preferred_leader, nodes)
    return GroupSettings(name, config.raft_self_id.strip(), members, preferred, config.raft_election_timeout_ms)


def parse_peers(text: str) -> tuple[Member, ...]:
    """Return the members of a ``dLegerPeers`` in the order of their numbers.

    Raises ConfigError for a text of another form, an id or address used twice, and a number of members out of range.
    """
    parts = [part.strip() for part in text.split(";") if part.strip()]
    if not parts:
        raise ConfigError(f"{ENABLED_KEY}=true needs the members of the group: set {PEERS_KEY}, for example {_EXAMPLE}")
    _check_count(len(parts))
    members = tuple(sorted(map(_parse_member, parts), key=lambda member: member.broker_id))
    _check_unique(members, "id", {member: member.node for member in members})
    _check_unique(members, "address", {member: _comparable(member) for member in members})
    return members


def check_addresses(members: Sequence[Member], resolve: Callable[[str], Iterable[str]]) -> None:
    """Raise ConfigError for a member whose host has no address, and for two members at one address.

    ``resolve`` returns the IP addresses of a host, none for an unknown name.
    """
    owners: dict[tuple[str, int], Member] = {}
    for member in members:
        addresses = _addresses(member, resolve)
        for address in addresses:
            other = owners.setdefault((address, member.port), member)
            if other is not member:
                raise ConfigError(
                    f"{PEERS_KEY}: {other.node} at {other.address} and {member.node} at {member.address} are both "
                    f"{format_address(address, member.port)}: one broker can't vote twice; give each member its own "
                    "address"
                )


def group_warnings(group: GroupSettings) -> list[str]:
    """Return one sentence for each setting that works but is probably a mistake."""
    found = []
    count, majority = len(group.members), group.majority
    if count % 2 == 0:
        found.append(
            f"{PEERS_KEY} has {count} members: a majority is {majority}, so the group survives the loss of "
            f"{count - majority}, as one of {count - 1} does, and waits for one disk more; use {count + 1}"
            + (f" or {count - 1}" if count > MEMBER_COUNT_MIN else "")
        )
    local = [member for member in group.members if member.is_local]
    if local and len(local) < count:
        found.append(
            f"{PEERS_KEY}: {local[0].node} at {local[0].address} is reached from its own machine alone, and other "
            "members are elsewhere; write the address that they reach it at"
        )
    return found


# -- one value ---------------------------------------------------------------------------------------------------------


def _group_name(config: RaftSettings) -> str:
    name = config.raft_group.strip() or config.broker_name
    if name != config.broker_name:
        raise ConfigError(
            f"{GROUP_KEY}={_shown(name)} is not brokerName={_shown(config.broker_name)}: the members of a group "
            f"register under one name; make them equal, or leave {GROUP_KEY} out"
        )
    return name


def _check_count(count: int) -> None:
    if count < MEMBER_COUNT_MIN:
        raise ConfigError(
            f"{PEERS_KEY} has {count} member, a group has {MEMBER_COUNT_MIN} to {MEMBER_COUNT_MAX}: list all members "
            f"on each of them, three are usual; for a single broker leave {ENABLED_KEY} out"
        )
    if count > MEMBER_COUNT_MAX:
        raise ConfigError(
            f"{PEERS_KEY} has {count} members, a group has {MEMBER_COUNT_MIN} to {MEMBER_COUNT_MAX}: make several "
            "groups with names of their own; each topic can spread over all of them"
        )


def _parse_member(text: str) -> Member:
    node, dash, address = text.partition("-")
    if not dash:
        raise ConfigError(f"{PEERS_KEY}: {_shown(text)} is no member: write its id and address, as in {_EXAMPLE}")
    _check_node(PEERS_KEY, node.strip())
    try:
        host, port = parse_address(address)
    except ValueError:
        raise ConfigError(
            f"{PEERS_KEY}: {node} is at {_shown(address)}, which is no host:port with a port from 1 to 65535: write it "
            f"as in {_EXAMPLE}"
        ) from None
    if not port:
        raise ConfigError(f"{PEERS_KEY}: {node} has port 0, allowed are 1 to 65535: other members must know its port")
    if len(host) > HOST_LENGTH_MAX or any(character.isspace() for character in host):
        raise ConfigError(
            f"{PEERS_KEY}: {node} is at {_shown(host)}: a host has no spaces and at most {HOST_LENGTH_MAX} characters, "
            f"this one has {len(host)}"
        )
    _check_reachable(node, host)
    return Member(node.strip(), host, port)


def _check_node(key: str, node: str) -> None:
    if _NODE.fullmatch(node) is None or int(node[1:]) > NODE_NUMBER_MAX:
        raise ConfigError(
            f"{key}: {_shown(node)} is no id of a member: write n and a number from 0 to {NODE_NUMBER_MAX} without "
            "leading zeros, for example n0; a follower's brokerId is that number plus 1"
        )


def _check_reachable(node: str, host: str) -> None:
    try:
        is_any = ipaddress.ip_address(host.partition("%")[0]).is_unspecified
    except ValueError:
        return
    if is_any:
        raise ConfigError(
            f"{PEERS_KEY}: {node} is at {host}, which is no address to connect to: write the one that the other "
            "members reach it at"
        )


def _check_unique(members: Sequence[Member], what: str, values: Mapping[Member, str]) -> None:
    owners: dict[str, Member] = {}
    for member in members:
        other = owners.setdefault(values[member], member)
        if other is not member:
            raise ConfigError(
                f"{PEERS_KEY}: {other.node}-{other.address} and {member.node}-{member.address} have the same {what}: "
                "give each member its own"
            )


def _check_self(self_id: str, nodes: Sequence[str]) -> None:
    if not self_id:
        raise ConfigError(f"{ENABLED_KEY}=true needs this broker's own id: set {SELF_KEY} to one of {', '.join(nodes)}")
    _check_node(SELF_KEY, self_id)
    if self_id not in nodes:
        raise ConfigError(
            f"{SELF_KEY}={self_id} is not in {PEERS_KEY}, which has {', '.join(nodes)}: set one of them, or add "
            f"{self_id}-HOST:PORT to {PEERS_KEY} on every member"
        )


def _parse_preferred(text: str, nodes: Sequence[str]) -> tuple[str, ...]:
    preferred = tuple(part.strip() for part in text.split(";") if part.strip())
    for node in preferred:
        if node not in nodes:
            raise ConfigError(
                f"{PREFERRED_KEY}: {_shown(node)} is not in {PEERS_KEY}, which has {', '.join(nodes)}: take one of them"
            )
    return tuple(dict.fromkeys(preferred))


# -- addresses ---------------------------------------------------------------------------------------------------------


def _comparable(member: Member) -> str:
    """Return an address that is the same for two spellings of one; names are compared without their case."""
    try:
        host = _canonical(member.host)
    except ValueError:
        host = member.host.lower().rstrip(".")
    return format_address(host, member.port)


def _canonical(host: str) -> str:
    """Return the one spelling of an IP address. Raises ValueError for a name."""
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _addresses(member: Member, resolve: Callable[[str], Iterable[str]]) -> set[str]:
    addresses = {_canonical(text) for text in resolve(member.host)}
    if not addresses:
        raise ConfigError(
            f"{PEERS_KEY}: no address is known for {_shown(member.host)}, the host of {member.node}: write an IP "
            "address, or a name that this machine can look up"
        )
    return addresses


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_LENGTH else text[:_SHOWN_LENGTH] + "…")
